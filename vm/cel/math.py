"""The bodies of cel-go's ``math`` extension. Integers are 64-bit numbers in two's complement."""

from __future__ import annotations

import math
from typing import Final

from vm.cel.equality import compare
from vm.cel.values import INT_MIN, UINT_MAX, UInt, no_overload
from vm.host import Meter
from vm.values import Err, Value

_NUMBERS: Final = frozenset({int, UInt, float})
_WHOLE: Final = 4503599627370496.0
"""2**52: from here on every double is a whole number."""


def _first(a: Value, b: Value, sign: int, name: str) -> Value:
    """``a``, or ``b`` where it lies further in the direction of ``sign``."""
    if type(a) in _NUMBERS and type(b) in _NUMBERS:
        c = compare(a, b)
        if type(c) is Err:
            return Err(c.code, f"{c.text}: {name}")
        return b if c == -sign else a
    return no_overload(name, a, b)


def _one(meter: Meter, v: Value, sign: int, name: str) -> Value:
    """The extreme of a list, or the number itself. cel-go looks at the first element to see whether a list is one of
    numbers, and calls any trouble with the others a missing overload."""
    if type(v) in _NUMBERS:
        return v
    if type(v) is not list or (v and type(v[0]) not in _NUMBERS):
        return no_overload(name, v)
    if not v:
        return Err("argument", f"{name}(list) argument must not be empty")
    meter.charge(len(v) >> 2)
    best = v[0]
    for x in v[1:]:
        best = _first(best, x, sign, name)
        if type(best) is Err:
            return Err("overload", f"no such overload: {name}")
    return best


def least(meter: Meter, v: Value) -> Value:
    """``math.least(v)``: of one number or a list of them."""
    return _one(meter, v, -1, "math.@min")


def least_of(a: Value, b: Value) -> Value:
    """``math.least(a, b)``; the first when they are equal."""
    return _first(a, b, -1, "math.@min")


def greatest(meter: Meter, v: Value) -> Value:
    """``math.greatest(v)``: of one number or a list of them."""
    return _one(meter, v, 1, "math.@max")


def greatest_of(a: Value, b: Value) -> Value:
    """``math.greatest(a, b)``; the first when they are equal."""
    return _first(a, b, 1, "math.@max")


def ceil(v: Value) -> Value:
    """``math.ceil(v)``."""
    if type(v) is float:
        return math.copysign(math.ceil(v), v) if abs(v) < _WHOLE else v
    return no_overload("math.ceil", v)


def floor(v: Value) -> Value:
    """``math.floor(v)``."""
    if type(v) is float:
        return math.copysign(math.floor(v), v) if abs(v) < _WHOLE else v
    return no_overload("math.floor", v)


def round_(v: Value) -> Value:
    """``math.round(v)``: half away from zero."""
    if type(v) is float:
        if not abs(v) < _WHOLE:
            return v
        whole = math.trunc(v)
        if abs(v - whole) >= 0.5:
            whole += 1 if v > 0 else -1
        return math.copysign(whole, v)
    return no_overload("math.round", v)


def trunc(v: Value) -> Value:
    """``math.trunc(v)``."""
    if type(v) is float:
        return math.copysign(math.trunc(v), v) if abs(v) < _WHOLE else v
    return no_overload("math.trunc", v)


def is_inf(v: Value) -> Value:
    """``math.isInf(v)``, of either sign."""
    return math.isinf(v) if type(v) is float else no_overload("math.isInf", v)


def is_nan(v: Value) -> Value:
    """``math.isNaN(v)``."""
    return math.isnan(v) if type(v) is float else no_overload("math.isNaN", v)


def is_finite(v: Value) -> Value:
    """``math.isFinite(v)``."""
    return math.isfinite(v) if type(v) is float else no_overload("math.isFinite", v)


def abs_(v: Value) -> Value:
    """``math.abs(v)``."""
    t = type(v)
    if t is int:
        return abs(v) if v != INT_MIN else Err("range", "integer overflow")
    if t is float:
        return abs(v)
    return v if t is UInt else no_overload("math.abs", v)


def sign(v: Value) -> Value:
    """``math.sign(v)``: -1, 0 or 1 in the type of ``v``; NaN of NaN."""
    t = type(v)
    if t is int:
        return (v > 0) - (v < 0)
    if t is float:
        return v if v != v else float((v > 0) - (v < 0))
    return UInt(v > 0) if t is UInt else no_overload("math.sign", v)


def sqrt(v: Value) -> Value:
    """``math.sqrt(v)``, a double; NaN below zero."""
    if type(v) in _NUMBERS:
        x = float(v)
        return math.sqrt(x) if x >= 0 else math.nan if x != 0 else x
    return no_overload("math.sqrt", v)


def bit_and(a: Value, b: Value) -> Value:
    """``math.bitAnd(a, b)``."""
    t = type(a)
    if t is type(b):
        if t is int:
            return a & b
        if t is UInt:
            return UInt(a & b)
    return no_overload("math.bitAnd", a, b)


def bit_or(a: Value, b: Value) -> Value:
    """``math.bitOr(a, b)``."""
    t = type(a)
    if t is type(b):
        if t is int:
            return a | b
        if t is UInt:
            return UInt(a | b)
    return no_overload("math.bitOr", a, b)


def bit_xor(a: Value, b: Value) -> Value:
    """``math.bitXor(a, b)``."""
    t = type(a)
    if t is type(b):
        if t is int:
            return a ^ b
        if t is UInt:
            return UInt(a ^ b)
    return no_overload("math.bitXor", a, b)


def bit_not(v: Value) -> Value:
    """``math.bitNot(v)``."""
    t = type(v)
    if t is int:
        return ~v
    return UInt(v ^ UINT_MAX) if t is UInt else no_overload("math.bitNot", v)


def shift_left(v: Value, bits: Value) -> Value:
    """``math.bitShiftLeft(v, bits)``: what leaves the 64 bits is lost."""
    t = type(v)
    if (t is int or t is UInt) and type(bits) is int:
        if bits < 0:
            return Err("argument", f"math.bitShiftLeft() negative offset: {bits}")
        moved = (v << bits) & UINT_MAX if bits < 64 else 0
        return UInt(moved) if t is UInt else _signed(moved)
    return no_overload("math.bitShiftLeft", v, bits)


def shift_right(v: Value, bits: Value) -> Value:
    """``math.bitShiftRight(v, bits)``: zeros come in, for negative numbers too."""
    t = type(v)
    if (t is int or t is UInt) and type(bits) is int:
        if bits < 0:
            return Err("argument", f"math.bitShiftRight() negative offset: {bits}")
        moved = (v & UINT_MAX) >> bits
        return UInt(moved) if t is UInt else _signed(moved)
    return no_overload("math.bitShiftRight", v, bits)


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
