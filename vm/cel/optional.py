"""The bodies of optional values: ``optional.of`` and what is called on them, ``a.?b`` and ``a[?b]``."""

from __future__ import annotations

from typing import Final

from vm.cel.containers import find, index
from vm.cel.display import display
from vm.cel.values import NONE, TIME_MIN, CelMap, Duration, Optional, Record, Timestamp, UInt, no_overload
from vm.host import Meter
from vm.values import MISSING, Err, Value

_FALSY: Final = frozenset({type(None), bool, int, UInt, float, str, bytes, list, dict})


def of(v: Value) -> Value:
    """``optional.of(v)``."""
    return v if type(v) is Err else Optional(v)


def of_non_zero(v: Value) -> Value:
    """``optional.ofNonZeroValue(v)``: none for null, false, 0, an empty text, list or map, a span of no time and the
    first moment of year 1."""
    t = type(v)
    if t is Err:
        return v
    if t in _FALSY:
        return Optional(v) if v else NONE
    match v:
        case CelMap(entries=held) | Record(fields=held):
            return Optional(v) if held else NONE
        case Duration(nanos=n):
            return Optional(v) if n else NONE
        case Timestamp(nanos=n):
            return Optional(v) if n != TIME_MIN else NONE
    return Optional(v)


def none() -> Value:
    """``optional.none()``."""
    return NONE


def value(v: Value) -> Value:
    """``v.value()``."""
    if type(v) is Optional:
        return v.value if v.value is not MISSING else Err("argument", "optional.none() dereference")
    return no_overload("value", v)


def has_value(v: Value) -> Value:
    """``v.hasValue()``."""
    return v.value is not MISSING if type(v) is Optional else no_overload("hasValue", v)


def or_(v: Value, other: Value) -> Value:
    """``v.or(other)``. What is no optional value answers itself, as in cel-go; ``other`` counts only when ``v`` is
    none, be it an error."""
    return other if type(v) is Optional and v.value is MISSING else v


def or_value(v: Value, other: Value) -> Value:
    """``v.orValue(other)``, else as :func:`or_`."""
    if type(v) is Optional:
        return v.value if v.value is not MISSING else other
    return v


def select(v: Value, key: Value) -> Value:
    """``v.?key`` and ``v[?key]``: none where there is no such key or index. Of an optional value the optional element.
    A value that holds nothing (a number, a text, null) has no element: Kubernetes."""
    if type(v) is Optional:
        return index(v, key)
    found = find(v, key)
    if found is MISSING:
        return NONE
    return found if type(found) is Err else Optional(found)


def first(items: Value) -> Value:
    """``items.first()``: none of an empty list."""
    if type(items) is list:
        return Optional(items[0]) if items else NONE
    return no_overload("first", items)


def last(items: Value) -> Value:
    """``items.last()``: none of an empty list."""
    if type(items) is list:
        return Optional(items[-1]) if items else NONE
    return no_overload("last", items)


def unwrap(meter: Meter, items: Value) -> Value:
    """``optional.unwrap(items)``: what the optional values of a list hold, in order."""
    return _unwrapped(meter, items, "optional.unwrap")


def unwrap_opt(meter: Meter, items: Value) -> Value:
    """``items.unwrapOpt()``: the same, called as a method."""
    return _unwrapped(meter, items, "unwrapOpt")


def _unwrapped(meter: Meter, items: Value, name: str) -> Value:
    """cel-go looks at the first element to see whether the list is one of optional values."""
    if type(items) is not list or (items and type(items[0]) is not Optional):
        return no_overload(name, items)
    meter.charge(len(items) >> 4)
    for x in items:
        if type(x) is not Optional:
            return Err("argument", f"value {display(x)} is not optional")
    return [x.value for x in items if x.value is not MISSING]
