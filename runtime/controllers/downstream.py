"""Generated objects in the cluster: made when they are not there, brought in step when they differ, removed, let go.

``runtime.controllers.generation`` decides what is to be; here is how that is done with the fewest writes: an object is
looked at before it is written, and one that says what it should is left alone.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import orjson

from runtime.generate import CLONE_SOURCE, LABELS, MANAGED_BY
from runtime.k8s.client import HttpKubeClient, Object, Resource
from runtime.k8s.discovery import Discovery
from runtime.k8s.errors import ApiProblem
from runtime.request import split_api_version

log = logging.getLogger("thesmos.background.generate")

MANAGER: Final = "generate"
"""Field manager of server-side apply, as Kyverno's."""
REMEMBERED: Final = 20_000
"""Objects of which is remembered in which version they were last as they should be."""
TRIES: Final = 4
_COMPARED: Final = ("labels", "annotations")
_OF_OTHERS: Final = ("finalizers", "ownerReferences")

Place: TypeAlias = tuple[str, str, str, str]
"""API version, kind, namespace, name."""
Change: TypeAlias = Literal["created", "updated", "none"]
Likeness: TypeAlias = Literal["same", "more", "differs"]


class CannotGenerate(Exception):
    """Why an object cannot be made or found, for people."""


class Downstream:
    """``discovery`` tells which resources the cluster has; with True it is asked anew."""

    def __init__(self, client: HttpKubeClient, discovery: Callable[[bool], Awaitable[Discovery]]) -> None:
        self._client = client
        self._discovery = discovery
        self._in_step: OrderedDict[Place, tuple[str, int]] = OrderedDict()
        self._unmarked: OrderedDict[str, None] = OrderedDict()

    async def resource(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind. Raises :class:`CannotGenerate`."""
        group, version = split_api_version(api_version)
        for fresh in (False, True):
            for entry in (await self._discovery(fresh)).find(group, version, kind):
                return entry.resource
        raise CannotGenerate(f"the cluster has no {kind} of {api_version}")

    def is_in_step(self, place: Place, version: str) -> bool:
        """Whether an object was as it should be in this version: nothing to do when a watch tells of it."""
        known = self._in_step.get(place)
        return known is not None and known[0] == version

    async def ensure(
        self,
        wanted: Object,
        *,
        sync: bool,
        scope: str | None = None,
        apply: bool = False,
        fresh: bool = False,
        live: Object | None = None,
    ) -> tuple[Change, Object]:
        """Makes an object, or with ``sync`` brings it in step; gives it as it is then.

        ``scope`` is the namespace that a namespaced policy keeps to. ``apply``: by server-side apply. ``fresh``: it is
        not there in all likelihood. ``live`` is the object as it was just seen. Raises :class:`CannotGenerate` and the
        errors of the client.
        """
        resource = await self.resource(str(wanted["apiVersion"]), str(wanted["kind"]))
        metadata = dict(wanted["metadata"])
        if not resource.namespaced:
            metadata.pop("namespace", None)
            if scope is not None:
                raise CannotGenerate(f"a policy of the namespace {scope} makes nothing elsewhere")
        elif not metadata.get("namespace"):
            raise CannotGenerate(f"the target {resource.kind} {metadata.get('name')} has no namespace")
        wanted = {key: value for key, value in wanted.items() if key != "status"} | {"metadata": metadata}
        namespace, name = str(metadata.get("namespace") or ""), str(metadata["name"])
        for _ in range(TRIES):
            if live is None and not fresh:
                live = await self._get(resource, name, namespace)
            if live is None:
                try:
                    made = await self._write(resource, wanted, namespace, apply=apply, create=True)
                except ApiProblem as problem:
                    if not problem.conflict:
                        raise
                    fresh = False
                    continue
                return "created", self._remember(wanted, made)
            if not sync:
                return "none", live
            if self._matches(wanted, live, apply=apply):
                return "none", self._remember(wanted, live)
            try:
                made = await self._write(resource, _over(wanted, live), namespace, apply=apply, create=False)
            except ApiProblem as problem:
                if problem.code == 422 and likeness(wanted, live) != "differs":
                    # All that is asked for is there, and what is beside it may not go: defaults that are immutable.
                    return "none", self._remember(wanted, live)
                if not (problem.conflict or problem.missing):
                    raise
                live = None
                continue
            same = _version(made) == _version(live)
            return ("none" if same else "updated"), self._remember(wanted, made)
        raise CannotGenerate(f"{resource.kind} {name} is changed by others all the time")

    async def find(
        self,
        kinds: Iterable[tuple[str, str, str]],
        labels: Mapping[str, str | tuple[str, ...]],
        *,
        metadata: bool = True,
    ) -> AsyncIterator[Object]:
        """The objects of these kinds (group, version, kind) with these labels (a tuple: one of them), ``metadata``:
        that part of them. A kind that the cluster does not have has none. Raises the errors of the client."""
        selector = ",".join(
            f"{key} in ({','.join(value)})" if isinstance(value, tuple) else f"{key}={value}"
            for key, value in labels.items()
        )
        for group, version, kind in kinds:
            try:
                resource = await self.resource(f"{group}/{version}" if group else version, kind)
            except CannotGenerate:
                continue
            async for page in self._client.pages(resource, query={"labelSelector": selector}, metadata=metadata):
                for item in page.get("items") or ():
                    yield {**item, "apiVersion": resource.api_version, "kind": resource.kind}

    async def remove(self, obj: Object) -> bool:
        """Whether it was there; another object of the same name stays."""
        resource = await self.resource(obj["apiVersion"], obj["kind"])
        metadata = obj["metadata"]
        self._in_step.pop(place_of(obj), None)
        try:
            return await self._client.delete(
                resource,
                metadata["name"],
                metadata.get("namespace") or "",
                {"preconditions": {"uid": metadata["uid"]}, "propagationPolicy": "Background"},
            )
        except ApiProblem as problem:
            if problem.conflict:
                return False
            raise

    async def let_go(self, obj: Object) -> None:
        """Takes the labels off by which an object belongs to a rule: from now on it is whoever's it may concern."""
        await self._relabel(obj, lambda labels: {k: v for k, v in labels.items() if not _is_own(k)})

    async def mark_source(self, source: Object) -> bool:
        """Puts the label on a source by which its changes are noticed; false when it has changed since it was read, so
        that a change may have been missed. One that may not be written is let be: its copies are good all the same."""
        uid = str(source["metadata"].get("uid") or "")
        if CLONE_SOURCE in (source["metadata"].get("labels") or {}):
            return True
        try:
            same = await self._relabel(source, lambda labels: {**labels, CLONE_SOURCE: ""})
        except ApiProblem as problem:
            if uid not in self._unmarked:
                log.warning("the source %s is not marked, its changes will be missed: %s", _said(source), problem)
            self._unmarked[uid] = None
            if len(self._unmarked) > REMEMBERED:
                self._unmarked.popitem(last=False)
            return True
        return same

    async def _relabel(self, obj: Object, change: Callable[[dict[str, str]], dict[str, str]]) -> bool:
        """Whether the object was as it is given, but for the labels."""
        resource = await self.resource(obj["apiVersion"], obj["kind"])
        metadata = obj["metadata"]
        for _ in range(TRIES):
            # By update: roles of generate rules give that verb, and not that for patches.
            live = await self._get(resource, metadata["name"], metadata.get("namespace") or "")
            if live is None or live["metadata"].get("uid") != metadata.get("uid"):
                return False
            labels = live["metadata"].get("labels") or {}
            wanted = change(labels)
            same = _version(live) == _version(obj)
            if wanted == labels:
                return same
            try:
                await self._client.replace(
                    resource,
                    {**live, "metadata": {**live["metadata"], "labels": wanted}},
                    metadata.get("namespace") or "",
                )
            except ApiProblem as problem:
                if not problem.conflict:
                    raise
            else:
                return same
        return False

    async def _get(self, resource: Resource, name: str, namespace: str) -> Object | None:
        try:
            return await self._client.get(resource, name, namespace)
        except ApiProblem as problem:
            if problem.missing:
                return None
            raise

    async def _write(self, resource: Resource, obj: Object, namespace: str, *, apply: bool, create: bool) -> Object:
        if apply:
            metadata = {k: v for k, v in obj["metadata"].items() if k not in ("resourceVersion", *_OF_OTHERS)}
            return await self._client.apply(resource, {**obj, "metadata": metadata}, MANAGER, namespace)
        if create:
            return await self._client.create(resource, obj, namespace)
        return await self._client.replace(resource, obj, namespace)

    def _matches(self, wanted: Object, live: Object, *, apply: bool) -> bool:
        like = likeness(wanted, live)
        if like == "more" and apply:
            return True  # what others add is theirs
        if like == "more":
            # Defaults of the API server, or what others added: in the version that came back from our own write it was
            # defaults.
            known = self._in_step.get(place_of(live))
            return known == (_version(live), _hash(wanted))
        return like == "same"

    def _remember(self, wanted: Object, live: Object) -> Object:
        live.setdefault("apiVersion", wanted["apiVersion"])
        live.setdefault("kind", wanted["kind"])
        place = place_of(live)
        self._in_step[place] = (_version(live), _hash(wanted))
        self._in_step.move_to_end(place)
        if len(self._in_step) > REMEMBERED:
            self._in_step.popitem(last=False)
        return live


def place_of(obj: Mapping[str, Any]) -> Place:
    metadata = obj.get("metadata") or {}
    kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    return *kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def likeness(wanted: Object, live: Object) -> Likeness:
    """``same``: they say the same; ``more``: the live one says more; both without what the API server keeps for itself
    (semantics §18: compared both ways)."""
    left, right = _told(wanted), _told(live)
    if not _covers(left, right):
        return "differs"
    return "same" if _covers(right, left) else "more"


def _told(obj: Object) -> dict[str, Any]:
    metadata = obj.get("metadata") or {}
    told = {key: metadata.get(key) for key in _COMPARED}
    return {**{k: v for k, v in obj.items() if k not in ("metadata", "status")}, "metadata": told}


def _covers(wanted: Any, live: Any) -> bool:
    """Whether a value has all of another. What is empty counts as absent: the API server leaves it out."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        return all(_covers(value, live.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(live, list):
        return len(wanted) == len(live) and all(map(_covers, wanted, live))
    if wanted is None:
        return True
    if wanted in ({}, []):
        return live in (None, {}, [])
    return type(wanted) is type(live) and bool(wanted == live)


def _over(wanted: Object, live: Object) -> Object:
    """What to write over a live object: what others need to find it by, or to be told before it goes, stays."""
    metadata = {**wanted["metadata"], "resourceVersion": _version(live)}
    for key in _OF_OTHERS:
        if live["metadata"].get(key) and key not in metadata:
            metadata[key] = live["metadata"][key]
    return {**wanted, "metadata": metadata}


def _is_own(label: str) -> bool:
    return label == MANAGED_BY or (label.startswith(LABELS) and label != CLONE_SOURCE)


def _version(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("resourceVersion") or "")


def _hash(obj: Object) -> int:
    return hash(orjson.dumps(obj, option=orjson.OPT_SORT_KEYS))


def _said(obj: Mapping[str, Any]) -> str:
    _, kind, namespace, name = place_of(obj)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
