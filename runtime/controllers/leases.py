"""Which replica does what: work is divided into shards, each held by one replica at a time.

Controllers ask :meth:`Shards.holds` before they act on an object, and :meth:`Shards.leads` for what one must do alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

SHARDS: Final = 4
"""Shards of a part: more replicas than this share nothing further of it."""


class Shards:
    """``held`` are the shards of each part that this process holds."""

    def __init__(self) -> None:
        self._held: dict[str, frozenset[int]] = {}
        self._listeners: list[Callable[[], None]] = []

    def holds(self, part: str, key: str) -> bool:
        """Whether the work on ``key`` is this replica's: a stable hash of it decides the shard."""
        return zlib.crc32(key.encode()) % SHARDS in self._held.get(part, frozenset())

    def leads(self, part: str) -> bool:
        """Whether this replica does what one must do alone: it holds the first shard."""
        return 0 in self._held.get(part, frozenset())

    def listen(self, changed: Callable[[], None]) -> None:
        """``changed`` is called after shards came or went: it sets a flag and returns."""
        self._listeners.append(changed)

    def set(self, part: str, held: frozenset[int]) -> None:
        """What this replica holds from now on."""
        if self._held.get(part, frozenset()) != held:
            self._held[part] = held
            for listener in self._listeners:
                listener()

    def hold_all(self, part: str) -> None:
        """As the only replica."""
        self.set(part, frozenset(range(SHARDS)))
