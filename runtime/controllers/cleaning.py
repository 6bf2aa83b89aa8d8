"""Runs cleanup policies by their clock, and the guide's rules with ``cleanup`` when they come, when objects change, and
by theirs (semantics §25, decision 5).

When a policy is due again follows from its ``lastExecutionTime``, so that a run that was missed while nobody was there
is made up for once, whoever runs it. :mod:`runtime.controllers.sweep` does a run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from runtime.cleanup import next_run
from runtime.controllers.changes import Changes
from runtime.controllers.installation import Installation
from runtime.controllers.places import places_of
from runtime.controllers.policy import Entry, ObjectKey
from runtime.controllers.sweep import Sweeper, Swept, is_guides
from runtime.engine import Engine
from runtime.k8s.client import Object
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import CLEANUP_POLICY, CLUSTER_CLEANUP_POLICY
from runtime.policyset import RulePlan
from vm.code import MatchKey

log = logging.getLogger("thesmos.background.cleanup")

PART: Final = "cleanup"
AT_ONCE: Final = 4
"""Sweeps that run at the same time."""
LONGEST_SLEEP: Final = 20.0
"""Seconds after which the clock is looked at again, whatever was due before: it may have been set."""
RETRIES: Final = 5
FIRST_RETRY: Final = 2.0
"""Seconds until a run with problems is tried again; each time twice as long."""
STATUS: Final = {"ClusterCleanupPolicy": CLUSTER_CLEANUP_POLICY, "CleanupPolicy": CLEANUP_POLICY}

NAMESPACED: Final = ("Policy", "CleanupPolicy")

TaskKey = tuple[ObjectKey, str]
"""The policy and the rule."""


@dataclass(slots=True)
class Task:
    """A rule that removes objects, and when it is due (seconds of the epoch). ``digest`` tells its version."""

    key: TaskKey
    digest: bytes
    plan: RulePlan
    keys: tuple[MatchKey, ...]
    policy: Object
    due: float
    tries: int = 0
    running: bool = field(default=False)

    @property
    def schedule(self) -> str:
        return str((self.plan.meta.get("cleanup") or {}).get("schedule"))

    @property
    def shard_key(self) -> str:
        """By what replicas share the tasks out."""
        return "/".join((*self.key[0], self.key[1]))

    def next(self, now: float) -> float:
        """When the schedule is due after ``now``."""
        return next_run(self.schedule, datetime.fromtimestamp(now, UTC)).timestamp()


class Cleaning:
    """The part ``cleanup`` of an installation."""

    name = "cleanup policies"

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._shards = installation.shards
        self._sweeper = Sweeper(installation)
        self._tasks: dict[TaskKey, Task] = {}
        self._engine: Engine | None = None
        self._version: tuple[bytes, ...] = ()
        self._stale = True
        self._wake = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._changes = Changes(installation, self._sweeper, self._hurry)

    def policies_changed(self) -> None:
        self._stale = True
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        self._shards.listen(self._wake.set)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._changes.run())
                group.create_task(self._loop())
        finally:
            for task in self._running:
                task.cancel()

    async def _loop(self) -> None:
        while True:
            self._wake.clear()
            try:
                if self._stale:
                    self._stale = False
                    await self._take_in()
                wait = self._start_due()
            except Exception:
                log.exception("cleanup policies could not be taken in")
                wait = LONGEST_SLEEP
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _take_in(self) -> None:
        """Makes the tasks those of the live policies; what is known of one whose version stays is kept."""
        found = list(removing(self._installation.policies.entries.items()))
        exempting = [
            e.good.digest for e in self._installation.policies.entries.values() if e.good and e.good.model is None
        ]
        version = (*(entry.good.digest for _, entry, _, _ in found if entry.good), *exempting)
        if self._engine is None or version != self._version:
            wanted = {key for key, _, _, _ in found}
            self._engine = await asyncio.to_thread(
                self._installation.policies.engine_of,
                lambda model: (model.kind, model.namespace if model.kind in NAMESPACED else "", model.name) in wanted,
            )
            self._version = version
        plans = {
            ((plan.policy.kind, plan.policy.namespace or "", plan.policy.name), plan.name): plan
            for plan in self._engine.policies.rules
        }
        now, tasks = time.time(), {}
        for key, entry, rule, keys in found:
            plan = plans.get((key, rule))
            if plan is None or entry.good is None:
                continue
            known = self._tasks.get((key, rule))
            same = known is not None and known.digest == entry.good.digest
            task = (
                known
                if known is not None and same
                else Task((key, rule), entry.good.digest, plan, keys, entry.obj, now)
            )
            task.plan, task.policy = plan, entry.obj
            if not is_guides(plan) and not task.running:
                # Another replica may have run it.
                task.due = max(task.due, self._due(task, now)) if same else self._due(task, now)
            tasks[key, rule] = task
        self._tasks = tasks
        self._changes.follow(self._engine, [t for t in tasks.values() if is_guides(t.plan)])

    def _due(self, task: Task, now: float) -> float:
        """When a cleanup policy is due: after its last run, after it was made when there was none."""
        status, metadata = task.policy.get("status") or {}, task.policy.get("metadata") or {}
        last = _seconds(status.get("lastExecutionTime")) or _seconds(metadata.get("creationTimestamp")) or now
        return task.next(min(last, now))

    def _hurry(self, key: TaskKey) -> None:
        """Something set off a rule of the guide: it is due now."""
        task = self._tasks.get(key)
        if task is not None:
            task.due = min(task.due, time.time())
            self._wake.set()

    def _start_due(self) -> float:
        """Starts what is due and ours; gives the seconds until something is due next."""
        now, wait = time.time(), LONGEST_SLEEP
        for task in self._tasks.values():
            if task.running or not self._shards.holds(PART, task.shard_key):
                continue
            if task.due > now:
                wait = min(wait, task.due - now)
            elif len(self._running) < AT_ONCE:
                task.running = True
                run = asyncio.create_task(self._run(task), name=f"cleanup {task.plan.policy.key}")
                self._running.add(run)
                run.add_done_callback(self._running.discard)
        return wait

    async def _run(self, task: Task) -> None:
        started = time.time()
        # What sets the rule off again from here on makes it due once more.
        task.due = float("inf")
        try:
            swept = await self._sweep(task)
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            swept = Swept()
            swept.fail(str(problem) or "no answer in time")
        except Exception:
            log.exception("%s: the cleanup failed", task.plan.policy.key)
            swept = Swept()
            swept.fail("the cleanup failed")
        finally:
            task.running = False
        self._settle(task, swept, started)
        if not swept.problems and not is_guides(task.plan):
            await self._write(task, started)
        self._wake.set()

    def _settle(self, task: Task, swept: Swept, started: float) -> None:
        """Says when a task is due again, and tells of the run."""
        name, metrics = task.plan.policy.key, self._installation.metrics
        metrics.count("kyverno_controller_reconcile_total", "cleanup-controller")
        scheduled = task.next(time.time())
        if not swept.problems:
            task.tries = 0
            task.due = min(task.due, scheduled)
            log.info("%s: %d removed in %.2f s", name, swept.deleted, time.time() - started)
            return
        if task.tries >= RETRIES:
            task.tries = 0
            task.due = min(task.due, scheduled)
            log.error("%s: given up until it is due again, %d problems: %s", name, swept.problems, swept.last)
            return
        wait = FIRST_RETRY * 2.0**task.tries
        task.tries += 1
        task.due = min(task.due, time.time() + wait)
        metrics.count("kyverno_controller_requeue_total", "cleanup-controller", str(task.tries))
        log.warning("%s: %d problems, trying again in %.0f s: %s", name, swept.problems, wait, swept.last)

    async def _sweep(self, task: Task) -> Swept:
        if self._engine is None:
            return Swept()
        places = places_of(await self._installation.discovery(False), task.plan, task.keys)
        if not places:
            # The kind may have come a moment ago.
            places = places_of(await self._installation.discovery(True), task.plan, task.keys)
        return await self._sweeper.sweep(self._engine, task.plan, task.policy, places)

    async def _write(self, task: Task, started: float) -> None:
        kind, namespace, name = task.key[0]
        stamp = datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            await self._installation.client.patch(
                STATUS[kind], name, {"status": {"lastExecutionTime": stamp}}, namespace, "status"
            )
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            # It runs once more after a restart, which removes nothing that may stay.
            log.warning("%s: the time of the run was not written: %s", task.plan.policy.key, problem)


def removing(
    entries: Iterable[tuple[ObjectKey, Entry]],
) -> Iterator[tuple[ObjectKey, Entry, str, tuple[MatchKey, ...]]]:
    """The rules of policies that remove objects: the policy's key and entry, the rule's name and what it may match."""
    for key, entry in entries:
        if entry.good is None or entry.good.model is None:
            continue
        for policy in entry.good.module.policies:
            for rule in policy.rules:
                if rule.kind == "cleanup":
                    yield key, entry, rule.name, rule.keys


def _seconds(stamp: Any) -> float:
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except ValueError:
        return 0.0
