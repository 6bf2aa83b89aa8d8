"""The API server's functions on lists: order, sum, smallest and largest element.

(``indexOf`` and ``lastIndexOf`` share their bodies with those of texts, in ``vm.cel.strings``.)
"""

from __future__ import annotations

from typing import Final

from vm.cel import arith
from vm.cel.equality import compare
from vm.cel.values import Duration, Timestamp, UInt, no_overload
from vm.host import Meter
from vm.values import Err, Value

_SUMMED: Final = frozenset({int, UInt, float, Duration})
_ORDERED: Final = _SUMMED | {bool, Timestamp, str, bytes}
_MISMATCH: Final = Err("overload", "no such overload")
_ITEMS_A_UNIT: Final = 2
"""Elements for a unit of fuel, as a power of two: comparing two takes about 0.3 µs."""


def is_sorted(meter: Meter, items: Value) -> Value:
    """``list.isSorted()``. Neighbours that CEL does not order count as being in order, as in Kubernetes."""
    if not _of(items, _ORDERED):
        return no_overload("isSorted", items)
    meter.charge(len(items) >> _ITEMS_A_UNIT)
    for i, x in enumerate(items):
        if type(x) not in _ORDERED:
            return _MISMATCH
        if i and compare(items[i - 1], x) == 1:
            return False
    return True


def _of(items: Value, types: frozenset[type]) -> bool:
    """Whether the value is a list whose first element, by which the API server finds the overload, fits."""
    return type(items) is list and (not items or type(items[0]) in types)


def sum_of_int(meter: Meter, items: Value) -> Value:
    """``list.sum()`` of a list of ints, or of one whose elements are not known before: 0 when it is empty."""
    return _sum(meter, items, 0)


def sum_of_uint(meter: Meter, items: Value) -> Value:
    """``list.sum()`` of a list of uints."""
    return _sum(meter, items, UInt(0))


def sum_of_double(meter: Meter, items: Value) -> Value:
    """``list.sum()`` of a list of doubles."""
    return _sum(meter, items, 0.0)


def sum_of_duration(meter: Meter, items: Value) -> Value:
    """``list.sum()`` of a list of durations."""
    return _sum(meter, items, Duration(0))


def _sum(meter: Meter, items: Value, empty: Value) -> Value:
    if not _of(items, _SUMMED):
        return no_overload("sum", items)
    if not items:
        return empty
    meter.charge(len(items) >> _ITEMS_A_UNIT)
    total = items[0]
    for x in items[1:]:
        if type(x) is not type(total):
            return _MISMATCH
        total = arith.add(meter, total, x)
        if type(total) is Err:
            return total
    return total


def smallest(meter: Meter, items: Value) -> Value:
    """``list.min()``, an error for an empty list."""
    return _extreme(meter, items, "min", 1)


def largest(meter: Meter, items: Value) -> Value:
    """``list.max()``, an error for an empty list."""
    return _extreme(meter, items, "max", -1)


def _extreme(meter: Meter, items: Value, name: str, worse: int) -> Value:
    if not _of(items, _ORDERED):
        return no_overload(name, items)
    if not items:
        return Err("argument", f"{name} called on empty list")
    meter.charge(len(items) >> _ITEMS_A_UNIT)
    best = items[0]
    for x in items[1:]:
        if type(x) not in _ORDERED:
            return _MISMATCH
        if compare(best, x) == worse:
            best = x
    return best
