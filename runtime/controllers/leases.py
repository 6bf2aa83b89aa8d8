"""Which replica does what: work is divided into shards, each held by one replica at a time.

Controllers ask :meth:`Shards.holds` before they act on an object, and :meth:`Shards.leads` for what one must do alone.
:class:`ShardLeases` keeps the answers right: each shard is a Lease ``<install>-<part>-<n>`` whose holder may act for as
long as it renews its own replica's Lease, so that holding costs one write a beat however many shards there are.

Why no two hold one shard: a holder acts until :data:`~runtime.controllers.replicas.HOLD` beats after it *sent* the last
renewal that was answered in time; another takes over when a list straight from storage has shown the same renewal for
:data:`~runtime.controllers.replicas.DEAD` beats, and writes under the version it saw. A holder that was late has lost
everything, and must win a write on each shard before it acts again.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final

from runtime.config import Names
from runtime.controllers.replicas import HOLD, Clock, Replicas, lease, now_text
from runtime.k8s.client import KubeClient, Object
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import LEASE

log = logging.getLogger("thesmos.leases")

SHARDS: Final = 4
"""Shards of a part: more replicas than this share nothing further of it."""

BEAT: Final = 2.0
"""Seconds between looks at the Leases: a killed replica's shards are taken over within DEAD + 2 beats, 13 seconds."""


class Shards:
    """``held`` are the shards of each part that this process holds, until ``until`` (a reading of the clock)."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.until = math.inf
        self._clock = clock
        self._held: dict[str, frozenset[int]] = {}
        self._listeners: list[Callable[[], None]] = []

    def holds(self, part: str, key: str) -> bool:
        """Whether the work on ``key`` is this replica's: a stable hash of it decides the shard."""
        return zlib.crc32(key.encode()) % SHARDS in self.held(part)

    def leads(self, part: str) -> bool:
        """Whether this replica does what one must do alone: it holds the first shard."""
        return 0 in self.held(part)

    def held(self, part: str) -> frozenset[int]:
        """What is held at this moment; nothing once the time is over, even when nobody has noticed yet."""
        return self._held.get(part, frozenset()) if self._clock() < self.until else frozenset()

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


Shard = tuple[str, int]
"""Part and number."""


class ShardLeases:
    """Takes, keeps and gives back the Leases of the shards of this replica's parts."""

    def __init__(
        self,
        client: KubeClient,
        names: Names,
        identity: str,
        parts: Iterable[str],
        shards: Shards,
        *,
        beat: float = BEAT,
        clock: Clock = time.monotonic,
    ) -> None:
        self._client = client
        self._names = names
        self._parts = sorted(parts)
        self._shards = shards
        self._beat = beat
        self._clock = clock
        self._mine: set[Shard] = set()
        self.replicas = Replicas(client, names, identity, self._parts, beat=beat, clock=clock)
        shards.until = -math.inf

    async def run(self) -> None:
        """Until cancelled. What is held when the API server is away for longer is lost, and won again later."""
        tidied = False
        while True:
            began = self._clock()
            try:
                async with asyncio.timeout(self._beat * 2):
                    await self.beat()
                    if not tidied and self._shards.leads(self._parts[0]):
                        await self.replicas.tidy()
                        tidied = True
            except (ApiProblem, Unreachable, TimeoutError) as problem:
                log.warning("the leases were not renewed: %s", str(problem) or "no answer in time")
            self._lose_if_late()
            await asyncio.sleep(max(0.05, self._beat - (self._clock() - began)))

    async def beat(self) -> None:
        """Renews, looks, and brings what is held to this replica's share. Raises the errors of the client."""
        sent = self._clock()
        kept = await self.replicas.renew()
        self._lose_if_late()
        if not kept:
            # Nobody could see that we were alive.
            self._lose()
        self._shards.until = sent + HOLD * self._beat
        leases = {shard: item for item in await self.replicas.look() if (shard := self._shard_of(item)) is not None}
        for shard in list(self._mine):
            if _holder(leases.get(shard)) != self.replicas.identity:
                log.warning("the lease of %s was taken from this replica", self._name(shard))
                self._mine.discard(shard)
        for part in self._parts:
            await self._share(part, leases)
        self._publish()

    async def leave(self) -> bool:
        """Gives everything back; true when no other replica is alive. Raises the errors of the client."""
        given = list(self._mine)
        self._lose()
        leases = {shard: item for item in await self.replicas.look() if (shard := self._shard_of(item)) is not None}
        await asyncio.gather(*(self._write(shard, leases.get(shard), "") for shard in given))
        return await self.replicas.leave()

    async def _share(self, part: str, leases: dict[Shard, Object]) -> None:
        members = sorted([self.replicas.identity, *self.replicas.alive(part)])
        each, more = divmod(SHARDS, len(members))
        quota = each + (members.index(self.replicas.identity) < more)
        mine = sorted(number for p, number in self._mine if p == part)
        for number in mine[quota:]:
            self._mine.discard((part, number))
            self._publish()
            await self._write((part, number), leases.get((part, number)), "")
        shards = [(part, number) for number in range(SHARDS)]
        free = [s for s in shards if s not in self._mine and self._free(s, leases.get(s))]
        taken = free[: max(0, quota - len(mine))]
        won = await asyncio.gather(*(self._write(s, leases.get(s), self.replicas.identity) for s in taken))
        self._mine.update(shard for shard, mine_now in zip(taken, won, strict=True) if mine_now)

    def _free(self, shard: Shard, current: Object | None) -> bool:
        holder = _holder(current)
        return holder in ("", self.replicas.identity) or self.replicas.gone(holder, self._name(shard))

    async def _write(self, shard: Shard, current: Object | None, holder: str) -> bool:
        """Whether the write won: another replica's comes before ours otherwise."""
        name = self._name(shard)
        spec: dict[str, Any] = {"holderIdentity": holder, "acquireTime": now_text(), "renewTime": now_text()}
        before = (current or {}).get("spec") or {}
        spec["leaseTransitions"] = int(before.get("leaseTransitions") or 0) + (_holder(current) != holder)
        obj = lease(self._names, name, "shard", spec)
        try:
            if current is None:
                await self._client.create(LEASE, obj, self._names.namespace)
            else:
                obj["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
                await self._client.replace(LEASE, obj, self._names.namespace)
        except ApiProblem as problem:
            if not (problem.conflict or problem.missing):
                raise
            return False
        if holder and _holder(current) not in ("", holder):
            log.info("took over %s from %s", name, _holder(current))
        return True

    def _lose_if_late(self) -> None:
        if self._mine and self._clock() >= self._shards.until:
            log.warning("this replica could not renew its lease in time: it holds nothing until it can")
            self._lose()

    def _lose(self) -> None:
        self._mine.clear()
        self._publish()

    def _publish(self) -> None:
        for part in self._parts:
            self._shards.set(part, frozenset(number for p, number in self._mine if p == part))

    def _name(self, shard: Shard) -> str:
        return f"{self._names.install}-{shard[0]}-{shard[1]}"

    def _shard_of(self, item: Object) -> Shard | None:
        part, _, number = item["metadata"]["name"].removeprefix(f"{self._names.install}-").rpartition("-")
        return (part, int(number)) if part and number.isdigit() else None


def _holder(obj: Object | None) -> str:
    return str(((obj or {}).get("spec") or {}).get("holderIdentity") or "")
