"""What tier 1 runs: quadruples ``(number, a, b, c)``, which ``vm.layout`` makes of instructions and ``vm.neighbours``
makes fewer of, linked to steps that hold one another, which the loop of ``vm.interp`` goes along.

The commonest numbers come first, in groups of four and then of eight, since the loop looks for them in this order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from vm.values import Value

if TYPE_CHECKING:
    from vm.verify import VerifiedFunction

Quad: TypeAlias = tuple[int, Any, Any, Any]
Code: TypeAlias = list[Quad]

NEXT_ELEMENT, NEXT_MAP, FIELD_MAP, IF_FIELD_LEAF = range(4)
LOCAL, SET, PROJECT, RET_CONST = range(4, 8)
IF_MAP, FIELD_MISSING, EACH_LIST, IF_LIST = range(8, 12)
FUEL, IF_PATH_TEXT, PATH_SET, IF = range(12, 16)
IF_LOCAL_LEAF, FIELD_SET, IF_FALSE, HAS_AND = range(16, 20)
IF_MISSING, IF_TRUE, CONST, JUMP = range(20, 24)
TEE, IF_EMPTY, IF_NULL, IF_ERR = range(24, 28)
APPEND_LOCALS, LOCAL_GET, MOVE, HAS = range(28, 32)
COLLECT, EVERY, CALL, LEAVE = range(32, 36)
NEXT_INDEX, CHARGE_IF, INVOKE_METER, INVOKE_2_METER, IF_TEXT, WALK_SET, PATH, GET = range(36, 44)
ABSENT_NULL, APPEND, IF_TEST, LOCAL_SELECT, C_SELECT, CHARGE_POP, ONE, IF_LEAF = range(44, 52)
IF_ABSENT, RET, EACH, INVOKE, INVOKE_1, INVOKE_2, IF_EQUAL_TEXT, APPEND_POP = range(52, 60)
POP, LEAF, EQUAL_TEXT, TWO, ONE_IMM, ZERO, PUT, PUT_KEY = range(60, 68)
AS_LIST, TWO_METER, ONE_METER, EACH_INDEX, NEXT_PAIR, EACH_PAIR, BREAK, DROP_JUMP = range(68, 76)
CONCAT, CELL, ROOT_PATH, CHARGE, ZERO_METER, SCOPED, RESET, AWAIT = range(76, 84)

SETTLED: Final = -2
"""In place of the number of a cell: the value of the function goes through ``vm.fuel.settle``; -1: it does not."""

ON_LOCALS: Final = frozenset(
    {IF_MISSING, IF_MAP, IF_LIST, IF_ABSENT, IF_NULL, IF_EMPTY, IF_TEXT, IF_TRUE, IF_FALSE, IF_ERR, IF, EACH_LIST}
)
"""Take their operand from local ``a``, or off the stack when ``a`` is -1."""
ARMS: Final = frozenset(
    {IF_TEST, IF_LEAF, IF_LOCAL_LEAF, IF_FIELD_LEAF, IF_EQUAL_TEXT, IF_PATH_TEXT, FIELD_MISSING, PROJECT, CHARGE_IF}
    | (ON_LOCALS - {EACH_LIST})
)
"""Go on at ``b`` or at ``c``."""
GOES_TO: Final = frozenset({JUMP, EACH, EACH_LIST, EACH_INDEX, EACH_PAIR, BREAK, DROP_JUMP})
"""Go on at ``b``."""
MAY_GO_TO: Final = frozenset({NEXT_ELEMENT, NEXT_INDEX, NEXT_PAIR})
"""Go on at ``b`` or behind."""
ENDS: Final = frozenset({RET, RET_CONST})
_OF_SLOT: Final = frozenset({LOCAL, SET, TEE})
_OF_KEY: Final = frozenset({GET, HAS, C_SELECT, PUT})
_OF_NUMBER: Final = frozenset({FUEL, LEAVE, CHARGE, CHARGE_IF, CHARGE_POP, RESET, BREAK, DROP_JUMP, CONCAT})


class Step:
    """A quadruple whose parts have names, as far as its number has a use for them; the others are not set or say
    nothing. ``next`` is the step behind it, ``then`` and ``other`` where it may go to instead: to read an attribute of
    a slot costs less than to take a quadruple apart, in Python and as machine code."""

    __slots__ = ("a", "b", "key", "keys", "n", "next", "op", "other", "slot", "then", "to")

    def __init__(self, op: int) -> None:
        self.op: int = op
        self.slot: int = -1
        self.to: int = -1
        self.n: int = 0
        self.key: Any = None
        self.keys: tuple[str, ...] = ()
        self.a: Any = None
        self.b: Any = None
        self.next: Step = self
        self.then: Step = self
        self.other: Step = self


def link(code: Code) -> Step:
    """The first step of code whose jumps are places in it."""
    steps = [Step(q[0]) for q in code]
    places = [*steps, steps[-1]]  # code that nobody reaches may go to behind the end
    for place, (number, a, b, c) in enumerate(code):
        step = steps[place]
        step.next = places[place + 1]
        if number in ARMS:
            step.then, step.other = places[b], places[c]
        elif number in GOES_TO or number in MAY_GO_TO:
            step.then = places[b]
        _name(step, number, a, b, c)
    for step in steps:
        _hurry(step)
    return steps[0]


def _hurry(step: Step) -> None:
    """Goes past a step that asks whether there is a map where this one has just put a value, and does at once what goes
    round a loop of few steps."""
    then = step.then
    if step.op == FIELD_MISSING and step.other.op == IF_MAP and step.other.slot == step.to:
        step.op, step.next, step.other = FIELD_MAP, step.other.other, step.other.then
    elif step.op != NEXT_ELEMENT or then.slot != step.slot:
        return
    elif then.op == IF_MAP:
        step.op, step.other, step.then = NEXT_MAP, then.other, then.then
    elif then.op == IF_FIELD_LEAF and then.then is step:
        step.op, step.a, step.key, step.other = EVERY, then.a, then.key, then.other
    elif then.op == PROJECT and then.then is step and then.other.op == APPEND_LOCALS and then.other.next is step:
        append = then.other
        if append.to == then.to and append.slot not in (step.slot, then.to):
            step.op, step.keys, step.to, step.a = COLLECT, then.keys, then.to, append.slot


def _name(step: Step, number: int, a: Any, b: Any, c: Any) -> None:
    """Puts the parts of a quadruple where the loop looks for them."""
    match number:
        case n if n in ON_LOCALS or n in _OF_SLOT:
            step.slot = a
        case n if n in _OF_KEY:
            step.key = a
        case n if n in _OF_NUMBER:
            step.n = a
        case n if n == NEXT_ELEMENT:
            step.slot, step.n = a
        case n if n in (NEXT_INDEX, NEXT_PAIR):
            step.slot, step.to, step.n = a
        case n if n == FIELD_MISSING:
            step.slot, step.key, step.to = a
        case n if n == FIELD_SET:
            step.slot, step.key, step.to = a, b, c
        case n if n in (LOCAL_GET, LOCAL_SELECT):
            step.slot, step.key = a, b
        case n if n == IF_FIELD_LEAF:
            step.a, step.slot, step.key = a
        case n if n == IF_LOCAL_LEAF:
            step.a, step.slot = a
        case n if n == PROJECT:
            step.slot, step.keys, step.to = a
        case n if n == IF_PATH_TEXT:
            step.keys, step.key = a
        case n if n == HAS_AND:
            step.slot, step.to, step.a, step.keys, step.key = a
            step.n = b
        case n if n == WALK_SET:
            step.slot, step.keys, step.to = a, b, c
        case n if n in (APPEND_LOCALS, MOVE):
            step.slot, step.to = a, b
        case n if n == PATH:
            step.keys = a
        case n if n == PATH_SET:
            step.keys, step.to = a, b
        case n if n == ROOT_PATH:
            step.keys, step.a = a, b
        case n if n == CALL:
            step.a, step.n = a, b
        case n if n == CELL:
            step.n, step.a = a, b
        case n if n == SCOPED:
            step.a, step.b, step.n = a, b, c
        case _:
            step.a, step.b = a, b


class Frame:
    """What a call of a function needs. ``first`` is None until :meth:`lay_out` has been called: of many policies, few
    are run in a short life. ``code`` makes what the steps are made of, and says how many locals that takes beside its
    own."""

    __slots__ = ("_code", "cost", "first", "locals", "may_suspend", "params", "result", "scope")

    def __init__(self, fn: VerifiedFunction, code: Callable[[], tuple[Code, int]]) -> None:
        self._code = code
        self.first: Step | None = None
        self.cost: int = fn.cost
        self.params: int = fn.params
        self.locals: list[Value] = [None] * (len(fn.locals) - fn.params)
        self.result: str = fn.result
        self.may_suspend: bool = fn.may_suspend
        self.scope: str | None = fn.scope

    def lay_out(self) -> Step:
        """Makes the steps of the function, and answers the first of them."""
        code, more = self._code()
        self.locals = self.locals + [None] * more
        self.first = found = link(code)
        return found
