"""Finds objects by what labels keep of them: the uid, without a name.

``runtime.controllers.generation`` looks for the triggers of generated objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from runtime.controllers.downstream import CannotGenerate, Downstream
from runtime.controllers.installation import Installation
from runtime.k8s.client import Object, Resource
from runtime.k8s.errors import ApiProblem

Reference = Mapping[str, Any]
Found = list[tuple[Reference, Object | None]]

AT_ONCE: Final = 10


async def by_uid(
    installation: Installation, downstream: Downstream, references: Sequence[Reference]
) -> AsyncIterator[Found]:
    """The objects of references (``apiVersion``, ``kind``, ``namespace``, ``name``, ``uid``, of which some may be
    missing), some at a time; None for those that are not there. Raises the errors of the client."""
    places: dict[tuple[str, str, str], list[Reference]] = {}
    for one in references:
        key = (str(one.get("apiVersion") or ""), str(one.get("kind") or ""), str(one.get("namespace") or ""))
        places.setdefault(key, []).append(one)
    for (api_version, kind, namespace), group in places.items():
        try:
            resource = await downstream.resource(api_version, kind)
        except CannotGenerate:
            yield [(one, None) for one in group]
            continue
        async for found in _of_kind(installation, resource, namespace if resource.namespaced else "", group):
            yield found


async def _of_kind(
    installation: Installation, resource: Resource, namespace: str, group: Sequence[Reference]
) -> AsyncIterator[Found]:
    named = [one for one in group if one.get("name")]
    rest = [one for one in group if not one.get("name")]
    if resource.kind == "Namespace" and not resource.group:
        # They are known; only what seems to be gone is asked for.
        known = {str(n["metadata"].get("uid")): n for n in installation.namespaces.values()}
        here: Found = [
            (one, {"apiVersion": "v1", "kind": "Namespace", **known[str(one["uid"])]})
            for one in group
            if str(one.get("uid")) in known
        ]
        if here:
            yield here
        named = [one for one in named if str(one.get("uid")) not in known]
        rest = [one for one in rest if str(one.get("uid")) not in known]
    if rest:
        names = await _names(installation, resource, namespace, {str(one["uid"]) for one in rest})
        named += [{**one, "name": names[str(one["uid"])]} for one in rest if str(one["uid"]) in names]
        if gone := [one for one in rest if str(one["uid"]) not in names]:
            yield [(one, None) for one in gone]
    for at in range(0, len(named), AT_ONCE):
        some = named[at : at + AT_ONCE]
        yield list(
            zip(some, await asyncio.gather(*(_get(installation, resource, namespace, n) for n in some)), strict=True)
        )


async def _names(installation: Installation, resource: Resource, namespace: str, uids: set[str]) -> dict[str, str]:
    found = {}
    async for page in installation.client.pages(resource, namespace, metadata=True):
        for item in page.get("items") or ():
            metadata = item.get("metadata") or {}
            if metadata.get("uid") in uids:
                found[str(metadata["uid"])] = str(metadata["name"])
    return found


async def _get(installation: Installation, resource: Resource, namespace: str, one: Reference) -> Object | None:
    try:
        found = await installation.client.get(resource, str(one["name"]), namespace)
    except ApiProblem as problem:
        if problem.missing:
            return None
        raise
    if one.get("uid") and (found.get("metadata") or {}).get("uid") != one["uid"]:
        return None
    return {"apiVersion": resource.api_version, "kind": resource.kind, **found}
