"""The data of GlobalContextEntries offline: mocks of a test file, and entries given as objects whose resources are
given too.

A ``globalReference`` asks for ``name`` or ``name.projection``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vm.values import MISSING, Err, Value

if TYPE_CHECKING:
    from runtime.context.objects import Objects


@dataclass(frozen=True, slots=True)
class GlobalEntry:
    """The data of an entry, or why there is none, and the queries of its projections by name.

    ``mocked``: the projections were applied when the test was written (Kyverno quirk: a mock that has some is, without
    one, the map of them all).
    """

    data: Value
    projections: Mapping[str, str] = field(default_factory=dict)
    mocked: bool = False

    def read(self, projection: str) -> Value:
        """The data, or what a projection finds in it."""
        if type(self.data) is Err:
            return self.data
        if self.mocked and self.projections and not projection:
            return _first_error({name: self._projected(name) for name in self.projections})
        if not projection:
            return self.data
        if self.mocked and not self.projections and type(self.data) is dict and projection in self.data:
            return self.data[projection]
        if projection not in self.projections:
            return Err("host", f'projection "{projection}" not found')
        return self._projected(projection)

    def _projected(self, name: str) -> Value:
        found = _search(self.projections[name], self.data)
        return Err("host", f'projection "{name}": {found.text}') if type(found) is Err else found


def _search(query: str, data: Any) -> Value:
    from compiler.dynamic import search

    return search(query, data, compliance=False)


def _first_error(values: dict[str, Value]) -> Value:
    return next((v for v in values.values() if type(v) is Err), values)


class GlobalEntries:
    """Entries by name; mocks come before objects."""

    def __init__(self, entries: Mapping[str, GlobalEntry]) -> None:
        self._entries = entries

    def read(self, reference: str) -> Value:
        """The data behind a reference, an ``Err`` when it cannot be had, MISSING when no entry has the name."""
        name, _, projection = reference.partition(".")
        entry = self._entries.get(name)
        return MISSING if entry is None else entry.read(projection)


def mocked(entry: Mapping[str, Any], resources: Iterable[Mapping[str, Any]]) -> GlobalEntry:
    """A mock of a test file; ``resources`` are those of its ``resources`` and ``resourceFiles``."""
    data = entry.get("data")
    if data is None:
        data = [dict(r) for r in resources]
    path = entry.get("fieldPath")
    if path:
        found = _search(str(path), data)
        data = Err("host", f"fieldPath: {found.text}") if type(found) is Err else found
    projections = {str(p.get("name")): str(p.get("path")) for p in entry.get("projections") or ()}
    return GlobalEntry(data, projections, mocked=True)


def declared(entry: Mapping[str, Any], objects: Objects, call: Callable[[dict[str, Any]], Value]) -> GlobalEntry:
    """An entry that is given as an object (kind GlobalContextEntry). ``call`` answers its API call."""
    spec = entry.get("spec") or {}
    projections = {str(p.get("name")): str(p.get("jmesPath")) for p in spec.get("projections") or ()}
    wanted = spec.get("kubernetesResource")
    if wanted:
        found = objects.find(
            str(wanted.get("group") or ""),
            str(wanted.get("version") or ""),
            str(wanted.get("resource") or ""),
            str(wanted.get("namespace") or ""),
        )
        if type(found) is list:
            kind = objects.kind(str(wanted.get("group") or ""), str(wanted["version"]), str(wanted["resource"]))
            found = [{**kind, **item} for item in found]
        return GlobalEntry(found, projections)
    made = spec.get("apiCall") or {}
    data = {str(d.get("key")): d.get("value") for d in made.get("data") or ()}
    payload = {k: v for k, v in made.items() if k in ("urlPath", "service", "method")}
    return GlobalEntry(call({**payload, **({"data": data} if data else {})}), projections)
