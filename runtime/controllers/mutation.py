"""Carries out rules that change objects which exist (semantics §17): from an admitted request, or from the objects that
are there when a policy comes, by way of update requests of type ``mutate``.

``runtime.controllers.triggers`` calls :func:`mutating_rules`, the queue of update requests :meth:`Mutation.process`.
Targets are read when the work is done and written only where the rule changes something, under the version that was
read: doing it once more after a crash finds nothing left to change.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from runtime.controllers.backgroundrequests import evaluated, of_admission, of_object, persisted
from runtime.controllers.generatetriggers import admission_context, reference, same_object, trigger_of
from runtime.controllers.installation import Installation
from runtime.controllers.outcomes import patched
from runtime.controllers.updaterequests import DONE, Outcome, UpdateRequest, failed, later
from runtime.engine import ERROR, PASS, Engine, RuleResult
from runtime.host import KEY as HOST
from runtime.host import Table, settle, within
from runtime.k8s.client import Object, Resource
from runtime.k8s.errors import ApiProblem
from runtime.mutate_existing import Changed, mutate_existing
from runtime.observe.policy_events import MUTATE
from runtime.request import Request, split_api_version

log = logging.getLogger("thesmos.background.mutate")

KIND: Final = "mutateExisting"
SECONDS: Final = 30.0
"""What reading the targets of one rule may take."""
SETTLING_SECONDS: Final = 30.0
"""How long other webhooks may hold up a request after we have answered; what is not stored by then never will be."""
FIRST_LOOK: Final = 0.05
LONGEST_LOOK: Final = 5.0
YOUNG_SECONDS: Final = 5.0
"""A policy that is not known may be so new that its watch has not told of it."""
CONFLICTS: Final = 5
"""How often targets are read anew that somebody else changes meanwhile."""
LABELS: Final = "mutate.updaterequest.kyverno.io/"
LONGEST_LABEL: Final = 63


async def mutating_rules(
    installation: Installation, engine: Engine, request: Request, results: Sequence[RuleResult], deadline: float
) -> None:
    """An update request for each rule that a request sets off; what could not be evaluated is told of."""
    about = trigger_of(request)
    if about is None:
        return
    work = []
    for result in results:
        if result.status == PASS:
            spec = spec_of(result, about, _context(request))
            work.append(installation.requests.write(spec, labels_of(result, about)))
        elif result.status == ERROR and result.info is not None:
            installation.tell.failed(result.info, result.rule, result.message, request.resource, MUTATE)
    await asyncio.gather(*work)


def _context(request: Request) -> dict[str, Any]:
    """An update that changes nothing leaves the object under its version. No other is waited for then: the old object
    goes without."""
    context = admission_context(request)
    asked = context["admissionRequestInfo"]["admissionRequest"]
    if request.operation == "UPDATE" and same_object(request.old, request.resource) and "oldObject" in asked:
        metadata = {k: v for k, v in asked["oldObject"]["metadata"].items() if k != "resourceVersion"}
        asked["oldObject"] = {**asked["oldObject"], "metadata": metadata}
    return context


def spec_of(result: RuleResult, about: Mapping[str, str], context: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of an update request; without a ``context`` the trigger is looked at as it is."""
    return {
        "requestType": "mutate",
        "policy": result.policy_key,
        "rule": result.rule,
        "resource": dict(about),
        "deleteDownstream": False,
        "context": dict(context),
    }


def labels_of(result: RuleResult, about: Mapping[str, str]) -> dict[str, str]:
    """By what people find update requests: policy and trigger. What is too long for a label is left out."""
    found = {
        "policy-name": result.policy,
        "trigger-name": about.get("name", ""),
        "trigger-namespace": about.get("namespace", ""),
        "trigger-kind": about.get("kind", ""),
        "trigger-apiversion": about.get("apiVersion", "").replace("/", "-"),
    }
    return {LABELS + key: value for key, value in found.items() if value and len(value) <= LONGEST_LABEL}


class Mutation:
    """The processor of update requests of type ``mutate``."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._engine: Engine | None = None
        self._snapshot: object = None
        installation.requests.processors["mutate"] = self.process

    def engine(self) -> Engine:
        """An engine of the policies that change objects which exist."""
        snapshot = self._installation.live.snapshot
        if self._engine is None or snapshot is not self._snapshot:
            self._engine = self._installation.policies.engine_of(
                lambda p: any(r.mutate is not None and r.mutate.targets for r in p.rules)
            )
            self._snapshot = snapshot
        return self._engine

    async def process(self, work: UpdateRequest) -> Outcome:
        """Does what an update request asks for. Raises the errors of the client."""
        engine = self.engine()
        if not any(plan.policy.key == work.policy and plan.kind == KIND for plan in engine.policies.rules):
            return later(1.0) if work.age < YOUNG_SECONDS else DONE
        request = await self._request(work)
        if isinstance(request, Outcome):
            return request
        only = [plan.policy for plan in engine.policies.rules if plan.policy.key == work.policy]
        deadline = time.monotonic() + SECONDS
        response = await evaluated(engine, request, self._installation, deadline, only[:1])
        problems: list[str] = []
        for result in response.results:
            if result.kind != KIND or (work.spec.get("rule") and result.rule != work.spec["rule"]):
                continue
            if result.status == ERROR:
                problems.append(result.message)
                self._tell_failure(result, request.resource, result.message)
            elif result.status == PASS:
                problems += await self._targets(engine, request, result)
        return failed("; ".join(dict.fromkeys(problems))) if problems else DONE

    async def _request(self, work: UpdateRequest) -> Request | Outcome:
        """The request that set the rule off: once it is stored, about the object as it was then or is now."""
        asked = ((work.spec.get("context") or {}).get("admissionRequestInfo") or {}).get("admissionRequest")
        if not asked:
            live = await self._live(work.spec.get("resource") or {})
            return DONE if live is None else of_object(self._installation, live)
        state = await persisted(self._installation.client, asked)
        if state.waits:
            if work.age < SETTLING_SECONDS:
                return later(min(LONGEST_LOOK, max(FIRST_LOOK, work.age / 2)))
            if not state.stored and asked.get("operation") == "CREATE":
                return DONE
        operation = asked.get("operation")
        obj = asked.get("oldObject") if operation == "DELETE" else asked.get("object")
        if operation == "CREATE" or obj is None or _without_data(obj):
            obj = state.live or obj
        return of_admission(self._installation, work.spec, obj)

    async def _live(self, about: Mapping[str, Any]) -> Object | None:
        group, version = split_api_version(str(about.get("apiVersion") or ""))
        for fresh in (False, True):
            for entry in (await self._installation.discovery(fresh)).find(group, version, str(about.get("kind"))):
                resource = entry.resource
                try:
                    found = await self._installation.client.get(
                        resource, str(about.get("name")), str(about.get("namespace") or "")
                    )
                except ApiProblem as problem:
                    if problem.missing:
                        return None
                    raise
                return {"apiVersion": resource.api_version, "kind": resource.kind, **found}
        return None

    async def _targets(self, engine: Engine, request: Request, result: RuleResult) -> list[str]:
        """Changes the targets of a rule; gives what went wrong. Each is written by itself."""
        problems: list[str] = []
        for _ in range(CONFLICTS):
            problems = []
            conflicts = 0
            for changed in await self._changed(engine, request, result):
                problem = ""
                if changed.result.status == ERROR or changed.target is None:
                    problem = changed.result.message
                elif changed.result.status == PASS and changed.result.patched not in (None, changed.target):
                    try:
                        await self._write(changed)
                    except ApiProblem as refused:
                        if refused.conflict:
                            conflicts += 1
                            continue
                        problem = str(refused)
                    else:
                        self._tell(request, result, changed)
                if problem:
                    problems.append(problem)
                    self._tell_failure(result, changed.target or request.resource, problem)
            if not conflicts:
                return problems
            await asyncio.sleep(FIRST_LOOK)
        return [*problems, "the targets change too often to be written"]

    async def _changed(self, engine: Engine, request: Request, result: RuleResult) -> tuple[Changed, ...]:
        def attempt(table: Table) -> tuple[Changed, ...]:
            found = mutate_existing(result, replace(request, root={**request.root, HOST: table}), engine.meter)
            table.complete()
            return found

        return await settle(attempt, within(self._installation.ask, time.monotonic() + SECONDS))

    async def _write(self, changed: Changed) -> None:
        assert changed.target is not None
        obj: Object = changed.result.patched
        metadata = changed.target.get("metadata") or {}
        namespace = str(metadata.get("namespace") or "")
        resource = Resource(**(changed.resource or {}), namespaced=bool(namespace))
        # It is the object that was read, whatever the rule makes of its name.
        kept = {key: metadata.get(key) for key in ("name", "namespace", "resourceVersion") if metadata.get(key)}
        obj = {**obj, "metadata": {**(obj.get("metadata") or {}), **kept}}
        await self._installation.client.replace(resource, obj, namespace, changed.subresource)

    def _tell(self, request: Request, result: RuleResult, changed: Changed) -> None:
        assert changed.target is not None
        named = {**changed.target}
        log.info("policy %s: rule %s changed %s", result.policy_key, result.rule, _named(named))
        if result.info is not None:
            self._installation.tell.mutated(result.info, [named])
        self._report(request, patched(changed.result, named))

    def _tell_failure(self, result: RuleResult, about: Any, problem: str) -> None:
        if result.info is not None:
            self._installation.tell.failed(
                result.info, result.rule, problem, about if type(about) is dict else None, MUTATE
            )

    def _report(self, request: Request, result: RuleResult) -> None:
        if type(request.resource) is dict:
            for tell in self._installation.outcomes:
                tell(request.resource, [result])


def _without_data(obj: Mapping[str, Any]) -> bool:
    """Whether an update request keeps an object without its data: that of a Secret is read again."""
    return obj.get("kind") == "Secret" and obj.get("apiVersion") == "v1"


def _named(obj: Mapping[str, Any]) -> str:
    return "/".join(reference(obj).get(key, "") for key in ("kind", "namespace", "name") if reference(obj).get(key))
