"""Tier 1 with a record of what it did: intrinsics with operands and answers, decisions, calls and returns, each with
the place of its instruction.

Made for ``thesmos why``. Functions are laid out one quadruple an instruction, with quadruples between them that record;
the loop of ``vm.interp`` runs them like any others, so that ordinary code costs nothing and the answer is the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from vm.functions import body_of
from vm.host import Program
from vm.interp import interpret
from vm.layout import Layout, frames_of
from vm.quads import INVOKE, ONE, TWO_METER, Frame
from vm.semantics import SEMANTICS
from vm.verify import VerifiedFunction, VerifiedModule

FIRST: Final = 50_000
"""How many events are kept from the beginning of a run; of those after them the last :data:`LAST`."""
LAST: Final = 200_000

_RECORDED: Final = frozenset({"if", "ret", "set", "tee"})
"""Instructions whose operand is recorded."""
_ENTERING: Final = frozenset({"scoped", "o_scoped"})


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at offset ``pc`` of a function.

    ``kind`` is ``invoke`` (``name`` the intrinsic, ``operands`` its own, ``value`` its answer), ``op`` (the same of an
    instruction), ``enter`` and ``leave`` of a function on a root with more in it (``value`` what is put over the root,
    and what the function answered), ``cell`` (``operands`` its number, ``value`` that of the context entry), or the
    name of an instruction that takes one operand (``value``): ``if``, ``set``, ``tee``, ``ret``.
    """

    function: int
    pc: int
    kind: str
    name: str
    operands: tuple[Any, ...]
    value: Any


class Trace:
    """The events of one run after another, until :meth:`take` hands them out."""

    __slots__ = ("_first", "_last", "dropped")

    def __init__(self) -> None:
        self._first: list[Event] = []
        self._last: deque[Event] = deque(maxlen=LAST)
        self.dropped = 0

    def add(self, event: Event) -> None:
        if len(self._first) < FIRST:
            self._first.append(event)
            return
        self.dropped += len(self._last) == LAST
        self._last.append(event)

    def take(self) -> list[Event]:
        """The events since the last call, without those from the middle of a long run."""
        events = [*self._first, *self._last]
        self._first, self.dropped = [], 0
        self._last.clear()
        return events


def traced(m: VerifiedModule) -> tuple[Program, Trace]:
    """The program of a module on tier 1, and the record of its runs."""
    trace = Trace()
    frames = frames_of(m, lambda fn, frames: _Layout(m, fn, frames, trace))
    return interpret(m, frames), trace


class _Layout(Layout):
    """Puts quadruples that record around instructions. Jumps go to the place where an instruction begins, which is
    before what records its operand."""

    def __init__(self, m: VerifiedModule, fn: VerifiedFunction, frames: list[Frame], trace: Trace) -> None:
        super().__init__(m, fn, frames)
        self.trace = trace

    def one(self, i: int) -> None:
        name = self.instrs[i].op.name
        if name in _RECORDED:
            self.record(i, name)
            super().one(i)
        elif name in _ENTERING:
            self.record(i, "enter")
            super().one(i)
            self.record(i, "leave")
        elif name == "cell":
            super().one(i)
            self.record(i, "cell", (self.instrs[i].a,))
        elif name == "equal":
            self.emit(TWO_METER, self.noting(i, "op", name, SEMANTICS[name], slice(2)))
        elif name == "is_absent":
            self.emit(ONE, self.noting(i, "op", name, SEMANTICS[name], slice(1)))
        else:
            super().one(i)

    def record(self, i: int, kind: str, operands: tuple[Any, ...] = ()) -> None:
        add, number, pc, name = self.trace.add, self.fn.number, self.instrs[i].pc, self.instrs[i].op.name

        def note(value: Any) -> Any:
            add(Event(number, pc, kind, name, operands, value))
            return value

        self.emit(ONE, note)

    def invoke(self, i: int) -> None:
        entry = self.m.intrinsics[self.instrs[i].a]
        body, metered = body_of(entry, self.m.lent)
        call = self.noting(i, "invoke", entry.name, body, slice(1 if metered else 0, None))
        self.emit(INVOKE, (call, len(entry.params), entry.sized, self.fn.measured.get(i, ()), metered))

    def noting(self, i: int, kind: str, name: str, body: Callable[..., Any], own: slice) -> Callable[..., Any]:
        """``body``, whose answers are recorded with those of its arguments that are operands (``own``)."""
        add, number, pc = self.trace.add, self.fn.number, self.instrs[i].pc

        def call(*args: Any) -> Any:
            value = body(*args)
            add(Event(number, pc, kind, name, args[own], value))
            return value

        return call
