"""What the compiler knows of kinds: their fields with CEL types, their resources, how their lists merge.

The CEL checker asks a :class:`Schemas` for fields (it is a ``SchemaProvider``), the pattern check walks it, and match
rules of native policies find their kinds by resource. Types are those of objects in admission: there the API server
hands out the JSON form, so times and bytes are texts. Nothing is read before the first question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from compiler.frontends.cel import types as cel
from compiler.frontends.cel.types import ListOf, MapOf, Object, Soft, Type
from compiler.frontends.pattern import parse_kind
from compiler.schema.kinds import custom, table
from compiler.schema.kinds.records import REF, Definition, Record
from vm.intrinsics import wildcard

_WORDS: Final[dict[str, Type]] = {
    "string": Soft(cel.STRING),
    "time": Soft(cel.STRING),
    "bytes": Soft(cel.STRING),
    "int": Soft(cel.INT),
    "double": Soft(cel.DOUBLE),
    "bool": Soft(cel.BOOL),
    "quantity": Soft(cel.QUANTITY_TEXT),
    "int-or-string": Soft(cel.INT_OR_STRING),
    "object": Soft(MapOf(cel.STRING, cel.DYN)),
    "any": cel.DYN,
}
_JOIN: Final = " or "


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of a resource, and the kind that its requests carry (``pods/eviction``: policy/v1 Eviction)."""

    name: str
    group: str
    version: str
    kind: str
    definition: str | None


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """A resource as discovery tells it. ``definition`` names its fields; None where no schema is known."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    definition: str | None
    subresources: Mapping[str, Subresource] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListInfo:
    """How a list field behaves: ``type`` (``atomic``, ``set``, ``map``) and ``keys`` in server-side apply, ``merge``
    (the key) and ``strategy`` in a strategic merge patch, ``bound`` the most elements it may have."""

    type: str = "atomic"
    keys: tuple[str, ...] = ()
    merge: str | None = None
    strategy: str = ""
    bound: int | None = None


class Schemas:
    """The stored table with a user's CRDs over it. A CRD for a kind that is there already takes its place."""

    def __init__(self, crds: Sequence[dict[str, Any]] = ()) -> None:
        self._crds = tuple(crds)
        self._fields: dict[str, Mapping[str, Type]] = {}

    @property
    def version(self) -> str:
        """The Kubernetes version of the built-in kinds (``v1.36.3``)."""
        return table.stored().version

    def fields(self, name: str) -> Mapping[str, Type] | None:
        """The fields of a definition, ``Soft`` types; None for a name that is not known."""
        found = self._fields.get(name)
        if found is None and (definition := self._definition(name)) is not None:
            found = {key: self._type(record) for key, record in definition["fields"].items()}
            self._fields[name] = found
        return found

    def required(self, name: str) -> frozenset[str]:
        """The fields that an object of the definition must have."""
        definition = self._definition(name)
        return frozenset(definition.get("required", ())) if definition is not None else frozenset()

    def kind(self, group: str, version: str, kind: str) -> Object | None:
        """The type of a kind, subresources' own kinds too (``Eviction``); None when it is not known."""
        return self._kinds.get((group, version, kind))

    def resource(self, group: str, version: str, plural: str) -> ResourceInfo | None:
        return self._by_plural.get((group, version, plural))

    def resources(self) -> Iterable[ResourceInfo]:
        """Every resource that is known."""
        return self._by_plural.values()

    def of_kind(self, group: str, version: str, kind: str) -> ResourceInfo | None:
        """The resource that is called by this kind."""
        return next((r for r in self._by_kind.get(kind, ()) if (r.group, r.version) == (group, version)), None)

    def resources_of_kind(self, kind: str) -> Iterable[ResourceInfo]:
        """Every resource that is called by the kind, of whatever group and version."""
        return self._by_kind.get(kind, ())

    def select(self, selector: str) -> tuple[Object, ...] | None:
        """The types that a kind selector names (``Pod``, ``apps/*/Deployment``, ``Pod/eviction``), each once.

        None when it is no selector, names nothing known, or names something of which no schema is known.
        """
        key = parse_kind(selector)
        if key is None:
            return None
        exact = "*" not in key.kind and "?" not in key.kind
        rows: Iterable[ResourceInfo] = self._by_kind.get(key.kind, ()) if exact else self._by_plural.values()
        names: list[str | None] = []
        for row in rows:
            if not (
                wildcard.match(key.group, row.group)
                and wildcard.match(key.version, row.version)
                and (exact or wildcard.match(key.kind, row.kind))
            ):
                continue
            if key.subresource:
                names += [s.definition for s in row.subresources.values() if wildcard.match(key.subresource, s.name)]
            else:
                names.append(row.definition)
        known = [n for n in dict.fromkeys(names) if n is not None]
        return tuple(self._object(n) for n in known) if known and None not in names else None

    def common(self, kinds: Iterable[Object]) -> Object | None:
        """The type that an object of any of these kinds has: of one kind the kind itself, of several an open object
        with what all of them have with the same meaning, through all levels. None for no kind."""
        distinct = list(dict.fromkeys(kinds))
        if not distinct:
            return None
        found = distinct[0]
        for other in distinct[1:]:
            found = self._both(found, other)
        return found

    def list_info(self, definition: str, name: str) -> ListInfo | None:
        """What is known of a list field; None when the field is not there or no list."""
        record = self._record(definition, name)
        if not isinstance(record, dict) or "list" not in record:
            return None
        keys, bound = record.get("keys"), record.get("max")
        return ListInfo(
            type=str(record.get("type", "atomic")),
            keys=tuple(k for k in keys if isinstance(k, str)) if isinstance(keys, list) else (),
            merge=merge if isinstance(merge := record.get("merge"), str) else None,
            strategy=str(record.get("patch", "")),
            bound=bound,
        )

    def element(self, definition: str, name: str) -> str | None:
        """The definition of a field's value, or of the elements of a list field; None for what has none."""
        record = self._record(definition, name)
        while isinstance(record, dict):
            record = record.get("list", record.get("is"))
        return record.removeprefix(REF) if record is not None and record.startswith(REF) else None

    def atomic(self, definition: str, name: str) -> bool:
        """Whether server-side apply replaces a map or object field as a whole."""
        record = self._record(definition, name)
        if isinstance(record, dict):
            if record.get("type") == "atomic":
                return True
            if "list" in record:
                return False
        inner = self.element(definition, name)
        found = self._definition(inner) if inner is not None else None
        return found is not None and found.get("atomic", False)

    def merge_key(self, definition: str, name: str) -> str | None:
        """The key by which a strategic merge patch joins the elements of a list field; None where it replaces it."""
        info = self.list_info(definition, name)
        return info.merge if info is not None else None

    def strategy(self, definition: str, name: str) -> str:
        """``x-kubernetes-patch-strategy`` of a field (``merge``, ``merge,retainKeys``, …), empty when not given."""
        record = self._record(definition, name)
        return str(record.get("patch", "")) if isinstance(record, dict) else ""

    def list_bound(self, definition: str, name: str) -> int | None:
        """The most elements a list field may have, or entries a map field, when the schema says."""
        record = self._record(definition, name)
        if not isinstance(record, dict) or "is" in record:
            return None
        bound: int | None = record.get("max")
        return bound

    def text_bound(self, definition: str, name: str) -> int | None:
        """The most characters a text field may have, when the schema says."""
        record = self._record(definition, name)
        if not isinstance(record, dict) or "is" not in record:
            return None
        bound: int | None = record.get("max")
        return bound

    def enum(self, definition: str, name: str) -> tuple[str, ...] | None:
        """The texts that a field may hold, sorted, when the schema lists them."""
        record = self._record(definition, name)
        return tuple(record["enum"]) if isinstance(record, dict) and "enum" in record else None

    @cached_property
    def _custom(self) -> tuple[list[list[Any]], dict[str, Definition]]:
        return custom.read(self._crds)

    @cached_property
    def _by_plural(self) -> dict[tuple[str, str, str], ResourceInfo]:
        rows = [*table.stored().resources, *self._custom[0]]
        found: dict[tuple[str, str, str], ResourceInfo] = {}
        for group, version, plural, singular, kind, namespaced, definition, parts in rows:
            subresources = {part[0]: Subresource(*part) for part in parts}
            info = ResourceInfo(group, version, plural, singular, kind, namespaced, definition, subresources)
            found[info.group, info.version, info.plural] = info
        return found

    @cached_property
    def _by_kind(self) -> dict[str, list[ResourceInfo]]:
        found: dict[str, list[ResourceInfo]] = {}
        for info in self._by_plural.values():
            found.setdefault(info.kind, []).append(info)
        return found

    @cached_property
    def _kinds(self) -> dict[tuple[str, str, str], Object]:
        found: dict[tuple[str, str, str], Object] = {}
        for info in self._by_plural.values():
            parts: list[ResourceInfo | Subresource] = [info, *info.subresources.values()]
            for part in parts:
                if part.definition is not None:
                    found[part.group, part.version, part.kind] = self._object(part.definition)
        return found

    def _definition(self, name: str) -> Definition | None:
        own = self._custom[1].get(name)
        return own if own is not None else table.stored().definition(name)

    def _record(self, definition: str, name: str) -> Record | None:
        found = self._definition(definition)
        return found["fields"].get(name) if found is not None else None

    def _object(self, name: str) -> Object:
        definition = self._definition(name)
        return Object(name, open=definition is None or definition.get("open", False))

    def _type(self, record: Record) -> Type:
        if isinstance(record, str):
            return Soft(self._object(record[1:])) if record.startswith(REF) else _WORDS[record]
        if "list" in record:
            return Soft(ListOf(self._type(record["list"])))
        if "map" in record:
            return Soft(MapOf(cel.STRING, self._type(record["map"])))
        return self._type(record["is"])

    def _both(self, a: Object, b: Object, under: frozenset[str] = frozenset()) -> Object:
        """``under`` are the joined types whose fields are being found further up: definitions may hold themselves."""
        if a.name == b.name:
            return a
        name = _JOIN.join(dict.fromkeys([*a.name.split(_JOIN), *b.name.split(_JOIN)]))
        if name in under:
            return Object(name, open=True)
        if name not in self._fields:
            ours, theirs = self.fields(a.name) or {}, self.fields(b.name) or {}
            inside = under | {name}
            joined = {key: self._joined(ours[key], theirs[key], inside) for key in ours if key in theirs}
            self._fields[name] = {key: found for key, found in joined.items() if found is not None}
        return Object(name, self._fields[name], open=True)

    def _joined(self, a: Type, b: Type, under: frozenset[str]) -> Type | None:
        """The type of a value that is of one of two types; None when they have nothing in common."""
        match a, b:
            case _ if a == b:
                return a
            case Soft(Object() as mine), Soft(Object() as other):
                return Soft(self._both(mine, other, under))
            case Soft(ListOf(mine)), Soft(ListOf(other)):
                return Soft(ListOf(self._joined(mine, other, under) or cel.DYN))
            case Soft(MapOf(key, mine)), Soft(MapOf(_, other)):
                return Soft(MapOf(key, self._joined(mine, other, under) or cel.DYN))
        return None
