"""An installation over an API server in memory, for what works by the clock: cleanup, times to live, global context."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

from compiler.source import load_values
from runtime.bundles import make_imports
from runtime.config import Settings
from runtime.controllers.clusterconfig import ClusterConfig, parse
from runtime.controllers.installation import Installation, Part
from runtime.controllers.leases import Shards
from runtime.controllers.lookups import Lookups
from runtime.controllers.policy import PolicyController
from runtime.k8s.client import Object, Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.k8s.resources import (
    CLEANUP_POLICY,
    CLUSTER_CLEANUP_POLICY,
    CLUSTER_POLICY,
    CONFIG_MAP,
    EXCEPTION,
    NAMESPACE,
)
from runtime.observe.metrics import Metrics
from runtime.webhook.live import Live
from tests.unit.runtime.fake_api import FakeApi

POD = Resource("", "v1", "pods", "Pod")
JOB = Resource("batch", "v1", "jobs", "Job")
OLD_JOB = Resource("batch", "v1beta1", "jobs", "Job")
KINDS = {
    "ClusterPolicy": CLUSTER_POLICY,
    "CleanupPolicy": CLEANUP_POLICY,
    "ClusterCleanupPolicy": CLUSTER_CLEANUP_POLICY,
    "PolicyException": EXCEPTION,
}
VERBS = frozenset(["get", "list", "watch", "delete"])


class Api(FakeApi):
    """Gives uids and times; ``may`` says what the account may do, ``meanwhile`` holds what happens before a
    deletion."""

    def __init__(self) -> None:
        super().__init__()
        self.may: Callable[[str, str], bool] = lambda verb, plural: True
        self.meanwhile: list[Callable[[], Any]] = []
        self.tried: list[dict[str, Any]] = []

    def put(self, resource: Resource, obj: Object) -> Object:
        metadata = obj["metadata"]
        before = self.objects.get(resource.plural, {}).get((metadata.get("namespace") or "", metadata["name"]))
        kept = {} if before is None else {k: before["metadata"][k] for k in ("uid", "creationTimestamp")}
        fresh = {"uid": str(uuid4()), "creationTimestamp": "2026-02-02T00:00:00Z", **kept}
        return super().put(resource, {**obj, "metadata": {**fresh, **metadata}})

    async def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        if resource.kind == "SelfSubjectAccessReview":
            asked = obj["spec"]["resourceAttributes"]
            return {"status": {"allowed": self.may(asked["verb"], asked["resource"])}}
        return await super().create(resource, obj, namespace)

    async def delete(self, resource: Resource, name: str, namespace: str = "", options: Any = None) -> bool:
        self.tried.append(dict(options or {}))
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return await super().delete(resource, name, namespace, options)


class Tell:
    """Hears what is told as events."""

    def __init__(self) -> None:
        self.cleanups: list[tuple[str, str, str]] = []

    def cleaned(self, policy: Object, target: Object, problem: object = None) -> None:
        names = policy["metadata"]["name"], target["metadata"]["name"]
        self.cleanups.append((*names, "" if problem is None else str(problem)))


class Heard:
    """Events, by reason and message."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def emit(self, reason: str, action: str, message: str, regarding: Object, **rest: Any) -> None:
        self.events.append((reason, message))


class Bench:
    def __init__(self, **settings: Any) -> None:
        self.api = Api()
        self.tell = Tell()
        self.heard = Heard()
        self.metrics = Metrics()
        self.shards = Shards()
        for part in ("cleanup", "admission"):
            self.shards.hold_all(part)
        self.config = ClusterConfig()
        self.discovery = Discovery(
            [Entry(r, verbs=VERBS) for r in (POD, JOB, OLD_JOB, CONFIG_MAP)]
            + [Entry(NAMESPACE, verbs=VERBS - {"delete"})]
        )
        self.parts: list[Part] = []
        live = Live(namespaces={"default": {"metadata": {"name": "default", "labels": {"tier": "low"}}}})
        made = replace(Settings(), **settings)
        self.policies = PolicyController(live, made, self.metrics, make_imports(), self._changed)
        self.lookups = Lookups(self.api, self._discovery)
        self.installation = Installation(
            self.api,  # type: ignore[arg-type]
            made,
            live,
            self.metrics,
            self.policies,
            self._discovery,
            self.lookups.ask,
            lambda: self.config,
            self.heard,  # type: ignore[arg-type]
            self.shards,
            lambda: None,
            self.tell,  # type: ignore[arg-type]
            lookups=self.lookups,
        )

    def filters(self, text: str) -> None:
        """As the ConfigMap would set them."""
        self.config = parse({"data": {"resourceFilters": text}})

    async def policy(self, text: str) -> Object:
        """Stores a policy and takes it in."""
        (obj,) = load_values(text)
        stored = self.api.put(KINDS[obj["kind"]], dict(obj))
        self.policies.note("added", stored)
        await self.policies.round()
        assert [e.error for e in self.policies.entries.values() if e.error] == []
        return stored

    def pod(self, name: str, namespace: str = "default", **metadata: Any) -> Object:
        return self.api.put(POD, {"metadata": {"name": name, "namespace": namespace, **metadata}, "spec": {}})

    def left(self, resource: Resource = POD) -> set[str]:
        return {key[1] for key in self.api.objects.get(resource.plural, {})}

    @contextlib.asynccontextmanager
    async def running(self, part: Part) -> AsyncIterator[None]:
        self.parts.append(part)
        task = asyncio.create_task(part.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _changed(self) -> None:
        for part in self.parts:
            part.policies_changed()

    async def _discovery(self, fresh: bool) -> Discovery:
        return self.discovery


async def until(look: Callable[[], Any], seconds: float = 5.0) -> Any:
    """Waits until something is there."""
    async with asyncio.timeout(seconds):
        while not (found := look()):
            await asyncio.sleep(0.01)
    return found
