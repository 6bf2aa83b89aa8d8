"""JSON patch (RFC 6902) as Kyverno applies it: ``add`` makes missing parents, ``remove`` of what is not there does
nothing, negative indices count from the end. Called by the ``patch.json6902`` intrinsic.

The document is never changed: each operation copies the containers along its path, and only those. Failures are
``Err("patch", …)`` with the reference's words.
"""

from __future__ import annotations

from typing import Any

from vm.host import Meter
from vm.values import Err, Value, is_list, is_map, json_equal

_MISSING_VALUE = "missing value"
_BAD_INDEX = "invalid index referenced"
MAX_PADDING = 4096
"""Most nulls that an ``add`` may put before the index it names, since a patch's text could name any."""


class _Refused(Exception):
    """Carries the reason out of a nested step; never leaves this module."""


def apply(doc: Value, ops: Value, meter: Meter | None = None) -> Value:
    """The document after all operations (a list of maps), or an ``Err`` naming the first that cannot be applied.

    A copy is paid for by each of its nodes: copies of what holds copies double it again and again.
    """
    if not is_list(ops):
        return Err("patch", "a JSON patch must be a list of operations")
    try:
        for op in ops:
            if meter is not None and is_map(op) and op.get("op") == "copy":
                _pay(_find(doc, _steps(op.get("from")))[1], meter)
            doc = _apply_one(doc, op)
    except _Refused as refused:
        return Err("patch", str(refused))
    return doc


def _pay(value: Value, meter: Meter) -> None:
    stack = [value]
    while stack:
        v = stack.pop()
        if is_map(v):
            meter.charge(1 + len(v))
            stack.extend(v.values())
        elif is_list(v):
            meter.charge(1 + len(v))
            stack.extend(v)


def split_pointer(path: Value) -> list[str]:
    """The unescaped steps of an RFC 6901 pointer. Raises ``ValueError`` for a text that is none."""
    if not isinstance(path, str):
        raise ValueError("path must be a text")
    if path == "":
        return []
    if not path.startswith("/"):
        raise ValueError(f"path must start with a slash: {path}")
    return [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]


def _apply_one(doc: Value, op: Value) -> Value:
    if not is_map(op):
        raise _Refused("a JSON patch operation must be a map")
    kind: Any = op.get("op")
    path: Any = op.get("path")
    steps = _steps(path)
    match kind:
        case "add":
            return _add(doc, steps, op.get("value"), path)
        case "remove":
            return _remove(doc, steps, path)
        case "replace":
            return _replace(doc, steps, op.get("value"), path)
        case "test":
            return _test(doc, steps, op.get("value"), path)
        case "move" | "copy":
            origin: Any = op.get("from")
            source = _steps(origin)
            found, value = _find(doc, source)
            if not found:
                raise _Refused(f"{kind} operation does not apply: doc is missing from path: {origin}: {_MISSING_VALUE}")
            if kind == "move":
                if steps[: len(source)] == source and len(steps) > len(source):
                    raise _Refused(f"move operation does not apply: {path} lies inside {origin}")
                doc = _remove(doc, source, origin)
            return _add(doc, steps, value, path)
        case _:
            raise _Refused(f"unexpected kind: {kind}")


def _steps(path: Value) -> list[str]:
    try:
        return split_pointer(path)
    except ValueError as error:
        raise _Refused(str(error)) from None


def _index(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


def _position(items: list[Any], text: str) -> int | None:
    """Where a list step points, None when it is outside the list or no index at all."""
    i = _index(text)
    if i is None:
        return None
    if i < 0:
        i += len(items)
    return i if 0 <= i < len(items) else None


def _find(doc: Value, steps: list[str]) -> tuple[bool, Value]:
    for step in steps:
        if is_map(doc) and step in doc:
            doc = doc[step]
        elif is_list(doc) and (i := _position(doc, step)) is not None:
            doc = doc[i]
        else:
            return False, None
    return True, doc


def _test(doc: Value, steps: list[str], want: Value, path: str) -> Value:
    found, value = _find(doc, steps)
    if not found and want is None:
        return doc
    if not found or not json_equal(value, want):
        raise _Refused(f"testing value {path} failed: test failed")
    return doc


def _replace(doc: Value, steps: list[str], value: Value, path: str) -> Value:
    found, _ = _find(doc, steps)
    if not found:
        parent, _ = _find(doc, steps[:-1])
        what = "key" if parent else "path"
        raise _Refused(f"replace operation does not apply: doc is missing {what}: {path}: {_MISSING_VALUE}")
    return _set(doc, steps, value)


def _set(doc: Value, steps: list[str], value: Value) -> Value:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if is_map(doc):
        return {**doc, step: _set(doc[step], rest, value)}
    i = _position(doc, step)
    copy = list(doc)
    copy[i] = _set(doc[i], rest, value)  # type: ignore[index]  # _find has been here
    return copy


def _remove(doc: Value, steps: list[str], path: str) -> Value:
    if not steps:
        raise _Refused("remove operation does not apply: the whole document cannot be removed")
    found, _ = _find(doc, steps)
    if not found:
        return doc
    parent = steps[:-1]
    _, holder = _find(doc, parent)
    if is_map(holder):
        return _set(doc, parent, {k: v for k, v in holder.items() if k != steps[-1]})
    i = _position(holder, steps[-1])
    return _set(doc, parent, [v for n, v in enumerate(holder) if n != i])


def _add(doc: Value, steps: list[str], value: Value, path: str) -> Value:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if is_map(doc):
        if not rest:
            return {**doc, step: value}
        inner = doc.get(step)
        return {**doc, step: _add(_container_for(rest[0], path) if inner is None else inner, rest, value, path)}
    if is_list(doc):
        return _add_to_list(doc, step, rest, value, path)
    raise _Refused(f'add operation does not apply: doc is missing path: "{path}": {_MISSING_VALUE}')


def _add_to_list(items: list[Any], step: str, rest: list[str], value: Value, path: str) -> Value:
    i = len(items) if step == "-" else _index(step)
    if i is None:
        raise _Refused(f"error in add for path: '{path}': {step} is no index: {_BAD_INDEX}")
    if not rest:
        if i < 0:
            i += len(items) + 1  # -1 is the place after the last
        if not 0 <= i <= len(items):
            raise _Refused(f"error in add for path: '{path}': Unable to access invalid index: {step}: {_BAD_INDEX}")
        return [*items[:i], value, *items[i:]]
    at = _position(items, step) if step != "-" else None
    if at is not None:
        inner = items[at]
        copy = list(items)
        copy[at] = _add(_container_for(rest[0], path) if inner is None else inner, rest, value, path)
        return copy
    if i < -1:
        raise _Refused(f"error in add for path: '{path}': Unable to access invalid index: {step}: {_BAD_INDEX}")
    if i == -1:  # the last of an empty list: the place after it
        i = len(items)
    made = _add(_container_for(rest[0], path), rest, value, path)
    return [*items, *_padding(i - len(items), path), made]


def _container_for(step: str, path: str) -> Value:
    """What stands where a parent was missing: a list (padded up to the index) before an index, else a map."""
    i = _index(step)
    if step != "-" and i is None:
        return {}
    return _padding(i, path) if i is not None and i > 0 else []


def _padding(n: int, path: str) -> list[None]:
    if n > MAX_PADDING:
        raise _Refused(f"error in add for path: '{path}': more than {MAX_PADDING} missing elements before it")
    return [None] * n
