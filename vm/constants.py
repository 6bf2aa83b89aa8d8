"""Constants that JSON has no form for, described in JSON: ``["uint", 5]``, ``["timestamp", 0, 0]``.

``vm.packing`` puts such a description into bundles, the texts of the assembler and of the IR write it behind a mark.
There is one description for each value. Inside of one, null, bools, finite numbers and texts stand for themselves, all
else is a list that begins with its kind.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, nan
from typing import Any, Final

from vm.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    TIME_MAX,
    TIME_MIN,
    UINT_MAX,
    CelMap,
    Duration,
    Optional,
    Record,
    Timestamp,
    TypeValue,
    UInt,
    map_key,
)
from vm.values import MISSING, Value

_ALONE: Final = frozenset({type(None), bool, int, str})
_DOUBLES: Final = {"nan": nan, "inf": inf, "-inf": -inf}
_SPECIAL: Final = frozenset({UInt, bytes, Timestamp, Duration, TypeValue, CelMap, Optional, Record})
_KEYS: Final = frozenset({str, bool, int, UInt})
_MAX_OFFSET: Final = 25 * 3600


def is_special(v: Value) -> bool:
    """Whether a value itself, not what it holds, has no form in JSON."""
    t = type(v)
    return t in _SPECIAL or (t is float and not isfinite(v))


def holds_special(v: Value) -> bool:
    """Whether a constant or anything in it has no form in JSON."""
    stack = [v]
    while stack:
        x = stack.pop()
        t = type(x)
        if t is list or t is tuple:
            stack.extend(x)
        elif t is dict:
            stack.extend(x.values())
        elif is_special(x):
            return True
    return False


def describe(v: Value) -> Any:
    """The description of a constant. Raises ``ValueError`` for a value that cannot be one."""
    match v:
        case UInt():
            return ["uint", int(v)]
        case None | bool() | int() | str():
            return v
        case float():
            return v if isfinite(v) else ["double", "nan" if v != v else "inf" if v > 0 else "-inf"]
        case bytes():
            return ["bytes", v.hex()]
        case list():
            return ["list", *(describe(x) for x in v)]
        case dict():
            return ["map", {k: describe(v[k]) for k in sorted(v)}]
        case CelMap(entries=entries):
            pairs = ((k, v) for _, (k, v) in sorted(entries.items(), key=_order))
            return ["entries", *([describe(k), describe(x)] for k, x in pairs)]
        case Timestamp():
            return ["timestamp", v.nanos, v.offset]
        case Duration():
            return ["duration", v.nanos]
        case TypeValue():
            return ["type", v.name]
        case Optional():
            return ["optional"] if v.value is MISSING else ["optional", describe(v.value)]
        case Record():
            return ["record", v.name, {k: describe(v.fields[k]) for k in sorted(v.fields)}]
    raise ValueError("the value cannot be a constant")


def _order(entry: tuple[Any, Any]) -> tuple[str, Any]:
    """Keys of maps in order: booleans, numbers, texts."""
    key = entry[0]
    return (type(key).__name__ if type(key) is not tuple else "bool", key)


def described(form: Any) -> Value:
    """The constant that a description stands for. Raises ``ValueError`` for what is no description."""
    t = type(form)
    if t in _ALONE or (t is float and isfinite(form)):
        return form
    if t is list and form and type(form[0]) is str:
        read = _READERS.get(form[0])
        if read is not None:
            return read(form[1:])
    raise ValueError("no description of a constant")


def _one(parts: list[Any], kind: type) -> Any:
    if len(parts) != 1 or type(parts[0]) is not kind:
        raise ValueError("a description of another shape")
    return parts[0]


def _within(n: Any, low: int, high: int) -> int:
    if type(n) is not int or not low <= n <= high:
        raise ValueError("a number out of its range")
    return n


def _uint(parts: list[Any]) -> Value:
    return UInt(_within(_one(parts, int), 0, UINT_MAX))


def _double(parts: list[Any]) -> Value:
    name = _one(parts, str)
    if name not in _DOUBLES:
        raise ValueError("no number of that name")
    return _DOUBLES[name]


def _bytes(parts: list[Any]) -> Value:
    text = _one(parts, str)
    found = bytes.fromhex(text)
    if found.hex() != text:
        raise ValueError("bytes in another form")
    return found


def _list(parts: list[Any]) -> Value:
    return [described(x) for x in parts]


def _map(parts: list[Any]) -> Value:
    return {k: described(x) for k, x in _one(parts, dict).items()}


def _entries(parts: list[Any]) -> Value:
    entries: dict[Any, tuple[Value, Value]] = {}
    for pair in parts:
        if type(pair) is not list or len(pair) != 2:
            raise ValueError("an entry is a key and a value")
        k, v = described(pair[0]), described(pair[1])
        if type(k) not in _KEYS or map_key(k) in entries:
            raise ValueError("a key that is none or that stands twice")
        entries[map_key(k)] = (k, v)
    return CelMap(entries)


def _timestamp(parts: list[Any]) -> Value:
    if len(parts) != 2:
        raise ValueError("a timestamp is nanoseconds and an offset")
    return Timestamp(_within(parts[0], TIME_MIN, TIME_MAX), _within(parts[1], -_MAX_OFFSET, _MAX_OFFSET))


def _duration(parts: list[Any]) -> Value:
    return Duration(_within(_one(parts, int), INT_MIN, INT_MAX))


def _type(parts: list[Any]) -> Value:
    return TypeValue(_one(parts, str))


def _optional(parts: list[Any]) -> Value:
    if not parts:
        return NONE
    if len(parts) != 1:
        raise ValueError("an optional value holds one")
    return Optional(described(parts[0]))


def _record(parts: list[Any]) -> Value:
    if len(parts) != 2 or type(parts[0]) is not str or type(parts[1]) is not dict:
        raise ValueError("a record is a name and its fields")
    return Record(parts[0], {k: described(x) for k, x in parts[1].items()})


_READERS: Final[dict[str, Callable[[list[Any]], Value]]] = {
    "uint": _uint,
    "double": _double,
    "bytes": _bytes,
    "list": _list,
    "map": _map,
    "entries": _entries,
    "timestamp": _timestamp,
    "duration": _duration,
    "type": _type,
    "optional": _optional,
    "record": _record,
}
