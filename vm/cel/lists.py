"""The bodies of cel-go's ``lists`` and ``sets`` extensions.

Elements are compared as ``==`` compares them, one unit of fuel for each comparison: two lists take up to 3 µs. (The
``reverse`` that takes texts too is in ``vm.cel.strings``.)
"""

from __future__ import annotations

from typing import Final

from vm.cel.containers import has_element
from vm.cel.limits import MAX_ITEMS, TOO_MANY
from vm.cel.values import Duration, Timestamp, UInt, no_overload, type_name
from vm.fuel import CHUNK
from vm.host import Meter
from vm.values import Err, Value

_PLAIN: Final = frozenset({str, int, bool, bytes, UInt})
"""Types whose values, among themselves, are equal exactly where a set of Python takes them for one."""
_SORTABLE: Final = _PLAIN | {float, Duration, Timestamp}


def slice_(items: Value, start: Value, end: Value) -> Value:
    """``items.slice(start, end)``, ``end`` not included."""
    if type(items) is list and type(start) is int and type(end) is int:
        call = f"cannot slice({start}, {end})"
        if start < 0 or end < 0:
            return Err("index", f"{call}, negative indexes not supported")
        if start > end:
            return Err("index", f"{call}, start index must be less than or equal to end index")
        if end > len(items):
            return Err("index", f"{call}, list is length {len(items)}")
        return items[start:end]
    return no_overload("slice", items, start, end)


def flatten(meter: Meter, items: Value) -> Value:
    """``items.flatten()``: lists among the elements give theirs, one level deep."""
    if type(items) is list:
        return _flat(meter, items, 1)
    return items if type(items) is Err else Err("overload", f"no such overload: {type_name(items)}.flatten()")


def flatten_deep(meter: Meter, items: Value, depth: Value) -> Value:
    """``items.flatten(depth)``: that many levels deep."""
    if type(items) is list and type(depth) is int:
        if depth < 0:
            return Err("argument", "level must be non-negative")
        return _flat(meter, items, depth)
    for x in (items, depth):
        if type(x) is Err:
            return x
    return Err("overload", f"no such overload: {type_name(items)}.flatten({type_name(depth)})")


def _flat(meter: Meter, items: list[Value], depth: int) -> Value:
    out: list[Value] = []
    open_lists = [iter(items)]
    steps = 0
    while open_lists:
        for x in open_lists[-1]:
            steps += 1
            if not steps & 63:
                meter.charge(16)
            if type(x) is list and len(open_lists) <= depth:
                open_lists.append(iter(x))
                break
            if len(out) >= MAX_ITEMS:
                return TOO_MANY
            out.append(x)
        else:
            open_lists.pop()
    return out


def sort(meter: Meter, items: Value) -> Value:
    """``items.sort()``: elements of one type that CEL orders."""
    if type(items) is list:
        return _sorted(meter, items, items)
    return items if type(items) is Err else Err("overload", "no such overload: sort")


def sort_by_keys(meter: Meter, items: Value, keys: Value) -> Value:
    """``items.@sortByAssociatedKeys(keys)``: the elements in the order of their keys, what ``sortBy`` becomes."""
    if type(items) is list and type(keys) is list:
        if len(items) != len(keys):
            return Err(
                "argument",
                "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
                f"{len(items)} and {len(keys)} elements respectively",
            )
        return _sorted(meter, items, keys)
    return no_overload("@sortByAssociatedKeys", items, keys)


def _sorted(meter: Meter, items: list[Value], keys: list[Value]) -> Value:
    """Equal keys keep their order; cel-go leaves it open."""
    if not keys:
        return items
    t = type(keys[0])
    if t not in _SORTABLE:
        return Err("argument", "list elements must be comparable")
    if any(type(k) is not t for k in keys):
        return Err("argument", "list elements must have the same type")
    meter.charge((len(keys) * len(keys).bit_length() >> 4) + _text_size(keys))
    if t is Duration or t is Timestamp:
        keys = [k.nanos for k in keys]
    elif keys is items:
        return sorted(items)
    return [items[i] for i in sorted(range(len(keys)), key=keys.__getitem__)]


def _text_size(keys: list[Value]) -> int:
    return sum(map(len, keys)) >> CHUNK if type(keys[0]) in (str, bytes) else 0


def reverse(items: Value) -> Value:
    """``items.reverse()`` of a list alone: the texts of Kubernetes have no ``reverse``."""
    return items[::-1] if type(items) is list else no_overload("reverse", items)


def distinct(meter: Meter, items: Value) -> Value:
    """``items.distinct()``: the first of equal elements."""
    if type(items) is not list:
        return no_overload("distinct", items)
    if _kind(items) in _PLAIN:
        meter.charge((len(items) >> 4) + _text_size(items))
        return list(dict.fromkeys(items))
    out: list[Value] = []
    for x in items:
        meter.charge(len(out) + 1)
        if not has_element(out, x, meter):
            out.append(x)
    return out


def _kind(items: list[Value]) -> type | None:
    """The type of all elements, None for different ones or none."""
    kinds = set(map(type, items))
    return kinds.pop() if len(kinds) == 1 else None


def range_(meter: Meter, n: Value) -> Value:
    """``lists.range(n)``: 0 to n - 1."""
    if type(n) is int:
        if n > MAX_ITEMS:
            return TOO_MANY
        meter.charge(max(n, 0) >> 4)
        return list(range(n))
    return no_overload("lists.range", n)


def contains(meter: Meter, items: Value, part: Value) -> Value:
    """``sets.contains(items, part)``: each element of ``part`` is in ``items``."""
    if type(items) is list and type(part) is list:
        return _holds(meter, items, part)
    return no_overload("sets.contains", items, part)


def equivalent(meter: Meter, a: Value, b: Value) -> Value:
    """``sets.equivalent(a, b)``: each element of one is in the other."""
    if type(a) is list and type(b) is list:
        return _holds(meter, a, b) and _holds(meter, b, a)
    return no_overload("sets.equivalent", a, b)


def intersects(meter: Meter, a: Value, b: Value) -> Value:
    """``sets.intersects(a, b)``: some element is in both."""
    if type(a) is list and type(b) is list:
        kind = _kind(a)
        if kind in _PLAIN and kind is _kind(b):
            meter.charge((len(a) + len(b) >> 4) + _text_size(a) + _text_size(b))
            return not set(a).isdisjoint(b)
        for x in a:
            meter.charge(len(b) + 1)
            if has_element(b, x, meter):
                return True
        return False
    return no_overload("sets.intersects", a, b)


def _holds(meter: Meter, items: list[Value], part: list[Value]) -> bool:
    kind = _kind(items)
    if kind in _PLAIN and kind is _kind(part):
        meter.charge((len(items) + len(part) >> 4) + _text_size(items) + _text_size(part))
        return set(items).issuperset(part)
    for x in part:
        meter.charge(len(items) + 1)
        if not has_element(items, x, meter):
            return False
    return True
