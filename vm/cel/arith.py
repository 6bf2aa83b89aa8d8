"""Arithmetic of CEL: ``+ - * / %`` and the signs, with the ranges of 64-bit numbers, durations and timestamps.

Called as intrinsics and by the libraries that calculate (``vm.cel.math``). Operands of one type only (CEL spec
§ Overflow, § Time Zones); error texts are cel-go's.
"""

from __future__ import annotations

from math import copysign, inf, nan
from typing import Final

from vm.cel.limits import MAX_ITEMS, MAX_TEXT, TOO_LONG, TOO_MANY
from vm.cel.values import (
    INT_MAX,
    INT_MIN,
    SECOND,
    TIME_MAX,
    TIME_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    UInt,
    mismatch,
    no_operator,
)
from vm.fuel import CHUNK
from vm.host import Meter
from vm.values import Err, Value

OVERFLOW: Final = Err("range", "integer overflow")
UINT_OVERFLOW: Final = Err("range", "unsigned integer overflow")
TIME_OVERFLOW: Final = Err("range", "timestamp overflow")
BY_ZERO: Final = Err("divide", "division by zero")
MODULUS_BY_ZERO: Final = Err("divide", "modulus by zero")


def add(meter: Meter, a: Value, b: Value) -> Value:
    """``a + b``: numbers of one type, joined texts, bytes and lists, durations with durations and timestamps."""
    t = type(a)
    if t is type(b):
        if t is int:
            n = a + b
            return n if INT_MIN <= n <= INT_MAX else OVERFLOW
        if t is str or t is list or t is bytes:
            n = len(a) + len(b)
            meter.charge(n >> CHUNK)
            if n > MAX_ITEMS:
                if t is list:
                    return TOO_MANY
                if n > MAX_TEXT:
                    return TOO_LONG
            return a + b
        if t is float:
            return a + b
        if t is UInt:
            n = int(a) + int(b)
            return UInt(n) if n <= UINT_MAX else UINT_OVERFLOW
        if t is Duration:
            return duration(a.nanos + b.nanos)
    elif t is Timestamp and type(b) is Duration:
        return moved(a, b.nanos)
    elif t is Duration and type(b) is Timestamp:
        return moved(b, a.nanos)
    return no_operator("_+_", a, b)


def sub(a: Value, b: Value) -> Value:
    """``a - b``: numbers of one type, durations, a timestamp less a duration or another timestamp."""
    t = type(a)
    if t is type(b):
        if t is int:
            n = a - b
            return n if INT_MIN <= n <= INT_MAX else OVERFLOW
        if t is float:
            return a - b
        if t is UInt:
            n = int(a) - int(b)
            return UInt(n) if n >= 0 else UINT_OVERFLOW
        if t is Duration:
            return duration(a.nanos - b.nanos)
        if t is Timestamp:
            return _between(a.nanos, b.nanos)
    elif t is Timestamp and type(b) is Duration:
        return moved(a, -b.nanos) if b.nanos != INT_MIN else OVERFLOW
    return _of_numbers("_-_", a, b)


def mul(a: Value, b: Value) -> Value:
    """``a * b`` of two numbers of one type."""
    t = type(a)
    if t is type(b):
        if t is int:
            n = a * b
            return n if INT_MIN <= n <= INT_MAX else OVERFLOW
        if t is float:
            return a * b
        if t is UInt:
            n = int(a) * int(b)
            return UInt(n) if n <= UINT_MAX else UINT_OVERFLOW
    return _of_numbers("_*_", a, b)


def div(a: Value, b: Value) -> Value:
    """``a / b`` of two numbers of one type; integers are cut towards zero, doubles follow IEEE 754."""
    t = type(a)
    if t is type(b):
        if t is int:
            if b == 0:
                return BY_ZERO
            n = abs(a) // abs(b)
            if (a < 0) is not (b < 0):
                return -n
            return n if n <= INT_MAX else OVERFLOW
        if t is float:
            if b != 0:
                return a / b
            return nan if a == 0 or a != a else copysign(inf, a) * copysign(1.0, b)
        if t is UInt:
            return UInt(int(a) // int(b)) if b else BY_ZERO
    return _of_numbers("_/_", a, b)


def mod(a: Value, b: Value) -> Value:
    """``a % b`` of two integers of one type; the result has the sign of ``a``."""
    t = type(a)
    if t is type(b):
        if t is int:
            if b == 0:
                return MODULUS_BY_ZERO
            if b == -1 and a == INT_MIN:
                return OVERFLOW
            n = abs(a) % abs(b)
            return -n if a < 0 else n
        if t is UInt:
            return UInt(int(a) % int(b)) if b else MODULUS_BY_ZERO
    return _named("_%_", a, b) if t is float else _of_numbers("_%_", a, b)


def neg(a: Value) -> Value:
    """``-a`` of an int, a double or a duration."""
    t = type(a)
    if t is int:
        return -a if a != INT_MIN else OVERFLOW
    if t is float:
        return -a
    if t is Duration:
        return duration(-a.nanos)
    if t is str or t is Timestamp or t is bool:
        return mismatch(a)
    return _named("-_", a)


def not_(a: Value) -> Value:
    """``!a`` of a bool."""
    if a is True:
        return False
    if a is False:
        return True
    return mismatch(a)


def duration(nanos: int) -> Duration | Err:
    """A duration, or the error for one that does not fit 64 bits."""
    return Duration(nanos) if INT_MIN <= nanos <= INT_MAX else OVERFLOW


def moved(t: Timestamp, nanos: int) -> Timestamp | Err:
    """The timestamp so many nanoseconds later, or the error for one outside the years 1 to 9999."""
    n = t.nanos + nanos
    return Timestamp(n, t.offset) if TIME_MIN <= n <= TIME_MAX else TIME_OVERFLOW


def _between(a: int, b: int) -> Duration | Err:
    """The span from ``b`` to ``a``. cel-go multiplies the whole seconds first: a span less than a second inside the
    limit may fail there, and so it does here."""
    seconds = a // SECOND - b // SECOND
    return duration(a - b) if INT_MIN <= seconds * SECOND <= INT_MAX else OVERFLOW


def _of_numbers(name: str, a: Value, b: Value) -> Err:
    """The error of an operator that lists and bytes have not."""
    return _named(name, a, b) if type(a) in (list, bytes) else no_operator(name, a, b)


def _named(name: str, *operands: Value) -> Err:
    for x in operands:
        if type(x) is Err:
            return x
    return Err("overload", f"no such overload: {name}")
