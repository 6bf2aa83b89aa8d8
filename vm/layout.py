"""Verified functions to the code that tier 1 runs: quadruples ``(number, a, b, c)`` with jumps resolved.

Immediates become what they stand for, ``end`` of an ``if`` goes away, conditions go straight to the arm they decide
for, and pairs that often stand together become one. The numbers belong to the loop of ``vm.interp``, which is the only
reader. The commonest come first, since the loop looks for them in this order."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from vm.functions import body_of
from vm.host import HOST_CALLS, NOTHING, PASSED
from vm.semantics import METERED, SEMANTICS
from vm.structure import LOOPS
from vm.values import MISSING, Value
from vm.verify import VerifiedFunction, VerifiedModule

Quad: TypeAlias = tuple[int, Any, Any, Any]
Code: TypeAlias = list[Quad]

LOCAL_GET, LOCAL, FIELD_SET, IF_MISSING, NEXT_ELEMENT, IF_MAP, IF_FIELD_LEAF, IF = range(8)
PATH, SET, IF_LIST, RET_CONST, CONST, TEE, ONE, IF_TEST = range(8, 16)
IF_LEAF, IF_LOCAL_LEAF, IF_ABSENT, IF_NULL, IF_EMPTY, IF_TEXT, GET, JUMP = range(16, 24)
RET, EACH, EACH_LIST, CALL, INVOKE, INVOKE_1, INVOKE_2, IF_EQUAL_TEXT = range(24, 32)
ABSENT_NULL, PATH_SET, MOVE, APPEND, APPEND_POP, POP, LEAF, EQUAL_TEXT = range(32, 40)
TWO, ONE_IMM, ZERO, PUT, PUT_KEY, AS_LIST, TWO_METER, ONE_METER = range(40, 48)
NEXT_INDEX, EACH_INDEX, NEXT_PAIR, EACH_PAIR, BREAK, DROP_JUMP, CONCAT, CELL = range(48, 56)
AWAIT, J_PATH, C_PATH, C_SELECT, LOCAL_SELECT, CHARGE, CHARGE_POP, ZERO_METER = range(56, 64)
SCOPED, RESET = range(64, 66)

SETTLED: Final = -2
"""In place of the number of a cell: the value of the function goes through ``vm.fuel.settle``; -1: it does not."""

_ON_LOCALS: Final = frozenset({IF_MISSING, IF_MAP, IF_LIST, IF_ABSENT, IF_NULL, IF_EMPTY, IF_TEXT, IF, EACH_LIST})
"""Take their operand from local ``a``, or off the stack when ``a`` is -1."""
_ARMS: Final = frozenset(
    {IF, IF_TEST, IF_LEAF, IF_LOCAL_LEAF, IF_FIELD_LEAF, IF_EQUAL_TEXT} | (_ON_LOCALS - {EACH_LIST})
)
"""Go on at ``b`` or at ``c``."""
_GOES_TO: Final = frozenset({JUMP, EACH, EACH_LIST, EACH_INDEX, EACH_PAIR, BREAK, DROP_JUMP})
"""Go on at ``b``."""
_MAY_GO_TO: Final = frozenset({NEXT_ELEMENT, NEXT_INDEX, NEXT_PAIR})
"""Go on at ``b`` or behind."""
_ENDS: Final = frozenset({RET, RET_CONST})

_TESTS: Final = {
    SEMANTICS["is_absent"]: IF_ABSENT,
    SEMANTICS["is_missing"]: IF_MISSING,
    SEMANTICS["is_list"]: IF_LIST,
    SEMANTICS["is_map"]: IF_MAP,
    SEMANTICS["is_text"]: IF_TEXT,
    SEMANTICS["is_null"]: IF_NULL,
    SEMANTICS["is_empty"]: IF_EMPTY,
}
_BOOLEAN: Final = frozenset(SEMANTICS[n] for n in ("is_true", "is_false", "is_err", "j_truthy"))
_NOT: Final = SEMANTICS["not"]
_CONSTANTS: Final[dict[str, Value]] = {
    "true": True,
    "false": False,
    "null": None,
    "missing": MISSING,
    "o_pass": PASSED,
    "o_none": NOTHING,
}
_LOOP_STARTS: Final = {
    "each": (EACH, NEXT_ELEMENT),
    "each_index": (EACH_INDEX, NEXT_INDEX),
    "each_pair": (EACH_PAIR, NEXT_PAIR),
}
_LOOK_AHEAD: Final = 8
"""Negations and jumps that threading looks through: a bound, as code may be one long row of them."""


class Frame:
    """What a call of a function needs. ``code`` is empty until :meth:`lay_out` has been called: of many policies, few
    are run in a short life."""

    __slots__ = ("_fn", "_frames", "_m", "code", "cost", "locals", "may_suspend", "params", "result", "scope")

    def __init__(self, m: VerifiedModule, fn: VerifiedFunction, frames: list[Frame]) -> None:
        self._m = m
        self._fn = fn
        self._frames = frames
        self.code: Code = []
        self.cost = fn.cost
        self.params = fn.params
        self.locals: list[Value] = [None] * (len(fn.locals) - fn.params)
        self.result = fn.result
        self.may_suspend = fn.may_suspend
        self.scope = fn.scope

    def lay_out(self) -> Code:
        self.code = Layout(self._m, self._fn, self._frames).code()
        return self.code


def frames_of(m: VerifiedModule) -> list[Frame]:
    """The functions of a module, which hold one another in their calls."""
    frames: list[Frame] = []
    frames.extend(Frame(m, fn, frames) for fn in m.functions)
    return frames


class Layout:
    """Lays out one function; ``at`` maps its instructions to places in the code made."""

    def __init__(self, m: VerifiedModule, fn: VerifiedFunction, frames: list[Frame]) -> None:
        self.m = m
        self.fn = fn
        struct = fn.structure()
        self.instrs = struct.instrs
        self.partner = struct.partner
        self.frames = frames
        self.out: Code = []
        self.fixes: list[tuple[int, int]] = []
        self.at: list[int] = []

    def plain(self) -> Code:
        """The code as the instructions have it, none made shorter."""
        for i in range(len(self.instrs)):
            self.at.append(len(self.out))
            self.one(i)
        self.at.append(len(self.out))
        for place, to in self.fixes:
            number, a, b, _ = self.out[place]
            target = self.at[to]
            self.out[place] = (number, a, b, target) if number == IF else (number, a, target, None)
        return self.out

    def code(self) -> Code:
        self.plain()
        for place in range(len(self.out) - 1, -1, -1):
            self.thread(place)
        return self.compact(self.fuse())

    # one instruction after another

    def emit(self, number: int, a: Any = None, b: Any = None, c: Any = None, *, to: int | None = None) -> None:
        """``to`` is the instruction that this one may go to, filled in at the end."""
        if to is not None:
            self.fixes.append((len(self.out), to))
        self.out.append((number, a, b, c))

    def one(self, i: int) -> None:
        m, fn = self.m, self.fn
        _, op, a, b = self.instrs[i]
        name = op.name
        if name in _CONSTANTS:
            self.emit(CONST, _CONSTANTS[name])
            return
        if name in LOOPS:
            self.emit(_LOOP_STARTS[name][0], to=self.partner[i])
            return
        match name:
            case "nop":
                pass
            case "const":
                self.emit(CONST, m.constants[a])
            case "local":
                self.emit(LOCAL, a)
            case "local_get":
                self.emit(LOCAL_GET, a, m.constants[b])
            case "set":
                self.emit(SET, a)
            case "tee":
                self.emit(TEE, a)
            case "pop":
                self.emit(POP)
            case "path":
                self.emit(PATH, m.paths[a])
            case "j_path" | "j_root":
                self.emit(J_PATH, m.paths[a] if name == "j_path" else (), SEMANTICS["j_path"])
            case "c_path":
                self.emit(C_PATH, m.paths[a], SEMANTICS["c_path"])
            case "c_select":
                self.emit(C_SELECT, m.constants[a], SEMANTICS["c_select"])
            case "c_charge":
                self.emit(CHARGE, a)
            case "get":
                self.emit(GET, m.constants[a])
            case "as_list":
                self.emit(AS_LIST)
            case "absent_null":
                self.emit(ABSENT_NULL)
            case "if":
                self.emit(IF, -1, len(self.out) + 1, to=self.partner[i] + 1)
            case "else":
                self.emit(JUMP, to=self.partner[i] + 1)
            case "end":
                self.end(i)
            case "break":
                self.emit(BREAK, fn.drops[i], to=self.partner[self.partner[i]] + 1)
            case "next":
                self.emit(DROP_JUMP if fn.drops[i] else JUMP, fn.drops[i], to=self.partner[self.partner[i]])
            case "ret":
                self.emit(RET)
            case "call":
                self.emit(CALL, self.frames[a], -1)
            case "cell":
                self.emit(CELL, a, self.frames[m.cells[a]])
            case "scoped" | "o_scoped":
                self.emit(SCOPED, self.frames[a], i in fn.measured, -1 if name == "o_scoped" else SETTLED)
            case "reset":
                self.emit(RESET, a)
            case "invoke":
                self.invoke(i)
            case "await":
                self.emit(AWAIT, HOST_CALLS[a])
            case "append":
                self.emit(APPEND)
            case "put":
                self.emit(PUT, m.constants[a])
            case "put_key":
                self.emit(PUT_KEY)
            case "concat":
                self.emit(CONCAT, a, SEMANTICS["concat"])
            case "p_leaf":
                self.emit(LEAF, m.leaf(a))
            case "p_scalar":
                self.emit(LEAF, m.scalar(a))
            case "equal" if self.instrs[i - 1].op.name == "const" and type(self.out[-1][1]) is str:
                self.out[-1] = (EQUAL_TEXT, self.out[-1][1], None, None)
            case _:
                self.computing(i)

    def end(self, i: int) -> None:
        opener = self.partner[i]
        ins = self.instrs[opener]
        if ins.op.name in LOOPS:
            cost = self.fn.loops[opener]
            a = (ins.a, cost) if ins.op.name == "each" else (ins.a, ins.b, cost)
            self.emit(_LOOP_STARTS[ins.op.name][1], a, to=opener + 1)

    def computing(self, i: int) -> None:
        """An instruction that its function in ``vm.semantics`` does."""
        _, op, a, _ = self.instrs[i]
        body = SEMANTICS[op.name]
        imm = self.m.constants[a] if op.imm else None
        match len(op.pops), bool(op.imm), op.name in METERED:
            case 0, False, False:
                self.emit(ZERO, body)
            case 0, False, True:
                self.emit(ZERO_METER, body)
            case 1, False, False:
                self.emit(ONE, body)
            case 1, True, False:
                self.emit(ONE_IMM, body, imm)
            case 2, False, False:
                self.emit(TWO, body)
            case 1, False, True:
                self.emit(ONE_METER, body)
            case 2, False, True:
                self.emit(TWO_METER, body)
            case _:
                raise AssertionError(f"{op.name} has a shape that tier 1 does not know")

    def invoke(self, i: int) -> None:
        entry = self.m.intrinsics[self.instrs[i].a]
        body, metered = body_of(entry, self.m.lent)
        n = len(entry.params)
        measured = self.fn.measured.get(i, ())
        if n in (1, 2) and not (entry.sized or measured or metered):
            self.emit(INVOKE_1 if n == 1 else INVOKE_2, body)
        else:
            self.emit(INVOKE, (body, n, entry.sized, measured, metered))

    # making it shorter

    def thread(self, place: int) -> None:
        """Lets what decides an ``if`` go straight to its arms. Works from the end, so that chains of conditions
        collapse: ``is_text`` before ``if`` becomes one instruction, ``true`` before ``if`` a jump."""
        out = self.out
        number, a, b, c = out[place]
        if number in _ARMS:
            out[place] = (number, a, self.landing(b), self.landing(c))
            return
        if number in _GOES_TO or number in _MAY_GO_TO:
            out[place] = (number, a, self.landing(b), None)
            return
        at = place + 1
        negated = False
        for _ in range(_LOOK_AHEAD):
            if at >= len(out):
                return
            if out[at][0] == JUMP:
                at = out[at][2]
            elif out[at][0] == ONE and out[at][1] is _NOT:
                negated = not negated
                at += 1
            else:
                break
        if at >= len(out) or out[at][0] != IF:
            return
        _, _, then, other = out[at]
        if negated:
            then, other = other, then
        if number == CONST and (a is True or a is False):
            out[place] = (JUMP, None, then if a else other, None)
        elif number == ONE and a in _TESTS:
            out[place] = (_TESTS[a], -1, then, other)
        elif number == ONE and a in _BOOLEAN:
            out[place] = (IF_TEST, a, then, other)
        elif number == ONE and a is _NOT:
            out[place] = (IF, -1, other, then)
        elif number == LEAF:
            out[place] = (IF_LEAF, a, then, other)
        elif number == EQUAL_TEXT:
            out[place] = (IF_EQUAL_TEXT, a, then, other)

    def landing(self, at: int) -> int:
        """Where a jump to a place ends up, jumps in a row followed."""
        for _ in range(_LOOK_AHEAD):
            if at >= len(self.out) or self.out[at][0] != JUMP:
                break
            at = self.out[at][2]
        return at

    def fuse(self) -> set[int]:
        """Makes one of neighbours that nobody jumps between; answers the places left empty."""
        out = self.out
        targets = {q[3] for q in out if q[0] in _ARMS}
        targets |= {q[2] for q in out if q[0] in _ARMS or q[0] in _GOES_TO or q[0] in _MAY_GO_TO}
        empty: set[int] = set()
        second = len(out)
        for first in range(len(out) - 1, -1, -1):
            if second < len(out) and not any(p in targets for p in range(first + 1, second + 1)):
                pair = _pair(out[first], out[second])
                if pair is not None:
                    out[first] = pair[0]
                    if len(pair) == 1:
                        empty.add(second)
                    else:
                        out[second] = pair[1]
            second = first
        return empty

    def compact(self, empty: set[int]) -> Code:
        """Drops empty places and code that nobody reaches, and moves the jumps."""
        out = self.out
        reached: set[int] = set()
        todo = [0]
        while todo:
            p = todo.pop()
            if p in reached or p >= len(out):
                continue
            reached.add(p)
            number, _, b, c = out[p]
            if p in empty:
                todo.append(p + 1)
            elif number in _ARMS:
                todo += (b, c)
            elif number in _GOES_TO:
                todo.append(b)
            elif number in _MAY_GO_TO:
                todo += (b, p + 1)
            elif number not in _ENDS:
                todo.append(p + 1)
        places: list[int] = []
        kept: Code = []
        for p, quad in enumerate(out):
            places.append(len(kept))
            if p in reached and p not in empty:
                kept.append(quad)
        for p, (number, a, b, c) in enumerate(kept):
            if number in _ARMS:
                kept[p] = (number, a, places[b], places[c])
            elif number in _GOES_TO or number in _MAY_GO_TO:
                kept[p] = (number, a, places[b], None)
        return kept


def _pair(first: Quad, second: Quad) -> tuple[Quad, ...] | None:
    """What two neighbours become: one quadruple, two others, or None when they stay."""
    number, a, b, _ = first
    then = second[0]
    if number == LOCAL:
        if then in _ON_LOCALS and second[1] == -1:
            return ((then, a, second[2], second[3]),)
        if then == IF_LEAF:
            return ((IF_LOCAL_LEAF, (second[1], a), second[2], second[3]),)
        if then == SET:
            return ((MOVE, a, second[1], None),)
        if then == C_SELECT:
            return ((LOCAL_SELECT, a, second[1], second[2]),)
    elif number == LOCAL_GET:
        if then == SET:
            return ((FIELD_SET, a, b, second[1]),)
        if then == IF_LEAF:
            return ((IF_FIELD_LEAF, (second[1], a, b), second[2], second[3]),)
    elif number == TEE:
        if then in _ON_LOCALS and second[1] == -1:
            return ((SET, a, None, None), (then, a, second[2], second[3]))
        if then == POP:
            return ((SET, a, None, None),)
    elif number == CONST and then == RET:
        return ((RET_CONST, a, None, None),)
    elif number == PATH and then == SET:
        return ((PATH_SET, a, second[1], None),)
    elif number == AS_LIST and then == EACH:
        return ((EACH_LIST, -1, second[2], None),)
    elif number == CHARGE and then == POP:
        return ((CHARGE_POP, a, None, None),)
    elif number == APPEND and then == POP:
        return ((APPEND_POP, None, None, None),)
    return None
