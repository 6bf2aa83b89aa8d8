"""Lowers the body of a generate rule: which objects it asks for, with every variable put in once (semantics §18).

Called by :mod:`compiler.lower` after match and preconditions. The outcome is a pass whose product is a list of maps
``{apiVersion, kind, name, namespace, data | clone | cloneList}``, or ``{error}`` for an element of a loop that cannot
be evaluated: the others are made all the same. :mod:`runtime.generate` makes objects of them.
"""

from __future__ import annotations

from typing import Any, Final

from compiler.frontends.conditions import lower_conditions
from compiler.frontends.context import made_map
from compiler.frontends.foreach import ElementFrame, body_function, element_map, list_error, listed
from compiler.frontends.rule import RuleFrame, concat
from compiler.frontends.template import lower_value
from compiler.ir.build import TRUE, negate
from compiler.ir.ops import Choose, Const, Each, Expr, If, Invoke, Local, Next, Op, Set
from compiler.schema.model import ForEach

FIELDS: Final = ("apiVersion", "kind", "name", "namespace", "uid", "data", "clone", "cloneList")
"""What of a target counts as one document when variables are put in."""

_FAILED: Final = "variable substitution failed: "
_PRECONDITIONS: Final = "failed to evaluate preconditions: "


def lower_generate(frame: RuleFrame) -> None:
    """Emits the body of a generate rule up to its last return."""
    generate = frame.rule.generate
    if generate is None:
        raise ValueError(f"rule {frame.name} does not generate")
    b = frame.builder
    at = frame.at("generate")
    products = b.fresh("L", "products")
    if generate.foreach:
        b.emit(Set(products, Op("new_list"), at))
        for number, entry in enumerate(generate.foreach):
            _loop(frame, entry, number, products)
    else:
        spec = _spec(frame, frame.rule.raw["generate"], at)
        frame.fail_with_error(spec, _FAILED, at)
        b.emit(Set(products, Op("append", (Op("new_list"), spec)), at))
    b.ret(Op("o_patch", (Local(products), Const(""))), at)


def _spec(frame: RuleFrame, raw: dict[str, Any], at: str) -> Expr:
    """A target with its variables put in, or an error."""
    document = {key: raw[key] for key in FIELDS if raw.get(key) is not None}
    lowered = lower_value(document, frame.scope, at, document=document)
    return lowered if isinstance(lowered, Const) else frame.builder.let(lowered, "V", "target", at)


def _loop(frame: RuleFrame, entry: ForEach, number: int, products: str) -> None:
    """Emits a loop that appends what its elements ask for, or what is wrong with them."""
    frame.places.add(entry.pointer)
    b, at = frame.builder, entry.pointer

    def emit(inside: ElementFrame) -> None:
        if entry.preconditions is not None:
            place = f"{at}/preconditions"
            inside.places.add(place)
            verdict = lower_conditions(inside, entry.preconditions, place, _PRECONDITIONS)
            if verdict.holds != TRUE:
                inside.builder.ret_if(negate(verdict.holds), Const(None), place)
        spec = _spec(inside, entry.raw, at)
        inside.fail_with_error(spec, _FAILED, at)
        inside.builder.ret(spec, at)

    body = body_function(frame, entry, number, emit, result="V")
    value = listed(frame, entry, number)
    item, index = b.fresh("V", "element"), b.fresh("I", "index")
    with b.nested() as loop:
        b.emit(If(Op("is_absent", (Local(item),)), (Next(),)))
        over = element_map(frame, Local(item), Local(index))
        made = b.let(Op("scoped", (over,), (body,)), "V", "made", at)
        b.emit(If(Op("is_absent", (made,)), (Next(),)))
        words = concat(
            Const("failed to process element "),
            Op("to_text", (Local(index),)),
            Const(": "),
            Invoke("pat.text", (made,)),
        )
        kept = Choose(Op("is_err", (made,)), made_map({"error": words}), made)
        b.emit(Set(products, Op("append", (Local(products), kept)), at))
    each = Each(item, Invoke("loop.elements", (value,)), tuple(loop), index, at)
    wrong = Op("append", (Local(products), made_map({"error": list_error(entry, value)})))
    b.emit(If(Op("is_err", (value,)), (Set(products, wrong, at),), (each,), at))
