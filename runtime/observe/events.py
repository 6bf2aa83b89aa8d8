"""Events that people see with ``kubectl get events``: queued without waiting, written in the background.

Controllers and the webhook call :meth:`Events.emit`; :meth:`Events.run` writes ``events.k8s.io/v1`` objects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import uuid4

from runtime.k8s.client import KubeClient, Resource
from runtime.k8s.errors import ApiProblem, Unreachable

log = logging.getLogger("thesmos.events")

EVENT: Final = Resource("events.k8s.io", "v1", "events", "Event")
QUEUED: Final = 1000
"""Events that wait at most: more are dropped, since telling must never hold up deciding."""
LONGEST_NOTE: Final = 1024
"""Characters of a note that the API server takes."""

Type = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing to tell. ``regarding`` and ``related`` are objects, of which the reference is taken."""

    reason: str
    action: str
    message: str
    regarding: Mapping[str, Any]
    related: Mapping[str, Any] | None
    reporter: str
    type: Type


class Events:
    """``instance`` names this process as the reporting instance."""

    def __init__(self, client: KubeClient, instance: str) -> None:
        self._client = client
        self._instance = instance
        self._queue: asyncio.Queue[Event] = asyncio.Queue(QUEUED)
        self.dropped = 0

    def emit(
        self,
        reason: str,
        action: str,
        message: str,
        regarding: Mapping[str, Any],
        *,
        related: Mapping[str, Any] | None = None,
        reporter: str = "kyverno-admission",
        type: Type = "Normal",
    ) -> None:
        """Queues an event; drops it when too many wait."""
        try:
            self._queue.put_nowait(Event(reason, action, message, regarding, related, reporter, type))
        except asyncio.QueueFull:
            self.dropped += 1

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            event = await self._queue.get()
            namespace = reference(event.regarding).get("namespace") or "default"
            try:
                await self._client.create(EVENT, self._object(event, namespace), namespace)
            except (ApiProblem, Unreachable, TimeoutError) as problem:
                log.info("an event was not written: %s", problem)

    def _object(self, event: Event, namespace: str) -> dict[str, Any]:
        name = str((event.regarding.get("metadata") or {}).get("name") or "unnamed")
        made: dict[str, Any] = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": f"{name}.{uuid4().hex[:16]}", "namespace": namespace},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": event.type,
            "reason": event.reason,
            "action": event.action,
            "note": event.message[:LONGEST_NOTE],
            "regarding": reference(event.regarding),
            "reportingController": event.reporter,
            "reportingInstance": f"{event.reporter}-{self._instance}"[:128],
        }
        if event.related is not None:
            made["related"] = reference(event.related)
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
