"""What tier 1 runs: quadruples ``(number, a, b, c)``, which ``vm.layout`` makes of instructions, linked to steps that
hold one another, which ``vm.joins`` makes fewer of and the loop of ``vm.interp`` goes along.

The commonest numbers come first, in groups of four and then of eight, since the loop looks for them in this order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from vm.values import MISSING, Err, Value

if TYPE_CHECKING:
    from vm.verify import VerifiedFunction

Quad: TypeAlias = tuple[int, Any, Any, Any]
Code: TypeAlias = list[Quad]

LOCAL, CONST, FIELD_EACH, RET_CONST = range(4)
IF_PATH_TEXT, SET_SWITCH, PATH_SET, MOVE_SWITCH = range(4, 8)
NEXT_MAP, INVOKE_METER, INVOKE, PATH = range(8, 12)
FIELD_MISSING, ONE, SWITCH, SET = range(12, 16)
ROOT_PATH, EVERY, SET_LEAF, LOCAL_GET = range(16, 20)
PUT, LIST_EACH, PROJECT, RET, EVERY_OPTIONAL, FIELD_MAP, IF, NEXT_CHARGED = range(20, 28)
SET_IF, IF_EMPTY, IF_LOCAL_LEAF, EQUAL_SET_IF, TEE_SWITCH, POP_SWITCH, HAS_ROW, INVOKE_2_METER = range(28, 36)
FIELD_SET, TWO_METER, ONE_IMM, TEE, IF_LEAF, GET, SELECT, EACH_INDEX = range(36, 44)
POP, EVERY_LEAVES, CONCAT, MOVE, ZERO, NEXT_ELEMENT, IF_TRUE, CHARGE_POP = range(44, 52)
AS_LIST, ZERO_METER, FUEL, NEXT_INDEX, SCOPED, CELL, TWO, CHARGE = range(52, 60)
AWAIT, APPEND_POP, RESET, DROP_JUMP, APPEND, EACH_LIST, ABSENT_NULL, ONE_METER = range(60, 68)
CALL, EACH, NEXT_PAIR, EACH_PAIR, IF_EQUAL_TEXT, IF_FIELD_LEAF, WALK_SET, EQUAL_TEXT = range(68, 76)
IF_FALSE, HAS, CHARGE_IF, LOCAL_SELECT, C_SELECT, PUT_KEY = range(76, 82)
IF_MISSING, IF_MAP, IF_LIST, IF_ABSENT, IF_NULL, IF_TEXT, IF_ERR, JUMP = range(82, 90)

SETTLED: Final = -2
"""In place of the number of a cell: the value of the function goes through ``vm.fuel.settle``; -1: it does not."""

OPENS: Final = frozenset({EACH, EACH_INDEX, EACH_PAIR})
"""Begin a loop, whose iterator lies in a local of its own."""
GOES_TO: Final = OPENS | {JUMP, DROP_JUMP}
"""Go on at ``b``."""
MAY_GO_TO: Final = frozenset({NEXT_ELEMENT, NEXT_INDEX, NEXT_PAIR})
"""Go on at ``b`` or behind."""
_OF_SLOT: Final = frozenset({LOCAL, SET, TEE})
_OF_KEY: Final = frozenset({GET, HAS, C_SELECT, PUT})
_OF_NUMBER: Final = frozenset({FUEL, CHARGE, RESET, DROP_JUMP, CONCAT})
HELD_BY: Final[dict[int, frozenset[type]]] = {
    IF_MAP: frozenset({dict}),
    IF_LIST: frozenset({list}),
    IF_TEXT: frozenset({str}),
    IF_ERR: frozenset({Err}),
    IF_NULL: frozenset({type(None)}),
    IF_MISSING: frozenset({type(MISSING)}),
    IF_ABSENT: frozenset({type(None), type(MISSING)}),
}
"""Tests that the type of a value decides, and the types that pass."""
ON_LOCALS: Final = frozenset({*HELD_BY, IF_EMPTY, IF_TRUE, IF_FALSE, IF, EACH_LIST, EQUAL_SET_IF})
"""Steps that take their operand from a local, or off the stack when it is -1."""

_NO_TYPES: Final[dict[type, Step]] = {}


class Step:
    """A quadruple whose parts have names, as far as its number has a use for them; the others are not set or say
    nothing. ``next`` is the step behind it, ``then`` and ``other`` where it may go to instead, ``loop`` the local with
    the iterator of the loop that it begins or goes on with: to read an attribute of a slot costs less than to take a
    quadruple apart, in Python and as machine code."""

    __slots__ = ("a", "b", "key", "keys", "loop", "n", "next", "op", "other", "slot", "then", "to", "types")

    def __init__(self, op: int) -> None:
        self.op: int = op
        self.slot: int = -1
        self.to: int = -1
        self.loop: int = -1
        self.n: int = 0
        self.key: Any = None
        self.keys: tuple[str, ...] = ()
        self.a: Any = None
        self.b: Any = None
        self.types: dict[type, Step] = _NO_TYPES
        self.next: Step = self
        self.then: Step = self
        self.other: Step = self

    def twin(self) -> Step:
        """Another step that does the same. (``copy`` makes none of a class that is machine code.)"""
        twin = Step(self.op)
        twin.slot, twin.to, twin.n, twin.key, twin.keys = self.slot, self.to, self.n, self.key, self.keys
        twin.a, twin.b, twin.types, twin.loop = self.a, self.b, self.types, self.loop
        twin.next, twin.then, twin.other = self.next, self.then, self.other
        return twin


def link(code: Code) -> list[Step]:
    """The steps of code whose jumps are places in it, in its order."""
    steps = [Step(q[0]) for q in code]
    places = [*steps, steps[-1]]  # code that nobody reaches may go to behind the end
    for place, (number, a, b, c) in enumerate(code):
        step = steps[place]
        step.next = places[place + 1]
        if number == IF:
            step.then, step.other = places[b], places[c]
            continue
        if number in GOES_TO or number in MAY_GO_TO:
            step.then = places[b]
        _name(step, number, a, b, c)
    return steps


def landing(step: Step) -> Step:
    """Where one who goes to a step ends up. Jumps do not go round, as the end of a loop is none, but the last one of
    code that nobody reaches may go to itself."""
    while step.op == JUMP and step.then is not step:
        step = step.then
    return step


def ready(steps: list[Step]) -> Step:
    """Makes steps such as the loop runs; answers the first of them."""
    for step in steps:
        made_ready(step)
        step.next, step.then, step.other = landing(step.next), landing(step.then), landing(step.other)
    return landing(steps[0])


def made_ready(step: Step) -> Step:
    """The step, asking for types where that is what it does."""
    if step.op in HELD_BY:
        step.types = dict.fromkeys(HELD_BY[step.op], landing(step.then))
        step.op = SWITCH if step.slot >= 0 else POP_SWITCH
    return step


def _name(step: Step, number: int, a: Any, b: Any, c: Any) -> None:
    """Puts the parts of a quadruple where the loop looks for them."""
    match number:
        case n if n in _OF_SLOT:
            step.slot = a
        case n if n in _OF_KEY:
            step.key = a
        case n if n in _OF_NUMBER:
            step.n = a
        case n if n == NEXT_ELEMENT:
            step.slot, step.loop, step.n = a
        case n if n in (NEXT_INDEX, NEXT_PAIR):
            step.slot, step.to, step.loop, step.n = a
        case n if n in OPENS:
            step.loop = a
        case n if n == LOCAL_GET:
            step.slot, step.key = a, b
        case n if n == PATH:
            step.keys, step.key = a, MISSING
        case n if n == ROOT_PATH:
            step.keys, step.a = a, b
        case n if n == INVOKE:
            step.a, step.n, lengths, measured, step.key = a
            step.b = (lengths, measured) if lengths or measured else None
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
    are run in a short life. ``code`` makes the steps, answers the first and says how many locals they take beside those
    of the function."""

    __slots__ = ("_code", "cost", "first", "locals", "may_suspend", "params", "result", "scope")

    def __init__(self, fn: VerifiedFunction, code: Callable[[], tuple[Step, int]]) -> None:
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
        first, more = self._code()
        self.locals = self.locals + [None] * more
        self.first = first
        return first
