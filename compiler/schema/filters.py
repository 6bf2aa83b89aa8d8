"""What can be said of two resource filters without an object: that nothing meets both, or that one covers the other.

Used by the checks of reach (:mod:`compiler.schema.reach_rules`) and by advice. Both answers are on the safe side: true
only where it holds for every object and every cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from compiler.frontends.pattern import parse_kind
from compiler.ir.ops import KindKey
from compiler.schema.model import Filter
from vm.intrinsics import wildcard

_PARTS: Final = ("kinds", "operations", "namespaces", "names", "selector")


def apart(a: Filter, b: Filter) -> str:
    """The part by which no object meets both filters: ``kinds``, ``operations``, ``namespaces``, ``names`` or
    ``selector``; empty when some object may."""
    for part in _PARTS:
        if part == "selector":
            if _labels_apart(labels_of(a), labels_of(b)):
                return part
            continue
        left, right = getattr(a, part), getattr(b, part)
        overlap = kinds_overlap if part == "kinds" else _texts_overlap
        if left and right and not any(overlap(x, y) for x in left for y in right):
            return part
    return ""


def covers(outer: Filter, inner: Filter) -> bool:
    """Whether every object that meets ``inner`` meets ``outer`` too."""
    if outer.exclude_resources is not None and not outer.exclude_resources.empty:
        return False
    if outer.resource_rule is not None or inner.resource_rule is not None:
        return outer == inner
    if outer.has_user_info and not _users_cover(outer, inner):
        return False
    tests: tuple[tuple[Sequence[str], Sequence[str], Callable[[str, str], bool]], ...] = (
        (outer.kinds, inner.kinds, kind_covers),
        (outer.operations, inner.operations, str.__eq__),
        (outer.namespaces, inner.namespaces, _text_covers),
        (outer.names, inner.names, _text_covers),
    )
    for wide, narrow, holds in tests:
        if wide and not (narrow and all(any(holds(w, n) for w in wide) for n in narrow)):
            return False
    same: tuple[tuple[Any, Any], ...] = (
        (outer.selector, inner.selector),
        (outer.labels, inner.labels),
        (outer.namespace_selector, inner.namespace_selector),
        (outer.annotations, inner.annotations),
    )
    return all(wide is None or wide == narrow for wide, narrow in same)


def kinds_overlap(a: str, b: str) -> bool:
    """Whether some request has a kind that both selectors name."""
    left, right = parse_kind(a), parse_kind(b)
    if left is None or right is None:
        return True
    if not all(_texts_overlap(x, y) for x, y in zip(_steps(left)[:3], _steps(right)[:3], strict=True)):
        return False
    # A selector without subresource takes ephemeral containers of a Pod too, so that these overlap whatever they say.
    return "Pod" in (left.kind, right.kind) or _texts_overlap(left.subresource, right.subresource)


def kind_covers(wide: str, narrow: str) -> bool:
    """Whether every kind that ``narrow`` names is named by ``wide``."""
    left, right = parse_kind(wide), parse_kind(narrow)
    if left is None or right is None:
        return False
    return all(_text_covers(x, y) for x, y in zip(_steps(left), _steps(right), strict=True))


def labels_of(f: Filter) -> dict[str, str]:
    """The labels that an object must have letter by letter to meet the filter."""
    selector = f.selector or {}
    given = {**(selector.get("matchLabels") or {}), **(f.labels or {})}
    for expression in selector.get("matchExpressions") or ():
        values = expression.get("values") or []
        if expression.get("operator") == "In" and len(values) == 1:
            given.setdefault(expression.get("key"), values[0])
    return {k: v for k, v in given.items() if isinstance(v, str) and not wildcard.contains_wildcard(k + v)}


def selector_contradiction(selector: Mapping[str, Any]) -> str:
    """Why no labels meet a selector; empty when some do."""
    labels: dict[str, Any] = selector.get("matchLabels") or {}
    allowed: dict[str, set[str]] = {
        k: {v} for k, v in labels.items() if isinstance(v, str) and not wildcard.contains_wildcard(k + v)
    }
    absent: set[str] = set()
    present: set[str] = set(allowed)
    expressions = list(selector.get("matchExpressions") or ())
    for e in expressions:
        key, values = e.get("key"), set(e.get("values") or ())
        match e.get("operator"):
            case "In":
                allowed[key] = allowed.get(key, values) & values
                present.add(key)
            case "Exists":
                present.add(key)
            case "DoesNotExist":
                absent.add(key)
    for e in expressions:
        if e.get("operator") == "NotIn" and e.get("key") in allowed:
            allowed[e["key"]] = allowed[e["key"]] - set(e.get("values") or ())
    for key in sorted(present & absent):
        return f'the label "{key}" must be there and must not'
    for key, values in allowed.items():
        if not values:
            return f'no value of the label "{key}" meets all parts'
    return ""


def _users_cover(outer: Filter, inner: Filter) -> bool:
    for part in ("roles", "cluster_roles", "subjects"):
        wide, narrow = getattr(outer, part), getattr(inner, part)
        if wide and not (narrow and set(narrow) <= set(wide)):
            return False
    return True


def _labels_apart(a: Mapping[str, str], b: Mapping[str, str]) -> bool:
    return any(b.get(key, value) != value for key, value in a.items())


def _steps(key: KindKey) -> tuple[str, str, str, str]:
    return (key.group, key.version, key.kind, key.subresource)


def _texts_overlap(a: str, b: str) -> bool:
    """Whether some text meets both; two texts with wildcards are taken to overlap."""
    if wildcard.contains_wildcard(a):
        return wildcard.contains_wildcard(b) or wildcard.match(a, b)
    return wildcard.match(b, a)


def _text_covers(wide: str, narrow: str) -> bool:
    # A star is matched by a star like any character, but a question mark stands for one character alone.
    if wildcard.contains_wildcard(narrow) and "?" in wide:
        return wide == narrow
    return wildcard.match(wide, narrow)
