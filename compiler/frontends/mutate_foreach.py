"""Lowers ``mutate.foreach``: each element changes what the one before it left (semantics §10).

Called by :mod:`compiler.frontends.mutate`. A loop is a function that answers the new object or an ``Err`` with the
words of the failure. It finds the object as it stands under ``$resource``; ``request.object`` (``target`` in a rule
with targets) is the object as the loops before it left it, and stays so over its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from compiler.frontends.conditions import lower_conditions
from compiler.frontends.context import made_map
from compiler.frontends.foreach import ElementFrame, body_function, element_map, list_error, listed
from compiler.frontends.mutate import FAILED, Patches, Subject, lay, nothing_to_do
from compiler.frontends.rule import RESOURCE, RuleFrame, concat
from compiler.frontends.template import Scope
from compiler.ir.build import TRUE, FunctionBuilder, negate
from compiler.ir.ops import Const, Each, Expr, If, Invoke, Load, Local, Op, Return, Set, Stmt
from compiler.schema.model import ForEach

UNCHANGED: Final = "0 elements processed"

_FAILED: Final = "failed to mutate elements: "
_TARGET: Final = "target"


def lower_loops(frame: RuleFrame, entries: Sequence[ForEach], subject: Subject) -> Local:
    """Emits the loops of a rule, or of an element, one after the other; the local holds the new object or an ``Err``.
    ``subject`` is what the first of them finds."""
    b = frame.builder
    current = b.fresh("V", "object")
    b.emit(Set(current, subject.resource))
    for number, entry in enumerate(entries):
        frame.places.add(entry.pointer)
        over: dict[str, Expr] = {"$resource": Local(current)}
        if number:
            over |= _seen(frame, Local(current))
        turned = Op("scoped", (made_map(over),), (_loop(frame, entry, number, subject.kind),))
        if number:
            failed = Op("is_err", (Local(current),))
            b.emit(If(negate(failed), (Set(current, turned, entry.pointer),), (), entry.pointer))
        else:
            b.emit(Set(current, turned, entry.pointer))
    return Local(current)


def _seen(frame: RuleFrame, current: Expr) -> dict[str, Expr]:
    """What a loop is shown of the work of those before it."""
    if frame.scope.here == _TARGET:
        return {_TARGET: current}
    return {"request": Invoke("loop.with_object", (Load(("request",)), current))}


def _error(words: Expr) -> Expr:
    return Invoke("jmes.error", (Const("loop"), words))


def _loop(frame: RuleFrame, entry: ForEach, number: int, kind: Expr) -> str:
    """Makes the function of one loop and answers its name."""
    at = entry.pointer
    b = FunctionBuilder(f"{frame.builder.name}.l{number}", result="V", policy=frame.builder.policy)
    inside = replace(frame, builder=b, scope=frame.scope.inside(b))

    def emit(element: ElementFrame) -> None:
        _element(element, entry, kind)

    body = body_function(inside, entry, 0, emit, result="V")
    value = listed(inside, entry, 0)
    b.ret_if(Op("is_err", (value,)), _error(list_error(entry, value)), f"{at}/list")
    current, turn = b.fresh("V", "object"), b.fresh("V", "turn")
    b.emit(Set(current, RESOURCE))
    backwards = (
        entry.order or ("Descending" if entry.patch_strategic_merge is not None else "Ascending")
    ) != "Ascending"
    with b.nested() as each:
        element, index = (Op("get", (Local(turn),), (key,)) for key in ("element", "index"))
        over = element_map(inside, element, index, **{"$resource": Local(current)})
        made = b.let(Op("scoped", (over,), (body,)), "V", "made", at)
        words = concat(Const(_FAILED), Invoke("pat.text", (made,)))
        b.ret_if(Op("is_err", (made,)), _error(words), at)
        b.emit(Set(current, made))
    b.emit(Each(turn, Invoke("loop.turns", (value, Const(backwards))), tuple(each), None, at))
    b.ret(Local(current), at)
    frame.scope.functions.append(b.function())
    return b.name


def _element(frame: ElementFrame, entry: ForEach, kind: Expr) -> None:
    """Emits what an element does: its preconditions, then its patch or the loops inside it."""
    b, at = frame.builder, entry.pointer
    if entry.preconditions is not None:
        conditions = _Preconditions(b, frame.scope, frame.places, frame)
        verdict = lower_conditions(conditions, entry.preconditions, f"{at}/preconditions", "")
        if verdict.holds != TRUE:
            b.ret_if(negate(verdict.holds), RESOURCE, f"{at}/preconditions")
    subject = Subject(RESOURCE, kind)
    if entry.foreach:
        b.ret(lower_loops(frame, entry.foreach, subject), at)
        return
    written = {key: entry.raw[key] for key in ("patchStrategicMerge", "patchesJson6902") if entry.raw.get(key)}
    new = lay(frame, Patches(entry.patch_strategic_merge, entry.patches_json6902, at, "", written), subject)
    b.ret_if(nothing_to_do(new), RESOURCE, at)
    frame.fail_with_error(new, FAILED, at)
    b.ret(new, at)


@dataclass(slots=True)
class _Preconditions:
    """The preconditions of an element on their way into its function: errors name the element."""

    builder: FunctionBuilder
    scope: Scope
    places: set[str]
    frame: ElementFrame

    def stop(self, text: Expr, at: str) -> Stmt:
        index = Op("to_text", (Load(("elementIndex",)),))
        words = (Const("failed to evaluate mutate.foreach["), index, Const("].preconditions: "), text)
        return Return(_error(concat(*words)), at)

    def fail_with_error(self, value: Expr, prefix: str, at: str) -> None:
        if not isinstance(value, Const):
            text = concat(Const(prefix), Invoke("pat.text", (value,)))
            self.builder.emit(If(Op("is_err", (value,)), (self.stop(text, at),), (), at))
