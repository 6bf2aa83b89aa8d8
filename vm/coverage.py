"""Tier 1 with a list of what it has run: which places of the policies, by the debug section, a program has reached.

Made for ``thesmos test --coverage``. Functions are laid out one quadruple an instruction, and before those that begin a
place stand two that note it: the loop of ``vm.interp`` is the one that runs everything else, and ordinary code costs
nothing. A list that notes what is read of it would not do: compiled by mypyc, the loop reads lists past their methods.
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

from vm.host import Program
from vm.interp import interpret
from vm.layout import Layout, frames_of
from vm.quads import POP, ZERO, Frame
from vm.verify import VerifiedFunction, VerifiedModule

Place: TypeAlias = tuple[str, int, int]
"""A file, a line and a column, from 1."""


class Reached:
    """The places that a module has code for, and those that were run; it grows as the program runs."""

    __slots__ = ("_frames", "_run", "places")

    def __init__(self, m: VerifiedModule) -> None:
        spans = m.debug.spans if m.debug is not None else ()
        files = m.debug.files if m.debug is not None else ()
        self.places: frozenset[Place] = frozenset((files[s.file].name, s.line, s.column) for fn in spans for s in fn)
        self._run: set[Place] = set()
        starts = [{s.pc: (files[s.file].name, s.line, s.column) for s in fn} for fn in spans]
        self._frames = frames_of(
            m, lambda fn, frames: _Layout(m, fn, frames, starts[fn.number] if starts else {}, self._run)
        )

    @property
    def frames(self) -> list[Frame]:
        return self._frames

    def run(self) -> set[Place]:
        """The places that were run so far."""
        return set(self._run)


def watched(m: VerifiedModule) -> tuple[Program, Reached]:
    """The program of a module on tier 1, and what it reaches. Without a debug section there is no place to reach."""
    reached = Reached(m)
    return interpret(m, reached.frames), reached


class _Layout(Layout):
    """Puts what notes a place before the instruction that begins it, or before the next one that does anything."""

    def __init__(
        self, m: VerifiedModule, fn: VerifiedFunction, frames: list[Frame], starts: dict[int, Place], run: set[Place]
    ) -> None:
        super().__init__(m, fn, frames)
        self._starts = starts
        self._note = run.add
        self._begun: list[Place] = []

    def one(self, i: int) -> None:
        pc, op, _, _ = self.instrs[i]
        if pc in self._starts:
            self._begun.append(self._starts[pc])
        ends_if = op.name == "end" and self.instrs[self.partner[i]].op.name in ("if", "else")
        if op.name != "nop" and not ends_if:
            for place in self._begun:
                self.emit(ZERO, partial(self._note, place))
                self.emit(POP)
            self._begun.clear()
        super().one(i)
