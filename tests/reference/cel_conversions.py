"""Conversions and the parts of times for the CEL reference evaluator (CEL spec § Standard Definitions)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from tests.reference.cel_values import CelError, Unknown, V, no_overload

INT = (-(1 << 63), (1 << 63) - 1)
UINT = (0, (1 << 64) - 1)
SECOND = 10**9
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = -62135596800 * SECOND, 253402300799 * SECOND + SECOND - 1


def kinds(*values: V) -> tuple[str, ...]:
    return tuple(v[0] for v in values)


def bounded(kind: str, value: int) -> V:
    low, high = INT if kind == "int" else UINT
    if not low <= value <= high:
        raise CelError("range")
    return (kind, value)


def moment(nanos: int) -> V:
    if not FIRST <= nanos <= LAST:
        raise CelError("range")
    return ("timestamp", nanos)


def span(nanos: int) -> V:
    if not INT[0] <= nanos <= INT[1]:
        raise CelError("range")
    return ("duration", nanos)


def truncated(v: float, kind: str) -> V:
    if not math.isfinite(v):
        raise CelError("range")
    low, high = INT if kind == "int" else UINT
    if not (low < v < high if kind == "int" else 0 <= v < high):
        raise CelError("range")
    return (kind, int(v))


def to_int(a: V) -> V:
    match a[0]:
        case "int":
            return a
        case "uint":
            return bounded("int", a[1])
        case "double":
            return truncated(a[1], "int")
        case "string":
            if re.fullmatch(r"[+-]?\d+", a[1], re.ASCII) is None:
                raise CelError("conversion")
            if not INT[0] <= int(a[1]) <= INT[1]:
                raise CelError("conversion")
            return ("int", int(a[1]))
        case "timestamp":
            return ("int", a[1] // SECOND)
        case "duration":
            return ("int", a[1])
    raise no_overload()


def to_uint(a: V) -> V:
    match a[0]:
        case "uint":
            return a
        case "int":
            return bounded("uint", a[1])
        case "double":
            return truncated(a[1], "uint")
        case "string":
            if re.fullmatch(r"\d+", a[1], re.ASCII) is None or int(a[1]) > UINT[1]:
                raise CelError("conversion")
            return ("uint", int(a[1]))
    raise no_overload()


def to_double(a: V) -> V:
    match a[0]:
        case "double":
            return a
        case "int" | "uint":
            return ("double", float(a[1]))
        case "string":
            if (
                re.fullmatch(
                    r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity|nan)", a[1], re.I | re.A
                )
                is None
            ):
                raise CelError("conversion")
            value = float(a[1])
            if math.isinf(value) and "inf" not in a[1].lower():
                raise CelError("conversion")
            return ("double", value)
    raise no_overload()


def go_double(x: float) -> str:
    """The shortest decimal of a double, as Go's ``%g`` of -1 digits writes it."""
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "+Inf" if x > 0 else "-Inf"
    shortest = repr(x)
    sign = "-" if shortest.startswith("-") else ""
    digits, _, exponent = shortest.lstrip("-").partition("e")
    whole, _, part = digits.partition(".")
    part = "" if part == "0" else part
    point = len(whole) + int(exponent or 0)
    all_digits = (whole + part).lstrip("0")
    point -= len(whole + part) - len((whole + part).lstrip("0"))
    all_digits = all_digits.rstrip("0")
    if not all_digits:
        return sign + "0"
    power = point - 1
    if power < -4 or power >= 6:
        mantissa = all_digits[0] + ("." + all_digits[1:] if len(all_digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{all_digits}"
    if point >= len(all_digits):
        return sign + all_digits + "0" * (point - len(all_digits))
    return f"{sign}{all_digits[:point]}.{all_digits[point:]}"


def timestamp_text(nanos: int) -> str:
    seconds, rest = divmod(nanos, SECOND)
    text = (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    text = text.zfill(19)
    return text + (f".{rest:09d}".rstrip("0") if rest else "") + "Z"


def to_string(a: V) -> V:
    match a[0]:
        case "string":
            return a
        case "bool":
            return ("string", "true" if a[1] else "false")
        case "int" | "uint":
            return ("string", str(a[1]))
        case "double":
            return ("string", go_double(a[1]))
        case "bytes":
            try:
                return ("string", a[1].decode())
            except UnicodeDecodeError:
                raise CelError("conversion") from None
        case "timestamp":
            return ("string", timestamp_text(a[1]))
        case "duration":
            text = format(Decimal(repr(abs(a[1]) / SECOND)), "f")
            text = text.rstrip("0").rstrip(".") if "." in text else text
            return ("string", f"{'-' if a[1] < 0 else ''}{text}s")
    raise no_overload()


def to_bytes(a: V) -> V:
    if a[0] == "bytes":
        return a
    if a[0] == "string":
        return ("bytes", a[1].encode())
    raise no_overload()


def to_bool(a: V) -> V:
    if a[0] == "bool":
        return a
    if a[0] == "string":
        if a[1] in ("1", "t", "T", "true", "TRUE", "True"):
            return ("bool", True)
        if a[1] in ("0", "f", "F", "false", "FALSE", "False"):
            return ("bool", False)
        raise CelError("conversion")
    raise no_overload()


_STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)


def to_timestamp(a: V) -> V:
    if a[0] == "timestamp":
        return a
    if a[0] == "int":
        return moment(a[1] * SECOND)
    if a[0] != "string":
        raise no_overload()
    match = _STAMP.fullmatch(a[1])
    if match is None:
        raise CelError("conversion")
    year, month, day, hour, minute, second = (int(match[n]) for n in range(1, 7))
    rest = int((match[7] or "0")[:9].ljust(9, "0"))
    shift = 0
    if match[8] != "Z":
        hours, minutes = int(match[8][1:3]), int(match[8][4:6])
        if hours > 24 or minutes >= 60:
            raise CelError("conversion")
        shift = (hours * 60 + minutes) * (-60 if match[8][0] == "-" else 60)
    try:
        local = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise CelError("conversion") from None
    nanos = ((local - EPOCH) // timedelta(seconds=1) - shift) * SECOND + rest
    if not FIRST <= nanos <= LAST:
        raise CelError("conversion")
    return ("timestamp", nanos)


_UNITS = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}
_SPAN = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def to_duration(a: V) -> V:
    if a[0] == "duration":
        return a
    if a[0] == "int":
        return span(a[1])
    if a[0] != "string":
        raise no_overload()
    text = a[1]
    sign = -1 if text.startswith("-") else 1
    text = text[1:] if text[:1] in ("+", "-") else text
    if text == "0":
        return ("duration", 0)
    total, at = 0, 0
    while at < len(text):
        match = _SPAN.match(text, at)
        if match is None or not (match[1] or match[2]):
            raise CelError("conversion")
        unit = _UNITS[match[3]]
        total += int(match[1] or 0) * unit
        if match[2]:
            total += int(match[2]) * unit // 10 ** len(match[2])
        at = match.end()
    if not text or not INT[0] <= sign * total <= INT[1]:
        raise CelError("conversion")
    return ("duration", sign * total)


# time


def part(read: Callable[[datetime, int], int], of_duration: Callable[[int], int] | None = None) -> Callable[..., V]:
    def getter(a: V, zone: V = ("string", "UTC")) -> V:
        if a[0] == "duration" and of_duration is not None and zone == ("string", "UTC"):
            return ("int", of_duration(a[1]))
        if a[0] != "timestamp" or zone[0] != "string":
            raise no_overload()
        seconds, rest = divmod(a[1], SECOND)
        try:
            local = (EPOCH + timedelta(seconds=seconds)).astimezone(_zone(zone[1]))
        except OverflowError:
            # Beyond the years that Python's calendar has, which an offset may lead to.
            raise Unknown from None
        return ("int", read(local, rest))

    return getter


def _zone(name: str) -> Any:
    match = re.fullmatch(r"([+-]?)(\d\d):(\d\d)", name)
    if match is not None:
        minutes = int(match[2]) * 60 + int(match[3])
        return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise CelError("argument") from None


def quotient(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)
