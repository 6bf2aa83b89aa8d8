"""The objects of a cluster that may set a rule off, one after another: for rules that are carried out for what is there
already when their policy comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from runtime.controllers.installation import Installation
from runtime.k8s.client import Object, Resource
from vm.code import MatchKey


async def existing(
    installation: Installation, keys: Iterable[MatchKey], namespace: str | None
) -> AsyncIterator[Object]:
    """Objects of the kinds that a rule's match names, of a namespaced policy those of its own namespace; each once,
    though a kind may be served in several versions. What is being deleted is left out, and what the ConfigMap filters
    out, as policies are not asked about requests for it either. Raises the errors of the client."""
    seen: set[str] = set()
    resources = await _kinds(installation, keys, namespace)
    for resource in resources:
        # Of the same kind in another group: Events and Ingresses are served in two.
        twins = sum(r.kind == resource.kind for r in resources) > 1
        async for page in installation.client.pages(resource, namespace or "", {"limit": "250"}):
            for item in page.get("items") or ():
                await asyncio.sleep(0)
                metadata = item.get("metadata") or {}
                uid = str(metadata.get("uid") or "")
                if metadata.get("deletionTimestamp") or uid in seen or _filtered(installation, resource, metadata):
                    continue
                if twins:
                    seen.add(uid)
                yield {"apiVersion": resource.api_version, "kind": resource.kind, **item}


def _filtered(installation: Installation, resource: Resource, metadata: Mapping[str, Any]) -> bool:
    """Whether policies are not asked about an object; a Namespace is in itself, as it is for requests."""
    name = str(metadata.get("name") or "")
    is_namespace = (resource.group, resource.kind) == ("", "Namespace")
    namespace = name if is_namespace else str(metadata.get("namespace") or "")
    return installation.config().filters_out(resource.group, resource.version, resource.kind, "", namespace, name)


async def _kinds(installation: Installation, keys: Iterable[MatchKey], namespace: str | None) -> list[Resource]:
    found: dict[tuple[str, str], Resource] = {}
    discovery = await installation.discovery(False)
    for key in keys:
        kind = key.kind
        if kind.subresource or (key.operations and not {"CREATE", "UPDATE"} & set(key.operations)):
            continue
        for entry in discovery.find(kind.group, kind.version, kind.kind):
            resource = entry.resource
            if "list" in entry.verbs and (resource.namespaced or namespace is None):
                found.setdefault((resource.group, resource.plural), resource)
    return list(found.values())
