"""Follows a collection without keeping it: lists page by page, then watches, and tells of each object once it is here.

``runtime.k8s.watch.Watcher`` keeps a copy and tells what changed; a :class:`Stream` is for collections that are too
large for that (the background scan, the reports): its owner keeps what little it wants of each object.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from runtime.k8s.client import KubeClient, Object, Resource
from runtime.k8s.errors import ApiProblem, Expired, Unreachable
from runtime.k8s.watch import Backoff

log = logging.getLogger("thesmos.watch")

FIRST_PAGE: Final = 25
"""Objects of the first page: how large those of the others may be is not known before."""
LARGEST_PAGE: Final = 250
PAGE_BYTES: Final = 1 << 20
"""What a page should come to: 1 MiB is decoded in about 5 ms, and nobody is answered meanwhile."""
LONGEST_WAIT: Final = 60.0


@dataclass(frozen=True, slots=True)
class Listener:
    """What the owner of a stream is told, in this order: ``begin``, ``each`` for every object of the list, ``end``;
    then ``each`` and ``gone`` as the watch tells. ``each`` also gets whether the object is of the list. ``failed`` is
    told what made it wait and begin again."""

    begin: Callable[[], None]
    each: Callable[[Object, bool], Awaitable[None]]
    end: Callable[[], None]
    gone: Callable[[Object], None]
    failed: Callable[[Exception], None] = lambda problem: None


class Stream:
    """``metadata``: of each object its metadata alone. ``again`` makes it list anew, whatever it is doing; ``seconds``
    is how long it watches at most before it does so by itself."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        listener: Listener,
        *,
        namespace: str = "",
        query: Mapping[str, str] | None = None,
        metadata: bool = False,
        seconds: float | None = None,
        listing: contextlib.AbstractAsyncContextManager[Any] | None = None,
    ) -> None:
        """``listing`` is entered while it lists: a semaphore, so that not all streams do that at once."""
        self.resource = resource
        self.again = asyncio.Event()
        self._client = client
        self._listener = listener
        self._namespace = namespace
        self._query = dict(query or {})
        self._metadata = metadata
        self._seconds = seconds
        self._listing = listing or contextlib.nullcontext()

    async def run(self) -> None:
        """Until cancelled."""
        backoff = Backoff(longest=LONGEST_WAIT)
        while True:
            try:
                async with self._listing:
                    self.again.clear()
                    version = await self._list()
                # What may be listed and not watched would else be listed without end: events alone prove a watch.
                await self._until_again(version, backoff)
            except Expired:
                log.info("%s: history is gone, listing again", self.resource.plural)
            except (ApiProblem, Unreachable, TimeoutError) as problem:
                wait = backoff.next()
                log.warning("%s: %s, trying again in %.1f s", self.resource.plural, problem, wait)
                self._listener.failed(problem)
                await asyncio.sleep(wait)

    async def _list(self) -> str:
        self._listener.begin()
        version = "0"
        async for page in self._pages():
            version = str((page.get("metadata") or {}).get("resourceVersion") or version)
            for item in page.get("items") or ():
                await self._told(item, True)
        self._listener.end()
        return version

    async def _pages(self) -> AsyncIterator[Object]:
        """Pages of about the same size in bytes."""
        limit = LARGEST_PAGE if self._metadata else FIRST_PAGE
        query = {**self._query, "limit": str(limit)}
        first = self._client.pages(self.resource, self._namespace, query=query, metadata=self._metadata)
        size, count = 0, 0
        async for page in first:
            yield page
            token = (page.get("metadata") or {}).get("continue")
            if self._metadata or not token:
                continue
            items = page.get("items") or ()
            size, count = size + len(orjson.dumps(items)), count + len(items)
            query = {**query, "limit": str(_limit(size, count)), "continue": str(token)}
            async for rest in self._client.pages(self.resource, self._namespace, query=query):
                yield rest
            return

    async def _until_again(self, version: str, backoff: Backoff) -> None:
        watching = asyncio.create_task(self._watch(version, backoff))
        again = asyncio.create_task(self.again.wait())
        try:
            await asyncio.wait([watching, again], timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            again.cancel()
            watching.cancel()
            await asyncio.gather(again, watching, return_exceptions=True)
        if not watching.cancelled() and (error := watching.exception()) is not None:
            raise error

    async def _watch(self, version: str, backoff: Backoff) -> None:
        while True:
            async for event in self._client.watch(
                self.resource, version, self._namespace, self._query, metadata=self._metadata
            ):
                backoff.reset()
                obj = event["object"]
                version = str((obj.get("metadata") or {}).get("resourceVersion") or version)
                if event["type"] == "DELETED":
                    self._listener.gone(obj)
                elif event["type"] != "BOOKMARK":
                    await self._told(obj, False)
            # The server ends a watch after minutes; a proxy that ends it at once must not be asked in a loop.
            await asyncio.sleep(backoff.next())

    async def _told(self, obj: Object, listed: bool) -> None:
        # Items of a list carry neither, and metadata alone comes as another kind.
        obj["apiVersion"], obj["kind"] = self.resource.api_version, self.resource.kind
        await self._listener.each(obj, listed)


def _limit(size: int, count: int) -> int:
    return max(1, min(LARGEST_PAGE, PAGE_BYTES * count // max(size, 1)))
