"""Warns of patterns that ask for what no schema has: a misspelt field never matches, and nobody is told.

``check_patterns`` walks ``validate.pattern``, ``anyPattern`` and ``patchStrategicMerge``, that of loops too, of the
rules whose kinds are all known. A field is wrong when none of the kinds has it (T1230); a shape is wrong when none of
them has a map, or a list, at that place (T1231). Called by :mod:`compiler.compilation` once the policies are read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.frontends.cel.types import DYN, ListOf, MapOf, Object, Soft, Type
from compiler.frontends.pattern import parse_key, parse_kind
from compiler.schema.kinds import pattern_values
from compiler.schema.kinds.schemas import Schemas
from compiler.schema.model import ForEach, MatchBlock, Policy, Rule
from compiler.source import Document, pointer
from vm.intrinsics.wildcard import contains_wildcard

Json: TypeAlias = Any

Places: TypeAlias = dict[Type, tuple[str, ...]]
"""What the kinds have at one place of a pattern, without ``Soft``; for each type the kinds that have it there."""

_PLAIN: Final = re.compile(r"[\w./:@ -]+")
_LISTED: Final = 8
"""A map with so few fields at most is told whole when no field is near."""
_VERY_NEAR: Final = 0.8
"""Likeness (of difflib) from which a field is taken for misspelt rather than for put in the wrong place."""
_MOST: Final = 100
"""Findings of a policy that are told: looking for what was meant takes up to a millisecond each."""
_LEVELS: Final = 3
"""How far down a field is looked for that was put in the wrong place (``template.spec`` is two)."""


def check_patterns(policy: Policy, schemas: Schemas, reporter: Reporter) -> None:
    """Reports the fields (T1230) and shapes (T1231) of a policy's patterns that its kinds do not have."""
    walker = _Walker(policy.doc, schemas, reporter)
    for rule in policy.rules:
        if rule.origin != "policy" or not (parts := _patterns(rule)):
            continue
        kinds = _kinds(rule.match, schemas)
        if not kinds:
            continue
        for at, pattern in parts:
            walker.check(kinds, pattern, at, patch=rule.mutate is not None)


def _patterns(rule: Rule) -> list[tuple[str, Json]]:
    found: list[tuple[str, Json]] = []
    if (validate := rule.validate) is not None:
        at = rule.pointer + "/validate"
        if validate.pattern is not None:
            found.append((at + "/pattern", validate.pattern))
        found += [(f"{at}/anyPattern/{i}", p) for i, p in enumerate(validate.any_pattern or ())]
    # A patch of targets is laid over these, not over what the rule matches.
    if (mutate := rule.mutate) is not None and not mutate.targets:
        if mutate.patch_strategic_merge is not None:
            found.append((rule.pointer + "/mutate/patchStrategicMerge", mutate.patch_strategic_merge))
        found += _of_loops(mutate.foreach)
    return found


def _of_loops(loops: Iterable[ForEach]) -> Iterator[tuple[str, Json]]:
    for loop in loops:
        if loop.patch_strategic_merge is not None:
            yield f"{loop.pointer}/patchStrategicMerge", loop.patch_strategic_merge
        yield from _of_loops(loop.foreach)


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

    __slots__ = ("_doc", "_left", "_patch", "_reporter", "_schemas")

    def __init__(self, doc: Document, schemas: Schemas, reporter: Reporter) -> None:
        self._doc = doc
        self._schemas = schemas
        self._left = _MOST
        self._patch = False
        self._reporter = reporter

    def check(self, kinds: Places, pattern: Json, at: str, *, patch: bool) -> None:
        """Walks one pattern, or with ``patch`` one patch, whose plain values are set rather than compared."""
        self._patch = patch
        self.walk(kinds, pattern, at, "")

    def walk(self, types: Places, pattern: Json, at: str, path: str) -> None:
        if DYN in types or self._left <= 0:
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
        elif _asks_for_a_scalar(pattern) and all(isinstance(_element(t), Object | MapOf) for t in types):
            self._shape(types, "a single value", at, path)
        elif pattern_values.is_constant(pattern):
            self._scalar(types, pattern, at, path)

    def _map(self, types: Places, pattern: dict[str, Json], at: str, path: str) -> None:
        objects = {found: kinds for found, kinds in types.items() if isinstance(found, Object)}
        values: Places = {}
        for found, kinds in types.items():
            if isinstance(found, MapOf):
                _put(values, found.value, kinds)
        if not objects and not values:
            self._shape(types, "a map", at, path)
            return
        fields = [(self._names(o), kinds, o.open) for o, kinds in objects.items()]
        for key, value in pattern.items():
            read = parse_key(key)
            name = read.name
            if name.startswith("$") or "{{" in name or contains_wildcard(name):
                continue
            inner = dict(values)
            for known, kinds, free in fields:
                if (field := known.get(name)) is not None:
                    _put(inner, field, kinds)
                elif free:
                    inner[DYN] = kinds
            place = at + pointer(key)
            if inner:
                # What stands under X( ) is never looked at.
                if read.anchor != "X":
                    below = f"{path}.{name}" if path else name
                    self.walk(inner, value, place, below)
                    if isinstance(value, str) and not values:
                        self._listed(objects, name, value, place, below)
            elif self._left > 0:
                self._unknown(name, objects, place, path)

    def _scalar(self, types: Places, pattern: Json, at: str, path: str) -> None:
        """Warns of a value that no type at the place can meet (T1405), or none at all (T1406)."""
        if why := pattern_values.contradiction(pattern):
            self._left -= 1
            self._reporter.warning("T1406", self._doc.spans.span(at), f"no value meets the pattern: {why}")
            return
        elements = {_element(t): kinds for t, kinds in types.items()}
        meets = pattern_values.fits if self._patch else pattern_values.can_meet
        if not elements or any(meets(pattern, t) for t in elements):
            return
        self._left -= 1
        wanted = " or ".join(dict.fromkeys(pattern_values.wanted(t) for t in elements))
        given = pattern_values.shown(pattern)
        self._reporter.warning(
            "T1405",
            self._doc.spans.span(at),
            f"{path or 'the object'} of {_words(types)} is {wanted}, "
            + (f"and {given} here" if self._patch else f"which {given} never meets"),
            wanted,
        )

    def _listed(self, objects: Iterable[Object], name: str, pattern: Json, at: str, path: str) -> None:
        """Warns of a pattern that meets none of the values that the field may have (T1405)."""
        enums = [self._schemas.enum(o.name, name) for o in objects if name in self._names(o)]
        if not enums or not all(enums) or not pattern_values.is_constant(pattern):
            return
        allowed = sorted({value for enum in enums for value in enum or ()})
        if pattern_values.can_be_one_of(pattern, allowed):
            return
        self._left -= 1
        near = difflib.get_close_matches(str(pattern), allowed, 1)
        self._reporter.warning(
            "T1405",
            self._doc.spans.span(at),
            f"{path} is never {pattern_values.shown(pattern)}",
            "one of " + ", ".join(allowed),
            f'did you mean "{near[0]}"?' if near else "",
        )

    def _unknown(self, name: str, objects: Mapping[Object, tuple[str, ...]], at: str, path: str) -> None:
        known = list(dict.fromkeys(n for o in objects for n in self._names(o)))
        self._left -= 1
        near = (
            [k for k in known if k.lower() == name.lower()]
            or difflib.get_close_matches(name, known, 1, _VERY_NEAR)
            or self._below(name, objects, path)
            or difflib.get_close_matches(name, known, 1)
        )
        where = f"{path} of {_words(objects)}" if path else _words(objects)
        self._reporter.warning(
            "T1230",
            self._doc.spans.key_span(at),
            f'there is no field "{name}" in {where}',
            "one of " + ", ".join(sorted(known)) if not near and len(known) <= _LISTED else "",
            f'did you mean "{near[0]}"?' if near else "",
        )

    def _names(self, of: Object) -> Mapping[str, Type]:
        return self._schemas.fields(of.name) or {}

    def _below(self, name: str, objects: Iterable[Object], path: str) -> list[str]:
        """The nearest place further down that has the field: a level of the path may have been left out."""
        level = [(found, path) for found in objects]
        seen = {found for found, _ in level}
        for _ in range(_LEVELS):
            deeper: list[tuple[Object, str]] = []
            for found, above in level:
                for field, type_ in self._names(found).items():
                    if isinstance(inner := _element(type_), Object) and inner not in seen:
                        seen.add(inner)
                        place = f"{above}.{field}" if above else field
                        if name in self._names(inner):
                            return [f"{place}.{name}"]
                        deeper.append((inner, place))
            level = deeper
        return []

    def _shape(self, types: Places, given: str, at: str, path: str) -> None:
        self._left -= 1
        there = " or ".join(dict.fromkeys(_shape_of(t) for t in types))
        place = path or "the object"
        if path and at.rpartition("/")[2].isdecimal():
            place = f"an element of {path}"
        self._reporter.warning(
            "T1231",
            self._doc.spans.key_span(at),
            f"{place} is {there} in {_words(types)}, and {given} here",
            there,
        )


def _asks_for_a_scalar(pattern: Json) -> bool:
    """Whether no map and nothing absent can match: stars, operators and variables may say that something is there, and
    empty values that it is not."""
    if type(pattern) is str:
        return _PLAIN.fullmatch(pattern) is not None and pattern != "null"
    return bool(pattern)


def _put(places: Places, type_: Type, kinds: tuple[str, ...]) -> None:
    bare = type_.of if isinstance(type_, Soft) else type_
    places[bare] = tuple(dict.fromkeys([*places.get(bare, ()), *kinds]))


def _element(type_: Type) -> Type:
    """What stands at the end of lists and ``Soft``: a pattern's path does not tell elements."""
    while isinstance(type_, Soft | ListOf):
        type_ = type_.of if isinstance(type_, Soft) else type_.item
    return type_


def _words(types: Mapping[Any, tuple[str, ...]]) -> str:
    """The kinds that have a place, as a message names them."""
    return ", ".join(dict.fromkeys(kind for kinds in types.values() for kind in kinds))


def _shape_of(type_: Type) -> str:
    match type_:
        case ListOf():
            return "a list"
        case Object() | MapOf():
            return "a map"
    return "a single value"
