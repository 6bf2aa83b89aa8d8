"""Carries out generate rules: from an update request to objects that are there, in step, or gone (semantics §18).

The queue of ``runtime.controllers.updaterequests`` calls :meth:`Generation.process`. What is done follows from how the
cluster is now, not from what happened: doing it once more, late, or after something else has happened is right too. The
one thing that has to be waited for is the request that an update request came from: it was written before that was
stored, and others may still have refused it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from runtime.controllers.backgroundrequests import Persisted, of_admission, of_object, persisted
from runtime.controllers.downstream import CannotGenerate, Downstream, Place, place_of
from runtime.controllers.generaterules import Rule, rules_of
from runtime.controllers.generatetriggers import reference, trigger_from
from runtime.controllers.installation import Installation
from runtime.controllers.objectsearch import by_uid
from runtime.controllers.outcomes import generated
from runtime.controllers.updaterequests import DONE, Outcome, UpdateRequest, failed, later
from runtime.engine import ERROR, PASS, SKIP, Engine, RuleResult
from runtime.generate import LABELS, generate, is_copy_of
from runtime.generate import Generation as Made
from runtime.host import KEY as HOST
from runtime.host import SOURCES, Ask, Table, settle
from runtime.k8s.client import Object
from runtime.k8s.errors import ApiProblem
from runtime.observe.policy_events import GENERATE
from runtime.request import Request
from vm.host import HostCall
from vm.values import Value

log = logging.getLogger("thesmos.background.generate")

AT_ONCE: Final = 10
"""Triggers of one update request that are worked on at once."""
SETTLING_SECONDS: Final = 30.0
"""How long other webhooks may hold up a request after we have answered; what is not stored by then never will be."""
FIRST_LOOK: Final = 0.05
LONGEST_LOOK: Final = 5.0
"""Seconds between looks at an object that is not stored yet."""
SETTLING_OTHER: Final = 3.0
"""The same where an object of that name is there already."""
OTHER: Final = "the request that set off the rule has not made the object that is there"
YOUNG_SECONDS: Final = 5.0
"""A policy that is not known may be so new that its watch has not told of it, for as long as its request is young."""
SOURCES_KEPT: Final = 10_000
READS: Final = 3
"""How often sources are read that change while they are marked."""
PREFETCHED: Final = 1000
LISTED: Final = 100
"""Triggers that one list is asked about: their uids make 4 kB of the URL."""
TERMINATING: Final = "because it is being terminated"


Reason: TypeAlias = Literal["trigger", "other", "policy"]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a rule is looked at: ``trigger``: a request about its trigger (``operation``); ``other``: something about
    what it made or copies; ``policy``: it has changed itself."""

    of: Reason
    operation: str = ""


class Generation:
    """The processor of update requests of type ``generate``."""

    def __init__(self, installation: Installation) -> None:
        self.downstream = Downstream(installation.client, installation.discovery)
        self._installation = installation
        self._rules: dict[tuple[str, str], Rule] = {}
        self._engine: Engine | None = None
        self._snapshot: object = None
        self._sources: dict[tuple[str, str, str], str] = {}

    def rules(self) -> dict[tuple[str, str], Rule]:
        """The generate rules that are live, by the keys of their policies and their names."""
        self._refresh()
        return self._rules

    def _refresh(self) -> Engine:
        snapshot = self._installation.live.snapshot
        if self._engine is None or snapshot is not self._snapshot:
            engine = self._installation.policies.engine_of(lambda p: any(r.generate is not None for r in p.rules))
            self._rules = rules_of(engine, self._installation.policies.entries.values())
            self._engine, self._snapshot = engine, snapshot
        return self._engine

    async def process(self, work: UpdateRequest) -> Outcome:
        """Does what an update request asks for. Raises the errors of the client."""
        rules = self.rules()
        if not any(policy == work.policy for policy, _ in rules):
            # Of a policy that is gone nothing is made; what it made is removed by whoever follows policies.
            return later(1.0) if work.age < YOUNG_SECONDS else DONE
        asked = _admission(work)
        state = Persisted(stored=True)
        if asked is not None:
            state = await persisted(self._installation.client, asked)
            if state.waits:
                if work.age < (SETTLING_OTHER if state.other else SETTLING_SECONDS):
                    return later(min(LONGEST_LOOK, max(FIRST_LOOK, work.age / 2)))
                if state.other:
                    return Outcome("refused", OTHER)
                state = replace(state, waits=False)
        problems: list[str] = []
        for name, contexts in self._contexts(work):
            rule = rules.get((work.policy, name))
            if rule is None:
                continue
            others: Reason = "policy" if asked is None else "other"
            task = _Task(self._installation, self, rule, work, asked, state, others)
            try:
                problems += await task.run(contexts)
            except ApiProblem as problem:
                if problem.passing:
                    raise
                # No permission to look: told like what cannot be made.
                self._installation.tell.failed(rule.info, name, problem, None, GENERATE)
                problems.append(f"{name}: {problem}")
        return failed("; ".join(dict.fromkeys(problems))) if problems else DONE

    async def mend(self, rule: Rule, triggers: Iterable[Mapping[str, str]]) -> list[str]:
        """Brings what a rule made because of these triggers in step; gives what went wrong. Raises the errors of the
        client."""
        work, state = UpdateRequest("", {}), Persisted(stored=True)
        task = _Task(self._installation, self, rule, work, None, state, "other")
        return await task.run([{"rule": rule.plan.name, "trigger": trigger} for trigger in triggers])

    async def mend_copies(self, rule: Rule, source: Object, *, gone: bool) -> list[str]:
        """The same for all that the rule copied from a source, which may have ``gone``."""
        work, state = UpdateRequest("", {}), Persisted(stored=True)
        asked = {"object": source, "operation": "DELETE" if gone else "UPDATE"}
        return await _Task(self._installation, self, rule, work, asked, state, "other").run([])

    def seen_to(self, rule: Rule, source: Mapping[str, Any]) -> None:
        """All copies of a source are being brought to this version of it."""
        metadata = source.get("metadata") or {}
        self._sources[rule.info.key, rule.plan.name, str(metadata.get("uid"))] = str(metadata.get("resourceVersion"))
        while len(self._sources) > SOURCES_KEPT:
            del self._sources[next(iter(self._sources))]

    def is_seen_to(self, rule: Rule, source: Mapping[str, Any]) -> bool:
        """Whether that has been done for this version."""
        metadata = source.get("metadata") or {}
        known = self._sources.get((rule.info.key, rule.plan.name, str(metadata.get("uid"))))
        return known == str(metadata.get("resourceVersion"))

    def _contexts(self, work: UpdateRequest) -> list[tuple[str, list[Mapping[str, Any]]]]:
        """The contexts of a request by rule, as written or, as other writers leave it, by the one rule of the spec."""
        by_rule: dict[str, list[Mapping[str, Any]]] = {}
        spec = work.spec
        for context in spec.get("ruleContext") or ():
            by_rule.setdefault(str(context.get("rule") or spec.get("rule") or ""), []).append(context)
        return list(by_rule.items()) or [(str(spec.get("rule") or ""), [])]

    async def outcome(self, rule: Rule, request: Request) -> RuleResult | None:
        """What a rule says of a request, None when it does not match; nothing is made."""
        engine = self._refresh()

        def attempt(table: Table) -> RuleResult | None:
            own = replace(request, root={**request.root, HOST: table})
            response = engine.evaluate(own, "background", only=[rule.info])
            table.complete()
            return next((r for r in response.results if r.rule == rule.plan.name), None)

        return await settle(attempt, self._installation.ask)

    async def evaluate(self, rule: Rule, request: Request, ask: Ask) -> tuple[RuleResult | None, Made | None]:
        """What a rule says of a request, and when it passes what it makes. None: it does not match."""
        engine = self._refresh()

        def attempt(table: Table) -> tuple[RuleResult | None, Made | None]:
            own = replace(request, root={**request.root, HOST: table})
            response = engine.evaluate(own, "background", only=[rule.info])
            table.complete()
            found = next((r for r in response.results if r.rule == rule.plan.name), None)
            if found is None or found.status != PASS:
                return found, None
            made = generate(found, own)
            table.complete()
            return found, made

        return await settle(attempt, ask)


class _Task:
    """One rule of one update request."""

    def __init__(
        self,
        installation: Installation,
        owner: Generation,
        rule: Rule,
        work: UpdateRequest,
        asked: Mapping[str, Any] | None,
        state: Persisted,
        others: Reason,
    ) -> None:
        """``others``: why triggers are looked at that the admission request is not about."""
        self._installation = installation
        self._owner = owner
        self._downstream = owner.downstream
        self._rule = rule
        self._work = work
        self._asked = asked
        self._state = state
        self._others = Cause(others)
        self._sources: dict[tuple[str, str | None], asyncio.Task[Value]] = {}
        self._known: dict[Place, Object] = {}
        self._listed: dict[str, list[Object]] = {}
        self._source_went = False
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def run(self, contexts: Sequence[Mapping[str, Any]]) -> list[str]:
        """What went wrong."""
        asked = self._asked
        if not contexts and asked is not None:
            source = self._state.live or asked.get("object") or {}
            self._source_went = asked.get("operation") == "DELETE" and self._state.stored
            contexts, asked = await self._copies_of(asked), None
            self._owner.seen_to(self._rule, source)
        own = [c for c in contexts if asked is not None and _is_about(c, asked)]
        problems = [p for c in own for p in await self._of_trigger(c)]
        others = [c for c in contexts if c not in own]
        if others:
            problems += await self._of_others(others)
        return problems

    async def _copies_of(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """A context for each trigger because of which the source that a request was about has been copied."""
        source = asked.get("oldObject") or asked.get("object") or {}
        found: dict[str, dict[str, Any]] = {}
        labels = {**self._rule.labels, LABELS + "source-uid": str((source.get("metadata") or {}).get("uid") or "")}
        async for obj in self._downstream.find(self._rule.kinds, labels):
            trigger = trigger_from(obj["metadata"].get("labels") or {})
            found[trigger.get("uid") or ""] = {"rule": self._rule.plan.name, "trigger": trigger}
        return list(found.values())

    async def _of_trigger(self, context: Mapping[str, Any]) -> list[str]:
        """The object of the request is the trigger."""
        assert self._asked is not None
        operation = str(self._asked.get("operation") or "")
        trigger: Mapping[str, Any] = context.get("trigger") or {}
        if context.get("deleteDownstream") and self._state.stored:
            return await self._remove(trigger)
        live = self._state.live
        if operation == "DELETE" and self._state.stored:
            obj = self._asked.get("oldObject") or self._asked.get("object")
        elif operation == "CONNECT":
            obj = self._asked.get("object")
        elif live is None or (live.get("metadata") or {}).get("deletionTimestamp"):
            # It has gone since, and what was made because of it goes too.
            return await self._gone(trigger)
        else:
            obj = live
        request = of_admission(self._installation, self._work.spec, obj)
        return await self._make(request, Cause("trigger", operation))

    async def _of_others(self, contexts: Sequence[Mapping[str, Any]]) -> list[str]:
        """The triggers have to be found."""
        if len(contexts) > AT_ONCE:
            await self._prefetch([str((c.get("trigger") or {}).get("uid") or "") for c in contexts])
        wanted = {}
        problems = []
        for context in contexts:
            trigger = context.get("trigger") or {}
            if context.get("deleteDownstream"):
                problems += await self._remove(trigger)
            elif trigger.get("uid") or trigger.get("name"):
                wanted[str(trigger.get("uid") or trigger["name"])] = trigger

        async def one(trigger: Mapping[str, Any], obj: Object | None) -> list[str]:
            async with self._at_once:
                if obj is None or obj["metadata"].get("deletionTimestamp"):
                    return await self._gone(trigger)
                if self._rule.personal:
                    return []
                return await self._make(of_object(self._installation, obj), self._others)

        async for found in by_uid(self._installation, self._downstream, list(wanted.values())):
            for some in await asyncio.gather(*(one(trigger, obj) for trigger, obj in found)):
                problems += some
        return problems

    async def _prefetch(self, uids: Sequence[str]) -> None:
        """What was made because of these triggers, in a list for each hundred instead of a request for each."""
        for at in range(0, min(len(uids), PREFETCHED), LISTED):
            some = tuple(uids[at : at + LISTED])
            self._listed |= {uid: [] for uid in some if uid}
            labels: dict[str, str | tuple[str, ...]] = {**self._rule.labels, LABELS + "trigger-uid": some}
            async for obj in self._downstream.find(self._rule.kinds, labels, metadata=False):
                self._known[place_of(obj)] = obj
                self._listed[obj["metadata"]["labels"][LABELS + "trigger-uid"]].append(obj)

    async def _make(self, request: Request, cause: Cause) -> list[str]:
        """Evaluates the rule and brings the cluster to what it says."""
        rule = self._rule
        for _ in range(READS):
            result, generation = await self._owner.evaluate(rule, request, self._ask)
            if not rule.sync or generation is None or await self._marked(generation):
                break
            self._sources.clear()
        if result is None or result.status == SKIP:
            if rule.sync and cause == Cause("trigger", "UPDATE") and not (result and result.exceptions):
                # It has changed once more since it was asked about, or there was no time to ask.
                return await self._remove(reference(request.resource))
            return []
        if result.status == ERROR or generation is None:
            self._report(request, result)
            return self._failed(result.message, request)
        problems: list[str] = []
        changed: list[Object] = []
        there: list[Object] = []
        stays: set[Place] = set()
        if generation.result.status == ERROR:
            problems.append(generation.result.message)
        for made in generation.made:
            place = place_of(made.object)
            # Kinds without namespaces are made without.
            stays |= {place, (*place[:2], "", place[3])}
            try:
                change, obj = await self._downstream.ensure(
                    made.object,
                    sync=rule.sync,
                    scope=rule.info.namespace,
                    apply=rule.generate["useServerSideApply"] is True,
                    fresh=cause == Cause("trigger", "CREATE") and not self._work.retries,
                    live=self._known.pop(place_of(made.object), None),
                )
            except CannotGenerate as problem:
                problems.append(str(problem))
            except ApiProblem as problem:
                if TERMINATING in str(problem):
                    continue
                problems.append(str(problem))
            else:
                there.append(obj)
                if change != "none":
                    changed.append(obj)
                    log.info("policy %s/%s: %s %s", rule.info.key, rule.plan.name, change, _said(obj))
        if changed:
            self._installation.tell.generated(rule.info, rule.plan.name, changed)
        if changed or problems or cause.of == "trigger":
            self._report(request, generated(generation.result, there, "; ".join(problems)))
        if rule.sync and cause.operation != "CREATE":
            await self._leave_behind(reference(request.resource), stays, cause)
        if not problems or self._source_went:
            # That a source which has just gone is missing is no news.
            return []
        return self._failed("; ".join(problems), request)

    async def _marked(self, generation: Made) -> bool:
        """Marks the sources before they are copied: whether they are still as they were read."""
        sources = {str(made.source["metadata"].get("uid")): made.source for made in generation.made if made.source}
        return all([await self._downstream.mark_source(source) for source in sources.values()])

    async def _leave_behind(self, trigger: Mapping[str, Any], stays: set[Place], cause: Cause) -> None:
        """What the rule made because of a trigger and does not ask for any more. A trigger that has changed takes it
        along; a rule that has changed leaves it to others; else only copies go whose source has gone."""
        async for obj in self._made_for(trigger):
            if place_of(obj) in stays:
                continue
            if cause.of == "trigger":
                await self._away(obj)
            elif cause.of == "policy":
                await self._downstream.let_go(obj)
                log.info("policy %s lets go of %s", self._rule.info.key, _said(obj))
            elif await self._source_is_gone(obj):
                await self._away(obj)

    async def _source_is_gone(self, copy: Object) -> bool:
        """Whether a copy's source is not among those that the rule has just read."""
        labels = copy["metadata"].get("labels") or {}
        if not labels.get(LABELS + "source-uid"):
            return False
        for task in self._sources.values():
            sources = await task
            if type(sources) is list and any(is_copy_of(copy, source["object"]) for source in sources):
                return False
        return bool(self._sources)

    async def _gone(self, trigger: Mapping[str, Any]) -> list[str]:
        return await self._remove(trigger) if self._rule.sync and self._rule.follows_deletion else []

    async def _remove(self, trigger: Mapping[str, Any]) -> list[str]:
        """Removes what the rule made because of a trigger."""
        problems = []
        async for obj in self._made_for(trigger):
            try:
                await self._away(obj)
            except ApiProblem as problem:
                problems.append(str(problem))
        return problems

    async def _away(self, obj: Object) -> None:
        if await self._downstream.remove(obj):
            log.info("policy %s/%s: removed %s", self._rule.info.key, self._rule.plan.name, _said(obj))

    async def _made_for(self, trigger: Mapping[str, Any]) -> AsyncIterator[Object]:
        """What the rule made because of a trigger. Triggers without a uid (``pods/exec``) are not told apart, so that
        nothing is known to be theirs."""
        uid = trigger.get("uid")
        if not uid:
            return
        listed = self._listed.pop(str(uid), None)
        if listed is not None:
            for obj in listed:
                yield obj
            return
        labels = {**self._rule.labels, LABELS + "trigger-uid": str(uid)}
        async for obj in self._downstream.find(self._rule.kinds, labels):
            yield obj

    def _report(self, request: Request, result: RuleResult) -> None:
        """Has the report of the trigger tell what became of the rule."""
        if type(request.resource) is dict and request.operation != "DELETE":
            for tell in self._installation.outcomes:
                tell(request.resource, [result])

    def _failed(self, message: str, request: Request) -> list[str]:
        about = request.resource if type(request.resource) is dict else None
        self._installation.tell.failed(self._rule.info, self._rule.plan.name, message, about, GENERATE)
        return [f"{self._rule.plan.name}: {message}"]

    async def _ask(self, call: HostCall) -> Value:
        """Answers host calls; what is copied is read once for all triggers of this request."""
        if call.kind != SOURCES:
            return await self._installation.ask(call)
        key = (repr(call.payload), call.scope)
        task = self._sources.get(key)
        if task is None:
            task = self._sources[key] = asyncio.ensure_future(self._installation.ask(call))
        return await asyncio.shield(task)


def _admission(work: UpdateRequest) -> Mapping[str, Any] | None:
    """The admission request that an update request came from."""
    info = (work.spec.get("context") or {}).get("admissionRequestInfo") or {}
    asked = info.get("admissionRequest")
    if type(asked) is not dict or not asked.get("operation"):
        return None
    return asked


def _is_about(context: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether the trigger is the object of the admission request."""
    trigger = context.get("trigger") or {}
    obj = asked.get("object") or asked.get("oldObject") or {}
    uid = (obj.get("metadata") or {}).get("uid")
    if uid or trigger.get("uid"):
        return bool(uid == trigger.get("uid"))
    return bool(trigger.get("name") == asked.get("name"))


def _said(obj: Mapping[str, Any]) -> str:
    _, kind, namespace, name = place_of(obj)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
