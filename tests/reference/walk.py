"""Walking a pattern over a resource (semantics §3 and the error rule of §4)."""

from __future__ import annotations

import re
from typing import Any

from tests.reference.scalars import go_type, go_value, has_wildcard, match_scalar, wildcard

MISSING: Any = object()


class Mismatch(Exception):
    """Why a pattern does not hold. ``kind``: fail, negation, conditional, global; ``direct``: raised by an anchor of
    the very map in question, not gathered from a list below."""

    def __init__(self, text: str, path: str, kind: str = "fail", direct: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.path = path
        self.kind = kind
        self.direct = direct

    @property
    def skip(self) -> bool:
        return self.kind in ("conditional", "global")


def anchor(key: str) -> tuple[str, str] | None:
    """``("=", "k")`` for ``=(k)``, None for a plain key."""
    found = re.fullmatch(r"([+<=X^]?)\((.+)\)", key.strip(), re.DOTALL)
    return (found[1], found[2]) if found else None


def match_pattern(resource: Any, pattern: Any) -> Mismatch | None:
    """None when it holds; else the mismatch, its path blank where the outcome is an execution error."""
    record: dict[str, bool] = {}
    try:
        _element(resource, pattern, "/", record, under_equality=False)
    except Mismatch as found:
        if found.skip or (found.kind == "fail" and not all(record.values())):
            found.path = ""
        return found
    return None


def _element(resource: Any, pattern: Any, path: str, record: dict[str, bool], *, under_equality: bool) -> None:
    if isinstance(pattern, dict):
        if not isinstance(resource, dict):
            raise Mismatch(
                f"pattern and resource have different structures. Path: {path}. "
                f"Expected {go_type(pattern)}, found {go_type(resource)}",
                path,
            )
        for key in pattern:
            a = anchor(key)
            if a and a[0] in ("", "^"):
                record[key] = record.get(key, False) or a[1] in resource
        _map(resource, pattern, path, record)
    elif isinstance(pattern, list):
        if not isinstance(resource, list):
            raise Mismatch(_overlay(path), path)
        _list(resource, pattern, path, record, under_equality)
    elif isinstance(resource, list):
        if resource:
            good = all(match_scalar(e, pattern) for e in resource)
        else:
            good = under_equality or match_scalar(None, pattern)  # right here: empty is no better than missing
        if not good:
            raise Mismatch(_unequal(resource or None, pattern, path), path)
    elif not match_scalar(resource, pattern):
        raise Mismatch(_unequal(resource, pattern, path), path)


def _overlay(path: str) -> str:
    return f"validation rule failed at path {path}, resource does not satisfy the expected overlay pattern"


def _unequal(resource: Any, pattern: Any, path: str) -> str:
    return f"resource value '{go_value(resource)}' does not match '{go_value(pattern)}' at path {path}"


def _map(resource: dict[str, Any], pattern: dict[str, Any], path: str, record: dict[str, bool]) -> None:
    pattern = expand_metadata(pattern, resource)
    first = sorted(k for k in pattern if (a := anchor(k)) and a[0] in ("", "^", "=", "X"))
    skips: list[Mismatch] = []
    applied = 0
    for key in first:
        try:
            _anchor(key, resource, pattern[key], path, record)
            applied += 1
        except Mismatch as found:
            if found.skip:
                skips.append(found)
            elif not any(s.direct for s in skips):
                raise
    if skips and (applied == 0 or any(s.direct for s in skips)):
        raise _gathered(skips, path, direct=any(s.direct for s in skips))
    for key in _second_phase([k for k in pattern if k not in first], pattern):
        a = anchor(key)
        if a and a[0] == "<":
            _anchor(key, resource, pattern[key], path, record)
            continue
        want = pattern[key]
        if isinstance(want, str) and want == "*":
            if resource.get(key) is None:
                raise Mismatch(f"{path}/{key} not found", path)
            continue
        _element(resource.get(key), want, f"{path}{key}/", record, under_equality=False)


def _second_phase(keys: list[str], pattern: dict[str, Any]) -> list[str]:
    order: list[str] = []
    for key in sorted(keys):
        if (anchor(key) and anchor(key)[0] == "<") or has_anchor(pattern[key]):  # type: ignore[index]
            order.insert(0, key)
        else:
            order.append(key)
    return order


def has_anchor(value: Any) -> bool:
    """Whether some key anywhere below is an anchor of validate."""
    if isinstance(value, dict):
        return any(((a := anchor(k)) and a[0] != "+") or has_anchor(v) for k, v in value.items())
    return isinstance(value, list) and any(map(has_anchor, value))


def _gathered(skips: list[Mismatch], path: str, *, direct: bool) -> Mismatch:
    kind = "conditional" if any(s.kind == "conditional" for s in skips) else "global"
    return Mismatch("; ".join(s.text for s in skips), path, kind, direct)


def _anchor(key: str, resource: dict[str, Any], want: Any, path: str, record: dict[str, bool]) -> None:
    sign, name = anchor(key)  # type: ignore[misc]
    at = f"{path}{name}/"
    if name not in resource:
        if sign == "":
            absent = "conditional anchor mismatch: conditional anchor key doesn't exist in the resource"
            raise Mismatch(absent, at, "conditional", direct=True)
        return
    value = resource[name]
    match sign:
        case "":
            try:
                _element(value, want, at, record, under_equality=False)
            except Mismatch as found:
                text = f"conditional anchor mismatch: {found.text}"
                raise Mismatch(text, found.path, "conditional", direct=True) from None
        case "<":
            try:
                _element(value, want, at, record, under_equality=False)
            except Mismatch as found:
                text = f"global anchor mismatch: {found.text}"
                raise Mismatch(text, found.path, "global", direct=True) from None
        case "=":
            _element(value, want, at, record, under_equality=True)
        case "X":
            raise Mismatch(f"negation anchor matched in resource: {at} is not allowed", at, "negation")
        case "^":
            _existence(value, want, at, record)


def _existence(value: Any, want: Any, at: str, record: dict[str, bool]) -> None:
    if not isinstance(value, list):
        raise Mismatch(
            f"invalid resource type {go_type(value)}: Existence ^ () anchor can be used only "
            "on list/array type resource",
            at,
        )
    if not isinstance(want, list):
        text = "Pattern has to be of list to compare against resource"
        raise Mismatch(f"invalid pattern type {go_type(want)}: {text}", at)
    for pattern in want:
        if not isinstance(pattern, dict):
            text = "Pattern has to be of type map to compare against items in resource"
            raise Mismatch(f"invalid pattern type {go_type(want)}: {text}", at)
        for i, element in enumerate(value):
            try:
                _element(element, pattern, f"{at}{i}/", record, under_equality=False)
                break
            except Mismatch:
                continue
        else:
            raise Mismatch(f"existence anchor validation failed at path {at}", at)


def _list(resource: list[Any], pattern: list[Any], path: str, record: dict[str, bool], under_equality: bool) -> None:
    if not pattern:
        raise Mismatch("pattern Array empty", path)
    if isinstance(pattern[0], dict):
        maps = [p for p in pattern if isinstance(p, dict)]
        if not resource:
            if not under_equality and any(map(_asks, maps)):
                raise Mismatch(_overlay(path), path)
            return
        skips: list[Mismatch] = []
        for each in maps:  # right here: every element of the pattern counts, not the first alone
            try:
                _some([(e, each, i) for i, e in enumerate(resource)], path, record)
            except Mismatch as found:
                if not found.skip:
                    raise
                skips.append(found)
        if len(skips) == len(maps):
            raise skips[0]
    elif isinstance(pattern[0], list):
        if len(resource) < len(pattern):
            raise Mismatch(
                "validate Array failed, array length mismatch, "
                f"resource Array len is {len(resource)} and pattern Array len is {len(pattern)}",
                "",
            )
        _some([(resource[i], p, i) for i, p in enumerate(pattern)], path, record)
    else:
        _element(resource, pattern[0], path, record, under_equality=under_equality)


def _some(pairs: list[tuple[Any, Any, int]], path: str, record: dict[str, bool]) -> None:
    skips: list[Mismatch] = []
    for element, pattern, i in pairs:
        try:
            _element(element, pattern, f"{path}{i}/", record, under_equality=False)
        except Mismatch as found:
            if not found.skip:
                raise
            skips.append(found)
    if skips and len(skips) == len(pairs):
        raise _gathered(skips, path, direct=False)


def _asks(pattern: dict[str, Any]) -> bool:
    """Whether a pattern element asks for something: a plain key that null would not satisfy."""
    return any(
        ((a := anchor(k)) is None or a[0] == "+") and (isinstance(v, (dict, list)) or not match_scalar(None, v))
        for k, v in pattern.items()
    )


def expand_metadata(pattern: dict[str, Any], resource: dict[str, Any]) -> dict[str, Any]:
    """Wildcards in the keys of labels and annotations, §3.4."""
    found = _entry(pattern, "metadata")
    actual = resource.get("metadata")
    if found is None or not isinstance(found[1], dict) or not isinstance(actual, dict):
        return pattern
    metadata = dict(found[1])
    for tag in ("labels", "annotations"):
        entry = _entry(metadata, tag)
        if entry is None or not isinstance(entry[1], dict) or not isinstance(actual.get(tag), dict):
            continue
        if any(has_wildcard(k) for k in entry[1]):
            metadata[entry[0]] = _expanded(entry[1], actual[tag])
    return {k: metadata if k == found[0] else v for k, v in pattern.items()}


def _entry(pattern: dict[str, Any], name: str) -> tuple[str, Any] | None:
    for key, value in pattern.items():
        a = anchor(key)
        if key == name or (a and a[1] == name):
            return key, value
    return None


def _expanded(pattern: dict[str, Any], actual: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pattern.items():
        if not isinstance(value, str):
            continue
        a = anchor(key)
        name = a[1] if a else key
        if has_wildcard(name):
            name = next((k for k in sorted(actual) if isinstance(actual[k], str) and wildcard(name, k)), name)
        result[f"{a[0]}({name})" if a else name] = value
    return result
