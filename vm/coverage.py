"""Tier 1 with a list of what it has run: which places of the policies, by the debug section, a program has reached.

Made for ``thesmos test --coverage``. Functions are laid out one quadruple an instruction, in a list that notes which of
its elements were read: the loop of ``vm.interp`` is the one that runs everything else, and ordinary code costs nothing.
"""

from __future__ import annotations

from typing import SupportsIndex, TypeAlias

from vm.interp import Program, interpret
from vm.layout import Code, Frame, Layout, Quad
from vm.verify import VerifiedFunction, VerifiedModule

Place: TypeAlias = tuple[str, int, int]
"""A file, a line and a column, from 1."""


class Reached:
    """The places that a module has code for, and those that were run; it grows as the program runs."""

    __slots__ = ("_frames", "places")

    def __init__(self, m: VerifiedModule) -> None:
        spans = m.debug.spans if m.debug is not None else ()
        files = m.debug.files if m.debug is not None else ()
        self.places: frozenset[Place] = frozenset((files[s.file].name, s.line, s.column) for fn in spans for s in fn)
        self._frames: list[Frame] = []
        for n, fn in enumerate(m.functions):
            starts = {s.pc: (files[s.file].name, s.line, s.column) for s in spans[n]} if spans else {}
            self._frames.append(_Frame(m, fn, self._frames, starts))

    @property
    def frames(self) -> list[Frame]:
        return self._frames

    def run(self) -> set[Place]:
        """The places that were run so far."""
        return {place for frame in self._frames if isinstance(frame, _Frame) for place in frame.reached()}


def watched(m: VerifiedModule) -> tuple[Program, Reached]:
    """The program of a module on tier 1, and what it reaches. Without a debug section there is no place to reach."""
    reached = Reached(m)
    return interpret(m, reached.frames), reached


class _Noting(list[Quad]):
    """Code that remembers which of its quadruples were read."""

    __slots__ = ("read",)

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self.read: set[SupportsIndex | slice] = set()

    def __getitem__(self, at: SupportsIndex | slice) -> Quad:  # type: ignore[override]
        self.read.add(at)
        return super().__getitem__(at)  # type: ignore[return-value]


class _Frame(Frame):
    """A function whose spans know whether their first instruction has run."""

    __slots__ = ("_starts", "_where")

    def __init__(self, m: VerifiedModule, fn: VerifiedFunction, frames: list[Frame], starts: dict[int, Place]) -> None:
        super().__init__(m, fn, frames)
        self._starts = starts
        self._where: list[tuple[int, Place]] = []

    def lay_out(self) -> Code:
        layout = Layout(self._m, self._fn, self._frames)
        self.code = _Noting(layout.plain())
        pcs = [instr.pc for instr in layout.instrs]
        self._where = [(layout.at[n], self._starts[pc]) for n, pc in enumerate(pcs) if pc in self._starts]
        return self.code

    def reached(self) -> set[Place]:
        read = self.code.read if isinstance(self.code, _Noting) else ()
        return {place for at, place in self._where if at in read}
