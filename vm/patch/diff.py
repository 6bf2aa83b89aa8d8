"""The JSON patch (RFC 6902) that turns one document into another. Called by the ``patch.diff`` intrinsic and by the
engine, which answers the API server with it.

Maps are compared key by key. Lists of one length are compared element by element; of two lists of different length the
common head and tail stay, so that a change in the middle does not rewrite what follows it. ``apply(a, diff(a, b))``
equals ``b``.
"""

from __future__ import annotations

from typing import Any

from vm.values import Value, json_equal


def diff(a: Value, b: Value) -> list[dict[str, Any]]:
    """Operations ``add``, ``remove`` and ``replace``, in an order in which they apply; empty for equal documents."""
    ops: list[dict[str, Any]] = []
    _compare(a, b, "", ops)
    return ops


def escape(key: str) -> str:
    """A key as a step of an RFC 6901 pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _compare(a: Value, b: Value, path: str, ops: list[dict[str, Any]]) -> None:
    if a is b:
        return
    if type(a) is dict and type(b) is dict:
        for key in sorted(a.keys() | b.keys()):
            at = f"{path}/{escape(key)}"
            if key not in b:
                ops.append({"op": "remove", "path": at})
            elif key not in a:
                ops.append({"op": "add", "path": at, "value": b[key]})
            else:
                _compare(a[key], b[key], at, ops)
    elif type(a) is list and type(b) is list:
        _compare_lists(a, b, path, ops)
    elif not json_equal(a, b):
        ops.append({"op": "replace", "path": path, "value": b})


def _compare_lists(a: list[Any], b: list[Any], path: str, ops: list[dict[str, Any]]) -> None:
    head = 0
    tail = 0
    if len(a) != len(b):
        short = min(len(a), len(b))
        while head < short and json_equal(a[head], b[head]):
            head += 1
        while tail < short - head and json_equal(a[-1 - tail], b[-1 - tail]):
            tail += 1
    end_a, end_b = len(a) - tail, len(b) - tail
    both = min(end_a, end_b)
    for i in range(head, both):
        _compare(a[i], b[i], f"{path}/{i}", ops)
    for i in range(end_a - 1, both - 1, -1):  # from the end, so that indices before it stay true
        ops.append({"op": "remove", "path": f"{path}/{i}"})
    for i in range(both, end_b):
        ops.append({"op": "add", "path": f"{path}/{i}", "value": b[i]})
