"""The data of one GlobalContextEntry in a cluster: objects of a resource that a watch keeps current, or the answer to a
call that is put again and again. ``runtime.controllers.globalcontext`` makes one for each entry.

Objects are kept as JSON, a sixth of what they take once decoded, and decoded for those who read them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import orjson

from runtime.context.global_entries import GlobalEntry
from runtime.context.global_live import Call, called, interval, projections_of
from runtime.k8s.client import KubeClient, Object, Resource
from runtime.k8s.errors import ApiProblem
from runtime.k8s.stream import Listener, Stream
from vm.values import Err, Value

MOST_BYTES: Final = 32 << 20
"""Bytes of JSON that the objects of one entry may come to: more would be most of the memory of a replica."""
SHARE: Final = 20
"""What was decoded is read again for this many times the time that decoding took: objects that change all the time then
cost a twentieth of a core, and small collections are never old."""
KEPT_SECONDS: Final = 10.0
"""How long decoded objects are kept that nobody reads."""
FIRST_WAIT: Final = 5.0
"""Seconds until a call that failed is put again; each time twice as long, up to the interval of the entry."""

Told = Callable[[str], None]
"""Told after each load: with what is wrong, empty when the data is there."""


class Data(Protocol):
    """``loaded`` is set once there is data, or something wrong to tell."""

    loaded: asyncio.Event

    async def run(self) -> None:
        """Until cancelled."""

    async def read(self, projection: str) -> Value:
        """The data or a projection of it, an ``Err`` when it cannot be had."""


class Objects:
    """All objects of a resource, in a namespace or everywhere."""

    def __init__(
        self, client: KubeClient, resource: Resource, namespace: str, spec: Mapping[str, Any], told: Told
    ) -> None:
        self.loaded = asyncio.Event()
        self._projections = projections_of(spec)
        self._told = told
        self._objects: dict[str, bytes] = {}
        self._bytes = 0
        self._seen: set[str] = set()
        self._problem = ""
        self._decoded: list[Value] | None = None
        self._answers: dict[str, Value] = {}
        self._changed = True
        self._made = self._took = 0.0
        self._lock = asyncio.Lock()
        listener = Listener(self._begin, self._each, self._end, self._gone, self._failed)
        self._stream = Stream(client, resource, listener, namespace=namespace if resource.namespaced else "")

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._stream.run()
            except _TooLarge:
                self._objects.clear()
                self._bytes = 0
                self._tell(f"the objects come to more than {MOST_BYTES >> 20} MiB")
                await asyncio.sleep(300.0)

    async def read(self, projection: str) -> Value:
        """The data or a projection of it, an ``Err`` when it cannot be had."""
        if self._problem:
            return Err("host", self._problem)
        async with self._lock:
            now = time.monotonic()
            if self._decoded is None or (self._changed and now - self._made > SHARE * self._took):
                await self._decode()
            decoded = self._decoded or []
            if projection not in self._answers:
                entry = GlobalEntry(decoded, self._projections)
                read = entry.read if len(decoded) < 100 or not projection else None
                answer = read(projection) if read else await asyncio.to_thread(entry.read, projection)
                self._answers[projection] = answer
            return self._answers[projection]

    async def _decode(self) -> None:
        started = time.monotonic()
        self._changed = False
        decoded: list[Value] = []
        for n, data in enumerate(list(self._objects.values())):
            decoded.append(orjson.loads(data))
            if n % 50 == 49:
                await asyncio.sleep(0)
        self._decoded, self._answers = decoded, {}
        self._made = time.monotonic()
        self._took = self._made - started
        asyncio.get_running_loop().call_later(KEPT_SECONDS, self._drop, self._made)

    def _drop(self, made: float) -> None:
        if self._made == made:
            self._decoded, self._answers = None, {}

    def _begin(self) -> None:
        self._seen = set()

    async def _each(self, obj: Object, listed: bool) -> None:
        metadata = obj.get("metadata") or {}
        uid = str(metadata.get("uid"))
        # Who wrote which field is a third of an object, and nothing that policies read.
        metadata.pop("managedFields", None)
        data = orjson.dumps(obj)
        self._bytes += len(data) - len(self._objects.get(uid, b""))
        if self._bytes > MOST_BYTES:
            raise _TooLarge
        self._objects[uid] = data
        self._changed = True
        if listed:
            self._seen.add(uid)

    def _end(self) -> None:
        for uid in [uid for uid in self._objects if uid not in self._seen]:
            self._remove(uid)
        self._seen = set()
        self._tell("")

    def _gone(self, obj: Object) -> None:
        self._remove(str((obj.get("metadata") or {}).get("uid")))

    def _remove(self, uid: str) -> None:
        data = self._objects.pop(uid, None)
        if data is not None:
            self._bytes -= len(data)
            self._changed = True

    def _failed(self, problem: Exception) -> None:
        # What was loaded stands while the API server is away; not once it says no.
        if isinstance(problem, ApiProblem) or not self.loaded.is_set():
            self._tell(str(problem) or "no answer in time")

    def _tell(self, problem: str) -> None:
        self._problem = problem
        self.loaded.set()
        self._told(problem)


class _TooLarge(Exception):
    """More than :data:`MOST_BYTES`."""


class Polled:
    """The answer to an API or service call."""

    def __init__(self, call: Call, spec: Mapping[str, Any], name: str, told: Told) -> None:
        self.loaded = asyncio.Event()
        self._call = call
        self._spec = spec.get("apiCall") or {}
        self._name = name
        self._told = told
        self._projections = projections_of(spec)
        self._entry = GlobalEntry(Err("host", "no data available"), self._projections)

    async def run(self) -> None:
        """Until cancelled."""
        every = interval(str(self._spec.get("refreshInterval") or ""))
        wait = FIRST_WAIT
        while True:
            found = await called(self._call, self._spec, self._name)
            self._entry = GlobalEntry(found, self._projections)
            self.loaded.set()
            if type(found) is Err:
                self._told(found.text)
                await asyncio.sleep(min(wait, every))
                wait *= 2
            else:
                self._told("")
                wait = FIRST_WAIT
                await asyncio.sleep(every)

    async def read(self, projection: str) -> Value:
        """The data or a projection of it, an ``Err`` when it cannot be had."""
        return self._entry.read(projection)
