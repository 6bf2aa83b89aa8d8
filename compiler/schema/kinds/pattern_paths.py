"""Warns of patterns that ask for what no schema has: a misspelt field never matches, and nobody is told.

``check_patterns`` walks ``validate.pattern``, ``anyPattern`` and ``mutate.patchStrategicMerge`` of the rules whose
kinds are all known. A field is wrong when none of the kinds has it (T1230); a shape is wrong when none of them has a
map, or a list, at that place (T1231). Called by :mod:`compiler.compilation` once the policies are read.
"""

from __future__ import annotations

import difflib
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.frontends.cel.types import DYN, ListOf, MapOf, Object, Soft, Type
from compiler.frontends.pattern import parse_key, parse_kind
from compiler.schema.kinds.schemas import Schemas
from compiler.schema.model import MatchBlock, Policy, Rule
from compiler.source import Document, pointer
from vm.intrinsics.wildcard import contains_wildcard

Json: TypeAlias = Any

Places: TypeAlias = dict[Type, tuple[str, ...]]
"""What the kinds have at one place of a pattern, without ``Soft``; for each type the kinds that have it there."""

_LISTED: Final = 8
"""A map with so few fields at most is told whole when no field is near."""


def check_patterns(policy: Policy, schemas: Schemas, reporter: Reporter) -> None:
    """Reports the fields (T1230) and shapes (T1231) of a policy's patterns that its kinds do not have."""
    for rule in policy.rules:
        if rule.origin != "policy" or not (parts := _patterns(rule)):
            continue
        kinds = _kinds(rule.match, schemas)
        if not kinds:
            continue
        walker = _Walker(policy.doc, schemas, reporter)
        for at, pattern in parts:
            walker.walk(kinds, pattern, at, "")


def _patterns(rule: Rule) -> list[tuple[str, Json]]:
    found: list[tuple[str, Json]] = []
    if (validate := rule.validate) is not None:
        at = rule.pointer + "/validate"
        if validate.pattern is not None:
            found.append((at + "/pattern", validate.pattern))
        found += [(f"{at}/anyPattern/{i}", p) for i, p in enumerate(validate.any_pattern or ())]
    # A patch of targets is laid over these, not over what the rule matches.
    if (mutate := rule.mutate) is not None and not (rule.raw.get("mutate") or {}).get("targets"):
        found.append((rule.pointer + "/mutate/patchStrategicMerge", mutate.patch_strategic_merge))
    return found


def _kinds(match: MatchBlock, schemas: Schemas) -> Places | None:
    """The types of what a rule matches; None when any of it is not known."""
    found: Places = {}
    for filter_ in match.filters:
        if not filter_.kinds:
            if match.mode == "all" and any(f.kinds for f in match.filters):
                continue
            return None
        for selector in filter_.kinds:
            if _wild(selector) or (kinds := schemas.select(selector)) is None:
                return None
            found.update({kind: (kind.name.rpartition(".")[2],) for kind in kinds})
    return found


def _wild(selector: str) -> bool:
    """Whether the kind itself is left open; ``*`` as group or version is no more than leaving them out."""
    key = parse_kind(selector)
    return key is None or contains_wildcard(key.kind) or contains_wildcard(key.subresource)


class _Walker:
    """Walks pattern and types side by side; ``path`` is the place in words (``spec.containers``)."""

    __slots__ = ("_doc", "_reporter", "_schemas")

    def __init__(self, doc: Document, schemas: Schemas, reporter: Reporter) -> None:
        self._doc = doc
        self._schemas = schemas
        self._reporter = reporter

    def walk(self, types: Places, pattern: Json, at: str, path: str) -> None:
        if DYN in types:
            return
        if isinstance(pattern, dict):
            self._map(types, pattern, at, path)
        elif isinstance(pattern, list):
            items: Places = {}
            for found, kinds in types.items():
                if isinstance(found, ListOf):
                    _put(items, found.item, kinds)
            if not items:
                self._shape(types, "a list", at, path)
                return
            for i, element in enumerate(pattern):
                self.walk(items, element, f"{at}/{i}", path)

    def _map(self, types: Places, pattern: dict[str, Json], at: str, path: str) -> None:
        objects = {t: kinds for t, kinds in types.items() if isinstance(t, Object)}
        values: Places = {}
        for found, kinds in types.items():
            if isinstance(found, MapOf):
                _put(values, found.value, kinds)
        if not objects and not values:
            self._shape(types, "a map", at, path)
            return
        free = bool(values) or any(o.open for o in objects)
        fields = [(self._schemas.fields(o.name) or {}, kinds) for o, kinds in objects.items()]
        for key, value in pattern.items():
            read = parse_key(key)
            name = read.name
            if name.startswith("$") or "{{" in name or contains_wildcard(name):
                continue
            inner = dict(values)
            for known, kinds in fields:
                if (field := known.get(name)) is not None:
                    _put(inner, field, kinds)
            place = at + pointer(key)
            if inner:
                # What stands under X( ) is never looked at.
                if read.anchor != "X":
                    self.walk(inner, value, place, f"{path}.{name}" if path else name)
            elif not free:
                names = list(dict.fromkeys(n for known, _ in fields for n in known))
                self._unknown(name, names, place, f"{path} of {_words(types)}" if path else _words(types))

    def _unknown(self, name: str, known: list[str], at: str, where: str) -> None:
        near = [k for k in known if k.lower() == name.lower()] or difflib.get_close_matches(name, known, 1, 0.6)
        self._reporter.warning(
            "T1230",
            self._doc.spans.key_span(at),
            f'there is no field "{name}" in {where}',
            "one of " + ", ".join(sorted(known)) if not near and len(known) <= _LISTED else "",
            f'did you mean "{near[0]}"?' if near else "",
        )

    def _shape(self, types: Places, given: str, at: str, path: str) -> None:
        there = " or ".join(dict.fromkeys(_shape_of(t) for t in types))
        self._reporter.warning(
            "T1231",
            self._doc.spans.key_span(at),
            f"{path or 'the object'} is {there} in {_words(types)}, and {given} here",
            there,
        )


def _put(places: Places, type_: Type, kinds: tuple[str, ...]) -> None:
    bare = type_.of if isinstance(type_, Soft) else type_
    places[bare] = tuple(dict.fromkeys([*places.get(bare, ()), *kinds]))


def _words(types: Places) -> str:
    """The kinds that have a place, as a message names them."""
    return ", ".join(dict.fromkeys(kind for kinds in types.values() for kind in kinds))


def _shape_of(type_: Type) -> str:
    match type_:
        case ListOf():
            return "a list"
        case Object() | MapOf():
            return "a map"
    return "a single value"
