"""An API server in memory: enough of ``runtime.k8s.client.KubeClient`` for the controllers, with faults on demand."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from runtime.k8s.client import ApiMissing, Object, Resource
from runtime.k8s.errors import ApiProblem, Expired, Unreachable
from runtime.k8s.watch import Key, key_of


class FakeApi:
    """Objects by resource and key. ``history`` is where watches may begin; ``fail_next`` holds errors to raise once."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[Key, Object]] = {}
        self.calls: list[tuple[str, str, str]] = []
        self.fail_next: list[Exception] = []
        self.answers: dict[tuple[str, str], Any] = {}
        self.deleted: list[tuple[str, str, dict[str, Any]]] = []
        self._version = 0
        self._oldest = 0
        self._log: list[tuple[int, str, str, Object]] = []
        self._changed = asyncio.Event()
        self._broken = 0

    def put(self, resource: Resource, obj: Object) -> Object:
        """Stores an object as a client of the cluster would, and tells the watches."""
        kept = copy.deepcopy(obj)
        key = key_of(kept)
        known = self.objects.setdefault(resource.plural, {})
        self._version += 1
        kept.setdefault("metadata", {})["resourceVersion"] = str(self._version)
        self._tell(resource, "MODIFIED" if key in known else "ADDED", kept)
        known[key] = kept
        return copy.deepcopy(kept)

    def remove(self, resource: Resource, name: str, namespace: str = "") -> None:
        gone = self.objects.get(resource.plural, {}).pop((namespace, name), None)
        if gone is None:
            raise ApiMissing(404, "NotFound", f"{name} not found")
        self._version += 1
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._tell(resource, "DELETED", gone)

    def forget_history(self) -> None:
        """Compaction: watches from before now are told 410."""
        self._oldest = self._version + 1
        self._log.clear()
        self._break()

    def _break(self) -> None:
        """Ends every open watch."""
        self._broken += 1
        self._changed.set()

    def _tell(self, resource: Resource, what: str, obj: Object) -> None:
        self._log.append((self._version, resource.plural, what, copy.deepcopy(obj)))
        self._changed.set()

    def _enter(self, verb: str, resource: Resource, name: str = "") -> None:
        self.calls.append((verb, resource.plural, name))
        if self.fail_next:
            raise self.fail_next.pop(0)

    async def list(self, resource: Resource, namespace: str = "", query: Mapping[str, str] | None = None) -> Object:
        self._enter("list", resource)
        wanted = selector_of(query)
        items = [
            copy.deepcopy(o)
            for k, o in self.objects.get(resource.plural, {}).items()
            if namespace in ("", k[0]) and wanted(o)
        ]
        for item in items:
            item.pop("kind", None)
            item.pop("apiVersion", None)
        return {"items": items, "metadata": {"resourceVersion": str(self._version)}}

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        self._enter("get", resource, name)
        try:
            return copy.deepcopy(self.objects[resource.plural][namespace, name])
        except KeyError:
            raise ApiMissing(404, "NotFound", f"{name} not found") from None

    async def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        self._enter("create", resource, obj["metadata"]["name"])
        if key_of(obj) in self.objects.get(resource.plural, {}):
            raise ApiProblem(409, "AlreadyExists", "already exists")
        return self.put(resource, obj)

    async def replace(self, resource: Resource, obj: Object, namespace: str = "", subresource: str = "") -> Object:
        self._enter("replace", resource, obj["metadata"]["name"])
        current = self.objects.get(resource.plural, {}).get(key_of(obj))
        if current is None:
            raise ApiMissing(404, "NotFound", f"{obj['metadata']['name']} not found")
        if obj["metadata"].get("resourceVersion") not in (None, current["metadata"]["resourceVersion"]):
            raise ApiProblem(409, "Conflict", "changed meanwhile")
        return self.put(resource, obj)

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", subresource: str = ""
    ) -> Object:
        self._enter("patch", resource, name)
        current = await self.get(resource, name, namespace)
        self.calls.pop()
        return self.put(resource, _merged(current, patch))

    async def pages(
        self, resource: Resource, namespace: str = "", query: Mapping[str, str] | None = None, *, metadata: bool = False
    ) -> AsyncIterator[Object]:
        """Pages of two objects each."""
        whole = await self.list(resource, namespace, query)
        items = whole["items"]
        for at in range(0, max(len(items), 1), 2):
            yield {**whole, "items": items[at : at + 2]}

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: Mapping[str, Any] | None = None
    ) -> bool:
        self._enter("delete", resource, name)
        found = self.objects.get(resource.plural, {}).get((namespace, name))
        if found is None:
            return False
        for key, wanted in ((options or {}).get("preconditions") or {}).items():
            if found["metadata"].get(key) != wanted:
                raise ApiProblem(409, "Conflict", f"the {key} is another")
        if not (options or {}).get("dryRun"):
            self.deleted.append((resource.plural, name, dict(options or {})))
            self.remove(resource, name, namespace)
        return True

    async def raw(self, method: str, path: str, body: Any = None) -> Any:
        """Answers by ``answers``, a map of methods and paths."""
        self.calls.append((method, path, ""))
        if self.fail_next:
            raise self.fail_next.pop(0)
        try:
            return copy.deepcopy(self.answers[method, path])
        except KeyError:
            raise ApiMissing(404, "NotFound", "the server could not find the requested resource") from None

    async def watch(
        self,
        resource: Resource,
        resource_version: str,
        namespace: str = "",
        query: Mapping[str, str] | None = None,
        *,
        metadata: bool = False,
    ) -> AsyncIterator[Object]:
        """An object that stops to be selected by the labels of ``query`` is told of as deleted, as Kubernetes does."""
        self._enter("watch", resource)
        wanted = selector_of(query)
        seen = int(resource_version)
        epoch = self._broken
        while True:
            if seen + 1 < self._oldest:
                raise Expired(410, "Expired", "too old resource version")
            for version, plural, what, obj in list(self._log):
                if version > seen:
                    seen = version
                    if plural != resource.plural or namespace not in ("", key_of(obj)[0]):
                        continue
                    yield {"type": what if wanted(obj) else "DELETED", "object": copy.deepcopy(obj)}
            if epoch != self._broken:
                if seen + 1 < self._oldest:
                    continue
                raise Unreachable("the connection broke")
            self._changed.clear()
            await self._changed.wait()


def selector_of(query: Mapping[str, str] | None) -> Callable[[Object], bool]:
    """What a ``labelSelector`` selects: keys that must be there, or have a value."""
    text = (query or {}).get("labelSelector") or ""
    parts = [part.partition("=") for part in text.split(",") if part]

    def selects(obj: Object) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(key in labels and (not equals or labels[key] == value) for key, equals, value in parts)

    return selects


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
