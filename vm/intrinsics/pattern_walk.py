"""``pat.walk``: the exact walk of a pattern over a resource (semantics §3), with every anchor and every message.

Called by compiled rules, through both tiers, whenever straight code could not prove that the rule passes. The walk
answers null, or an :class:`vm.values.Err` whose code says what kind of end it was: ``conditional`` and ``global`` are
skips, ``negation``, ``mismatch`` and ``pattern`` are failures at ``path``; a failure without a path is an execution
error.

Two deviations from the reference are marked "right here". Errors are classified by what raised them, never by a
search in their text as the reference does: a resource could otherwise carry the phrase of a skip in one of its
values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from vm.host import Imports, Meter, OutOfFuel
from vm.intrinsics.text import go_value
from vm.intrinsics.wildcard import contains_wildcard
from vm.intrinsics.wildcard import match as wildcard_match
from vm.scalar import Predicate, ScalarPattern, compile_matcher
from vm.values import MISSING, Err, Value

MAX_DEPTH: Final = 100
"""Nesting of a pattern; only one made of a request's own values could come near it."""

_ANCHOR: Final = re.compile(r"([+<=X^])?\((.+)\)", re.DOTALL)
_CONDITIONAL: Final = "conditional anchor mismatch: "
_GLOBAL: Final = "global anchor mismatch: "
_SKIPS: Final = ("conditional", "global")
_EXPANDED: Final = frozenset(("metadata", "labels", "annotations"))


@lru_cache(maxsize=4096)
def parse_anchor(key: str) -> tuple[str, str] | None:
    """Modifier and name of an anchored key: ``("", "image")`` for ``(image)``, ``("=", "a")`` for ``=(a)``, else
    None."""
    found = _ANCHOR.fullmatch(key.strip())
    return (found.group(1) or "", found.group(2)) if found else None


def walk(imports: Imports, meter: Meter, resource: Value, pattern: Value) -> Value:
    """Null when the resource satisfies the pattern, else an ``Err`` (see the module). An ``Err`` operand is the
    result."""
    return finished(Walker(imports.pattern, meter), resource, pattern)


def finished(walker: Walker, resource: Value, pattern: Value) -> Value:
    """What a fresh walker answers of a resource and a pattern."""
    if type(pattern) is Err:
        return pattern
    if type(resource) is Err:
        return resource
    end = walker.element(None if resource is MISSING else resource, pattern, "/", 0, False)
    if end is None:
        return None
    if end.code in _SKIPS:
        return Err(end.code, end.text)
    if end.code != "negation" and walker.keys_are_missing():
        return Err(end.code, end.text)
    return Err(end.code, end.text, end.path)


class End:
    """Why a walk ended early. ``direct`` tells an anchor's error from one that a list has gathered of its elements."""

    __slots__ = ("code", "direct", "path", "text")

    def __init__(self, code: str, text: str, path: str, direct: bool = True) -> None:
        self.code = code
        self.text = text
        self.path = path
        self.direct = direct


class Walker:
    """One walk: what it has seen of the keys of anchors, and what reads texts of patterns."""

    __slots__ = ("_compile", "_meter", "_seen")

    def __init__(self, compile_pattern: Callable[[str], Any], meter: Meter) -> None:
        self._compile = compile_pattern
        self._meter = meter
        self._seen: dict[str, bool] = {}

    def keys_are_missing(self) -> bool:
        """Whether some conditional or existence key of the pattern was met nowhere in the resource (Kyverno quirk: a
        mismatch then counts as an execution error)."""
        return not all(self._seen.values())

    def element(self, resource: Value, pattern: Value, path: str, depth: int, equality: bool) -> End | None:
        """``equality``: the value stands under ``=( )``, where an empty list passes."""
        meter = self._meter
        meter.left -= 2  # Meter.charge, written out: nothing is asked for more often
        if meter.left < 0:
            raise OutOfFuel
        if depth > MAX_DEPTH:
            return End("pattern", "pattern is nested too deeply", path)
        if type(pattern) is dict:
            if type(resource) is not dict:
                found = f"Expected {go_type(pattern)}, found {go_type(resource)}"
                return End("mismatch", f"pattern and resource have different structures. Path: {path}. {found}", path)
            return self._map(resource, pattern, path, depth)
        if type(pattern) is list:
            if type(resource) is not list:
                return _overlay(path)
            return self._list(resource, pattern, path, depth, equality)
        return self._leaf(resource, pattern, path, equality)

    def _leaf(self, resource: Value, pattern: Value, path: str, equality: bool) -> End | None:
        holds = self._predicate(pattern)
        if type(resource) is list:
            self._meter.charge(len(resource))
            # Right here: an empty list under a key that is asked for is no better than a missing key.
            if not resource and (equality or holds(None)):
                return None
            if resource and all(map(holds, resource)):
                return None
            return unequal(resource or None, pattern, path)
        return None if holds(resource) else unequal(resource, pattern, path)

    def _predicate(self, pattern: Value) -> Predicate:
        if type(pattern) is str:
            return _text_predicate(self._compile, pattern)
        return compile_matcher(ScalarPattern(pattern))

    def _map(self, resource: dict[str, Any], pattern: dict[str, Any], path: str, depth: int) -> End | None:
        plan = _plan(tuple(pattern))
        for key, name in plan.noted:
            self._seen[key] = self._seen.get(key, False) or name in resource
        if plan.metadata is not None:
            expanded = expand_in_metadata(pattern, resource, plan.metadata)
            if expanded is not pattern:
                pattern, plan = expanded, _plan(tuple(expanded))
        if plan.anchored:
            end = self._anchors(plan, resource, pattern, path, depth)
            if end is not None:
                return end
        for key, is_global, name in plan.plain if plan.single else plan.order(pattern):
            if is_global:
                end = self._anchored("<", name, resource, pattern[key], path, depth)
            else:
                end = self._plain(key, resource.get(key), pattern[key], path, depth)
            if end is not None:
                return end
        return None

    def _anchors(
        self, plan: _Plan, resource: dict[str, Any], pattern: dict[str, Any], path: str, depth: int
    ) -> End | None:
        skips: list[End] = []
        applied, direct = 0, False
        for key, modifier, name in plan.anchored:
            end = self._anchored(modifier, name, resource, pattern[key], path, depth)
            if end is None:
                applied += 1
            elif end.code in _SKIPS:
                skips.append(end)
                direct = direct or end.direct
            elif not direct:
                return end
        return _gather(skips, path, direct) if skips and (direct or not applied) else None

    def _plain(self, key: str, value: Value, pattern: Value, path: str, depth: int) -> End | None:
        if pattern == "*" and type(pattern) is str:
            return None if value is not None else End("mismatch", f"{path}/{key} not found", path)
        return self.element(value, pattern, f"{path}{key}/", depth + 1, False)

    def _anchored(
        self, modifier: str, key: str, resource: dict[str, Any], pattern: Value, path: str, depth: int
    ) -> End | None:
        here = f"{path}{key}/"
        present = key in resource
        match modifier:
            case "":
                if not present:
                    text = "conditional anchor key doesn't exist in the resource"
                    return End("conditional", _CONDITIONAL + text, here)
                end = self.element(resource[key], pattern, here, depth + 1, False)
                return None if end is None else End("conditional", _CONDITIONAL + end.text, end.path)
            case "<":
                end = self.element(resource[key], pattern, here, depth + 1, False) if present else None
                return None if end is None else End("global", _GLOBAL + end.text, end.path)
            case "=":
                return self.element(resource[key], pattern, here, depth + 1, True) if present else None
            case "X":
                text = f"negation anchor matched in resource: {here} is not allowed"
                return End("negation", text, here) if present else None
        return self._exists(resource[key], pattern, here, depth) if present else None

    def _exists(self, resource: Value, pattern: Value, path: str, depth: int) -> End | None:
        if type(resource) is not list:
            rule = "Existence ^ () anchor can be used only on list/array type resource"
            return End("pattern", f"invalid resource type {go_type(resource)}: {rule}", path)
        if type(pattern) is not list:
            rule = "Pattern has to be of list to compare against resource"
            return End("pattern", f"invalid pattern type {go_type(pattern)}: {rule}", path)
        for wanted in pattern:
            if type(wanted) is not dict:
                rule = "Pattern has to be of type map to compare against items in resource"
                return End("pattern", f"invalid pattern type {go_type(pattern)}: {rule}", path)
            for i, item in enumerate(resource):
                if self.element(item, wanted, f"{path}{i}/", depth + 1, False) is None:
                    break
            else:
                return End("mismatch", f"existence anchor validation failed at path {path}", path)
        return None

    def _list(self, resource: list[Any], pattern: list[Any], path: str, depth: int, equality: bool) -> End | None:
        if not pattern:
            return End("pattern", "pattern Array empty", path)
        first = pattern[0]
        if type(first) is dict:
            maps = [p for p in pattern if type(p) is dict]
            # Right here: an empty list does not satisfy an element pattern that asks for something.
            if not resource and not equality and any(map(self._asks_for_something, maps)):
                return _overlay(path)
            # Right here: each further map applies to every element too; the reference looks at the first alone.
            return self._each_map(resource, maps, path, depth)
        if type(first) is not list:
            return self._leaf(resource, first, path, equality)
        if len(resource) < len(pattern):
            lengths = f"resource Array len is {len(resource)} and pattern Array len is {len(pattern)}"
            return End("pattern", f"validate Array failed, array length mismatch, {lengths}", "")
        pairs = list(zip(resource, pattern, strict=False))
        return self._apply(pairs, path, depth)[0]

    def _each_map(self, resource: list[Any], maps: list[Any], path: str, depth: int) -> End | None:
        skips = []
        applied = not resource
        for wanted in maps:
            end, some = self._apply([(item, wanted) for item in resource], path, depth)
            if end is None:
                applied = applied or some
            elif end.code in _SKIPS:
                skips.append(end)
            else:
                return end
        return skips[0] if skips and not applied else None

    def _apply(self, pairs: list[tuple[Value, Value]], path: str, depth: int) -> tuple[End | None, bool]:
        """Each pair in turn: skipped ones are set aside, the first failing one ends it. Also whether any pair
        applied."""
        skips = []
        applied = False
        for i, (item, wanted) in enumerate(pairs):
            end = self.element(item, wanted, f"{path}{i}/", depth + 1, False)
            if end is None:
                applied = True
            elif end.code in _SKIPS:
                skips.append(end)
            else:
                return end, applied
        return (_gather(skips, path), False) if skips and not applied else (None, applied)

    def _asks_for_something(self, pattern: dict[str, Any]) -> bool:
        """Whether an element pattern holds a plain key whose value must be there."""
        for key, wanted in pattern.items():
            anchor = parse_anchor(key)
            if anchor is not None and anchor[0] != "+":
                continue
            if type(wanted) in (dict, list) or wanted == "*" or not self._predicate(wanted)(None):
                return True
        return False


def expand_in_metadata(pattern: dict[str, Any], resource: dict[str, Any], metadata_key: str) -> dict[str, Any]:
    """The pattern with wildcard keys of ``metadata.labels`` and ``metadata.annotations`` replaced by the first key of
    the resource, in sorted order, that they match. Anchors stay; what matches nothing stays as it is (semantics
    §3.4).

    Kyverno quirk: values that are no text are dropped from a map that an expansion touches.
    """
    metadata, found = pattern[metadata_key], resource.get("metadata")
    if type(metadata) is not dict or type(found) is not dict:
        return pattern
    changes = {}
    for tag, key in _plan(tuple(metadata)).tags:
        actual = found.get(tag)
        if type(metadata[key]) is not dict or type(actual) is not dict:
            continue
        # A list of keys is looked through as fast as what is known of it is found.
        if any(map(contains_wildcard, metadata[key])):
            changes[key] = _expand_keys(metadata[key], actual)
    return {**pattern, metadata_key: {**metadata, **changes}} if changes else pattern


def _expand_keys(pattern: dict[str, Any], actual: dict[str, Any]) -> dict[str, Any]:
    names = sorted(k for k, v in actual.items() if type(v) is str)
    expanded = {}
    for key, wanted in pattern.items():
        if type(wanted) is not str:
            continue
        if contains_wildcard(key):
            modifier, name = parse_anchor(key) or (None, key)
            name = next((n for n in names if wildcard_match(name, n)), name)
            key = name if modifier is None else f"{modifier}({name})"
        expanded[key] = wanted
    return expanded


class _Plan:
    """What the keys of a pattern map say by themselves, worked out once for all maps with these keys.

    ``anchored`` are the keys of the first phase as (key, modifier, name), in ascending order; ``noted`` those of them
    that count as missing or met; ``plain`` the keys of the second phase as (key, is global anchor, name), ascending.
    ``metadata`` is the first key, as it stands there, of that name, and ``tags`` are those of labels and annotations
    with their names, for expansion. ``single``: there is but one order of the second phase.
    """

    __slots__ = ("anchored", "has_globals", "metadata", "noted", "plain", "single", "tags")

    def __init__(self, keys: tuple[str, ...]) -> None:
        parsed = [(key, parse_anchor(key)) for key in sorted(keys)]
        first = [(key, a[0], a[1]) for key, a in parsed if a is not None and a[0] not in ("+", "<")]
        self.anchored = tuple(first)
        self.noted = tuple((key, name) for key, modifier, name in first if modifier in ("", "^"))
        self.plain = tuple(
            (key, a is not None and a[0] == "<", a[1] if a is not None else key)
            for key, a in parsed
            if a is None or a[0] in ("+", "<")
        )
        self.has_globals = any(is_global for _, is_global, _ in self.plain)
        self.single = len(self.plain) < 2
        entries: dict[str, str] = {}
        for key, a in parsed:
            for name in _EXPANDED & {key, a[1] if a is not None else key}:
                entries.setdefault(name, key)
        self.metadata = entries.get("metadata")
        self.tags = tuple((tag, entries[tag]) for tag in ("labels", "annotations") if tag in entries)

    def order(self, pattern: dict[str, Any]) -> Iterable[tuple[str, bool, str]]:
        """The second phase in the order in which it is visited. Global anchors and keys with an anchor somewhere
        below go to the front one by one, which turns their order round. Observable: a nested condition skips the rule
        before a plain sibling can fail it."""
        if not self.has_globals:
            for key, _, _ in self.plain:
                below = pattern[key]
                if (type(below) is dict or type(below) is list) and has_anchors(below):
                    break
            else:
                return self.plain
        front: list[tuple[str, bool, str]] = []
        back = []
        for entry in self.plain:
            if entry[1] or has_anchors(pattern[entry[0]]):
                front.insert(0, entry)
            else:
                back.append(entry)
        return front + back


@lru_cache(maxsize=4096)
def _plan(keys: tuple[str, ...]) -> _Plan:
    return _Plan(keys)


def has_anchors(pattern: Value) -> bool:
    """Whether an anchor that validation knows (all but ``+( )``) stands anywhere in a pattern."""
    if type(pattern) is not dict and type(pattern) is not list:
        return False
    pending = [pattern]
    while pending:
        node = pending.pop()
        if type(node) is dict:
            plan = _plan(tuple(node))
            if plan.anchored or plan.has_globals:
                return True
            pending.extend(node.values())
        elif type(node) is list:
            pending.extend(node)
    return False


def _gather(skips: list[End], path: str, direct: bool = False) -> End:
    return End(skips[0].code, "; ".join(skip.text for skip in skips), path, direct)


def _overlay(path: str) -> End:
    text = f"validation rule failed at path {path}, resource does not satisfy the expected overlay pattern"
    return End("mismatch", text, path)


def unequal(resource: Value, pattern: Value, path: str) -> End:
    found = "<nil>" if resource is None else go_value(resource)
    wanted = pattern if type(pattern) is str else go_value(pattern)
    text = f"resource value '{found}' does not match '{wanted}' at path {path}"
    return End("mismatch", text, path)


def go_type(value: Value) -> str:
    """The name Go gives the type of a decoded JSON value, which messages of the reference show."""
    match value:
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
        case str():
            return "string"
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
    return "<nil>"


@lru_cache(maxsize=4096)
def _text_predicate(compile_pattern: Callable[[str], Any], text: str) -> Predicate:
    compiled = compile_pattern(text)
    if type(compiled) is not ScalarPattern:  # a text that is no pattern equals itself at most
        return lambda value: type(value) is str and value == text
    return compile_matcher(compiled)
