"""Equality and order of CEL values, whatever their types (CEL spec § Equality, § Ordering).

Called as intrinsics, by ``in`` and by every library that compares elements. Values of different types are unequal,
numbers meet on one line: an integer is compared with a double as a double, as cel-go does (``9007199254740993 ==
9007199254740992.0`` is true). NaN equals nothing and has no place in the order.
"""

from __future__ import annotations

from typing import Final

from vm.cel.values import CelMap, Duration, Optional, Record, Timestamp, TypeValue, UInt, no_operator
from vm.fuel import CHUNK
from vm.host import Meter
from vm.values import MISSING, Err, Value

NAN_ORDER: Final = Err("argument", "NaN values cannot be ordered")

_SCALARS: Final = frozenset({str, int, bool, float, UInt, bytes, type(None), Timestamp, Duration, TypeValue})
"""Two values of one of these types are equal when Python says so."""
_ORDERED: Final = frozenset({str, int, bool, UInt, bytes})
_TIMES: Final = frozenset({Timestamp, Duration})
_NUMBERS: Final = frozenset({int, UInt, float})
_NESTING: Final = frozenset({list, dict, CelMap, Optional, Record})


def eq(meter: Meter, a: Value, b: Value) -> Value:
    """``a == b``; the first operand that is an error otherwise."""
    ta, tb = type(a), type(b)
    if ta is tb and ta in _SCALARS:
        return a == b
    if ta is Err:
        return a
    if tb is Err:
        return b
    if ta not in _NESTING or tb not in _NESTING:
        return _flat(a, b)
    return _deep(a, b, meter)


def ne(meter: Meter, a: Value, b: Value) -> Value:
    """``a != b``; the first operand that is an error otherwise."""
    ta, tb = type(a), type(b)
    if ta is tb and ta in _SCALARS:
        return a != b
    found = eq(meter, a, b)
    return found if type(found) is Err else not found


def equal(a: Value, b: Value, meter: Meter | None = None) -> bool:
    """Whether two values, neither an error, are equal. With a meter the nodes compared are charged, one unit for 64."""
    if type(a) not in _NESTING or type(b) not in _NESTING:
        return _flat(a, b)
    return _deep(a, b, meter)


def _flat(a: Value, b: Value) -> bool:
    """Equality where one of the two holds no other values. Values of libraries compare by their own ``==``."""
    ta, tb = type(a), type(b)
    if ta is tb:
        return bool(a == b)
    if ta in _NUMBERS and tb in _NUMBERS:
        if ta is float or tb is float:
            return float(a) == float(b)
        return int(a) == int(b)
    return False


def _deep(a: Value, b: Value, meter: Meter | None) -> bool:
    """Without recursion: a document may be nested deeper than the interpreter's stack."""
    stack = [(a, b)]
    seen = 0
    while stack:
        x, y = stack.pop()
        tx, ty = type(x), type(y)
        if tx is list:
            if ty is not list or len(x) != len(y):
                return False
            stack.extend(zip(x, y, strict=True))
            seen += len(x)
        elif tx is dict or tx is CelMap:
            if ty is not dict and ty is not CelMap:
                return False
            if not _paired(x, y, stack):
                return False
            seen += 2 * len(x if tx is dict else x.entries)
        elif tx is Optional:
            if ty is not Optional or (x.value is MISSING) is not (y.value is MISSING):
                return False
            if x.value is not MISSING:
                stack.append((x.value, y.value))
        elif tx is Record:
            if ty is not Record or x.name != y.name or not _paired(x.fields, y.fields, stack):
                return False
        elif not _flat(x, y):
            return False
        if seen >> CHUNK and meter is not None:
            meter.charge(seen >> CHUNK)
            seen &= (1 << CHUNK) - 1
    return True


def _paired(a: Value, b: Value, stack: list[tuple[Value, Value]]) -> bool:
    """Puts the values of two maps that belong to one key on the stack; False when the keys differ."""
    if type(a) is dict and type(b) is dict:
        if len(a) != len(b):
            return False
        for k, v in a.items():
            other = b.get(k, MISSING)
            if other is MISSING:
                return False
            stack.append((v, other))
        return True
    mine, theirs = entries_of(a), entries_of(b)
    if len(mine) != len(theirs):
        return False
    for k, (_, v) in mine.items():
        entry = theirs.get(k)
        if entry is None:
            return False
        stack.append((v, entry[1]))
    return True


def entries_of(m: Value) -> dict[Value, tuple[Value, Value]]:
    """The entries of any map in the form of :class:`CelMap`."""
    return {k: (k, v) for k, v in m.items()} if type(m) is dict else m.entries


def lt(a: Value, b: Value) -> Value:
    """``a < b``."""
    if type(a) is type(b) and type(a) in _ORDERED:
        return a < b
    c = compare(a, b, "_<_")
    return c < 0 if type(c) is int else c


def le(a: Value, b: Value) -> Value:
    """``a <= b``."""
    if type(a) is type(b) and type(a) in _ORDERED:
        return a <= b
    c = compare(a, b, "_<=_")
    return c <= 0 if type(c) is int else c


def gt(a: Value, b: Value) -> Value:
    """``a > b``."""
    if type(a) is type(b) and type(a) in _ORDERED:
        return a > b
    c = compare(a, b, "_>_")
    return c > 0 if type(c) is int else c


def ge(a: Value, b: Value) -> Value:
    """``a >= b``."""
    if type(a) is type(b) and type(a) in _ORDERED:
        return a >= b
    c = compare(a, b, "_>=_")
    return c >= 0 if type(c) is int else c


def compare(a: Value, b: Value, name: str = "_<_") -> int | Err:
    """-1, 0 or 1 for two values that CEL orders: two bools, texts, bytes, timestamps or durations, or any two numbers.
    Texts go by code point, false before true. ``name`` is the operator that an error names."""
    ta, tb = type(a), type(b)
    if ta in _NUMBERS and tb in _NUMBERS:
        if ta is float or tb is float:
            a, b = float(a), float(b)
            if a != a or b != b:
                return NAN_ORDER
        return _sign(a, b)
    if ta is tb:
        if ta in _ORDERED:
            return _sign(a, b)
        if ta in _TIMES:
            return _sign(a.nanos, b.nanos)
    if ta is bool and tb is not Err:
        return Err("overload", "no such overload")
    if ta is list and tb is not Err:
        return Err("overload", f"no such overload: {name}")
    return no_operator(name, a, b)


def _sign(a: Value, b: Value) -> int:
    return 1 if a > b else -1 if a < b else 0


def less(a: Value, b: Value) -> bool:
    """Whether ``a`` comes before ``b``; False where CEL does not order them."""
    c = compare(a, b)
    return type(c) is int and c < 0
