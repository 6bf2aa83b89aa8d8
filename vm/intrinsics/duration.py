"""Go durations (``1h30m``, ``500ms``) to nanoseconds and back, as Go's ``time`` package reads and prints them.

Called by scalar patterns, conditions and the JMESPath time functions. A duration is a signed 64-bit count of
nanoseconds.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

NANOSECOND: Final = 1
SECOND: Final = 1_000_000_000
_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_TERM: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_LIMIT: Final = 1 << 63
_LONGEST: Final = 256


def parse_duration(text: str) -> int | None:
    """Nanoseconds of a Go duration, None when the text is none. A bare ``0`` is one, any other bare number is not.

    A text of more than 256 characters is none: requests choose these texts, and the cache keeps them.
    """
    return _parsed(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=4096)
def _parsed(text: str) -> int | None:
    body, negative = text, False
    if body[:1] in ("+", "-"):
        negative = body[0] == "-"
        body = body[1:]
    if body == "0":
        return 0
    if not body:
        return None
    total = position = 0
    while position < len(body):
        term = _TERM.match(body, position)
        if term is None:
            return None
        whole, fraction, unit = term.group(1), term.group(2) or "", _UNITS[term.group(3)]
        if not whole and not fraction:
            return None
        amount = int(whole or "0")
        total += amount * unit
        total += _part(fraction, unit)
        if total > _LIMIT or amount > _LIMIT:
            return None
        position = term.end()
    if negative:
        return -total
    return total if total < _LIMIT else None


def _part(digits: str, unit: int) -> int:
    """A fraction of a unit as Go computes it: in floating point, leaving out digits that no longer fit 63 bits."""
    amount, scale = 0, 1.0
    for digit in digits:
        if amount > (_LIMIT - 1) // 10:
            break
        amount, scale = amount * 10 + int(digit), scale * 10
    return int(amount * (unit / scale)) if amount else 0


def format_duration(nanoseconds: int) -> str:
    """The text Go prints: ``1h30m0s``, ``1.5s``, ``100ms``, ``10µs``, ``0s``."""
    if nanoseconds == 0:
        return "0s"
    sign = "-" if nanoseconds < 0 else ""
    left = abs(nanoseconds)
    if left < SECOND:
        if left < 1_000:
            return f"{sign}{left}ns"
        if left < 1_000_000:
            return f"{sign}{_fraction(left, 1_000)}µs"
        return f"{sign}{_fraction(left, 1_000_000)}ms"
    minutes, rest = divmod(left, 60 * SECOND)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_fraction(rest, SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    if minutes:
        return f"{sign}{minutes}m{seconds}"
    return sign + seconds


def _fraction(amount: int, unit: int) -> str:
    whole, part = divmod(amount, unit)
    if not part:
        return str(whole)
    digits = str(part).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}"
