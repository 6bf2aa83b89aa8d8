"""Work that admission and policies leave for later, as ``UpdateRequest`` objects: written before a request is answered,
done by whoever holds the shard, tried again when it fails, deleted when it is done (semantics §19).

Who has something to leave calls :meth:`UpdateRequests.write`; who does it is registered in ``processors`` by request
type (``generate``, ``mutate``) and must be able to begin again at any time: a crash in the middle is mended by doing
the whole once more.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from uuid import uuid4

import orjson

from runtime.config import Names
from runtime.controllers.clusterconfig import ClusterConfig
from runtime.controllers.leases import Shards
from runtime.k8s.client import KubeClient, Object
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import UPDATE_REQUEST
from runtime.k8s.watch import Backoff, Change, Watcher
from runtime.observe.metrics import Metrics

log = logging.getLogger("thesmos.background.updaterequests")

PART: Final = "background"
CONTROLLER: Final = "update-request-controller"
BREAKER: Final = "update requests"
"""What ``updateRequestThreshold`` is called where breakers are counted."""

WORKERS: Final = 10
MAX_FAILURES: Final = 10
"""Failures after which a request is given up. Kyverno gives up after three in half a minute, while whoever installs the
source of a clone or grants a permission after the policy needs minutes: with the waits below these are five."""
FIRST_RETRY: Final = 1.0
LONGEST_RETRY: Final = 60.0
REFUSED_SECONDS: Final = 30.0
WRITE_SECONDS: Final = 2.0
"""How long a request that is judged waits for its update request: then that is kept here and written later."""
BACKLOG: Final = 10_000
"""Update requests kept here at most while they cannot be written."""
KEPT_BYTES: Final = 16 * 1024
"""A larger spec is not kept but read again when its turn comes."""


@dataclass(frozen=True, slots=True)
class UpdateRequest:
    """One piece of work. ``retries`` counts its failures so far; ``age`` is how many seconds this process knows of
    it: by its own clock, since that of the API server may show another time."""

    name: str
    spec: Mapping[str, Any]
    retries: int = 0
    age: float = 0.0

    @property
    def policy(self) -> str:
        """``name``, or ``namespace/name`` for a namespaced policy."""
        return str(self.spec.get("policy") or "")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of it. ``later``: the world is not so far yet, to be looked at again after ``wait`` seconds; that
    counts as no failure. ``refused``: it never will be, which is shown for a moment."""

    state: Literal["done", "failed", "later", "refused"]
    message: str = ""
    wait: float = 0.0


DONE: Final = Outcome("done")


def failed(message: str) -> Outcome:
    return Outcome("failed", message)


def later(seconds: float) -> Outcome:
    return Outcome("later", wait=seconds)


Processor: TypeAlias = Callable[[UpdateRequest], Awaitable[Outcome]]


@dataclass(slots=True)
class _Item:
    """What is known of an object that waits. ``group``: those of one trigger are done one after another."""

    name: str
    group: str
    kind: str
    policy: str
    version: str
    retries: int
    seen: float
    spec: bytes | None
    due: float = 0.0
    running: bool = False
    refused: bool = False


class UpdateRequests:
    """Writer and queue of one process. :meth:`run` is the queue, for replicas that do background work."""

    name = "update requests"

    def __init__(
        self,
        client: KubeClient,
        names: Names,
        shards: Shards,
        config: Callable[[], ClusterConfig],
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.processors: dict[str, Processor] = {}
        self._client = client
        self._names = names
        self._shards = shards
        self._config = config
        self._metrics = metrics
        self._clock = clock
        self._items: dict[str, _Item] = {}
        metrics.before_reading.append(self._tell_how_many)
        self._busy: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._watcher: Watcher | None = None
        self._backlog: deque[Object] = deque()
        self._flusher: asyncio.Task[None] | None = None
        self._counted = (-1e9, 0)
        self._full = False

    # -- writing

    async def write(self, spec: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> None:
        """Makes an update request. Never raises and takes two seconds at most: what cannot be written by then is kept
        in memory and written as soon as that is possible."""
        metadata: dict[str, Any] = {"name": f"ur-{uuid4().hex[:12]}", "namespace": self._names.namespace}
        if labels:
            metadata["labels"] = dict(labels)
        obj = {
            "apiVersion": UPDATE_REQUEST.api_version,
            "kind": UPDATE_REQUEST.kind,
            "metadata": metadata,
            "spec": dict(spec),
        }
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                if not self._backlog and await self._room():
                    await self._create(obj)
                    return
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            log.warning("an update request of policy %s waits to be written: %s", spec.get("policy"), _said(problem))
        self._keep(obj)

    async def flush(self, seconds: float) -> None:
        """Tries to write what could not be written, before the process ends."""
        try:
            async with asyncio.timeout(seconds):
                while self._backlog:
                    await self._create(self._backlog[0])
                    self._backlog.popleft()
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            log.error("%d update requests are lost: %s", len(self._backlog), _said(problem))

    def _keep(self, obj: Object) -> None:
        if len(self._backlog) >= BACKLOG:
            log.error("an update request of policy %s is lost: %d wait already", obj["spec"].get("policy"), BACKLOG)
            self._metrics.count("kyverno_controller_drop_total", CONTROLLER)
            return
        self._backlog.append(obj)
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._write_backlog(), name="backlog of update requests")

    async def _write_backlog(self) -> None:
        backoff = Backoff(longest=5.0)
        while self._backlog:
            await asyncio.sleep(backoff.next())
            try:
                while self._backlog and await self._room():
                    async with asyncio.timeout(WRITE_SECONDS * 5):
                        await self._create(self._backlog[0])
                    self._backlog.popleft()
                    backoff.reset()
            except (ApiProblem, Unreachable, TimeoutError) as problem:
                log.info("%d update requests wait to be written: %s", len(self._backlog), _said(problem))

    async def _create(self, obj: Object) -> None:
        try:
            await self._client.create(UPDATE_REQUEST, obj, self._names.namespace)
        except ApiProblem as problem:
            if problem.code == 422:
                # No second try makes it right: a mistake of whoever made it, told of and passed over.
                log.error("an update request of policy %s is refused: %s", obj["spec"].get("policy"), problem)
            elif not problem.conflict:  # a try whose answer was lost
                raise
        at, count = self._counted
        self._counted = (at, count + 1)

    async def _room(self) -> bool:
        """Whether fewer wait than the threshold."""
        threshold = self._config().update_request_threshold
        full = await self._count() >= threshold
        if full and not self._full:
            log.warning("%d update requests wait, the limit of updateRequestThreshold: more are held back", threshold)
        self._full = full
        self._metrics.count("kyverno_breaker_total", BREAKER)
        if full:
            self._metrics.count("kyverno_breaker_drops_total", BREAKER)
        return not full

    def _tell_how_many(self) -> None:
        self._metrics.set("kyverno_updaterequest_total", len(self._items), self._names.namespace)

    async def _count(self) -> int:
        if self._watcher is not None and self._watcher.synced.is_set():
            return len(self._items)
        at, count = self._counted
        if self._clock() - at > 2.0:
            page = await self._client.list(UPDATE_REQUEST, self._names.namespace, {"limit": "500"})
            count = len(page.get("items") or ())
            self._counted = (self._clock(), count)
        return count

    @property
    def waiting(self) -> int:
        """How many are known to wait."""
        return len(self._items) + len(self._backlog)

    # -- doing

    async def run(self) -> None:
        """Until cancelled: does what comes, ten at once."""
        self._shards.listen(self._wake.set)
        self._watcher = Watcher(self._client, UPDATE_REQUEST, self._note, keep=_slim, namespace=self._names.namespace)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watcher.run())
                group.create_task(self._dispatch())
        finally:
            self._watcher = None
            for task in self._tasks:
                task.cancel()

    def policies_changed(self) -> None:
        """What failed may work now, or its policy may be gone."""
        for item in self._items.values():
            if item.retries and not item.running:
                item.due = min(item.due, self._clock() + FIRST_RETRY)
        self._wake.set()

    def _note(self, change: Change, obj: Object) -> None:
        name = obj["metadata"]["name"]
        if change == "deleted":
            self._items.pop(name, None)
        elif (known := self._items.get(name)) is not None:
            known.version, known.spec = obj["metadata"]["resourceVersion"], obj["spec"]
            known.retries = max(known.retries, obj["retries"])
        else:
            self._items[name] = _Item(
                name,
                obj["group"] or name,
                obj["kind_of_work"],
                obj["policy"],
                obj["metadata"]["resourceVersion"],
                obj["retries"],
                self._clock(),
                obj["spec"],
            )
        self._wake.set()

    async def _dispatch(self) -> None:
        while True:
            self._wake.clear()
            wait = self._start_due()
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _start_due(self) -> float | None:
        """Starts what can be started; gives the seconds until the next is due, None when that is up to others."""
        now, soonest = self._clock(), None
        for item in self._items.values():
            if len(self._busy) >= WORKERS:
                return None
            if item.running or item.group in self._busy or item.kind not in self.processors:
                continue
            if item.due > now:
                soonest = item.due if soonest is None else min(soonest, item.due)
                continue
            if not self._shards.holds(PART, item.group):
                continue
            item.running = True
            self._busy.add(item.group)
            task = asyncio.create_task(self._work(item), name=f"update request {item.name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return None if soonest is None else max(0.0, soonest - now)

    async def _work(self, item: _Item) -> None:
        try:
            await self._process(item)
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            # The API server is away, or slow: no failure of the request's own.
            log.info("update request %s waits: %s", item.name, _said(problem))
            item.due = self._clock() + FIRST_RETRY
        except Exception:
            log.exception("update request %s could not be worked on", item.name)
            item.due = self._clock() + LONGEST_RETRY
        finally:
            item.running = False
            self._busy.discard(item.group)
            self._wake.set()

    async def _process(self, item: _Item) -> None:
        if item.refused:
            await self._delete(item)
            return
        spec = item.spec
        if spec is None:
            try:
                found = await self._client.get(UPDATE_REQUEST, item.name, self._names.namespace)
            except ApiProblem as problem:
                if problem.missing:
                    self._items.pop(item.name, None)
                    return
                raise
            spec = _encoded(found.get("spec") or {})
        request = UpdateRequest(item.name, orjson.loads(spec), item.retries, self._clock() - item.seen)
        try:
            outcome = await self.processors[item.kind](request)
        except ApiProblem as problem:
            if problem.passing:
                raise
            outcome = failed(str(problem))
        self._metrics.count("kyverno_controller_reconcile_total", CONTROLLER)
        if outcome.state == "later":
            item.due = self._clock() + outcome.wait
            return
        if outcome.state == "refused":
            item.refused = True
            item.due = self._clock() + REFUSED_SECONDS
            await self._tell(item, outcome.message)
            return
        if outcome.state == "failed":
            item.retries += 1
            wait = min(LONGEST_RETRY, FIRST_RETRY * 2.0 ** (item.retries - 1))
            item.due = self._clock() + wait
            self._metrics.count("kyverno_controller_requeue_total", CONTROLLER, str(item.retries))
            if item.retries <= MAX_FAILURES:
                log.warning(
                    "update request %s of policy %s failed (%d), trying again in %.0f s: %s",
                    item.name,
                    item.policy,
                    item.retries,
                    wait,
                    outcome.message,
                )
                await self._tell(item, outcome.message)
                return
            log.error("update request %s of policy %s is given up: %s", item.name, item.policy, outcome.message)
            self._metrics.count("kyverno_controller_drop_total", CONTROLLER)
        await self._delete(item)

    async def _delete(self, item: _Item) -> None:
        await self._client.delete(UPDATE_REQUEST, item.name, self._names.namespace)
        # The watch tells a moment later; until then it must not be done again.
        item.due = self._clock() + LONGEST_RETRY

    async def _tell(self, item: _Item, message: str) -> None:
        status = {"state": "Failed", "message": message[:1024], "retryCount": item.retries}
        try:
            await self._client.patch(UPDATE_REQUEST, item.name, {"status": status}, self._names.namespace, "status")
        except ApiProblem as problem:
            if not problem.missing:
                raise
            self._items.pop(item.name, None)


def _slim(obj: Object) -> Object:
    """What is kept of an update request: its spec as bytes where it is small, and what the queue goes by."""
    metadata, spec, status = obj.get("metadata") or {}, obj.get("spec") or {}, obj.get("status") or {}
    encoded = _encoded(spec)
    retries = status.get("retryCount")
    kept = {key: str(metadata.get(key) or "") for key in ("name", "namespace", "resourceVersion")}
    return {
        "metadata": kept,
        "group": group_of(spec),
        "kind_of_work": str(spec.get("requestType") or "generate"),
        "policy": str(spec.get("policy") or ""),
        "retries": retries if type(retries) is int else 0,
        "spec": encoded if len(encoded) <= KEPT_BYTES else None,
    }


def _encoded(spec: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(spec)
    except orjson.JSONEncodeError:
        # Objects nest more deeply than 254 levels only where somebody means harm; the API server takes them.
        return json.dumps(spec).encode()


def group_of(spec: Mapping[str, Any]) -> str:
    """What the work of a request is about: the uid of its trigger; empty where it is about several."""
    contexts = spec.get("ruleContext") or ()
    triggers = {str((c.get("trigger") or {}).get("uid") or "") for c in contexts if isinstance(c, dict)}
    if not triggers:
        return str((spec.get("resource") or {}).get("uid") or "")
    return triggers.pop() if len(triggers) == 1 else ""


def _said(problem: BaseException) -> str:
    return str(problem) or "no answer in time"
