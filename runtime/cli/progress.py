"""A progress bar for long work on a terminal; nothing at all where standard error is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_WORTH_IT: Final = 20
"""Fewer steps are over before a bar could be read."""


def progress(items: Sequence[T], unit: str) -> Iterator[T]:
    """The items one by one, with a bar on standard error that goes away at the end."""
    if len(items) < _WORTH_IT or not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(unit), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(unit, total=len(items))
        for item in items:
            yield item
            bar.advance(task)
