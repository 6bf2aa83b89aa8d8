"""Arithmetic of the policy dialect: over numbers, Kubernetes quantities and durations (semantics §7).

A text is tried as a quantity first, then as a duration, so that ``10m`` is a hundredth, unlike in patterns (Kyverno
quirk). Results of quantities and durations are texts again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from vm.intrinsics.duration import format_duration, parse_duration
from vm.intrinsics.jmes_errors import is_number, wrong_type, wrong_value
from vm.intrinsics.quantity import NANO, Quantity, parse_quantity
from vm.intrinsics.text import go_float
from vm.values import Err, Value

_SECOND = 10**9
_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Duration:
    ns: int


Operand: TypeAlias = int | float | Quantity | Duration


def _operand(v: Value) -> Operand | None:
    if is_number(v):
        number: int | float = v
        return number
    if type(v) is not str:
        return None
    q = parse_quantity(v)
    if q is not None:
        return q
    ns = parse_duration(v)
    return None if ns is None else Duration(ns)


def _both(function: str, a: Value, b: Value) -> tuple[Operand, Operand] | Err:
    for v in (a, b):
        if type(v) is Err:
            return v
    x, y = _operand(a), _operand(b)
    if x is None or y is None:
        at, v = (1, a) if x is None else (2, b)
        if type(v) is str:
            return wrong_value(function, f"{v!r} is no number, quantity or duration")
        return wrong_type(function, at, v, "a number, a quantity or a duration")
    return x, y


def _mismatch(function: str) -> Err:
    return Err("type", f"function {function}: the arguments cannot be combined")


def _number(x: int | float) -> Value:
    """A result of plain arithmetic: JSON knows neither infinities nor NaN; beyond 64 bits a number is a float, as in
    the reference, so that no integer grows without end."""
    if isinstance(x, int) and -_MAX <= x <= _MAX:
        return x
    try:
        x = float(x)
    except OverflowError:
        x = math.inf
    return x if math.isfinite(x) else Err("value", "the result of an arithmetic function is too large")


def _text(ns: float) -> Value:
    return (
        format_duration(max(-_MAX - 1, min(_MAX, int(ns))))
        if math.isfinite(ns)
        else Err("value", "a duration out of range")
    )


def _quantity(nano: int, like: Quantity) -> str:
    return Quantity(nano, like.format).canonical()


def _nano(x: int | float) -> int | None:
    """A plain number in the units of a quantity, read from its text as the reference does."""
    q = parse_quantity(go_float(float(x)) if isinstance(x, float) else str(x))
    return None if q is None else q.nano


def _add(function: str, a: Value, b: Value, sign: int) -> Value:
    both = _both(function, a, b)
    match both:
        case Err():
            return both
        case (Quantity() as x, Quantity() as y):
            return _quantity(x.nano + sign * y.nano, x)
        case (Duration() as d, Duration() as e):
            return _text(d.ns + sign * e.ns)
        case (int() | float() as m, int() | float() as n):
            return _number(m + sign * n)
    return _mismatch(function)


def add(a: Value, b: Value) -> Value:
    return _add("add", a, b, 1)


def subtract(a: Value, b: Value) -> Value:
    return _add("subtract", a, b, -1)


def total(items: Value) -> Value:
    """``sum``: elements added up as ``add`` does; a single element as it is, an empty list is an error."""
    if type(items) is not list:
        return wrong_type("sum", 1, items, "an array")
    if not items:
        return wrong_value("sum", "at least one element in the array is required")
    out = items[0]
    for x in items[1:]:
        out = _add("sum", out, x, 1)
        if type(out) is Err:
            return out
    return out


def multiply(a: Value, b: Value) -> Value:
    both = _both("multiply", a, b)
    match both:
        case Err():
            return both
        case (int() | float() as m, int() | float() as n):
            return _number(m * n)
        case (Quantity() as q, int() | float() as n) | (int() | float() as n, Quantity() as q):
            nano = _nano(n)
            return wrong_value("multiply", "the number is too large") if nano is None else _scaled(q, nano)
        case (Duration() as d, int() | float() as n) | (int() | float() as n, Duration() as d):
            return _text(d.ns / _SECOND * n * _SECOND)
    return _mismatch("multiply")


def _scaled(q: Quantity, nano: int) -> str:
    product = abs(q.nano * nano)
    rounded = -(-product // NANO)
    return _quantity(rounded if (q.nano < 0) == (nano < 0) else -rounded, q)


def divide(a: Value, b: Value) -> Value:
    both = _both("divide", a, b)
    if isinstance(both, Err):
        return both
    x, y = both
    if _is_zero(y):
        return wrong_value("divide", "division by zero")
    match x, y:
        case (int() | float() as m, int() | float() as n):
            return _number(m / n)
        case (Quantity() as p, Quantity() as q):
            return _ratio(p.nano, q.nano)
        case (Duration() as d, Duration() as e):
            return _ratio(d.ns, e.ns)
        case (Quantity() as p, int() | float() as n):
            return _shared(p, n)
        case (Duration() as d, int() | float() as n):
            return _text(d.ns / _SECOND / n * _SECOND)
    return _mismatch("divide")


def _ratio(a: int, b: int) -> Value:
    try:
        return a / b
    except OverflowError:
        return wrong_value("divide", "the quotient is too large")


def _is_zero(x: Operand) -> bool:
    return (x.nano if isinstance(x, Quantity) else x.ns if isinstance(x, Duration) else x) == 0


def _shared(q: Quantity, n: int | float) -> Value:
    """A quantity divided by a number: as many decimals as the finer of the two has, the rest cut off."""
    by = parse_quantity(go_float(float(n)) if isinstance(n, float) else str(n))
    if by is None:
        return wrong_value("divide", "the number is too large")
    unit = 10 ** (9 - max(q.scale, by.scale))
    size = abs(q.nano) * NANO // abs(by.nano) // unit * unit
    return _quantity(size if (q.nano < 0) == (by.nano < 0) else -size, q)


def modulo(a: Value, b: Value) -> Value:
    both = _both("modulo", a, b)
    if isinstance(both, Err):
        return both
    x, y = both
    if _is_zero(y):
        return wrong_value("modulo", "division by zero")
    match x, y:
        case (int() | float() as m, int() | float() as n):
            if m != int(m) or n != int(n):
                return wrong_value("modulo", "the arguments must be integers")
            return _remainder(int(m), int(n))
        case (Quantity() as p, Quantity() as q):
            if p.nano % NANO or q.nano % NANO:
                return wrong_value("modulo", "the arguments must be integers")
            return _quantity(_remainder(p.nano // NANO, q.nano // NANO) * NANO, p)
        case (Duration() as d, Duration() as e):
            return _text(_remainder(d.ns, e.ns))
    return _mismatch("modulo")


def _remainder(a: int, b: int) -> int:
    """With the sign of the dividend."""
    return (abs(a) % abs(b)) * (-1 if a < 0 else 1)


def rounded(v: Value, digits: Value) -> Value:
    """``round``: half away from zero."""
    if not is_number(v):
        return wrong_type("round", 1, v, "a number")
    if not is_number(digits):
        return wrong_type("round", 2, digits, "a number")
    if digits != int(digits) or digits < 0:
        return wrong_value("round", "the number of decimals must be a whole number of at least 0")
    if type(v) is int or digits > 300:
        return v
    shift = 10.0 ** int(digits)
    scaled: Any = abs(v) * shift
    if not math.isfinite(scaled):
        return v
    out = math.copysign(math.floor(scaled + 0.5), v) / shift
    return int(out) if digits == 0 else out
