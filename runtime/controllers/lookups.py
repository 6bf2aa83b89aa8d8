"""Answers what rules ask of the cluster: reviews of access, parameters, context entries, namespaces that the watch has
not told of yet. ``services`` calls services for context entries; None: none are called.

The webhook puts the questions (``runtime.host.settle``). Parameters are kept for a moment, since a burst of requests
asks for the same ones; an answer that cannot be had is an ``Err``, never an empty one.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from runtime.context.cluster import Answers
from runtime.context.outside import CONTEXT_CALLS
from runtime.context.services import Services
from runtime.controllers.selectors import selector_text
from runtime.controllers.targets import targets
from runtime.host import AUTHORIZE, NAMESPACE_CALL, SOURCES, TARGETS
from runtime.k8s.client import KubeClient, Object, Resource
from runtime.k8s.discovery import Discovery
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import ACCESS_REVIEW, NAMESPACE
from runtime.params import CALL as PARAMS
from runtime.params import query_of
from runtime.request import split_api_version
from vm.host import HostCall
from vm.intrinsics.text import json_text
from vm.values import MISSING, Err, Value

KEPT_SECONDS: Final = 2.0
"""How old parameters may be: a change of them is seen this much later, as the API server's own caches lag."""
MAX_KEPT: Final = 1024


class Lookups:
    """``discovery`` tells which resources the cluster has; with True it is asked anew."""

    def __init__(
        self,
        client: KubeClient,
        discovery: Callable[[bool], Awaitable[Discovery]],
        services: Services | None = None,
    ) -> None:
        self.entries: Callable[[str], Awaitable[Value]] | None = None
        """Who keeps the global context: MISSING for an entry that it does not know of, which is then read here."""
        self._client = client
        self._contexts = Answers(client, services)
        self._discovery = discovery
        self._kept: dict[tuple[str, str | None], tuple[float, Value]] = {}

    async def ask(self, call: HostCall) -> Value:
        """The answer to a call, an ``Err`` when there is none."""
        try:
            if call.kind == AUTHORIZE:
                return await self._authorize(call.payload)
            if call.kind == PARAMS:
                return await self._params(call)
            if call.kind == SOURCES:
                return await self._sources(call)
            if call.kind == TARGETS:
                return await targets(self._client, self._discovery, call)
            if call.kind == "globalcontext" and self.entries is not None:
                kept = await self.entries(str(call.payload.get("name")))
                if kept is not MISSING:
                    return kept
            if call.kind in CONTEXT_CALLS:
                return await self._contexts.ask(call)
            if call.kind == NAMESPACE_CALL:
                return await self._client.get(NAMESPACE, call.payload)
        except ApiProblem as problem:
            return Err("host", str(problem))
        except (Unreachable, TimeoutError) as problem:
            return Err("host", f"the API server cannot be asked: {problem}")
        return Err("host", f"nobody answers calls of the kind {call.kind}")

    async def _authorize(self, spec: Mapping[str, Any]) -> Value:
        review = {"apiVersion": ACCESS_REVIEW.api_version, "kind": ACCESS_REVIEW.kind, "spec": dict(spec)}
        return (await self._client.create(ACCESS_REVIEW, review)).get("status")

    async def _params(self, call: HostCall) -> Value:
        key = (json_text(call.payload), call.scope)
        kept = self._kept.get(key)
        now = time.monotonic()
        if kept is not None and now - kept[0] < KEPT_SECONDS:
            return kept[1]
        found = await self._read(call)
        if type(found) is list:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            self._kept[key] = (now, found)
        return found

    async def _read(self, call: HostCall) -> Value:
        query = query_of(call.payload)
        resource = await self._resource(query.api_version, query.kind)
        if resource is None:
            return Err("host", f"the cluster has no {query.kind} of {query.api_version}")
        place = query.place(resource.namespaced, call.scope)
        if isinstance(place, Err):
            return place
        if query.name:
            try:
                return [await self._client.get(resource, query.name, place)]
            except ApiProblem as problem:
                if problem.missing:
                    return []
                raise
        page = await self._client.list(resource, place, {"labelSelector": selector_text(query.selector or {})})
        found: list[Object] = [
            # The items of a list do not say what they are.
            {"apiVersion": query.api_version, "kind": query.kind, **item}
            for item in page.get("items") or ()
        ]
        return sorted(found, key=lambda obj: str((obj.get("metadata") or {}).get("name")))

    async def _sources(self, call: HostCall) -> Value:
        """The objects that a generate rule copies, as they are now; one on its way out counts as gone."""
        query: Mapping[str, Any] = call.payload
        api_version, kind = str(query.get("apiVersion") or ""), str(query.get("kind") or "")
        resource = await self._resource(api_version, kind)
        if resource is None:
            return Err("host", f"the cluster has no {kind} of {api_version}")
        place = str(query.get("namespace") or "") if resource.namespaced else ""
        if call.scope is not None and place != call.scope:
            return Err("host", f"a policy of the namespace {call.scope} reads nothing elsewhere")
        if query.get("name"):
            if resource.namespaced and not place:
                return Err("host", f"the source {kind} {query['name']} has no namespace")
            try:
                found = [await self._client.get(resource, query["name"], place)]
            except ApiProblem as problem:
                if not problem.missing:
                    raise
                found = []
        else:
            page = await self._client.list(
                resource, place, {"labelSelector": selector_text(query.get("selector") or {})}
            )
            found = [{"apiVersion": resource.api_version, "kind": kind, **item} for item in page.get("items") or ()]
        return [{"object": obj} for obj in found if not (obj.get("metadata") or {}).get("deletionTimestamp")]

    async def _resource(self, api_version: str, kind: str) -> Resource | None:
        group, version = split_api_version(api_version)
        for fresh in (False, True):
            for entry in (await self._discovery(fresh)).find(group, version, kind):
                return entry.resource
        return None
