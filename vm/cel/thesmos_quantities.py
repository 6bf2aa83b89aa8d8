"""Arithmetic and comparison of what a schema says is a quantity: ``c.resources.limits.memory <= '4Gi'``.

The compiler calls these where plain CEL would compare texts. An operand is a text, an int, a double, or a quantity that
was calculated; all are exact decimals. A text that is no quantity is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Final

from vm.cel.go_quote import go_quote
from vm.cel.k8s_quantity import Quantity, from_double, of_int, parse
from vm.cel.values import UInt, no_overload, type_name
from vm.host import Meter
from vm.values import Err, Value

_LONGEST_SHOWN: Final = 64
_LARGEST: Final = 10**2048
"""A product may not grow beyond that: a chain of them could otherwise double its digits without end."""
_TOO_LARGE: Final = Err("range", "the quantity is too large")
_MOST_DIGITS: Final = 4096


def read(v: Value) -> Quantity | Err:
    """An operand as a quantity."""
    t = type(v)
    if t is Quantity:
        return v  # type: ignore[no-any-return]
    if t is str:
        found = parse(v)
        if isinstance(found, Err):
            return Err("argument", f"{go_quote(v[:_LONGEST_SHOWN])} is not a quantity: {found.text}")
        return found
    if t is int or t is UInt:
        return of_int(int(v))
    if t is float:
        return from_double(v) if isfinite(v) else Err("argument", "a number that is not finite is not a quantity")
    if t is Err:
        return v  # type: ignore[no-any-return]
    return Err("argument", f"a value of type {type_name(v)} is not a quantity")


def _compared(a: Value, b: Value) -> int | Err:
    x, y = read(a), read(b)
    if isinstance(x, Err):
        return x
    return y if isinstance(y, Err) else x.compare(y)


def lt(a: Value, b: Value) -> Value:
    """``a < b``."""
    c = _compared(a, b)
    return c if isinstance(c, Err) else c < 0


def le(a: Value, b: Value) -> Value:
    """``a <= b``."""
    c = _compared(a, b)
    return c if isinstance(c, Err) else c <= 0


def gt(a: Value, b: Value) -> Value:
    """``a > b``."""
    c = _compared(a, b)
    return c if isinstance(c, Err) else c > 0


def ge(a: Value, b: Value) -> Value:
    """``a >= b``."""
    c = _compared(a, b)
    return c if isinstance(c, Err) else c >= 0


def eq(a: Value, b: Value) -> Value:
    """``a == b``: ``1Gi`` equals ``1024Mi``."""
    c = _compared(a, b)
    return c if isinstance(c, Err) else c == 0


def ne(a: Value, b: Value) -> Value:
    """``a != b``."""
    c = _compared(a, b)
    return c if isinstance(c, Err) else c != 0


def _calculated(a: Value, b: Value, how: Callable[[Quantity, Quantity], Quantity]) -> Value:
    x, y = read(a), read(b)
    if isinstance(x, Err):
        return x
    if isinstance(y, Err):
        return y
    out = how(x, y)
    return out if -_LARGEST <= out.amount <= _LARGEST and abs(out.exponent) <= _MOST_DIGITS else _TOO_LARGE


def add(a: Value, b: Value) -> Value:
    """``a + b``."""
    return _calculated(a, b, Quantity.plus)


def sub(a: Value, b: Value) -> Value:
    """``a - b``."""
    return _calculated(a, b, Quantity.minus)


def mul(a: Value, b: Value) -> Value:
    """``a * b`` where one of the two is a plain number: the product of two quantities has no meaning."""
    if type(a) in _TEXTUAL and type(b) in _TEXTUAL:
        return Err("argument", "a quantity can be multiplied by a number only, not by another quantity")
    return _calculated(a, b, Quantity.times)


_TEXTUAL: Final = frozenset({str, Quantity})


def neg(a: Value) -> Value:
    """``-a``."""
    x = read(a)
    return x if isinstance(x, Err) else Quantity(-x.amount, x.exponent, x.wide, x.format)


def total(meter: Meter, items: Value) -> Value:
    """``list.sum()``; 0 for an empty list."""
    found = _all(meter, "sum", items)
    if isinstance(found, Err):
        return found
    out = Quantity(0)
    for x in found:
        out = out.plus(x)
        if not -_LARGEST <= out.amount <= _LARGEST:
            return _TOO_LARGE
    return out


def smallest(meter: Meter, items: Value) -> Value:
    """``list.min()``, an error for an empty list."""
    return _extreme(_all(meter, "min", items), "min", 1)


def largest(meter: Meter, items: Value) -> Value:
    """``list.max()``, an error for an empty list."""
    return _extreme(_all(meter, "max", items), "max", -1)


def _all(meter: Meter, name: str, items: Value) -> list[Quantity] | Err:
    if type(items) is not list:
        return no_overload(name, items)
    meter.charge(2 * len(items))
    out: list[Quantity] = []
    for v in items:
        x = read(v)
        if isinstance(x, Err):
            return x
        out.append(x)
    return out


def _extreme(found: list[Quantity] | Err, name: str, worse: int) -> Value:
    if isinstance(found, Err):
        return found
    if not found:
        return Err("argument", f"{name} called on empty list")
    best = found[0]
    for x in found:
        if best.compare(x) == worse:
            best = x
    return best
