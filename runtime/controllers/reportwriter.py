"""Writes policy reports: what scan and admission have to say of objects waits here for a moment, is merged into the
report of each object, and is written only where that changes it.

No report is made but the one that stays, so there are never more than objects; what waits is bounded, in bytes. The
scan waits for room (:meth:`ReportWriter.scanned`), admission never does (:meth:`ReportWriter.admitted`). An index of
what reports hold, by their metadata alone, spares reading and writing what would not change; it follows the cluster, so
that replicas see what others wrote, and a start goes on where the last process ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import orjson

from runtime.controllers import reports
from runtime.controllers.reports import Result, ResultKey, Rules, Subject, Told
from runtime.k8s.client import KubeClient, Object, Resource
from runtime.k8s.discovery import Discovery
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.stream import Listener, Stream
from runtime.request import split_api_version

log = logging.getLogger("thesmos.reports")

FLUSH_SECONDS: Final = 1.0
"""How long what is said of an object is gathered before it is written."""
WORKERS: Final = 8
ROOM: Final = 8 << 20
"""Bytes of results that may wait. 500 results come to about 175 KiB."""
OVERHEAD: Final = 600
"""Bytes that a change takes beside its results."""
FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0
LAST_SECONDS: Final = 3.0
"""How long a process that ends still writes."""
MOST_TRIES: Final = 6
"""Tries for an object that is not there yet (admission comes before it is stored), or that the API server refuses."""
TERMINATING: Final = "because it is being terminated"
CONFLICTS: Final = 5
"""Tries at once after somebody else wrote the report meanwhile."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a report: whose it is (group and kind), where, and its marks."""

    kind: str
    namespace: str
    scan: str
    admission: tuple[str, ...]


@dataclass(slots=True)
class Change:
    """What is to become of one report. ``scan`` are encoded results that take the place of the scan's, ``admission``
    encoded results by rule. ``sweep``: results of rules that are no more go. ``gone``: the object is, and so is its
    report."""

    subject: Subject
    scan: bytes | None = None
    mark: str = ""
    admission: dict[ResultKey, bytes] = field(default_factory=dict)
    sweep: bool = False
    gone: bool = False
    due: float = 0.0
    tries: int = 0

    @property
    def size(self) -> int:
        return OVERHEAD + len(self.scan or b"") + sum(map(len, self.admission.values()))

    def over(self, older: Change) -> Change:
        """This change after an older one of the same report."""
        if self.gone:
            return self
        scan, mark = (older.scan, older.mark) if self.scan is None else (self.scan, self.mark)
        return Change(
            self.subject if self.subject.name else older.subject,
            scan,
            mark,
            {**older.admission, **self.admission},
            self.sweep or older.sweep,
            # The earlier time: what is said of again and again would else never be written.
            due=min(self.due, older.due),
        )


class ReportWriter:
    """``rules`` says who reports which rule; its owner replaces it with each policy set. ``missed`` is told of reports
    that somebody else removed, by group and kind of their objects, and their UIDs."""

    def __init__(
        self,
        client: KubeClient,
        discovery: Callable[[bool], Awaitable[Discovery]],
        *,
        openreports: bool = False,
        most: int = 1000,
    ) -> None:
        """``most`` objects may wait for what admission says of them."""
        self.rules: Rules = {}
        self.missed: list[Callable[[str, str], None]] = []
        self.known: dict[str, Known] = {}
        self.synced = asyncio.Event()
        self.dropped = 0
        self.written = 0
        self._client = client
        self._discovery = discovery
        self._openreports = openreports
        self._most = most
        self._waiting: dict[str, Change] = {}
        self._given = 0
        """How many of these wait for what admission says."""
        self._size = 0
        self._filled = asyncio.Event()
        self._pressed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._writing: set[str] = set()
        self._listed = 0

    # --- what is said of objects ---------------------------------------------------------------------------------

    async def scanned(self, subject: Subject, told: Told, looked_at: str) -> bool:
        """The results of the scan; ``looked_at`` stands for the object and the rules. Waits while there is no room.
        False when the report holds just that already."""
        said = told.said
        known = self.known.get(subject.uid)
        # An object that changes and is judged as before needs no write: only a start would look at it once more.
        if (known.scan.partition(".")[2] if known is not None else "") == said and not self._pending(subject.uid):
            return False
        mark = "" if told.empty else f"{looked_at}.{said}"
        while self._size > ROOM:
            self._room.clear()
            self._pressed.set()
            await self._room.wait()
        self._put(Change(subject, told.encoded(), mark))
        return True

    def admitted(self, subject: Subject, results: Iterable[Result]) -> None:
        """Results of admission, or of what it set off. They are dropped when too many wait: a request never does."""
        found = {reports.key_of_result(r): orjson.dumps(r) for r in results}
        if not found:
            return
        if self._given >= self._most and _place(subject) not in self._waiting:
            self.dropped += 1
            if self.dropped % 1000 == 1:
                log.warning("%d results of admission were not reported: too many wait", self.dropped)
            return
        self._put(Change(subject, admission=found, due=time.monotonic() + FLUSH_SECONDS / 2))

    def gone(self, uid: str) -> None:
        """The object is gone. Its owner reference would remove the report too; this does so at once."""
        known = self.known.get(uid)
        waiting = self._take(uid)
        if waiting is not None:
            self._size -= waiting.size
        if known is not None:
            self._put(Change(Subject("", "", known.namespace, "", uid), gone=True))

    def emptied(self, uid: str) -> None:
        """The object is not scanned any more: what was said of it goes, but for what admission said."""
        known = self.known.get(uid)
        if known is not None:
            self._put(Change(Subject("", "", known.namespace, "", uid), b"[]"))

    def swept(self, uid: str) -> None:
        """Rules that said something of the object are no more."""
        known = self.known.get(uid)
        if known is not None:
            self._put(Change(Subject("", "", known.namespace, "", uid), sweep=True))

    @property
    def idle(self) -> bool:
        """Nothing waits to be written, and nothing is being written."""
        return not self._waiting and not self._writing

    @property
    def waiting_bytes(self) -> int:
        """What waits to be written comes to."""
        return self._size

    def _pending(self, uid: str) -> bool:
        return uid in self._waiting or uid in self._writing

    def _put(self, change: Change) -> None:
        key = _place(change.subject)
        older = self._take(key)
        if older is not None:
            self._size -= older.size
            change = change.over(older)
        self._wait(key, change)

    def _wait(self, key: str, change: Change) -> None:
        self._waiting[key] = change
        self._given += bool(change.admission)
        self._size += change.size
        self._filled.set()

    def _take(self, key: str) -> Change | None:
        """What waits, from now on elsewhere; its size counts until it is written."""
        change = self._waiting.pop(key, None)
        self._given -= change is not None and bool(change.admission)
        return change

    # --- the index -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled; what waits then is still written."""
        try:
            async with asyncio.TaskGroup() as group:
                for namespace in ("", "any"):
                    resource = reports.resource_of(namespace, openreports=self._openreports)
                    group.create_task(self._follow(resource).run(), name=f"reports of {resource.plural}")
                group.create_task(self._flush())
        finally:
            # A scan would find it again, but what admission said would be lost.
            given = iter([key for key, change in self._waiting.items() if change.admission])
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_SECONDS):
                    await asyncio.gather(*(self._work(given) for _ in range(WORKERS)))

    def _follow(self, resource: Resource) -> Stream:
        seen: set[str] = set()
        before: set[str] = set()

        def begin() -> None:
            seen.clear()
            before.clear()
            before.update(uid for uid, known in self.known.items() if bool(known.namespace) == resource.namespaced)

        async def each(obj: Object, listed: bool) -> None:
            uid = self._learn(obj)
            if listed:
                seen.add(uid)
                if len(seen) % 100 == 0:
                    await asyncio.sleep(0)

        def end() -> None:
            for uid in before - seen:
                self._forget(uid)
            self._listed += 1
            if self._listed >= 2:
                self.synced.set()

        def gone(obj: Object) -> None:
            self._forget(str((obj.get("metadata") or {}).get("name")))

        label = ",".join(f"{key}={value}" for key, value in reports.MANAGED.items())
        listener = Listener(begin, each, end, gone)
        return Stream(self._client, resource, listener, query={"labelSelector": label}, metadata=True)

    def _learn(self, report: Object) -> str:
        metadata = report.get("metadata") or {}
        uid = str(metadata.get("name") or "")
        owner: Object = next(iter(metadata.get("ownerReferences") or ()), {})
        annotations = metadata.get("annotations") or {}
        given = str(annotations.get(reports.ADMISSION) or "")
        # The same few texts are in every report: one copy of each.
        self.known[uid] = Known(
            sys.intern(group_kind(str(owner.get("apiVersion") or ""), str(owner.get("kind") or ""))),
            sys.intern(str(metadata.get("namespace") or "")),
            str(annotations.get(reports.SCAN) or ""),
            tuple(map(sys.intern, given.split(","))) if given else (),
        )
        return uid

    def _forget(self, uid: str) -> None:
        known = self.known.pop(uid, None)
        if known is not None:
            for tell in self.missed:
                tell(known.kind, uid)

    # --- writing -------------------------------------------------------------------------------------------------

    async def _flush(self) -> None:
        while True:
            await self._filled.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._pressed.wait()
            self._pressed.clear()
            now = time.monotonic()
            batch = [key for key, change in self._waiting.items() if change.due <= now]
            if not self._waiting:
                self._filled.clear()
            keys = iter(batch)
            await asyncio.gather(*(self._work(keys) for _ in range(WORKERS)))

    async def _work(self, keys: Iterator[str]) -> None:
        for key in keys:
            change = self._take(key)
            if change is None:
                continue
            self._writing.add(key)
            try:
                await self._write_again(key, change)
            except asyncio.CancelledError:
                self._put_back(key, change)
                raise
            finally:
                self._writing.discard(key)
                self._size -= change.size
                if self._size <= ROOM:
                    self._room.set()

    async def _write_again(self, key: str, change: Change) -> None:
        """Writes a change, or puts it back to be tried later."""
        change.tries += 1
        try:
            if await self._write(change):
                return
            reason: object = "the object is not there"
            patient = False
        except Unreachable as problem:
            reason, patient = problem, True
        except TimeoutError:
            reason, patient = "no answer in time", True
        except ApiProblem as problem:
            if TERMINATING in str(problem):
                return
            reason, patient = problem, problem.conflict or problem.code >= 429
        except Exception:
            log.exception("the report of %s could not be made", change.subject)
            return
        if change.tries >= MOST_TRIES and not patient:
            if change.scan is not None:
                log.warning("the report of %s was not written: %s", change.subject.uid, reason)
            return
        change.due = time.monotonic() + min(LONGEST_WAIT, FIRST_WAIT * 2.0**change.tries)
        self._put_back(key, change)

    def _put_back(self, key: str, change: Change) -> None:
        """What was not written waits again, under what was said since."""
        newer = self._take(key)
        if newer is not None:
            self._size -= newer.size
            change = newer.over(change)
        self._wait(key, change)

    async def _write(self, change: Change) -> bool:
        """False when the object is not there (yet)."""
        subject = change.subject
        known = self.known.get(subject.uid) if subject.uid else None
        if change.gone:
            if known is not None:
                await self._client.delete(self._resource(subject), subject.uid, subject.namespace)
                self.known.pop(subject.uid, None)
            return True
        if known is None and change.scan is None:
            if change.sweep:
                return True
            found = await self._find(subject)
            if found is None:
                return False
            subject = found
            known = self.known.get(subject.uid)
        conflicts = 0
        while True:
            old = await self._read(subject) if known is not None else None
            try:
                await self._store(subject, change, old)
                return True
            except ApiProblem as problem:
                conflicts += 1
                if not problem.conflict or conflicts == CONFLICTS:
                    raise
                # Somebody wrote, removed or made it meanwhile.
                known = Known("", subject.namespace, "", ())

    async def _store(self, subject: Subject, change: Change, old: Object | None) -> None:
        resource = self._resource(subject)
        before: list[Result] = list((old or {}).get("results") or ())
        scan = None if change.scan is None else orjson.loads(change.scan)
        given = {key: orjson.loads(result) for key, result in change.admission.items()}
        results = reports.merged(before, scan, given, self.rules, sweep=change.sweep)
        if not results:
            # It stays known until it is gone: a removal that fails is tried again.
            if old is not None:
                version = old["metadata"].get("resourceVersion")
                await self._client.delete(
                    resource, subject.uid, subject.namespace, {"preconditions": {"resourceVersion": version}}
                )
            self.known.pop(subject.uid, None)
            return
        if old is not None and not subject.name:
            # Of an object whose kind is scanned no more the report itself tells which it is.
            scope = old.get("scope") or {}
            subject = replace(Subject.of({**scope, "metadata": scope}), uid=subject.uid)
        elif not subject.name:
            return
        mark = None if change.scan is None else change.mark
        made = reports.report_of(resource, subject, old, results, mark, self.rules)
        if old is None:
            self._learn(await self._client.create(resource, made, subject.namespace))
        elif _said(made) == _said(old):
            self._learn(old)
            return
        else:
            self._learn(await self._client.replace(resource, made, subject.namespace))
        self.written += 1

    async def _read(self, subject: Subject) -> Object | None:
        try:
            return await self._client.get(self._resource(subject), subject.uid, subject.namespace)
        except ApiProblem as problem:
            if problem.missing:
                return None
            raise

    async def _find(self, subject: Subject) -> Subject | None:
        """The object as it is stored, by name: admission sees objects that may never come to be, and mutation sees
        them before they have a UID."""
        group, version = split_api_version(subject.api_version)
        entries = (await self._discovery(False)).find(group, version, subject.kind)
        if not entries or not subject.name:
            return None
        try:
            obj = await self._client.get(entries[0].resource, subject.name, subject.namespace)
        except ApiProblem as problem:
            if problem.missing:
                return None
            raise
        found = Subject.of({**obj, "apiVersion": subject.api_version, "kind": subject.kind})
        return found if subject.uid in ("", found.uid) else None

    def _resource(self, subject: Subject) -> Resource:
        return reports.resource_of(subject.namespace, openreports=self._openreports)


def group_kind(api_version: str, kind: str) -> str:
    """``group/Kind``: how the index names kinds, whatever their version."""
    return f"{split_api_version(api_version)[0]}/{kind}"


def _place(subject: Subject) -> str:
    """Where a change waits: by UID, or by name where that is not known yet."""
    return subject.uid or f"{subject.api_version}/{subject.kind}/{subject.namespace}/{subject.name}"


def _said(report: Mapping[str, object]) -> object:
    """All of a report that is ours to write."""
    metadata = report.get("metadata")
    assert isinstance(metadata, Mapping)
    written = {key: metadata.get(key) for key in ("labels", "annotations", "ownerReferences")}
    return {key: report.get(key) for key in ("scope", "results", "summary")}, written
