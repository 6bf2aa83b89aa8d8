"""Verified functions to the code that tier 1 runs: quadruples ``(number, a, b, c)`` with jumps resolved.

Immediates become what they stand for, ``end`` of an ``if`` goes away, conditions go straight to the arm they decide
for, and those that often stand together become one (``vm.neighbours``). The loop of ``vm.interp`` is the only
reader."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from vm.functions import body_of
from vm.host import HOST_CALLS, NOTHING, PASSED
from vm.neighbours import MOST, pair, row
from vm.quads import (
    ABSENT_NULL,
    APPEND,
    ARMS,
    AS_LIST,
    AWAIT,
    BREAK,
    C_SELECT,
    CALL,
    CELL,
    CHARGE,
    CONCAT,
    CONST,
    DROP_JUMP,
    EACH,
    EACH_INDEX,
    EACH_PAIR,
    ENDS,
    EQUAL_TEXT,
    FUEL,
    GET,
    GOES_TO,
    HAS,
    IF,
    IF_ABSENT,
    IF_EMPTY,
    IF_EQUAL_TEXT,
    IF_ERR,
    IF_FALSE,
    IF_LEAF,
    IF_LIST,
    IF_MAP,
    IF_MISSING,
    IF_NULL,
    IF_TEST,
    IF_TEXT,
    IF_TRUE,
    INVOKE,
    INVOKE_1,
    INVOKE_2,
    INVOKE_2_METER,
    INVOKE_METER,
    JUMP,
    LEAF,
    LEAVE,
    LOCAL,
    LOCAL_GET,
    MAY_GO_TO,
    NEXT_ELEMENT,
    NEXT_INDEX,
    NEXT_PAIR,
    ONE,
    ONE_IMM,
    ONE_METER,
    PATH,
    POP,
    PUT,
    PUT_KEY,
    RESET,
    RET,
    ROOT_PATH,
    SCOPED,
    SET,
    SETTLED,
    TEE,
    TWO,
    TWO_METER,
    ZERO,
    ZERO_METER,
    Code,
    Frame,
    Quad,
)
from vm.semantics import METERED, SEMANTICS
from vm.structure import LOOPS
from vm.values import MISSING, Value
from vm.verify import VerifiedFunction, VerifiedModule

_TESTS: Final = {
    SEMANTICS["is_absent"]: IF_ABSENT,
    SEMANTICS["is_missing"]: IF_MISSING,
    SEMANTICS["is_list"]: IF_LIST,
    SEMANTICS["is_map"]: IF_MAP,
    SEMANTICS["is_text"]: IF_TEXT,
    SEMANTICS["is_null"]: IF_NULL,
    SEMANTICS["is_empty"]: IF_EMPTY,
    SEMANTICS["is_true"]: IF_TRUE,
    SEMANTICS["is_false"]: IF_FALSE,
    SEMANTICS["is_err"]: IF_ERR,
}
_TRUTHY: Final = SEMANTICS["j_truthy"]
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
_OF_LOCALS: Final = frozenset({LOCAL, LOCAL_GET, SET, TEE})
_OPENS: Final = frozenset({EACH, EACH_INDEX, EACH_PAIR})
_SHORT: Final = 512
"""Bytes of code, and locals, of what may be put in the place of calls."""
_LONG: Final = 4096
"""Quadruples beyond which a function takes no others up."""
_LOOK_AHEAD: Final = 8
"""Negations and jumps that threading looks through: a bound, as code may be one long row of them."""


def frames_of(
    m: VerifiedModule, layout: Callable[[VerifiedFunction, list[Frame]], Layout] | None = None
) -> list[Frame]:
    """The functions of a module, which hold one another in their calls. With ``layout`` they are laid out by it, and as
    the instructions have them."""
    frames: list[Frame] = []

    def code(fn: VerifiedFunction) -> tuple[Code, int]:
        if layout is not None:
            return layout(fn, frames).plain(), 0
        made = Layout(m, fn, frames)
        return made.code(), made.more

    frames.extend(Frame(fn, partial(code, fn)) for fn in m.functions)
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
        self.places_calls = False
        self.more = 0
        """Locals that functions put in the place of their calls have brought."""

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
        self.places_calls = True
        self.plain()
        for place in range(len(self.out) - 1, -1, -1):
            self.thread(place)
        targets = self.targets()
        empty = self.fuse(targets)
        self.join(targets, empty)
        return self.compact(empty)

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
                self.emit(ROOT_PATH, m.paths[a] if name == "j_path" else (), SEMANTICS["j_path"])
            case "c_path":
                self.emit(ROOT_PATH, m.paths[a], SEMANTICS["c_path"])
            case "c_select":
                self.emit(C_SELECT, m.constants[a])
            case "c_has":
                self.emit(HAS, m.constants[a])
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
            case "call" if self.places_calls and self.fits(m.functions[a]):
                self.put_in_place(m.functions[a])
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
                self.emit(CONCAT, a)
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
        elif n in (1, 2) and not (entry.sized or measured):
            self.emit(INVOKE_METER if n == 1 else INVOKE_2_METER, body)
        else:
            self.emit(INVOKE, (body, n, entry.sized, measured, metered))

    def fits(self, callee: VerifiedFunction) -> bool:
        """Whether a function may stand in the place of its call: it is short, and leaves nothing on the stack."""
        if callee.params or len(callee.code) > _SHORT or len(self.out) > _LONG or self.more > _SHORT:
            return False
        instrs = callee.structure().instrs
        return not any(instrs[i].op.name == "ret" for i in callee.drops)

    def put_in_place(self, callee: VerifiedFunction) -> None:
        """A function without parameters in the place of its call, its locals behind those that are there. Half of the
        time of a short one went into the call, and a rule's proof that it passes is one."""
        code = Layout(self.m, callee, self.frames).plain()
        self.emit(FUEL, callee.cost)
        at = [len(self.out)]
        loops: list[int] = []  # that are open, by place
        depth = 0
        for number, *_ in code:
            loops.append(depth)
            depth += (number in _OPENS) - (number in MAY_GO_TO)
            at.append(at[-1] + (2 if number == RET and loops[-1] else 1))
        for place, quad in enumerate(code):
            if quad[0] != RET:
                self.out.append(_moved(quad, len(self.fn.locals) + self.more, at))
                continue
            if loops[place]:
                self.out.append((LEAVE, loops[place], None, None))
            self.out.append((JUMP, None, at[-1], None))
        self.more += len(callee.locals)

    # making it shorter

    def thread(self, place: int) -> None:
        """Lets what decides an ``if`` go straight to its arms. Works from the end, so that chains of conditions
        collapse: ``is_text`` before ``if`` becomes one instruction, ``true`` before ``if`` a jump."""
        out = self.out
        number, a, b, c = out[place]
        if number in ARMS:
            out[place] = (number, a, self.landing(b), self.landing(c))
            return
        if number in GOES_TO or number in MAY_GO_TO:
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
        elif number == ONE and a is _TRUTHY:
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

    def targets(self) -> set[int]:
        """The places that some quadruple may go to."""
        out = self.out
        found = {q[3] for q in out if q[0] in ARMS}
        return found | {q[2] for q in out if q[0] in ARMS or q[0] in GOES_TO or q[0] in MAY_GO_TO}

    def fuse(self, targets: set[int]) -> set[int]:
        """Makes one of two neighbours that nobody jumps between; answers the places left empty."""
        out = self.out
        empty: set[int] = set()
        second = len(out)
        for first in range(len(out) - 1, -1, -1):
            if second < len(out) and not any(p in targets for p in range(first + 1, second + 1)):
                made = pair(out[first], out[second])
                if made is not None:
                    out[first] = made[0]
                    if len(made) == 1:
                        empty.add(second)
                    else:
                        out[second] = made[1]
            second = first
        return empty

    def join(self, targets: set[int], empty: set[int]) -> None:
        """Makes one of a row of neighbours that nobody jumps between, and adds the places that this leaves empty."""
        places = [p for p in range(len(self.out)) if p not in empty]
        at = 0
        while at < len(places):
            end = at + 1
            while end < min(len(places), at + MOST) and places[end] not in targets:
                end += 1
            found = row([self.out[p] for p in places[at:end]])
            if found is not None:
                made, length = found
                self.out[places[at]] = made
                empty.update(places[at + 1 : at + length])
                at += length - 1
            at += 1

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
            elif number in ARMS:
                todo += (b, c)
            elif number in GOES_TO:
                todo.append(b)
            elif number in MAY_GO_TO:
                todo += (b, p + 1)
            elif number not in ENDS:
                todo.append(p + 1)
        places: list[int] = []
        kept: Code = []
        for p, quad in enumerate(out):
            places.append(len(kept))
            if p in reached and p not in empty:
                kept.append(quad)
        for p, (number, a, b, c) in enumerate(kept):
            if number in ARMS:
                kept[p] = (number, a, places[b], places[c])
            elif number in GOES_TO or number in MAY_GO_TO:
                kept[p] = (number, a, places[b], None)
        return kept


def _moved(quad: Quad, slots: int, at: list[int]) -> Quad:
    """A quadruple of plain code whose locals lie further up, and whose jumps go to where their places are now."""
    number, a, b, c = quad
    if number in _OF_LOCALS:
        return number, a + slots, b, c
    if number in MAY_GO_TO:
        *places, cost = a
        return number, (*(p + slots for p in places), cost), at[b], c
    if number in GOES_TO:
        return number, a, at[b], c
    return (number, a, at[b], at[c]) if number == IF else quad
