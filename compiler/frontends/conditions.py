"""Lowers preconditions and deny conditions (semantics §9) to straight code that leaves a truth and, where a policy
asks for them, the messages of the conditions that decided.

Called by :mod:`compiler.lower` for preconditions, by the validate front end for ``deny``, and for exceptions. A key or
value that cannot be substituted makes the rule an error at once; the conditions after one that decides are not
evaluated, as in the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from compiler.frontends.rule import Frame, RuleFrame, concat
from compiler.frontends.template import lower_value
from compiler.ir.build import FALSE, TRUE, all_of, negate
from compiler.ir.ops import Const, Do, Expr, If, Invoke, Local, Op, Return, Set
from vm.host import NOT_MET
from vm.intrinsics.duration import parse_duration
from vm.intrinsics.quantity import parse_quantity
from vm.intrinsics.wildcard import contains_wildcard

_OPERATORS: Final = {
    "equal": "equals",
    "equals": "equals",
    "notequal": "not_equals",
    "notequals": "not_equals",
    "in": "in",
    "anyin": "any_in",
    "allin": "all_in",
    "notin": "not_in",
    "anynotin": "any_not_in",
    "allnotin": "all_not_in",
    "greaterthan": "greater",
    "greaterthanorequals": "greater_or_equals",
    "lessthan": "less",
    "lessthanorequals": "less_or_equals",
    "durationgreaterthan": "duration_greater",
    "durationgreaterthanorequals": "duration_greater_or_equals",
    "durationlessthan": "duration_less",
    "durationlessthanorequals": "duration_less_or_equals",
}
_EXACT: Final = frozenset(
    f"{prefix}{side}Than{equal}"
    for prefix in ("", "Duration")
    for side in ("Greater", "Less")
    for equal in ("", "OrEquals")
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What evaluated conditions leave: whether they hold, and the lists of messages of those that held and that did not
    (None when no condition has a message). ``separator`` joins the messages of a block that holds."""

    holds: Expr
    true_messages: Local | None
    false_messages: Local | None
    separator: str = "; "
    messages: tuple[str, ...] = ()


def lower_conditions(frame: Frame, block: Any, pointer: str, prefix: str) -> Verdict:
    """Emits the evaluation of a block: None or an empty object holds, a list holds when each condition does (the old
    form), an object when one of ``any`` and each of ``all`` does. ``prefix`` begins the text of an error."""
    if block is None:
        return Verdict(TRUE, None, None)
    legacy = type(block) is list
    groups = {"all": block} if legacy else block
    texts = tuple(
        c["message"]
        for key in ("any", "all")
        for c in groups.get(key) or []
        if type(c) is dict and type(c.get("message")) is str and c["message"]
    )
    lowering = _Lowering(frame, prefix, texts)
    terms = []
    for key in ("any", "all"):
        conditions = groups.get(key)
        if conditions is None or (key == "all" and not conditions):
            continue
        where = pointer if legacy else f"{pointer}/{key}"
        terms.append(lowering.group(conditions, where, decides=key == "any"))
    return Verdict(all_of(terms), lowering.true, lowering.false, ";" if legacy else "; ", texts)


class _Lowering:
    __slots__ = ("_frame", "_prefix", "false", "true")

    def __init__(self, frame: Frame, prefix: str, messages: tuple[str, ...]) -> None:
        self._frame = frame
        self._prefix = prefix
        self.true: Local | None = None
        self.false: Local | None = None
        if messages:
            self.true = frame.builder.let(Op("new_list"), "L", "held")
            self.false = frame.builder.let(Op("new_list"), "L", "broken")

    def group(self, conditions: list[Any], pointer: str, *, decides: bool) -> Expr:
        """Emits conditions one after another until one has the truth ``decides``; answers the truth of the group."""
        b = self._frame.builder
        if not conditions:
            return Const(not decides)
        result = b.fresh("B", "any" if decides else "all")
        for i, condition in enumerate(conditions):
            with b.nested() as body:
                self.condition(condition, f"{pointer}/{i}", result)
            if i == 0:
                b.emit(*body)
            else:
                undecided = negate(Local(result)) if decides else Local(result)
                b.emit(If(undecided, tuple(body)))
        return Local(result)

    def condition(self, condition: dict[str, Any], pointer: str, result: str) -> None:
        frame, b = self._frame, self._frame.builder
        key = self.operand(condition.get("key"), f"{pointer}/key", "key")
        value = self.operand(condition.get("value"), f"{pointer}/value", "value")
        frame.places.add(pointer)
        written = str(condition.get("operator", ""))
        operator = _OPERATORS.get(written.lower())
        if operator is None:
            text = f"{self._prefix}failed to create handler for condition operator: {written}"
            b.emit(frame.stop(Const(text), pointer))
            return
        # Kyverno quirk: the numeric handlers know their operators letter by letter, others in any case.
        known = "than" not in written.lower() or written in _EXACT
        b.emit(Set(result, _operator(operator, key, value) if known else FALSE, pointer))
        self.note(condition, result)

    def operand(self, value: Any, pointer: str, side: str) -> Expr:
        frame = self._frame
        lowered = lower_value(value, frame.scope, pointer)
        if isinstance(lowered, Const):
            return lowered
        local = frame.builder.let(lowered, "V", side)
        frame.places.add(pointer)
        frame.fail_with_error(local, f"{self._prefix}failed to substitute variables in condition {side}: ", pointer)
        return local

    def note(self, condition: dict[str, Any], result: str) -> None:
        message = condition.get("message")
        if self.true is None or self.false is None or type(message) is not str or not message:
            return
        b = self._frame.builder
        held = Do(Op("append", (self.true, Const(message))))
        broken = Do(Op("append", (self.false, Const(message))))
        b.emit(If(Local(result), (held,), (broken,)))


def _operator(name: str, key: Expr, value: Expr) -> Expr:
    """The truth of one operator. A constant text that reads as nothing but itself needs no operator: it equals the same
    text alone."""
    if name in ("equals", "not_equals") and isinstance(value, Const) and _means_itself(value.value):
        same = Op("equal", (key, value))
        return same if name == "equals" else all_of([negate(Op("is_absent", (key,))), negate(same)])
    return Invoke(f"cond.{name}", (key, value))


def _means_itself(value: Any) -> bool:
    """Whether a text is no duration, no quantity and no wildcard (semantics §9.1 compares those by their meaning)."""
    return (
        type(value) is str
        and not contains_wildcard(value)
        and parse_duration(value) is None
        and parse_quantity(value) is None
    )


def joined(messages: Local | None, separator: str = "; ") -> Expr:
    """The messages of a list as one text, empty for none."""
    return Const("") if messages is None else Invoke("pat.join", (messages, Const(separator)))


def preconditions(frame: RuleFrame) -> None:
    """Emits the preconditions of a rule: a skip when they do not hold, an error when they cannot be evaluated."""
    lower_preconditions(frame, frame.rule.preconditions, frame.at("preconditions"))


def lower_preconditions(frame: RuleFrame, block: Any, pointer: str) -> None:
    """Emits preconditions that stand at a pointer, of a rule or of one of its targets."""
    if block is None:
        return
    frame.places.add(pointer)
    verdict = lower_conditions(frame, block, pointer, "failed to evaluate preconditions: ")
    if verdict.holds == TRUE:
        return
    text: Expr = Const(NOT_MET)
    if verdict.false_messages is not None:
        reasons = frame.builder.fresh("S", "reasons")
        skip = (
            Set(reasons, joined(verdict.false_messages)),
            If(Op("is_empty", (Local(reasons),)), (Return(Op("o_skip", (text,)), pointer),)),
            Return(Op("o_skip", (concat(text, Const("; "), Local(reasons)),)), pointer),
        )
        frame.builder.emit(If(negate(verdict.holds), skip, (), pointer))
        return
    frame.builder.ret_if(negate(verdict.holds), Op("o_skip", (text,)), pointer)
