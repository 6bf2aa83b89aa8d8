"""Verified functions to the code that tier 1 runs: quadruples ``(number, a, b, c)`` with jumps resolved.

Immediates become what they stand for, and ``end`` of an ``if`` goes away. ``vm.joins`` makes fewer of them once they
are linked; the loop of ``vm.interp`` is the only reader."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from vm.functions import body_of
from vm.host import HOST_CALLS, NOTHING, PASSED
from vm.joins import joined
from vm.quads import (
    ABSENT_NULL,
    APPEND,
    AS_LIST,
    AWAIT,
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
    EQUAL_TEXT,
    FUEL,
    GET,
    GOES_TO,
    HAS,
    IF,
    INVOKE,
    INVOKE_2_METER,
    INVOKE_METER,
    JUMP,
    LOCAL,
    LOCAL_GET,
    MAY_GO_TO,
    NEXT_ELEMENT,
    NEXT_INDEX,
    NEXT_PAIR,
    ONE,
    ONE_IMM,
    ONE_METER,
    OPENS,
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
    Step,
    link,
    ready,
)
from vm.semantics import METERED, SEMANTICS
from vm.structure import LOOPS
from vm.values import MISSING, Value
from vm.verify import VerifiedFunction, VerifiedModule

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
_SHORT: Final = 512
"""Bytes of code, and locals, of what may be put in the place of calls."""
_LONG: Final = 4096
"""Quadruples beyond which a function takes no others up."""


def frames_of(
    m: VerifiedModule, layout: Callable[[VerifiedFunction, list[Frame]], Layout] | None = None
) -> list[Frame]:
    """The functions of a module, which hold one another in their calls. With ``layout`` they are laid out by it, and as
    the instructions have them."""
    frames: list[Frame] = []

    def code(fn: VerifiedFunction) -> tuple[Step, int]:
        if layout is not None:
            plain = layout(fn, frames)
            return ready(link(plain.plain())), plain.more
        made = Layout(m, fn, frames)
        return ready(joined(link(made.code()))), made.more

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
        self.loops: dict[int, int] = {}
        """The locals of iterators, by the number of the loop instruction."""
        self.more = 0
        """Locals beside those of the function: iterators, and what functions put in the place of their calls have
        brought."""

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
        """The code with short functions in the place of their calls."""
        self.places_calls = True
        return self.plain()

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
            self.loops[i] = len(fn.locals) + self.more
            self.more += 1
            self.emit(_LOOP_STARTS[name][0], self.loops[i], to=self.partner[i])
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
            case "break" | "next":
                behind = self.partner[self.partner[i]] + (name == "break")
                self.emit(DROP_JUMP if fn.drops[i] else JUMP, fn.drops[i], to=behind)
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
                self.emit(ONE, m.leaf(a))
            case "p_scalar":
                self.emit(ONE, m.scalar(a))
            case "equal" if self.instrs[i - 1].op.name == "const" and type(self.out[-1][1]) is str:
                self.out[-1] = (EQUAL_TEXT, self.out[-1][1], None, None)
            case _:
                self.computing(i)

    def end(self, i: int) -> None:
        opener = self.partner[i]
        ins = self.instrs[opener]
        if ins.op.name in LOOPS:
            cost = self.fn.loops[opener]
            slots = (ins.a,) if ins.op.name == "each" else (ins.a, ins.b)
            a = (*slots, self.loops[opener], cost)
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
            self.emit(ONE if n == 1 else TWO, body)
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
        laid = Layout(self.m, callee, self.frames)
        code = laid.plain()
        self.emit(FUEL, callee.cost)
        first = len(self.out)
        at = [first + place for place in range(len(code) + 1)]
        slots = len(self.fn.locals) + self.more
        for quad in code:
            self.out.append((JUMP, None, at[-1], None) if quad[0] == RET else _moved(quad, slots, at))
        self.more += len(callee.locals) + laid.more


def _moved(quad: Quad, slots: int, at: list[int]) -> Quad:
    """A quadruple of plain code whose locals lie further up, and whose jumps go to where their places are now."""
    number, a, b, c = quad
    if number in _OF_LOCALS:
        return number, a + slots, b, c
    if number in MAY_GO_TO:
        *places, cost = a
        return number, (*(p + slots for p in places), cost), at[b], c
    if number in GOES_TO:
        return number, a + slots if number in OPENS else a, at[b], c
    return (number, a, at[b], at[c]) if number == IF else quad
