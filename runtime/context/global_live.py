"""The global context without a controller that keeps it (``runtime.controllers.globalcontext``): entries are read, and
their data kept, when a policy asks for them.

Objects of a resource are as old as a burst of requests at most; the answer to an API call is kept for the entry's
``refreshInterval``. An entry that fails is an ``Err``, which is kept as long, so that a broken one is not hammered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runtime.context.global_entries import GlobalEntry
from runtime.k8s.client import KubeClient, Object, Resource
from runtime.k8s.errors import ApiProblem, Unreachable
from vm.intrinsics.duration import SECOND, parse_duration
from vm.values import Err, Value

ENTRIES: Final = Resource("kyverno.io", "v2", "globalcontextentries", "GlobalContextEntry", namespaced=False)
OBJECT_SECONDS: Final = 2.0
REFRESH_SECONDS: Final = 600.0
RETRIES: Final = 3
MAX_KEPT: Final = 256
"""Names may be formed from requests, so that nothing else bounds how many there are."""

Call = Callable[[Mapping[str, Any], str], Awaitable[Value]]
"""Answers the API call of an entry: its payload, and the entry's name."""


@dataclass(frozen=True, slots=True)
class _Kept:
    until: float
    entry: GlobalEntry


class GlobalContext:
    """``call`` answers API and service calls."""

    def __init__(self, client: KubeClient, call: Call) -> None:
        self._client = client
        self._call = call
        self._kept: dict[str, _Kept] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    @property
    def kept(self) -> int:
        """How many names are held."""
        return max(len(self._kept), len(self._locks))

    async def read(self, reference: str) -> Value:
        """The data behind ``name`` or ``name.projection``, an ``Err`` when it cannot be had."""
        name, _, projection = reference.partition(".")
        if len(self._locks) >= MAX_KEPT and name not in self._locks:
            # Whoever waits for one of these locks keeps it; at worst two ask for the same name.
            self._kept.clear()
            self._locks.clear()
        async with self._locks.setdefault(name, asyncio.Lock()):
            kept = self._kept.get(name)
            if kept is None or kept.until < time.monotonic():
                kept = await self._load(name)
                self._kept[name] = kept
        return kept.entry.read(projection)

    async def _load(self, name: str) -> _Kept:
        try:
            spec = (await self._client.get(ENTRIES, name)).get("spec") or {}
        except ApiProblem as problem:
            said = f"failed to fetch entry key={name}" if problem.missing else str(problem)
            return _Kept(time.monotonic() + OBJECT_SECONDS, GlobalEntry(Err("host", said)))
        except (Unreachable, TimeoutError) as problem:
            return _Kept(0.0, GlobalEntry(Err("host", f"the API server cannot be asked: {problem}")))
        wanted, call = spec.get("kubernetesResource"), spec.get("apiCall") or {}
        if wanted:
            data, seconds = await self._objects(wanted), OBJECT_SECONDS
        else:
            data, seconds = await called(self._call, call, name), interval(str(call.get("refreshInterval")))
        return _Kept(time.monotonic() + seconds, GlobalEntry(data, projections_of(spec)))

    async def _objects(self, wanted: Mapping[str, Any]) -> Value:
        group, version, plural = (str(wanted.get(key) or "") for key in ("group", "version", "resource"))
        resource = Resource(group, version, plural, "", namespaced=True)
        try:
            page = await self._client.list(resource, str(wanted.get("namespace") or ""))
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            return Err("host", str(problem))
        kind = str(page.get("kind") or "").removesuffix("List")
        stated: Object = {"apiVersion": resource.api_version, **({"kind": kind} if kind else {})}
        return [{**stated, **item} for item in page.get("items") or ()]


def projections_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """The queries of an entry's projections by name."""
    return {str(p.get("name")): str(p.get("jmesPath")) for p in spec.get("projections") or ()}


async def called(put: Call, call: Mapping[str, Any], name: str) -> Value:
    """The answer to the API call of an entry, after as many tries as it says; an ``Err`` when none worked."""
    payload = {key: value for key, value in call.items() if key in ("urlPath", "service", "method")}
    if call.get("data"):
        payload["data"] = {str(d.get("key")): d.get("value") for d in call["data"]}
    found: Value = Err("host", "it has no call")
    for attempt in range(int(call.get("retryLimit") or RETRIES)):
        if attempt:
            await asyncio.sleep(min(0.1 * 2**attempt, 2.0))
        found = await put(payload, name)
        if type(found) is not Err:
            break
    return found


def interval(text: str) -> float:
    """Seconds of a duration as Go writes it; ten minutes for a text that is none."""
    nanoseconds = parse_duration(text)
    return nanoseconds / SECOND if nanoseconds is not None and nanoseconds > 0 else REFRESH_SECONDS
