"""Watches the kinds that the guide's cleanup rules match: an object that is created or changed may have to go at once,
or set off the removal of others (decision 5).

A watch sees what admission does not: that a Job is complete is written by way of its status. Nothing is kept of the
objects.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from runtime.cleanup import sets_off
from runtime.controllers.installation import Installation
from runtime.controllers.places import listed
from runtime.controllers.sweep import Sweeper, Swept
from runtime.engine import Engine
from runtime.k8s.client import Object, Resource
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.stream import Listener, Stream

if TYPE_CHECKING:
    from runtime.controllers.cleaning import Task, TaskKey

log = logging.getLogger("thesmos.background.cleanup")

PART: Final = "cleanup"
EVERY: Final = 5.0
"""Seconds between two sweeps that changes of objects set off."""
WATCHED: Final = frozenset(["list", "watch"])
QUEUED: Final = 200
"""Objects that wait to be judged; when there are more, the rules sweep instead."""


class Changes:
    """``hurry`` makes a rule due."""

    def __init__(self, installation: Installation, sweeper: Sweeper, hurry: Callable[[TaskKey], None]) -> None:
        self._installation = installation
        self._sweeper = sweeper
        self._hurry = hurry
        self._engine: Engine | None = None
        self._tasks: Sequence[Task] = ()
        self._streams: dict[tuple[str, str], tuple[Resource, asyncio.Task[None]]] = {}
        self._queue: asyncio.Queue[tuple[Resource, Object]] = asyncio.Queue(QUEUED)
        self._swept: dict[TaskKey, float] = {}
        self._wake = asyncio.Event()

    def follow(self, engine: Engine, tasks: Sequence[Task]) -> None:
        """From now on these are the rules."""
        self._engine, self._tasks = engine, tasks
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        self._installation.shards.listen(self._wake.set)
        judging = asyncio.create_task(self._judge_all(), name="cleanup of changed objects")
        try:
            while True:
                self._wake.clear()
                try:
                    await self._watch()
                except (ApiProblem, Unreachable, TimeoutError) as problem:
                    log.warning("what cleanup rules match is not watched yet: %s", problem)
                    await asyncio.sleep(1.0)
                    continue
                await self._wake.wait()
        finally:
            judging.cancel()
            for _, task in self._streams.values():
                task.cancel()

    async def _watch(self) -> None:
        """Opens and closes watches, so that they are those of the rules."""
        wanted: dict[tuple[str, str], Resource] = {}
        if self._tasks:
            discovery = await self._installation.discovery(False)
            for task in self._ours():
                for match in task.keys:
                    kind = match.kind
                    for r in listed(discovery, [kind.group, kind.version, kind.kind, kind.subresource], WATCHED):
                        wanted.setdefault((r.group, r.plural), r)
        for key, (resource, running) in list(self._streams.items()):
            if wanted.get(key) != resource:
                running.cancel()
                del self._streams[key]
        for key, resource in wanted.items():
            if key not in self._streams:
                stream = Stream(self._installation.client, resource, self._listener(resource))
                self._streams[key] = resource, asyncio.create_task(stream.run(), name=f"cleanup of {resource.plural}")

    def _ours(self) -> Iterable[Task]:
        return [t for t in self._tasks if self._installation.shards.holds(PART, t.shard_key)]

    def _listener(self, resource: Resource) -> Listener:
        def all_due() -> None:
            for task in self._ours():
                self._hurry(task.key)

        async def each(obj: Object, listed: bool) -> None:
            if listed:
                return
            try:
                self._queue.put_nowait((resource, obj))
            except asyncio.QueueFull:
                all_due()

        # What happened before a list is found by a sweep after it.
        return Listener(begin=lambda: None, each=each, end=all_due, gone=lambda obj: None)

    async def _judge_all(self) -> None:
        while True:
            resource, obj = await self._queue.get()
            for task in self._ours():
                try:
                    await self._judge(task, resource, obj)
                except (ApiProblem, Unreachable, TimeoutError) as problem:
                    log.warning("%s: a change is looked at later: %s", task.plan.policy.key, problem)
                    self._hurry(task.key)
                except Exception:
                    log.exception("%s: a change could not be looked at", task.plan.policy.key)
            await asyncio.sleep(0)

    async def _judge(self, task: Task, resource: Resource, obj: Object) -> None:
        engine, plan = self._engine, task.plan
        if engine is None:
            return
        ask = self._installation.ask
        if not await self._sweeper.judge(resource, obj, ask, lambda request: sets_off(engine, plan, request)):
            return
        await self._sweeper.remove(engine, plan, task.policy, resource, obj, ask, Swept())
        now, last = time.monotonic(), self._swept.get(task.key, -EVERY)
        if now - last >= EVERY:
            self._swept[task.key] = now
            self._hurry(task.key)
        else:
            asyncio.get_running_loop().call_later(EVERY - (now - last), self._hurry_later, task.key, last)

    def _hurry_later(self, key: TaskKey, seen: float) -> None:
        """Sweeps once after a burst of changes: those that came in the meantime wait for the same."""
        if self._swept.get(key) == seen:
            self._swept[key] = time.monotonic()
            self._hurry(key)
