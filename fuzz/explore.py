"""Runs properties over Hypothesis strategies for a given time, in small batches, so that a target ends in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

BATCH = 25


class Counterexample(AssertionError):
    """An input for which a property does not hold. ``case`` is the content of a case file, where one can show it."""

    def __init__(self, text: str, case: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.case = case


class Skipped(Exception):
    """A target cannot run here; the text says why."""


LEAST = 40
"""Cases that are made however slow the machine is: of some targets, only every tenth is about what they hold."""


def numbers(seconds: float, seed: int) -> Iterator[int]:
    """Numbers that cases are made of, until the time is over, and :data:`LEAST` of them at least."""
    end = monotonic() + seconds
    first = seed * 1_000_003
    number = first
    while number < first + LEAST or monotonic() < end:
        number += 1
        yield number


def explore(
    parts: Sequence[tuple[st.SearchStrategy[Any], Callable[..., None]]],
    seconds: float,
    seed: int,
    *,
    batch: int = BATCH,
) -> int:
    """Takes turns between strategies and the properties of what they make (a tuple is spread over the parameters).

    Answers the number of inputs; raises what a property raises, for the smallest input found.
    """
    end = monotonic() + seconds
    number = seed * 1_000_003
    count = 0
    while True:
        for strategy, holds in parts:
            number += 1
            count += _batch(strategy, holds, number, batch)
            if monotonic() >= end:
                return count


def _batch(strategy: st.SearchStrategy[Any], holds: Callable[..., None], number: int, batch: int) -> int:
    count = 0

    @settings(
        max_examples=batch,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
    )
    @seeded(number)
    @given(strategy)
    def once(made: Any) -> None:
        nonlocal count
        count += 1
        if isinstance(made, tuple):
            holds(*made)
        else:
            holds(made)

    once()
    return count
