"""Arithmetic of queries over numbers, quantities and durations (semantics §7), and ranges of versions."""

from __future__ import annotations

import math
import operator
import re
from fractions import Fraction
from typing import Any

from tests.reference.scalars import duration, is_number, quantity


class Refusal(Exception):
    """Operands for which a function has no answer."""


def _operand(value: Any) -> tuple[str, Any, str]:
    """Class (scalar, quantity or duration), value, and the text of a quantity, whose notation the answer takes."""
    if is_number(value):
        return "scalar", value, ""
    if isinstance(value, str):
        exact = quantity(value)
        if exact is not None:
            return "quantity", exact, value
        span = duration(value)
        if span is not None:
            return "duration", span, ""
    raise Refusal(f"{value!r} is neither number, quantity nor duration")


def _fraction(number: Any) -> Fraction:
    if isinstance(number, float) and not math.isfinite(number):
        raise Refusal("a number that is not finite")
    return Fraction(str(number)) if isinstance(number, float) else Fraction(number)


def _same(a: Any, b: Any, work: Any) -> Any:
    (left_class, left, text), (right_class, right, other) = _operand(a), _operand(b)
    if left_class != right_class:
        raise Refusal("operands of two kinds")
    if left_class == "scalar":
        return _number(work(float(left), float(right)))
    if left_class == "duration":
        return duration_text(work(left, right))
    return quantity_text(work(left, right), text if left else other)


def _number(value: float) -> Any:
    if not math.isfinite(value):
        raise Refusal("a number that is not finite")
    return value


def add(a: Any, b: Any) -> Any:
    return _same(a, b, operator.add)


def subtract(a: Any, b: Any) -> Any:
    return _same(a, b, operator.sub)


def total(values: list[Any]) -> Any:
    if not values:
        raise Refusal("the sum of nothing")
    found = values[0]
    for value in values[1:]:
        found = add(found, value)
    return found


def multiply(a: Any, b: Any) -> Any:
    (left_class, left, text), (right_class, right, other) = _operand(a), _operand(b)
    if left_class != "scalar":
        if right_class != "scalar":
            raise Refusal("one operand must be a number")
        left_class, left, text, right = right_class, right, text, left
        (left_class, right_class) = (right_class, _operand(a)[0])
    else:
        text = other
    if right_class == "scalar":
        return _number(float(left) * float(right))
    if right_class == "duration":
        return duration_text(int(_fraction(left) * right))
    return quantity_text(_fraction(left) * right, text)


def divide(a: Any, b: Any) -> Any:
    (left_class, left, text), (right_class, right, other) = _operand(a), _operand(b)
    if right == 0:
        raise Refusal("a division by zero")
    if right_class not in ("scalar", left_class):
        raise Refusal("operands of two kinds")
    if left_class == "scalar":
        return _number(float(left) / float(right))
    if left_class == right_class == "duration":
        return left / right
    if left_class == "duration":
        return duration_text(int(left / _fraction(right)))
    if right_class == "quantity":
        return float(_cut(left / right, max(_places(text), _places(other))))
    return quantity_text(_cut(left / _fraction(right), max(_places(text), _places(str(right)))), text)


def _places(text: str) -> int:
    """Digits after the point of a quantity as it is written, with its suffix counted in."""
    found = re.fullmatch(r"[-+]?\d*\.?(\d*)([A-Za-z]*)([-+]?\d*)", text)
    digits = len(found[1]) if found else 0
    shift = {"n": 9, "u": 6, "m": 3, "k": -3, "M": -6, "G": -9, "T": -12, "P": -15, "E": -18}
    return digits + (shift.get(found[2], 0) if found else 0)


def _cut(value: Fraction, places: int) -> Fraction:
    scale = Fraction(10) ** places
    return Fraction(math.trunc(value * scale)) / scale


def modulo(a: Any, b: Any) -> Any:
    (left_class, left, text), (right_class, right, _) = _operand(a), _operand(b)
    if left_class != right_class:
        raise Refusal("operands of two kinds")
    if right == 0:
        raise Refusal("a division by zero")
    if Fraction(left).denominator != 1 or Fraction(right).denominator != 1:
        raise Refusal("operands must be integers")
    found = int(math.fmod(int(left), int(right))) if abs(int(left)) < 2**53 else _remainder(int(left), int(right))
    if left_class == "scalar":
        return float(found)
    return duration_text(found) if left_class == "duration" else quantity_text(Fraction(found), text)


def _remainder(a: int, b: int) -> int:
    found = abs(a) % abs(b)
    return -found if a < 0 else found


_DECIMAL = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]
_BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]


def quantity_text(value: Fraction, like: str) -> str:
    """A quantity in the canonical form of the notation of ``like``."""
    if value == 0:
        return "0"
    suffix = re.sub(r"^[-+]?[\d.]*", "", like)
    nano = value * 10**9
    rounded = math.ceil(nano) if nano > 0 else math.floor(nano)
    value = Fraction(rounded, 10**9)
    if suffix.endswith("i") and abs(value) >= 1024:
        whole = math.ceil(value) if value > 0 else math.floor(value)
        power = 0
        while whole % 1024 == 0 and power < 6:
            whole //= 1024
            power += 1
        return f"{whole}{_BINARY[power]}"
    power = -3
    mantissa = value * 10**9
    while mantissa.denominator == 1 and mantissa % 1000 == 0 and power < 6:
        mantissa /= 1000
        power += 1
    if re.fullmatch(r"[eE][-+]?\d+", suffix):
        return f"{int(mantissa)}" + (f"e{power * 3}" if power else "")
    return f"{int(mantissa)}{_DECIMAL[power + 3]}"


def duration_text(nanoseconds: int) -> str:
    """Go's text of a duration: ``1h30m0s``."""
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if rest < 10**9:
        for unit, size in (("ms", 10**6), ("µs", 10**3), ("ns", 1)):
            if rest >= size:
                return f"{sign}{_trimmed(Fraction(rest, size))}{unit}"
    hours, rest = divmod(rest, 3600 * 10**9)
    minutes, rest = divmod(rest, 60 * 10**9)
    made = f"{hours}h" if hours else ""
    made += f"{minutes}m" if hours or minutes else ""
    return f"{sign}{made}{_trimmed(Fraction(rest, 10**9))}s"


def _trimmed(value: Fraction) -> str:
    whole = int(value)
    part = f"{int((value - whole) * 10**9):09d}".rstrip("0")
    return f"{whole}.{part}" if part else str(whole)


# --- versions ------------------------------------------------------------------------------------------------------

Version = tuple[int, int, int, tuple[Any, ...]]


def version(text: str) -> Version:
    found = re.fullmatch(
        r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", text.strip(), re.ASCII
    )
    if not found:
        raise Refusal(f"{text} is no version")
    parts: tuple[Any, ...] = (1,)
    if found[4]:
        parts = (0, *((0, int(p), "") if p.isdigit() else (1, 0, p) for p in found[4].split(".")))
    return int(found[1]), int(found[2]), int(found[3]), parts


_COMPARE = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "!=": operator.ne,
    "!": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    "": operator.eq,
}


def in_versions(text: str, wanted: str) -> bool:
    """Whether a version is in a range such as ``>=1.0.0 <2.0.0 || !3.0.0``."""
    given = version(text)
    good = False
    for alternative in wanted.split("||"):
        terms = re.findall(r"(>=|<=|!=|==|>|<|!|=|)\s*([^\s<>=!]+)", alternative)
        if not terms:
            raise Refusal(f"{wanted} is no range of versions")
        good = all(_COMPARE[sign](given, version(other)) for sign, other in terms) or good
    return good
