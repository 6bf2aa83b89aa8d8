"""Removes objects whose time to live is over: the label ``cleanup.kyverno.io/ttl`` on any kind that this account may
list, watch and delete (semantics §25).

The API server selects by the label and sends metadata alone, so that an object without it costs nothing. Each object is
deleted only as it was seen, by its UID and its version: one that was made again under its name, or whose label has just
been taken away, stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import time
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from runtime.cleanup import POLICIES, PROPAGATION, TTL_LABEL, BadTtl, expires
from runtime.controllers.installation import Installation
from runtime.controllers.permissions import SELF_ACCESS
from runtime.controllers.ttlrights import borrowed
from runtime.k8s.client import Object, Resource
from runtime.k8s.discovery import Discovery
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.stream import Listener, Stream

log = logging.getLogger("thesmos.background.ttl")

PART: Final = "cleanup"
VERBS: Final = ("delete", "list", "watch")
"""In this order: that which is granted least is asked first."""
ASKED: Final = 4
"""Questions about permissions that are open at once."""
DELETED: Final = 8
"""Objects deleted at once."""
LONGEST_SLEEP: Final = 20.0
"""Seconds after which the clock is looked at again: it may have been set."""
LONGEST_RETRY: Final = 300.0
RETRY: Final = 5.0
"""Seconds until a set of kinds that could not be found out is looked for again."""

Kind = tuple[str, str]
"""Group and plural name: what a kind is, whatever version."""


@dataclass(slots=True)
class Doomed:
    """An object with a time to live. ``at`` is when it goes, in seconds of the epoch; ``tries`` counts failures."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    version: str
    propagation: str
    at: float
    tries: int = 0


class TimesToLive:
    """The other half of the part ``cleanup``."""

    name = "times to live"

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._client = installation.client
        self._dry = installation.settings.cleanup_dry_run
        self._streams: dict[Kind, tuple[Resource, asyncio.Task[None]]] = {}
        self._doomed: dict[str, Doomed] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._order = count()
        self._listing = asyncio.Semaphore(2)
        self._look = asyncio.Event()
        self._due = asyncio.Event()

    @property
    def known(self) -> int:
        """How many objects wait for their end."""
        return len(self._doomed)

    def policies_changed(self) -> None:
        """No policy has to do with it."""

    async def run(self) -> None:
        """Until cancelled."""
        self._installation.shards.listen(self._look.set)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._kinds())
                group.create_task(self._ends())
        finally:
            for _, task in self._streams.values():
                task.cancel()

    # -- which kinds

    async def _kinds(self) -> None:
        while True:
            wait = self._installation.settings.ttl_seconds
            self._look.clear()
            try:
                self._follow(await self._allowed(await self._installation.discovery(True)))
            except (ApiProblem, Unreachable, TimeoutError) as problem:
                log.warning("the kinds whose objects may have a time to live cannot be found out: %s", _said(problem))
                wait = RETRY
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._look.wait()

    async def _allowed(self, discovery: Discovery) -> dict[Kind, Resource]:
        """The kinds that this replica watches: those of its shards which it may list, watch and delete."""
        found: dict[Kind, Resource] = {}
        for entry in discovery.entries:
            kind = (entry.resource.group, entry.resource.plural)
            if not entry.subresource and entry.verbs.issuperset(VERBS) and self._ours(kind):
                found.setdefault(kind, entry.resource)
        lent = await borrowed(self._client, self._installation.settings.names)
        found = {kind: resource for kind, resource in found.items() if not lent.holds(resource)}
        at_once = asyncio.Semaphore(ASKED)

        async def may(resource: Resource) -> bool:
            async with at_once:
                for verb in VERBS:
                    if not await self._may(verb, resource):
                        return False
                return True

        answers = await asyncio.gather(*map(may, found.values()))
        return {kind: found[kind] for kind, allowed in zip(found, answers, strict=True) if allowed}

    def _ours(self, kind: Kind) -> bool:
        return self._installation.shards.holds(PART, f"ttl/{kind[0]}/{kind[1]}")

    async def _may(self, verb: str, resource: Resource) -> bool:
        attributes = {"verb": verb, "group": resource.group, "resource": resource.plural}
        review = {
            "apiVersion": SELF_ACCESS.api_version,
            "kind": SELF_ACCESS.kind,
            "spec": {"resourceAttributes": attributes},
        }
        return ((await self._client.create(SELF_ACCESS, review)).get("status") or {}).get("allowed") is True

    def _follow(self, wanted: dict[Kind, Resource]) -> None:
        changed = False
        for kind, (resource, task) in list(self._streams.items()):
            if wanted.get(kind) != resource:
                changed = True
                task.cancel()
                del self._streams[kind]
                self._forget(resource, frozenset())
        for kind, resource in wanted.items():
            if kind not in self._streams:
                changed = True
                stream = Stream(
                    self._client,
                    resource,
                    self._listener(resource),
                    query={"labelSelector": TTL_LABEL},
                    metadata=True,
                    listing=self._listing,
                )
                self._streams[kind] = resource, asyncio.create_task(stream.run(), name=f"ttl of {resource.plural}")
        if changed:
            self._installation.metrics.clear("kyverno_ttl_controller_info")
            for resource, _ in self._streams.values():
                labels = (resource.group, resource.version, resource.plural)
                self._installation.metrics.set("kyverno_ttl_controller_info", 1, *labels)
            log.info("objects of %d kinds may have a time to live", len(self._streams))

    # -- which objects

    def _listener(self, resource: Resource) -> Listener:
        seen: set[str] = set()

        async def each(obj: Object, listed: bool) -> None:
            if listed:
                seen.add(_uid(obj))
            self._note(resource, obj)

        def gone(obj: Object) -> None:
            self._doomed.pop(_uid(obj), None)

        return Listener(begin=seen.clear, each=each, end=lambda: self._forget(resource, frozenset(seen)), gone=gone)

    def _forget(self, resource: Resource, kept: frozenset[str]) -> None:
        for uid in [u for u, d in self._doomed.items() if d.resource == resource and u not in kept]:
            del self._doomed[uid]

    def _note(self, resource: Resource, obj: Object) -> None:
        """Takes an object in as it is now."""
        metadata, uid = obj.get("metadata") or {}, _uid(obj)
        try:
            end = None if metadata.get("deletionTimestamp") else expires(obj)
        except BadTtl as problem:
            log.debug("%s %s: %s", resource.plural, metadata.get("name"), problem)
            end = None
        if end is None:
            self._doomed.pop(uid, None)
            return
        propagation = str((metadata.get("annotations") or {}).get(PROPAGATION) or "")
        self._doom(
            Doomed(
                resource,
                str(metadata.get("namespace") or ""),
                str(metadata.get("name")),
                uid,
                str(metadata.get("resourceVersion")),
                propagation if propagation in POLICIES else "",
                end.timestamp(),
            )
        )

    def _doom(self, doomed: Doomed) -> None:
        self._doomed[doomed.uid] = doomed
        if len(self._heap) > 2 * len(self._doomed) + 64:
            # Objects that change often leave many times behind that count no more.
            self._heap = [(d.at, next(self._order), uid) for uid, d in self._doomed.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (doomed.at, next(self._order), doomed.uid))
        if self._heap[0][2] == doomed.uid:
            self._due.set()

    # -- their end

    async def _ends(self) -> None:
        at_once = asyncio.Semaphore(DELETED)
        async with asyncio.TaskGroup() as group:
            while True:
                self._due.clear()
                now = time.time()
                while self._heap and self._heap[0][0] <= now:
                    at, _, uid = heapq.heappop(self._heap)
                    doomed = self._doomed.get(uid)
                    if doomed is not None and doomed.at == at:
                        # Nobody else takes it up while it is deleted; a change of it makes a new entry.
                        await at_once.acquire()
                        task = group.create_task(self._end(doomed))
                        task.add_done_callback(lambda _: at_once.release())
                wait = min(LONGEST_SLEEP, self._heap[0][0] - now) if self._heap else LONGEST_SLEEP
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._due.wait()

    async def _end(self, doomed: Doomed) -> None:
        """Deletes one object, if it is still what was seen and the kind is still ours."""
        resource = doomed.resource
        if not self._ours((resource.group, resource.plural)):
            return
        options: dict[str, Any] = {"preconditions": {"uid": doomed.uid, "resourceVersion": doomed.version}}
        if doomed.propagation:
            options["propagationPolicy"] = doomed.propagation
        if self._dry:
            options["dryRun"] = ["All"]
        labels = (doomed.namespace, resource.group, resource.version, resource.plural)
        try:
            await self._client.delete(resource, doomed.name, doomed.namespace, options)
        except ApiProblem as problem:
            if problem.conflict:
                await self._again(doomed)
                return
            self._installation.metrics.count("kyverno_ttl_controller_errors_total", *labels)
            self._later(doomed, problem)
        except (Unreachable, TimeoutError) as problem:
            self._later(doomed, problem)
        else:
            if self._doomed.get(doomed.uid) is doomed:
                del self._doomed[doomed.uid]
            said = "would be deleted (dry run)" if self._dry else "deleted"
            log.info("%s: its time to live is over, %s", _named(doomed), said)
            if not self._dry:
                self._installation.metrics.count("kyverno_ttl_controller_deletedobjects_total", *labels)

    async def _again(self, doomed: Doomed) -> None:
        """Looks at an object anew that is another by now."""
        try:
            obj = await self._client.get(doomed.resource, doomed.name, doomed.namespace)
        except ApiProblem as problem:
            if not problem.missing:
                self._later(doomed, problem)
            elif self._doomed.get(doomed.uid) is doomed:
                del self._doomed[doomed.uid]
        except (Unreachable, TimeoutError) as problem:
            self._later(doomed, problem)
        else:
            if _uid(obj) != doomed.uid and self._doomed.get(doomed.uid) is doomed:
                del self._doomed[doomed.uid]
            self._note(doomed.resource, obj)

    def _later(self, doomed: Doomed, problem: BaseException) -> None:
        if self._doomed.get(doomed.uid) is not doomed:
            return
        wait = min(LONGEST_RETRY, 2.0**doomed.tries)
        doomed.tries += 1
        doomed.at = time.time() + wait
        log.warning("%s: its time to live is over, trying again in %.0f s: %s", _named(doomed), wait, _said(problem))
        self._doom(doomed)


def _uid(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("uid"))


def _named(doomed: Doomed) -> str:
    return "/".join(part for part in (doomed.resource.kind, doomed.namespace, doomed.name) if part)


def _said(problem: BaseException) -> str:
    return str(problem) or "no answer in time"
