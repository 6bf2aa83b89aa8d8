"""Finds the objects that a rule with targets changes: by name, or all that wildcards and a selector mean.

``runtime.controllers.lookups`` answers calls of ``runtime.mutate_existing`` with it. What a namespaced policy may reach
has been decided before (``runtime.context.tenancy``); here it is held to kinds that live in namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from runtime.controllers.selectors import selector_text
from runtime.k8s.client import KubeClient, Object, Resource
from runtime.k8s.discovery import Discovery
from runtime.k8s.errors import ApiProblem
from runtime.mutate_existing import selected
from runtime.request import split_api_version
from vm.host import HostCall
from vm.values import Err, Value

_SUBRESOURCE: Final = re.compile(r"[/.]")
SCALE: Final = "scale"
MOST: Final = 5000
"""Targets of one rule: more are an error, since all are held at once."""


async def targets(client: KubeClient, discovery: Callable[[bool], Awaitable[Discovery]], call: HostCall) -> Value:
    """A list of ``{object, subresource, resource}``. Raises the errors of the client."""
    query: Mapping[str, Any] = call.payload
    kind, *rest = _SUBRESOURCE.split(str(query.get("kind") or ""), maxsplit=1)
    subresource = rest[0] if rest else ""
    api_version = str(query.get("apiVersion") or "")
    resources = await _resources(discovery, api_version, kind, "get" if _plain(query.get("name")) else "list")
    if not resources:
        return Err("host", f"the cluster has no {kind} of {api_version or 'any version'}")
    found: list[Value] = []
    for resource in resources:
        if call.scope is not None and not resource.namespaced:
            return Err("host", f"a policy of the namespace {call.scope} changes no {kind}: it is cluster-wide")
        for obj in await _objects(client, resource, query):
            if len(found) >= MOST:
                return Err("host", f"the rule has more than {MOST} targets")
            metadata = obj.get("metadata") or {}
            if subresource == SCALE:
                path = resource.path(str(metadata.get("namespace") or ""), str(metadata.get("name")), SCALE)
                obj = await client.raw("GET", path)
            named = {"group": resource.group, "version": resource.version, "plural": resource.plural}
            named["kind"] = resource.kind
            found.append({"object": obj, "subresource": subresource, "resource": named})
    return found


async def _resources(
    discovery: Callable[[bool], Awaitable[Discovery]], api_version: str, kind: str, verb: str
) -> list[Resource]:
    """The resources of a kind, each once though it may be served in several versions; wildcards mean several."""
    group, version = split_api_version(api_version) if api_version not in ("", "*") else ("*", "*")
    for fresh in (False, True):
        entries = (await discovery(fresh)).find(group, version, kind)
        found = {(e.resource.group, e.resource.plural): e.resource for e in reversed(entries) if verb in e.verbs}
        if found:
            return list(found.values())
    return []


async def _objects(client: KubeClient, resource: Resource, query: Mapping[str, Any]) -> list[Object]:
    name, namespace = str(query.get("name") or ""), str(query.get("namespace") or "")
    place = namespace if resource.namespaced and _plain(namespace) else ""
    stated = {"apiVersion": resource.api_version, "kind": resource.kind}
    if _plain(name) and (place or not resource.namespaced):
        try:
            listed = [await client.get(resource, name, place)]
        except ApiProblem as problem:
            if not problem.missing:
                raise
            return []
    else:
        wanted = {"labelSelector": text} if (text := selector_text(query.get("selector") or {})) else {}
        listed = (await client.list(resource, place, wanted)).get("items") or []
    # The items of a list do not say what they are.
    found = selected({**query, "kind": resource.kind, "apiVersion": ""}, [{**stated, **item} for item in listed])
    return [one["object"] for one in found] if type(found) is list else []


def _plain(text: Any) -> bool:
    return bool(text) and "*" not in str(text) and "?" not in str(text)
