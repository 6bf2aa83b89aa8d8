"""Calls functions of CEL by the names of their intrinsics, without compiling an expression."""

from __future__ import annotations

from typing import Any

from vm.cel.values import CelMap, Optional
from vm.functions import INTRINSICS, resolve
from vm.host import Meter


def called(name: str, *operands: Any, meter: Meter | None = None) -> Any:
    """What ``cel.<name>`` answers."""
    name = f"cel.{name}"
    body = resolve(name)
    return body(meter or Meter(), *operands) if INTRINSICS[name].metered else body(*operands)


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same in type too, NaN and the sign of zero not excepted."""
    if type(a) is not type(b):
        return False
    if type(a) is list:
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is dict:
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    if type(a) is CelMap:
        return list(a.entries) == list(b.entries) and all(
            same(x[1], y[1]) for x, y in zip(a.entries.values(), b.entries.values(), strict=True)
        )
    if type(a) is Optional:
        return same(a.value, b.value)
    if type(a) is float:
        return repr(a) == repr(b)
    return bool(a == b)
