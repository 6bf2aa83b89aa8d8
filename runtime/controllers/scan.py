"""The background scan: looks at the objects of the cluster with the policies of now, and has the reports written.

For each collection that rules of background policies may reach, a stream lists page by page and then watches; an
object is evaluated when it, the rules for its kind or the labels of its namespace changed, and at intervals. What is
kept of an object is one hash. Each replica looks at the objects of its shards (``runtime.controllers.leases``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from runtime.controllers.installation import Installation
from runtime.controllers.nativepolicies import NativePolicies
from runtime.controllers.reports import Subject, digest, is_disabled
from runtime.controllers.reportwriter import ReportWriter, group_kind
from runtime.controllers.scanfindings import Findings, Reported
from runtime.controllers.scankinds import Place, ScannedKind, ScannedRules
from runtime.engine import Engine, EngineResponse, RuleResult
from runtime.host import KEY as HOST
from runtime.host import SERVICES, Table, key_of, settle, within
from runtime.k8s.client import Object
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import NAMESPACE
from runtime.k8s.stream import Listener, Stream
from runtime.observe.decisions import SCAN, PassedRules, count_result, tell_of_scan
from runtime.policyset import CLEANUP_POLICIES, Candidates, PolicySet, RulePlan
from runtime.request import Request
from runtime.webhook.live import slim_namespace
from vm.host import HostCall
from vm.values import Err, Value

log = logging.getLogger("thesmos.background.scan")

PART: Final = "reports"
SETTLE: Final = 0.5
"""Seconds to wait for more changes of policies before objects are looked at."""
LOOK_SECONDS: Final = 15.0
"""How often the kinds of the cluster and the labels of namespaces are compared with what they were."""
AGAIN_SECONDS: Final = 2.0
"""When that is tried again after it failed."""
SLICE: Final = 0.005
"""Seconds of evaluation after which requests get their turn."""
NATIVE_SECONDS: Final = 10.0
"""How long the policies of the API server are waited for."""
AT_ONCE: Final = 100
"""Policies that are evaluated in one go: with simple rules that takes 1 ms."""
ANSWER_SECONDS: Final = 30.0
"""How long the answers to what rules ask of the cluster are waited for."""
KEPT_SECONDS: Final = 10.0
"""How old an answer may be that several objects ask for."""
MAX_KEPT: Final = 256

REPORTED: Final = "+"
"""Behind the hash of an object that has a report: one that somebody removes is written again."""

Engines = tuple[Engine, ...]

_UNSEEN: Final = frozenset({"managedFields", "resourceVersion", "generation"})


class Scan:
    """``writer`` takes the results. Where no reports are written, events and metrics tell. ``native`` are the API
    server's own policies, where they are to be reported on."""

    def __init__(self, installation: Installation, writer: ReportWriter, native: NativePolicies | None = None) -> None:
        self._installation = installation
        self._writer = writer
        self._native = native
        self._engines: tuple[Engine, ...] = ()
        self._rules = ScannedRules(PolicySet.empty())
        self._kinds: dict[Place, _KindScan] = {}
        self._tasks: dict[Place, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._changed.set()
        self._labels: dict[str, str] = {}
        self._kept: dict[Any, tuple[float, Value]] = {}
        self._turn = time.perf_counter()
        self.listing = asyncio.Semaphore(installation.settings.reporting.workers)
        self._engine_changed = True
        self.passed = PassedRules(installation.metrics, SCAN)
        installation.shards.listen(self._shards_changed)
        writer.missed.append(self._missed)

    def policies_changed(self) -> None:
        """A new policy set is live."""
        self._engine_changed = True
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        if self._installation.settings.reporting.write:
            await self._writer.synced.wait()
        if self._native is not None:
            # What they said would else be taken out of reports and put back; but they may not be readable at all.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NATIVE_SECONDS):
                    await self._native.ready.wait()
        try:
            while True:
                if self._changed.is_set():
                    await asyncio.sleep(SETTLE)
                self._changed.clear()
                try:
                    await self._follow()
                except (ApiProblem, Unreachable, TimeoutError) as problem:
                    log.warning("the kinds to scan cannot be told: %s", problem)
                    asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._changed.set)
                except Exception:
                    log.exception("the background scan could not be brought up to date")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._changed.wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _follow(self) -> None:
        """Brings the streams in line with policies, kinds and namespaces."""
        if not self._installation.live.ready:
            # Before the first policies are here all reports would look as if their rules were gone.
            return
        if self._engine_changed:
            # A thread of its own would meet the policies while they change; 500 of them take about 20 ms.
            engines = tuple(self._make_engines())
            # Before the wait: policies that change meanwhile are to be taken in next.
            self._engine_changed = False
            self._rules = await asyncio.to_thread(ScannedRules, *(engine.policies for engine in engines))
            self._engines = engines
        wanted = self._rules.kinds(await self._installation.discovery(False))
        relabelled = self._relabelled()
        for place, kind in wanted.items():
            known = self._kinds.get(place)
            if known is not None and known.kind.resource == kind.resource:
                known.use(self._engines, kind, relabelled)
                continue
            await self._stop(place)
            self._kinds[place] = made = _KindScan(self, self._installation, self._writer, self._engines, kind)
            self._tasks[place] = asyncio.create_task(made.run(), name=f"scan of {kind.resource.plural}")
        for place in [place for place in self._kinds if place not in wanted]:
            await self._stop(place)
        await self._drop_others()

    def _make_engines(self) -> Iterator[Engine]:
        yield self._installation.policies.engine_of(
            lambda policy: policy.background and policy.kind not in CLEANUP_POLICIES and not is_disabled_model(policy),
            scan=True,
        )
        if self._native is not None:
            yield Engine(self._native.policies)

    def _relabelled(self) -> bool:
        """Whether labels of a namespace have changed since this was asked last."""
        now = {
            name: digest((namespace.get("metadata") or {}).get("labels") or {})
            for name, namespace in self._installation.namespaces.items()
        }
        before, self._labels = self._labels, now
        return any(name in before and before[name] != labels for name, labels in now.items())

    async def _stop(self, place: Place) -> None:
        task = self._tasks.pop(place, None)
        self._kinds.pop(place, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _drop_others(self) -> None:
        """What the scan said of objects whose kinds no rule looks at any more goes. A kind that is not served at the
        moment is none of these: its server may be away."""
        reached: dict[str, bool] = {}
        for count, (uid, known) in enumerate(list(self._writer.known.items())):
            if known.kind not in reached:
                reached[known.kind] = self._rules.may_reach(known.kind)
            # Reports of another engine have neither mark, and may hold what no rule says.
            if not reached[known.kind] and (known.scan or not known.admission) and self.holds(uid):
                self._writer.emptied(uid)
            if count % 1000 == 999:
                await asyncio.sleep(0)

    def holds(self, uid: str) -> bool:
        return self._installation.shards.holds(PART, uid)

    def _shards_changed(self) -> None:
        for scan in self._kinds.values():
            scan.stream.again.set()

    def _missed(self, kind: str, uid: str) -> None:
        # Mostly the object is gone too: its watch says so a moment sooner or later.
        if self.holds(uid):
            asyncio.get_running_loop().call_later(SETTLE, self._look_for, kind, uid)

    def _look_for(self, kind: str, uid: str) -> None:
        for scan in self._kinds.values():
            if scan.name == kind and scan.lacks_report(uid):
                scan.stream.again.set()

    async def ask(self, call: HostCall) -> Value:
        """An answer of the cluster; objects that follow one another often ask the same."""
        key, now = key_of(call), time.monotonic()
        kept = self._kept.get(key)
        if kept is not None and now - kept[0] < KEPT_SECONDS:
            return kept[1]
        answer = await self._installation.ask(call)
        if not isinstance(answer, Err):
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            self._kept[key] = (now, answer)
        return answer

    async def breathe(self) -> None:
        """Lets requests have their turn when evaluation has taken long enough."""
        if time.perf_counter() - self._turn > SLICE:
            await asyncio.sleep(0)
            self._turn = time.perf_counter()


class _KindScan:
    """The scan of one collection. ``_seen`` holds the hash of each object as it was looked at last."""

    def __init__(
        self, scan: Scan, installation: Installation, writer: ReportWriter, engines: Engines, kind: ScannedKind
    ) -> None:
        self.kind = kind
        self.name = group_kind(kind.resource.api_version, kind.resource.kind)
        self._scan = scan
        self._installation = installation
        self._writer = writer
        self._engines = engines
        self._seen: dict[str, str] = {}
        self._reported = Reported(installation.settings.reporting.rules, installation.settings.reporting.statuses)
        self._listed: set[str] = set()
        self._before: set[str] = set()
        self._forced = False
        self._whole = time.monotonic()
        self._begun = 0.0
        seconds = installation.settings.reporting.seconds
        self.stream = Stream(
            installation.client,
            kind.resource,
            Listener(self._begin, self._each, self._end, self._gone),
            # Not all kinds at the same moment, nor all replicas.
            seconds=seconds * random.uniform(0.95, 1.0),
            listing=scan.listing,
        )

    async def run(self) -> None:
        while True:
            try:
                await self.stream.run()
            except Exception:
                log.exception("the scan of %s ended, it begins anew", self.kind.resource.plural)
                await asyncio.sleep(LOOK_SECONDS)

    def use(self, engines: Engines, kind: ScannedKind, relabelled: bool) -> None:
        """Goes on with other rules; looks at all objects again when they may say something else."""
        before, self.kind, self._engines = self.kind, kind, engines
        if kind != before or (relabelled and kind.labels):
            self.stream.again.set()

    def _begin(self) -> None:
        self._begun = time.monotonic()
        self._forced = self._begun - self._whole >= self._installation.settings.reporting.seconds * 0.9
        self._listed = set()
        self._before = {uid for uid, known in self._writer.known.items() if known.kind == self.name}

    def _end(self) -> None:
        if self._forced:
            self._whole = self._begun
            self._forced = False
        gone = (self._before | self._seen.keys()) - self._listed
        for uid in gone:
            self._drop(uid)
        log.info("background scan of %s: %d objects, %d gone", self.kind.resource.plural, len(self._listed), len(gone))
        self._listed, self._before = set(), set()

    def _gone(self, obj: Object) -> None:
        self._drop(Subject.of(obj).uid)

    def _drop(self, uid: str) -> None:
        self._seen.pop(uid, None)
        if self._scan.holds(uid):
            self._writer.gone(uid)

    async def _each(self, obj: Object, listed: bool) -> None:
        subject = Subject.of(obj)
        if not subject.uid:
            return
        if listed:
            self._listed.add(subject.uid)
        if not self._scan.holds(subject.uid) or self._is_filtered(subject):
            self._seen.pop(subject.uid, None)
            return
        namespace = await self._namespace(subject.namespace)
        if namespace is None:
            return
        looked_at = self._hash(obj, namespace)
        if not (listed and self._forced) and not self._is_new(subject.uid, looked_at):
            return
        try:
            reported = await self._look(obj, subject, namespace, looked_at)
        except (ApiProblem, Unreachable, TimeoutError):
            raise
        except Exception:
            # One object must not keep the others of its kind from being looked at.
            log.exception("%s %s/%s could not be scanned", subject.kind, subject.namespace, subject.name)
            reported = False
        self._seen[subject.uid] = looked_at + REPORTED if reported else looked_at

    def _is_filtered(self, subject: Subject) -> bool:
        """Whether resource filters leave an object out, where they hold for scans."""
        if not self._installation.settings.reporting.filtered:
            return False
        resource = self.kind.resource
        about = (resource.group, resource.version, resource.kind, "", subject.namespace, subject.name)
        if not self._installation.config().filters_out(*about):
            return False
        if subject.uid in self._writer.known and self._scan.holds(subject.uid):
            self._writer.emptied(subject.uid)
        return True

    def lacks_report(self, uid: str) -> bool:
        """Whether an object that is there had a report, and has none now."""
        return self._seen.get(uid, "").endswith(REPORTED) and uid not in self._writer.known

    def _is_new(self, uid: str, looked_at: str) -> bool:
        """Whether an object is to be looked at: it is not as it was, or its report was lost."""
        known = self._writer.known.get(uid)
        marked = known.scan.partition(".")[0] if known is not None else ""
        if uid not in self._seen:
            # A start: what the last process found of just this still stands.
            if marked != looked_at:
                return True
            self._seen[uid] = looked_at + REPORTED
            return False
        return self._seen[uid].removesuffix(REPORTED) != looked_at or self.lacks_report(uid)

    async def _look(self, obj: Object, subject: Subject, namespace: Mapping[str, Any], looked_at: str) -> bool:
        """Evaluates an object and has its report written; whether there is something to report."""
        reporting = self._installation.settings.reporting
        found = await self._evaluate(obj, self.kind.resource.plural, namespace)
        for other in self.kind.others:
            try:
                same = await self._installation.client.get(other, subject.name, subject.namespace)
            except ApiProblem as problem:
                if problem.missing:
                    return False
                raise
            found = found.with_others(await self._evaluate(same, other.plural, namespace))
        said = self._reported.of(found, int(time.time()))
        changed = await self._writer.scanned(subject, said, looked_at) if reporting.write else True
        if changed:
            self._installation.tell.scanned(obj, found.results)
            tell_of_scan(obj, found.results, found.passed)
        return not said.empty

    async def _evaluate(self, obj: Object, plural: str, namespace: Mapping[str, Any]) -> Findings:
        """What the rules say of an object, some policies at a time: no request waits for all of them."""
        settings = self._installation.settings
        labels = (namespace.get("metadata") or {}).get("labels") or {}
        request = Request.from_resource(
            obj,
            namespace_labels=labels if namespace else None,
            namespace_object=namespace or None,
            plural=plural,
        )
        if settings.http_namespaced:
            request.root[SERVICES] = True

        def attempt(engine: Engine, some: Candidates, table: Table) -> EngineResponse:
            request.root[HOST] = table
            response = engine.evaluate(request, "validate", brief=True, among=some)
            table.complete()
            return response

        kind = (request.group, request.version, request.kind, request.subresource)
        results: list[RuleResult] = []
        passed: tuple[RulePlan, ...] = ()
        for engine in self._engines:
            candidates = engine.policies.candidates(*kind, request.operation, request.namespace)
            for some in engine.policies.portions(candidates, AT_ONCE):
                evaluate = partial(attempt, engine, some)
                response = await settle(evaluate, within(self._scan.ask, time.monotonic() + ANSWER_SECONDS))
                results += response.results
                passed += response.passed
                for result in response.results:
                    count_result(self._installation.metrics, request, result, 0.0, SCAN)
                if response.passed:
                    self._scan.passed.gather(request, response.passed, 0.0)
                await self._scan.breathe()
        return Findings(tuple(results), passed)

    async def _namespace(self, name: str) -> Mapping[str, Any] | None:
        """The Namespace of an object; empty for a cluster-wide one, None when it is not there."""
        if not name:
            return {}
        found = self._installation.namespaces.get(name)
        if found is not None:
            return found
        try:
            return slim_namespace(await self._installation.client.get(NAMESPACE, name))
        except ApiProblem as problem:
            if problem.missing:
                return None
            raise

    def _hash(self, obj: Object, namespace: Mapping[str, Any]) -> str:
        """What decides whether an object is looked at again: all of it that rules may read, and the rules."""
        metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _UNSEEN}
        rest = {key: value for key, value in obj.items() if key != "metadata" and (key != "status" or self.kind.status)}
        labels = (namespace.get("metadata") or {}).get("labels") if self.kind.labels else None
        return digest([self.kind.rules, metadata, rest, labels])


def is_disabled_model(policy: Any) -> bool:
    """Whether the label of a policy keeps it out of reports."""
    return is_disabled({"labels": policy.labels})
