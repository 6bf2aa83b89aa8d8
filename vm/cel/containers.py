"""Lists and maps of CEL: index, ``in``, ``size``, what a comprehension goes over, and the literals under construction.

Called as intrinsics; the construction functions (``put``, ``append`` …) change the value that they are given, which
this very evaluation made. Map keys are int, uint, bool and string (CEL spec § Aggregate Values); maps find numbers by
value whatever their type. Error texts are cel-go's.
"""

from __future__ import annotations

from typing import Final

from vm.cel.display import display
from vm.cel.equality import equal
from vm.cel.values import (
    NONE,
    CelMap,
    Duration,
    Optional,
    Record,
    Timestamp,
    TypeValue,
    UInt,
    first_error,
    map_key,
    mismatch,
    type_name,
)
from vm.fuel import CHUNK
from vm.host import Meter
from vm.values import MISSING, Err, Value

_KEYS: Final = frozenset({str, bool, int, UInt})
_INT: Final = frozenset({int, UInt})
_NUMBERS: Final = frozenset({int, UInt, float})
_QUALIFIERS: Final = frozenset({str, bool, int, UInt, float})
_FOUND_BY_IDENTITY: Final = frozenset({str, bytes, type(None)})
"""Types whose values Python's ``in`` finds as CEL does."""
_EXACT: Final = 1 << 53
"""Below it an int equals a double exactly when Python says so."""

_GO_TYPES: Final[dict[type, str]] = {
    type(None): "types.Null",
    bool: "types.Bool",
    int: "types.Int",
    UInt: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    Timestamp: "types.Timestamp",
    Duration: "types.Duration",
    TypeValue: "*types.Type",
    Optional: "*types.Optional",
}
"""How cel-go names the type of a value in two of its errors."""
_GO_DATA: Final[dict[type, str]] = {
    type(None): "<nil>",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    CelMap: "map[ref.Val]ref.Val",
}


def index(c: Value, k: Value) -> Value:
    """``c[k]`` of a list or map; of an optional value the optional element."""
    tc = type(c)
    if tc is dict and type(k) is str:
        v = c.get(k, MISSING)
        return v if v is not MISSING else Err("no_such_key", f"no such key: {display(k)}")
    if tc is list and type(k) is int:
        return c[k] if 0 <= k < len(c) else Err("index", f"index out of bounds: {k}")
    if tc is Optional:
        return _optional_index(c, k)
    v = find(c, k)
    if v is not MISSING:
        return v
    return Err("index", f"index out of bounds: {display(k)}") if tc is list else absent(k)


def absent(k: Value) -> Err:
    """``no such key: k``."""
    return Err("no_such_key", f"no such key: {display(k)}")


def find(c: Value, k: Value) -> Value:
    """The element of a list, map or message at an index or key, MISSING where there is none, an error for an operand
    that is one or an index that no list takes. A value that holds nothing has no element."""
    if type(c) is Err:
        return c
    tk = type(k)
    if tk not in _QUALIFIERS:
        if tk is Err:
            return k
        return Err("overload", f"invalid qualifier type: {_GO_DATA.get(tk) or _GO_TYPES.get(tk) or type_name(k)}")
    match c:
        case dict():
            return c.get(k, MISSING) if tk is str else MISSING
        case list():
            return _element(c, k)
        case CelMap(entries=entries):
            entry = entries.get(map_key(k))
            return MISSING if entry is None else entry[1]
        case Record(fields=fields):
            return fields.get(k, MISSING) if tk is str else MISSING
    return MISSING


def _element(items: list[Value], k: Value) -> Value:
    t = type(k)
    if t is float:
        if not k.is_integer() or not -(2.0**63) < k < 2.0**63:
            return Err("index", f"unsupported index value {display(k)} in list")
    elif t not in _INT:
        return Err("overload", f"unsupported index type '{type_name(k)}' in list")
    elif t is UInt and k >= 1 << 63:
        return Err("index", f"unsupported index value {k:d} in list")
    i = int(k)
    return items[i] if 0 <= i < len(items) else MISSING


def _optional_index(c: Optional, k: Value) -> Value:
    if type(k) is Err:
        return k
    if c.value is MISSING:
        return NONE
    v = find(c.value, k)
    if v is MISSING:
        return NONE
    return v if type(v) is Err else Optional(v)


def contains(meter: Meter, x: Value, c: Value) -> Value:
    """``x in c``: an element of a list by equality, a key of a map."""
    tc, tx = type(c), type(x)
    if tc is dict:
        if tx is str:
            return x in c
        return x if tx is Err else False
    if tc is list:
        if tx is Err:
            return x
        meter.charge(len(c) >> CHUNK)
        return has_element(c, x, meter)
    if tc is CelMap:
        if tx is Err:
            return x
        k = map_key(x)
        return k is not MISSING and k in c.entries
    return mismatch(x, c)


def has_element(items: list[Value], x: Value, meter: Meter | None = None) -> bool:
    """Whether a list holds a value equal to ``x``, which is no error."""
    t = type(x)
    if t in _FOUND_BY_IDENTITY:
        return x in items
    if t in _INT and -_EXACT < x < _EXACT:
        if x not in items:
            return False
        if type(items[items.index(x)]) in _NUMBERS:
            return True
    return any(equal(x, y, meter) for y in items)


def size(x: Value) -> Value:
    """Characters of a text, bytes, elements of a list or entries of a map."""
    t = type(x)
    if t is list or t is dict or t is str or t is bytes:
        return len(x)
    if t is CelMap:
        return len(x.entries)
    if t is Timestamp or t is Duration:
        return mismatch(x)
    return x if t is Err else Err("overload", "no such overload: size")


# What comprehensions go over.


def keys(m: Value) -> Value:
    """The keys of a map as a list, in its own order."""
    t = type(m)
    if t is dict:
        return list(m)
    if t is CelMap:
        return [k for k, _ in m.entries.values()]
    return mismatch(m)


def iterated(x: Value) -> Value:
    """The elements of a list, the keys of a map, or the error that a value cannot be gone over."""
    t = type(x)
    if t is list:
        return x
    if t is dict:
        return list(x)
    if t is CelMap:
        return [k for k, _ in x.entries.values()]
    if t is Err:
        return x
    return Err("overload", f"got '{_GO_TYPES.get(t) or type_name(x)}', expected iterable type")


def paired(x: Value) -> Value:
    """``[index, element]`` of a list or ``[key, value]`` of a map, for macros with two variables."""
    t = type(x)
    if t is list:
        return [[i, v] for i, v in enumerate(x)]
    if t is dict:
        return [[k, v] for k, v in x.items()]
    if t is CelMap:
        return [[k, v] for k, v in x.entries.values()]
    return iterated(x)


# Literals under construction. Each answers the value it was given, changed, or an error.


def put(m: Value, k: Value, v: Value) -> Value:
    """Puts an entry into a map under construction. A key of another type makes a :class:`CelMap` of a ``dict``, once,
    so that a map of n entries takes n steps."""
    tk = type(k)
    if type(m) is dict and tk is str and type(v) is not Err:
        if k in m:
            return _repeated(k)
        m[k] = v
        return m
    failed = first_error(m, k, v)
    if failed is not None:
        return failed
    if tk not in _KEYS:
        return Err("argument", f"unsupported key type: {type_name(k)}")
    if type(m) is dict:
        m = CelMap({key: (key, value) for key, value in m.items()})
    elif type(m) is not CelMap:
        return mismatch(m)
    found_by = map_key(k)
    if found_by in m.entries:
        return _repeated(k)
    m.entries[found_by] = (k, v)
    return m


def put_optional(m: Value, k: Value, o: Value) -> Value:
    """Puts an entry ``?k: o`` into a map under construction: nothing when the optional value is none."""
    if type(o) is Optional:
        if o.value is MISSING:
            return first_error(m, k) or m
        return put(m, k, o.value)
    failed = first_error(m, k, o)
    if failed is not None:
        return failed
    return Err("argument", f"cannot initialize optional entry '{display(k)}' from non-optional value {display(o)}")


def put_all(m: Value, more: Value) -> Value:
    """Puts all entries of a map into one under construction (``transformMapEntry``)."""
    failed = first_error(m, more)
    if failed is not None:
        return failed
    pairs = paired(more)
    if type(more) not in (dict, CelMap) or type(pairs) is not list:
        return mismatch(more)
    for k, v in pairs:
        m = put(m, k, v)
        if type(m) is Err:
            return m
    return m


def _repeated(k: Value) -> Err:
    return Err("duplicate_key", f"insert failed: key {display(k)} already exists")


def append(items: Value, x: Value) -> Value:
    """Puts an element at the end of a list under construction."""
    if type(items) is list and type(x) is not Err:
        items.append(x)
        return items
    return mismatch(items, x)


def append_optional(items: Value, o: Value) -> Value:
    """Puts an element ``?o`` at the end of a list under construction: nothing when the optional value is none."""
    if type(o) is Optional and type(items) is list:
        if o.value is not MISSING:
            items.append(o.value)
        return items
    failed = first_error(items, o)
    if failed is not None:
        return failed
    if type(items) is not list:
        return mismatch(items)
    return Err("argument", f"cannot initialize optional list element from non-optional value {display(o)}")
