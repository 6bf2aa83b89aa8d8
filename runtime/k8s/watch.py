"""Keeps a local copy of a collection in step with the API server: list, watch, and list again when history is gone.

Controllers make one :class:`Watcher` a resource and get told of every change; a restart of the API server, a broken
connection or ``410 Gone`` ends in a fresh list that is compared with the copy, so that nothing is missed and nothing is
told twice.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

from runtime.k8s.client import KubeClient, Object, Resource
from runtime.k8s.errors import ApiProblem, Expired, Unreachable

log = logging.getLogger("thesmos.watch")

Key: TypeAlias = tuple[str, str]
"""(namespace, name); the namespace is "" for cluster-wide objects."""

Change: TypeAlias = Literal["added", "changed", "deleted"]
Listener: TypeAlias = Callable[[Change, Object], None]

FIRST_WAIT: Final = 0.2
LONGEST_WAIT: Final = 10.0
"""Seconds between tries. Short enough that a policy is live soon after the API server is back."""


def key_of(obj: Mapping[str, Any]) -> Key:
    metadata = obj.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


class Backoff:
    """Waits that double up to a limit, with jitter so that replicas do not come back in step."""

    def __init__(self, first: float = FIRST_WAIT, longest: float = LONGEST_WAIT) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def reset(self) -> None:
        self._next = self._first

    def next(self) -> float:
        wait = self._next
        self._next = min(self._longest, wait * 2)
        return wait * (0.75 + random.random() / 2)


class Watcher:
    """One collection. ``objects`` is the copy; ``synced`` is set after the first list."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        listener: Listener,
        *,
        keep: Callable[[Object], Object] = lambda obj: obj,
        namespace: str = "",
        query: Mapping[str, str] | None = None,
    ) -> None:
        """``keep`` makes of an object what is kept of it; ``namespace`` limits the collection to one, ``query`` by
        labels or fields."""
        self.resource = resource
        self.objects: dict[Key, Object] = {}
        self.synced = asyncio.Event()
        self._client = client
        self._listener = listener
        self._keep = keep
        self._namespace = namespace
        self._query = query

    async def run(self) -> None:
        """Until cancelled."""
        backoff = Backoff()
        while True:
            try:
                version = await self._list()
                while True:
                    version = await self._watch(version, backoff)
            except Expired:
                log.info("%s: history is gone, listing again", self.resource.plural)
                continue
            except (ApiProblem, Unreachable) as problem:
                wait = backoff.next()
                log.warning("%s: %s, trying again in %.1f s", self.resource.plural, problem, wait)
                await asyncio.sleep(wait)

    async def _list(self) -> str:
        listed = await self._client.list(self.resource, self._namespace, self._query)
        now: dict[Key, Object] = {}
        for item in listed["items"]:
            # Items of a list carry neither: the list does.
            item.setdefault("apiVersion", self.resource.api_version)
            item.setdefault("kind", self.resource.kind)
            now[key_of(item)] = self._keep(item)
        before, self.objects = self.objects, now
        for key, obj in before.items():
            if key not in now:
                self._listener("deleted", obj)
        for key, obj in now.items():
            old = before.get(key)
            if old is None:
                self._listener("added", obj)
            elif _version(old) != _version(obj):
                self._listener("changed", obj)
        self.synced.set()
        return str((listed.get("metadata") or {}).get("resourceVersion") or "0")

    async def _watch(self, version: str, backoff: Backoff) -> str:
        async for event in self._client.watch(self.resource, version, self._namespace, self._query):
            backoff.reset()
            obj = event["object"]
            version = _version(obj) or version
            if event["type"] == "BOOKMARK":
                continue
            key = key_of(obj)
            kept = self._keep(obj)
            if event["type"] == "DELETED":
                if self.objects.pop(key, None) is not None:
                    self._listener("deleted", kept)
                continue
            old = self.objects.get(key)
            self.objects[key] = kept
            if old is None:
                self._listener("added", kept)
            elif _version(old) != _version(kept):
                self._listener("changed", kept)
        return version


def _version(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("resourceVersion") or "")
