"""Lowers the loops of ``foreach`` (semantics §10): a list, and for each of its elements a function that runs with the
element in the root.

The front ends of validate, mutate and generate share :func:`body_function`, :func:`listed` and :func:`element_map`;
:func:`lower_foreach` is the loop of a validate rule. What a body sees beside the root of the rule:

==================  ================================================================================================
``element``         the element of the innermost loop; ``element0``, ``element1``, … those of all loops by nesting
``elementIndex``    its position in the list as evaluated; ``elementIndex0``, … likewise
``$resource``       in a validate rule the element itself, when the element is scoped (patterns look at it)
``$scoped``         true in that case
==================  ================================================================================================

Context entries of a loop are cells that each element forgets, those of the rule keep their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from compiler.frontends.conditions import lower_preconditions
from compiler.frontends.context import made_map, register
from compiler.frontends.rule import OPERATION, RuleFrame, as_text, concat
from compiler.frontends.template import has_variables, lower_query, lower_text, query_at_run_time
from compiler.ir.build import FALSE, TRUE, FunctionBuilder, any_of, negate
from compiler.ir.ops import Call, Choose, Const, Do, Each, Expr, If, Invoke, Load, Local, Next, Op, Return, Set, Stmt
from compiler.schema.model import ForEach
from vm.host import Status
from vm.intrinsics.context import mentions

SCOPED: Final = Load(("$scoped",))
"""True in the body of a loop whose element is what patterns look at."""

_PASSED: Final = "rule passed"
_FAILED: Final = "validation failure: "


@dataclass(slots=True)
class ElementFrame(RuleFrame):
    """The body of a loop on its way to a function. While ``lenient`` what cannot be evaluated means that the element is
    passed over (preconditions of a validate loop)."""

    depth: int = 0
    lenient: bool = False

    def stop(self, text: Expr, at: str) -> Stmt:
        if self.lenient:
            return Return(Op("o_none"), at)
        if self.builder.result != "O":
            return Return(Invoke("jmes.error", (Const("loop"), text)), at)
        return Return(Op("o_error", (text,)), at)


def depth_of(frame: RuleFrame) -> int:
    """How many loops there are around what is lowered with a frame."""
    return frame.depth + 1 if isinstance(frame, ElementFrame) else 0


def body_function(
    frame: RuleFrame,
    entry: ForEach,
    number: int,
    emit: Callable[[ElementFrame], None],
    *,
    result: Literal["O", "V"] = "O",
) -> str:
    """Makes the function of one element and answers its name; to be called by ``o_scoped`` or ``scoped`` on an
    :func:`element_map`. ``number`` counts the loops of the frame's function; ``emit`` gets the frame of the body, with
    the entry's context registered, and lowers the rest up to the last return."""
    depth = depth_of(frame)
    name = f"{frame.builder.name}.e{number}"
    builder = FunctionBuilder(name, result=result, policy=frame.builder.policy)
    scope = frame.scope.inside(builder)
    if scope.roots is not None:
        names = {"element", "elementIndex", f"element{depth}", f"elementIndex{depth}"}
        scope = replace(scope, roots=scope.roots | names)
    inside = ElementFrame(frame.policy, frame.rule, builder, scope, frame.places, depth=depth)
    outer = len(scope.entries)
    register(inside, entry.context, loop=True)
    for known in inside.scope.entries[outer:]:
        builder.emit(Do(Op("reset", (), (known.cell,))))
    emit(inside)
    frame.scope.functions.append(builder.function())
    return name


def listed(frame: RuleFrame, entry: ForEach, number: int) -> Local:
    """Emits the evaluation of the list; the local holds its value or an error."""
    at = f"{entry.pointer}/list"
    frame.places.add(at)
    b = frame.builder
    if "object" not in entry.query or frame.rule.mutate is not None:
        return b.let(_maps(frame, entry, _query(frame, entry.query, at)), "V", "list", at)
    builder = FunctionBuilder(f"{b.name}.list{number}", result="V", policy=b.policy)
    inside = replace(frame, builder=builder, scope=frame.scope.inside(builder))
    builder.ret(_query(inside, entry.query, at), at)
    frame.scope.functions.append(builder.function())
    gone = made_map({"request": Invoke("loop.without_object", (Load(("request",)),))})
    deleted = Op("equal", (OPERATION, Const("DELETE")))
    # The value of an entry lasts, so that it must not come from the root that only the list sees.
    loads = tuple(
        Do(Op("cell", (), (known.cell,)), at) for known in frame.scope.entries if mentions(entry.query, known.name)
    )
    if loads:
        b.emit(If(deleted, loads, (), at))
    value = Choose(deleted, Op("scoped", (gone,), (builder.name,)), Call(builder.name, ()))
    return b.let(value, "V", "list", at)


def _query(frame: RuleFrame, query: str, at: str) -> Expr:
    if not has_variables(query):
        return lower_query(query, frame.scope, at)
    text = frame.builder.let(lower_text(query, frame.scope, at), "V", "query", at)
    return Choose(Op("is_err", (text,)), text, query_at_run_time(text, frame.scope))


def _maps(frame: RuleFrame, entry: ForEach, value: Expr) -> Expr:
    """The value of a list; reports a constant one without the maps that the scope asks for."""
    if entry.element_scope and isinstance(value, Const):
        items = value.value if type(value.value) is list else [value.value]
        if any(type(item) not in (dict, type(None)) for item in items):
            where = f"{entry.pointer}/elementScope"
            frame.scope.error("T1303", where, "the elements of the list are no maps", help="remove elementScope")
    return value


def list_error(entry: ForEach, value: Expr) -> Expr:
    """What is said of a list that cannot be evaluated."""
    return concat(Const(f"failed to evaluate list {entry.query}: "), Invoke("pat.text", (value,)))


def element_map(frame: RuleFrame, element: Expr, index: Expr, **more: Expr) -> Expr:
    """What is put over the root for an element of a loop that is lowered with this frame."""
    depth = depth_of(frame)
    parts = {
        "element": element,
        "elementIndex": index,
        f"element{depth}": element,
        f"elementIndex{depth}": index,
    }
    return made_map({**parts, **more})


def lower_foreach(
    frame: RuleFrame, entries: Sequence[ForEach], check: Callable[[ElementFrame, ForEach], None], at: str
) -> None:
    """Emits the loops of a validate rule, or of an element, up to the last return. The first element that does not pass
    decides; else a list that could not be evaluated makes the rule an error; without any element that passed there is
    no result. ``check`` lowers what an entry asks of an element."""
    b = frame.builder
    applied, broken = b.fresh("B", "applied"), b.fresh("S", "broken")
    b.emit(Set(applied, FALSE, at), Set(broken, Const(""), at))
    for number, entry in enumerate(entries):
        frame.places.add(entry.pointer)

        def emit(inside: ElementFrame, entry: ForEach = entry) -> None:
            inside.lenient = True
            lower_preconditions(inside, entry.preconditions, f"{entry.pointer}/preconditions")
            inside.lenient = False
            check(inside, entry)

        body = body_function(frame, entry, number, emit)
        value = listed(frame, entry, number)
        # A key that is not there means that there is nothing to go over (Kyverno quirk).
        absent = Op("err_code", (value,), ("not_found",))
        error = If(absent, (), (Set(broken, list_error(entry, value), entry.pointer),))
        with b.nested() as loop:
            _elements(frame, entry, value, body, applied)
        b.emit(If(Op("is_err", (value,)), (error,), tuple(loop), entry.pointer))
    ends = [
        (negate(Op("is_empty", (Local(broken),))), Op("o_error", (Local(broken),))),
        (Local(applied), Op("o_pass_text", (Const(_PASSED),))),
    ]
    # The reference tells of a list that cannot be evaluated only where no element was looked at.
    for holds, outcome in reversed(ends) if frame.scope.quirks else ends:
        b.ret_if(holds, outcome, at)
    b.ret(Op("o_none"), at)


def _elements(frame: RuleFrame, entry: ForEach, value: Expr, body: str, applied: str) -> None:
    b, at = frame.builder, entry.pointer
    item, index = b.fresh("V", "element"), b.fresh("I", "index")
    with b.nested() as loop:
        b.emit(If(Op("is_absent", (Local(item),)), (Next(),)))
        over = b.let(element_map(frame, Local(item), Local(index)), "M", "over", at)
        _scope(frame, entry, Local(item), over)
        outcome = b.let(Op("o_scoped", (over,), (body,)), "O", "outcome", at)
        status = b.let(Op("o_status", (outcome,)), "I", "status")
        b.emit(If(_is(status, Status.PASS), (Set(applied, TRUE), Next())))
        bad = any_of([_is(status, Status.FAIL), _is(status, Status.ERROR)])
        b.ret_if(bad, Op("o_prefixed", (Const(_FAILED), outcome)), at)
    b.emit(Each(item, Invoke("loop.elements", (value,)), tuple(loop), index, at))


def _scope(frame: RuleFrame, entry: ForEach, element: Expr, over: Local) -> None:
    """Emits what makes the element the object that patterns look at: for a map, unless the entry says otherwise."""
    if entry.element_scope is False:
        return
    b, at = frame.builder, entry.pointer
    scoped = (Do(Op("put", (over, element), ("$resource",))), Do(Op("put", (over, TRUE), ("$scoped",))))
    other: tuple[Stmt, ...] = ()
    if entry.element_scope:
        words = (
            "failed to process foreach: cannot use elementScope=true foreach rules for elements that are not maps,"
            " expected type=map got type="
        )
        kind = as_text(Invoke("jmes.type", (element,)))
        other = (Return(Op("o_error", (concat(Const(words), kind),)), f"{at}/elementScope"),)
        frame.places.add(f"{at}/elementScope")
    b.emit(If(Op("is_map", (element,)), scoped, other, at))


def _is(status: Expr, wanted: Status) -> Expr:
    return Op("equal", (status, Const(int(wanted))))
