"""The passes in order, by level, with the checker after each and an eye for observers.

Levels: 0 runs none, 1 what makes code smaller or simpler, 2 all (the default). ``optimise`` is called by the facade,
by golden tests (single passes) and by fuzz target F5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Final, Protocol, TypeAlias

from compiler.ir.check import Checker
from compiler.ir.ops import Module
from compiler.passes.dead_code import dead_code
from compiler.passes.dedupe import dedupe
from compiler.passes.fold import fold
from compiler.passes.hoist_match import hoist_match
from compiler.passes.layout import layout
from compiler.passes.share_loads import share_loads
from compiler.passes.simplify import simplify
from compiler.passes.specialise_pattern import specialise_pattern

Transform: TypeAlias = Callable[[Module], Module]


@dataclass(frozen=True, slots=True)
class Pass:
    """A named step: the lowest level at which it runs, and what it does."""

    name: str
    level: int
    run: Transform


PASSES: Final[tuple[Pass, ...]] = (
    Pass("fold", 1, fold),
    Pass("simplify", 1, simplify),
    Pass("hoist_match", 1, hoist_match),
    Pass("specialise_pattern", 2, specialise_pattern),
    Pass("share_loads", 2, share_loads),
    Pass("layout", 2, layout),
    Pass("dead_code", 1, dead_code),
    Pass("dedupe", 2, dedupe),
)
"""All passes in the order in which they run."""

LEVELS: Final = (0, 1, 2)


class Observer(Protocol):
    """Told after each pass; ``seconds`` is the time of the pass without the check behind it."""

    def __call__(self, name: str, module: Module, seconds: float) -> None: ...


def pass_named(name: str) -> Pass:
    """The pass of this name. Raises ``KeyError`` when there is none."""
    for step in PASSES:
        if step.name == name:
            return step
    raise KeyError(name)


def optimise(m: Module, level: int = 2, observer: Observer | None = None) -> Module:
    """The module after all passes of ``level``; it is checked before the first and after each.

    Raises :class:`compiler.ir.check.CheckError` when lowering or a pass made bad IR, ``ValueError`` for a level that
    is none.
    """
    if level not in LEVELS:
        raise ValueError(f"there is no level {level}, only {', '.join(map(str, LEVELS))}")
    checker = Checker()
    checker.check(m)
    for step in PASSES:
        if step.level > level:
            continue
        start = perf_counter()
        new = step.run(m)
        seconds = perf_counter() - start
        if new is not m:
            checker.check(new)
            m = new
        if observer is not None:
            observer(step.name, m, seconds)
    return m
