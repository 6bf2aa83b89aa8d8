"""Bytes of one function to instructions with their structure: who ends what, what each segment costs.

This is the first half of the verifier and the only decoder; ``vm.flow`` checks what comes out, the disassembler prints
it and both tiers run it.

Fuel is charged by segment: once on entry of a function and once for each iteration of a loop. The cost of a segment is
the sum over its instructions along the dearest path: of an ``if`` the dearer arm counts. So a run never does more
work than it has paid for, and straight code with many conditions pays once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from vm.code import MAX_CODE, MAX_LOOPS, MAX_NESTING, read_uleb
from vm.isa import BY_NUMBER, Op

LOOPS: Final = frozenset({"each", "each_index", "each_pair"})


_REACHING: Final = frozenset({"call", "cell", "scoped", "o_scoped", "await"})
_SHAPING: Final = LOOPS | _REACHING | {"if", "else", "end", "break", "next", "invoke"}


class VerifyError(Exception):
    """Why a module was refused: a stable word, the function (None for the module), the offset in its code, and a
    sentence."""

    def __init__(self, code: str, detail: str, function: str | None = None, offset: int = 0) -> None:
        where = f"function {function} at {offset}: " if function is not None else ""
        super().__init__(f"{where}{detail} ({code})")
        self.code = code
        self.detail = detail
        self.function = function
        self.offset = offset


class Instr(NamedTuple):
    """One instruction: its offset, its table row and its immediates (0 where it has none)."""

    pc: int
    op: Op
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class Structure:
    """``partner[i]`` is, by instruction number: of an ``if`` its ``else`` or ``end``, of an ``else`` its ``end``, of a
    loop its ``end``, of an ``end`` its opener, of ``break`` and ``next`` their loop, else -1. ``cost`` is the fuel of
    the entry segment, ``loops`` that of one iteration by the number of the loop instruction. ``reaches`` are the name
    and immediate of all instructions that go beyond the function: ``call``, ``cell``, ``scoped``, ``o_scoped``,
    ``await``."""

    instrs: tuple[Instr, ...]
    partner: tuple[int, ...]
    cost: int
    loops: dict[int, int]
    reaches: tuple[tuple[str, int], ...]


_ROWS: Final[list[tuple[Op, int] | None]] = [
    (BY_NUMBER[n], len(BY_NUMBER[n].imm)) if n in BY_NUMBER else None for n in range(256)
]


def decode(code: bytes, function: str) -> list[Instr]:
    """Raises :class:`VerifyError` ``opcode`` or ``immediate``."""
    if len(code) > MAX_CODE:
        raise VerifyError("size", f"{len(code)} bytes of code, more than {MAX_CODE}", function)
    out: list[Instr] = []
    add = out.append
    new = tuple.__new__  # the constructor of a NamedTuple costs as much as the rest of the loop
    at, end = 0, len(code)
    while at < end:
        row = _ROWS[code[at]]
        if row is None:
            raise VerifyError("opcode", f"no instruction has number {code[at]:#04x}", function, at)
        op, arity = row
        if arity == 0:
            add(new(Instr, (at, op, 0, 0)))
            at += 1
        elif arity == 1 and at + 1 < end and code[at + 1] < 0x80:
            add(new(Instr, (at, op, code[at + 1], 0)))
            at += 2
        else:
            pc = at
            b = 0
            try:
                a, at = read_uleb(code, at + 1)
                if arity == 2:
                    b, at = read_uleb(code, at)
            except ValueError as problem:
                raise VerifyError("immediate", f"{op.name}: {problem}", function, pc) from None
            add(new(Instr, (pc, op, a, b)))
    return out


def structure(instrs: list[Instr], function: str, invoke_fuel: Callable[[int], int]) -> Structure:
    """Pairs blocks and sums fuel. Raises :class:`VerifyError` ``control``, ``nesting``. ``invoke_fuel`` gives the fuel
    of an import by its number (any number, as indexes are checked later)."""
    partner = [-1] * len(instrs)
    loops: dict[int, int] = {}
    open_blocks: list[int] = []
    open_loops: list[int] = []
    sums = [0]
    first_arms: list[int] = []
    reaches: list[tuple[str, int]] = []
    cost = 0  # of the segment at hand, without what waits in sums
    for i, (pc, op, a, _) in enumerate(instrs):
        cost += op.fuel
        name = op.name
        if name not in _SHAPING:
            continue
        if name in _REACHING:
            reaches.append((name, a))
            continue
        sums[-1] += cost
        cost = 0
        if name == "invoke":
            sums[-1] += invoke_fuel(a) - op.fuel
        elif name == "if" or name in LOOPS:
            open_blocks.append(i)
            if len(open_blocks) > MAX_NESTING:
                raise VerifyError("nesting", f"more than {MAX_NESTING} blocks in one another", function, pc)
            sums.append(0)
            if name == "if":
                first_arms.append(0)
            else:
                open_loops.append(i)
                if len(open_loops) > MAX_LOOPS:
                    raise VerifyError("nesting", f"more than {MAX_LOOPS} loops in one another", function, pc)
        elif name == "else":
            if not open_blocks or instrs[open_blocks[-1]].op.name != "if":
                raise VerifyError("control", "else stands in no if", function, pc)
            partner[open_blocks[-1]] = i
            open_blocks[-1] = i
            first_arms[-1] = sums.pop()
            sums.append(0)
        elif name == "end":
            if not open_blocks:
                raise VerifyError("control", "end ends nothing", function, pc)
            opener = open_blocks.pop()
            partner[opener] = i
            partner[i] = opener
            block = sums.pop()
            if instrs[opener].op.name in LOOPS:
                open_loops.pop()
                loops[opener] = block
            else:
                sums[-1] += max(block, first_arms.pop())
        elif name in ("break", "next"):
            if not open_loops:
                raise VerifyError("control", f"{name} stands in no loop", function, pc)
            partner[i] = open_loops[-1]
    if open_blocks:
        raise VerifyError("control", "a block is not ended", function, instrs[open_blocks[-1]].pc)
    return Structure(tuple(instrs), tuple(partner), sums[0] + cost, loops, tuple(reaches))
