"""Events that people see with ``kubectl get events``: queued without waiting, written in the background.

Controllers and the webhook call :meth:`Events.emit` (mostly through ``runtime.observe.policy_events``);
:meth:`Events.run` writes ``events.k8s.io/v1`` objects. An event is a write in etcd as a Pod is: there is a limit on how
many are written, and what is told again becomes a series of the first instead of another object.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import uuid4

from runtime.config import Settings
from runtime.k8s.client import KubeClient, Resource
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.watch import Backoff
from runtime.observe.logs import fields
from runtime.observe.metrics import Metrics

log = logging.getLogger("thesmos.events")

EVENT: Final = Resource("events.k8s.io", "v1", "events", "Event")
LONGEST_NOTE: Final = 1024
"""Bytes of a note that the API server takes."""
LONGEST_NAME: Final = 200
"""Characters that the name of an event takes over from the object it is about; the API server takes 253 in all."""

VIOLATION: Final = "PolicyViolation"
APPLIED: Final = "PolicyApplied"
FAILED: Final = "PolicyError"
SKIPPED: Final = "PolicySkipped"
REASONS: Final = (VIOLATION, APPLIED, FAILED, SKIPPED)

SERIES_SECONDS: Final = 360.0
"""How long after the last time the same event still belongs to a series, as in Kubernetes' own recorder."""
SERIES_EVERY: Final = 10.0
"""Seconds between two writes of how often events were told again."""
MOST_SERIES: Final = 2000
COMPLAINT_SECONDS: Final = 60.0
TRIES: Final = 5

_OUTSIDE: Final = re.compile(r"[^a-z0-9.-]+|\.(?=[.-])|(?<=[.-])\.")

Type = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class Limits:
    """``omitted`` are reasons that are not told of. ``queued`` is how many events wait at most: more are dropped, since
    telling must never hold up deciding. ``per_second`` is how many are written in the long run, ``burst`` at once."""

    omitted: frozenset[str] = frozenset()
    queued: int = 1000
    per_second: float = 50.0
    burst: int = 100


def limits_of(settings: Settings) -> Limits:
    """The limits of an installation."""
    return Limits(settings.omit_events, settings.max_queued_events, settings.events_per_second, settings.events_burst)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing to tell. ``regarding`` and ``related`` are references."""

    reason: str
    action: str
    message: str
    regarding: Mapping[str, str]
    related: Mapping[str, str] | None
    reporter: str
    type: Type
    at: datetime

    @property
    def key(self) -> tuple[object, ...]:
        """What two events of one series have in common."""
        related = None if self.related is None else tuple(self.related.items())
        return (self.reporter, self.reason, self.action, self.message, tuple(self.regarding.items()), related)


@dataclass(slots=True)
class _Series:
    """An event that was told: ``name`` is empty until it is written. ``count`` is how often, ``written`` how often
    the API server knows of."""

    namespace: str
    last: datetime
    name: str = ""
    count: int = 1
    written: int = 1


class Events:
    """``instance`` names this process as the reporting instance. ``successes`` tells whether a success with this action
    is told of (``generateSuccessEvents`` and ``successEventActions`` of the ConfigMap)."""

    def __init__(
        self,
        client: KubeClient,
        instance: str,
        metrics: Metrics,
        limits: Limits = Limits(),
        successes: Callable[[str], bool] = lambda action: False,
    ) -> None:
        self._client = client
        self._instance = instance
        self._metrics = metrics
        self._limits = limits
        self._successes = successes
        self._queue: asyncio.Queue[Event] = asyncio.Queue(limits.queued)
        self._series: OrderedDict[tuple[object, ...], _Series] = OrderedDict()
        self._again: set[tuple[object, ...]] = set()
        self._tokens = float(limits.burst)
        self._filled = time.monotonic()
        self._complained = -COMPLAINT_SECONDS
        self._unwritten = 0

    def wants(self, reason: str, action: str = "") -> bool:
        """Whether such an event would be written: asked before work is put into it."""
        return reason not in self._limits.omitted and (reason != APPLIED or self._successes(action))

    def emit(
        self,
        reason: str,
        action: str,
        message: str,
        regarding: Mapping[str, Any],
        *,
        related: Mapping[str, Any] | None = None,
        reporter: str = "kyverno-admission",
        type: Type | None = None,
    ) -> None:
        """Queues an event; drops it when too many wait, or when the object has no name yet (``generateName``).

        ``regarding`` and ``related`` are objects, of which the reference is taken. Violations and errors are warnings
        unless ``type`` says otherwise.
        """
        about = reference(regarding)
        if "name" not in about or not self.wants(reason, action):
            return
        event = Event(
            reason,
            action,
            _cut(message),
            about,
            None if related is None else reference(related),
            reporter,
            type or ("Warning" if reason in (VIOLATION, FAILED) else "Normal"),
            datetime.now(UTC),
        )
        if log.isEnabledFor(logging.DEBUG):
            log.debug(
                "event",
                extra=fields(
                    reason=reason, action=action, note=event.message, reporter=reporter, kind=about.get("kind", ""),
                    namespace=about.get("namespace", ""), name=about["name"],
                ),
            )  # fmt: skip
        key = event.key
        known = self._series.get(key)
        if known is not None and (event.at - known.last).total_seconds() < SERIES_SECONDS:
            known.count += 1
            known.last = event.at
            self._series.move_to_end(key)
            self._again.add(key)
            return
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self._metrics.count("kyverno_events_dropped_total")
            return
        self._series[key] = _Series(about.get("namespace") or "default", event.at)
        while len(self._series) > MOST_SERIES:
            self._again.discard(self._series.popitem(last=False)[0])

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_new())
            group.create_task(self._write_series())

    async def _write_new(self) -> None:
        while True:
            event = await self._queue.get()
            await self._token()
            try:
                name = await self._create(event)
            except Exception:
                # One event that cannot be written must not end the telling of all others.
                log.exception("an event could not be written")
                name = None
            series = self._series.get(event.key)
            if name is None:
                # What could not be told may be told the next time.
                self._series.pop(event.key, None)
                self._again.discard(event.key)
                self._metrics.count("kyverno_events_dropped_total")
            elif series is not None:
                series.name = name
            self._queue.task_done()

    async def flush(self, seconds: float) -> None:
        """Waits until all that was told is written, at most so long: this process is about to end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._queue.join()

    async def _create(self, event: Event) -> str | None:
        """The name under which it was written. An API server that is away is waited for, for a while."""
        namespace = event.regarding.get("namespace") or "default"
        backoff = Backoff()
        for attempt in range(TRIES):
            made = self._object(event, namespace)
            try:
                await self._client.create(EVENT, made, namespace)
                return str(made["metadata"]["name"])
            except ApiProblem as problem:
                # Its namespace is going, or this account may not: neither gets better by trying again.
                self._complain(problem)
                return None
            except (Unreachable, TimeoutError) as problem:
                if attempt == TRIES - 1:
                    self._complain(problem)
                    return None
                await asyncio.sleep(backoff.next())
        return None

    def _complain(self, problem: object) -> None:
        """Once a minute: an account that may write no events would fill the log."""
        now = time.monotonic()
        self._unwritten += 1
        if now - self._complained >= COMPLAINT_SECONDS:
            log.warning("events were not written (%d): %s", self._unwritten, problem)
            self._complained = now
            self._unwritten = 0

    async def _write_series(self) -> None:
        while True:
            await asyncio.sleep(SERIES_EVERY)
            again, self._again = self._again, set()
            for key in again:
                series = self._series.get(key)
                if series is None or series.count == series.written:
                    continue
                if not series.name:
                    self._again.add(key)
                    continue
                await self._token()
                try:
                    await self._write_count(key, series)
                except Exception:
                    log.exception("a series of events could not be written")
                    self._series.pop(key, None)

    async def _write_count(self, key: tuple[object, ...], series: _Series) -> None:
        count = series.count
        change = {"series": {"count": count, "lastObservedTime": _time(series.last)}}
        try:
            await self._client.patch(EVENT, series.name, change, series.namespace)
            series.written = count
        except ApiProblem as problem:
            # Events live for an hour: the next time makes a new one.
            self._series.pop(key, None)
            if not problem.missing:
                self._complain(problem)
        except (Unreachable, TimeoutError):
            self._again.add(key)

    async def _token(self) -> None:
        """Waits until another event may be written."""
        while True:
            now = time.monotonic()
            limits = self._limits
            self._tokens = min(float(limits.burst), self._tokens + (now - self._filled) * limits.per_second)
            self._filled = now
            if self._tokens >= 1:
                self._tokens -= 1
                return
            await asyncio.sleep((1 - self._tokens) / limits.per_second)

    def _object(self, event: Event, namespace: str) -> dict[str, Any]:
        made: dict[str, Any] = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": f"{_name(event.regarding['name'])}.{uuid4().hex[:16]}", "namespace": namespace},
            "eventTime": _time(event.at),
            "type": event.type,
            "reason": event.reason,
            "action": event.action,
            "note": event.message,
            "regarding": dict(event.regarding),
            "reportingController": event.reporter,
            "reportingInstance": f"{event.reporter}-{self._instance}"[:128],
        }
        if event.related is not None:
            made["related"] = dict(event.related)
        return made


def reference(obj: Mapping[str, Any]) -> dict[str, str]:
    """The reference to an object, without the parts that are not there."""
    metadata = obj.get("metadata") or {}
    found = {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
    }
    return {key: str(value) for key, value in found.items() if value}


def _name(name: str) -> str:
    """A name that events may have: roles are called ``system:node``, and names may be 253 characters long."""
    return _OUTSIDE.sub("-", name.lower())[:LONGEST_NAME].strip("-.") or "unnamed"


def _cut(text: str) -> str:
    """A note that the API server takes."""
    if text.isascii() and len(text) <= LONGEST_NOTE:
        return text
    encoded = text.encode(errors="replace")
    if len(encoded) <= LONGEST_NOTE:
        return encoded.decode()
    return encoded[: LONGEST_NOTE - 3].decode(errors="ignore") + "..."


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
