"""Carries out one rule that removes objects: lists the kinds it names, asks the rule of each object, deletes.

``runtime.controllers.cleaning`` decides when. Objects come page by page, so that a sweep of a large cluster holds a
hundred of them; each is deleted only as it was judged, by its UID and its version: one that has been made again or
changed meanwhile is read and judged anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from runtime.cleanup import Removal, label, removal
from runtime.controllers.installation import Installation
from runtime.controllers.places import Place
from runtime.engine import ERROR, Engine
from runtime.generate import MANAGED_BY
from runtime.host import KEY as HOST
from runtime.host import Ask, Table, key_of, settle
from runtime.k8s.client import Object, Resource
from runtime.k8s.errors import ApiProblem
from runtime.policyset import CLEANUP_POLICIES, RulePlan
from runtime.request import Request
from vm.host import HostCall
from vm.values import Value

log = logging.getLogger("thesmos.background.cleanup")

T = TypeVar("T")

PAGE: Final = "100"
"""Objects a page: 500 Pods with their status are 15 MB once decoded."""
SLICE: Final = 20
"""Objects judged before others get their turn: each takes about 0.1 ms."""
TRIES: Final = 3
"""How often an object is judged anew that changes while it is."""
MOST_KEPT: Final = 256
TOLD: Final = 10
"""Events of one sweep about what went wrong: the same is wrong with every object when a context cannot be loaded."""


@dataclass(slots=True)
class Swept:
    """What came of a sweep: how many objects went, and what was wrong, a line each."""

    deleted: int = 0
    problems: int = 0
    last: str = ""

    def fail(self, text: str) -> None:
        self.problems += 1
        self.last = text


class Sweeper:
    """With ``cleanup_dry_run`` of the settings the API server is asked to try each deletion, and nothing goes."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._client = installation.client
        self._tell = installation.tell
        self._dry = installation.settings.cleanup_dry_run

    async def sweep(self, engine: Engine, plan: RulePlan, policy: Object, places: Iterable[Place]) -> Swept:
        """Removes what the rule says. ``policy`` is the object that events are about. Problems are counted and told,
        never raised, but for an API server that is away."""
        swept = Swept()
        ask = remembering(self._installation.ask)
        judged = 0
        for place in places:
            try:
                async for page in self._client.pages(place.resource, place.namespace, {"limit": PAGE, **place.query}):
                    for item in page.get("items") or ():
                        judged += 1
                        if judged % SLICE == 0:
                            await asyncio.sleep(0)
                        await self.remove(engine, plan, policy, place.resource, item, ask, swept)
            except ApiProblem as problem:
                swept.fail(f"{place.resource.plural}: {problem}")
                log.warning("%s: %s cannot be listed: %s", plan.policy.key, place.resource.plural, problem)
        return swept

    async def remove(
        self, engine: Engine, plan: RulePlan, policy: Object, resource: Resource, obj: Object, ask: Ask, swept: Swept
    ) -> None:
        """Judges one object and removes it if the rule says so."""
        for _ in range(TRIES):
            metadata = obj.get("metadata") or {}
            if metadata.get("deletionTimestamp") or self._spared(resource, metadata):
                return
            found = await self.judge(resource, obj, ask, lambda request: removal(engine, plan, request))
            if found is None:
                return
            if found.result.status == ERROR:
                self._failed(found, policy, found.result.message, swept)
                return
            try:
                await self._delete(resource, metadata, found)
            except ApiProblem as problem:
                if not problem.conflict:
                    self._count("errors", resource, metadata, found)
                    self._failed(found, policy, problem, swept)
                    return
                # Another version of it is there by now.
                newer = await self._read(resource, metadata)
                if newer is None:
                    return
                obj = newer
                continue
            swept.deleted += 1
            self._done(resource, metadata, found, policy)
            return
        log.info("%s: %s %s changes too often to be judged", plan.policy.key, resource.kind, metadata.get("name"))

    def _spared(self, resource: Resource, metadata: Mapping[str, Any]) -> bool:
        """Whether an object is left alone whatever rules say: by the resource filters, or as one of our own that are
        protected."""
        name, namespace = str(metadata.get("name")), str(metadata.get("namespace") or "")
        if self._installation.config().filters_out(
            resource.group, resource.version, resource.kind, "", namespace, name
        ):
            return True
        managed = (metadata.get("labels") or {}).get(MANAGED_BY) == "kyverno"
        return managed and self._installation.settings.protect_managed

    async def judge(self, resource: Resource, obj: Object, ask: Ask, look: Callable[[Request], T]) -> T:
        """What ``look`` makes of a request that stands for an object as it is."""
        # The items of a list do not say what they are.
        stated: Object = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        namespace = self._installation.namespaces.get(str((obj.get("metadata") or {}).get("namespace") or ""))
        labels = None if namespace is None else (namespace.get("metadata") or {}).get("labels") or {}

        def once(table: Table) -> T:
            request = Request.from_resource(
                stated,
                namespace_labels=labels,
                namespace_object=namespace,
                kind=(resource.group, resource.version, resource.kind, ""),
                plural=resource.plural,
            )
            request.root[HOST] = table
            found = look(request)
            table.complete()
            return found

        return await settle(once, ask)

    async def _delete(self, resource: Resource, metadata: Mapping[str, Any], found: Removal) -> None:
        options: Object = {
            "preconditions": {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")}
        }
        if found.propagation:
            options["propagationPolicy"] = found.propagation
        elif is_guides(found.plan):
            # Kubernetes leaves the Pods of a deleted Job behind unless it is told otherwise, which the author of the
            # guide's rule cannot have meant; a cleanup policy has a field for it, and else Kyverno's answer.
            options["propagationPolicy"] = "Background"
        if self._dry:
            options["dryRun"] = ["All"]
        await self._client.delete(resource, str(metadata.get("name")), str(metadata.get("namespace") or ""), options)

    async def _read(self, resource: Resource, metadata: Mapping[str, Any]) -> Object | None:
        try:
            return await self._client.get(resource, str(metadata.get("name")), str(metadata.get("namespace") or ""))
        except ApiProblem as problem:
            if problem.missing:
                return None
            raise

    def _done(self, resource: Resource, metadata: Mapping[str, Any], found: Removal, policy: Object) -> None:
        if self._dry:
            log.info("%s: %s would be cleaned up (dry run)", found.plan.policy.key, label(found.object))
            return
        log.info("%s: %s cleaned up", found.plan.policy.key, label(found.object))
        self._count("deletedobjects", resource, metadata, found)
        self._tell.cleaned(policy, found.object)

    def _failed(self, found: Removal, policy: Object, problem: object, swept: Swept) -> None:
        swept.fail(f"{label(found.object)}: {problem}")
        if swept.problems <= TOLD:
            log.warning("%s: %s is not cleaned up: %s", found.plan.policy.key, label(found.object), problem)
            self._tell.cleaned(policy, found.object, problem)

    def _count(self, what: str, resource: Resource, metadata: Mapping[str, Any], found: Removal) -> None:
        info = found.plan.policy
        self._installation.metrics.count(
            f"kyverno_cleanup_controller_{what}_total",
            info.kind,
            info.namespace or "",
            info.name,
            resource.kind,
            resource.group,
            resource.version,
            str(metadata.get("namespace") or ""),
            found.propagation,
        )


def is_guides(plan: RulePlan) -> bool:
    """Whether a rule is one of the guide's (decision 5) and not that of a cleanup policy."""
    return plan.policy.kind not in CLEANUP_POLICIES


def remembering(ask: Ask) -> Ask:
    """The same, asking each question once: what the context of a rule asks is mostly the same for all objects."""
    kept: dict[tuple[str, str, str | None], Value] = {}

    async def asked(call: HostCall) -> Value:
        key = key_of(call)
        if key not in kept:
            answer = await ask(call)
            if len(kept) >= MOST_KEPT:
                kept.clear()
            kept[key] = answer
        return kept[key]

    return asked
