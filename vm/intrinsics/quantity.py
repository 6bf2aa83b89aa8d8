"""Kubernetes quantities (``100m``, ``1.5Gi``, ``1e3``): exact decimals, parsed, compared and printed as apimachinery
does.

Called by scalar patterns, conditions and the JMESPath arithmetic. A quantity never holds more than nine fractional
digits (finer input is rounded away from zero when it is read), so that an integer count of nano-units holds every
value exactly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

NANO: Final = 10**9
MAX_INT64: Final = (1 << 63) - 1
DECIMAL_SI: Final = "DecimalSI"
BINARY_SI: Final = "BinarySI"
DECIMAL_EXPONENT: Final = "DecimalExponent"

_SHAPE: Final = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([a-zA-Z]*)([+-]?[0-9]*)")
_DECIMAL_SUFFIX: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIX: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAME: Final = {exponent: name for name, exponent in _DECIMAL_SUFFIX.items()}
_BINARY_NAME: Final = {exponent: name for name, exponent in _BINARY_SUFFIX.items()} | {0: ""}
_LONGEST: Final = 256
_LARGEST_EXPONENT: Final = 1000
"""A bound of ours: ``1e1000000`` would cost a megabyte of digits, and means nothing to a cluster."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """``nano`` is the value in units of 10⁻⁹, ``format`` the family of suffixes it is printed with, ``scale`` the
    number of fractional digits it was read with, ``text`` the text it was read from when that is already canonical
    enough, else empty."""

    nano: int
    format: str = DECIMAL_SI
    scale: int = 0
    text: str = ""

    @property
    def sign(self) -> int:
        return (self.nano > 0) - (self.nano < 0)

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1; the format plays no part."""
        return (self.nano > other.nano) - (self.nano < other.nano)

    def value(self) -> int:
        """The whole number, rounded away from zero."""
        return _away(self.nano, NANO)

    def milli_value(self) -> int:
        """Thousandths, rounded away from zero."""
        return _away(self.nano, 10**6)

    def decimal(self) -> str:
        """The plain decimal with the digits it was read with."""
        whole, part = divmod(abs(self.nano), NANO)
        sign = "-" if self.nano < 0 else ""
        return f"{sign}{whole}" + (f".{part:09d}"[: self.scale + 1] if self.scale else "")

    def canonical(self) -> str:
        """The shortest text in the quantity's own family; ``BinarySI`` falls back to decimal when it would lose
        digits."""
        if not self.nano:
            return "0"
        if self.format == BINARY_SI and abs(self.nano) >= 1024 * NANO and self.nano % NANO == 0:
            amount, exponent = abs(self.nano) // NANO, 0
            while amount % 1024 == 0 and exponent < 60:
                amount, exponent = amount // 1024, exponent + 10
            return f"{'-' if self.nano < 0 else ''}{amount}{_BINARY_NAME[exponent]}"
        amount, exponent = abs(self.nano), -9
        while amount % 10 == 0:
            amount, exponent = amount // 10, exponent + 1
        while exponent % 3:
            amount, exponent = amount * 10, exponent - 1
        if self.format == DECIMAL_EXPONENT:
            suffix = f"e{exponent}" if exponent else ""
        else:
            suffix = _DECIMAL_NAME.get(
                exponent, ""
            )  # beyond exa there is no suffix: printed without one, as the reference does
        return f"{'-' if self.nano < 0 else ''}{amount}{suffix}"

    def __str__(self) -> str:
        return self.text or self.canonical()


def parse_quantity(text: str) -> Quantity | None:
    """The quantity a text denotes, None when it denotes none.

    A text of more than 256 characters denotes none: requests choose these texts, and the cache keeps them.
    """
    return _parsed(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Quantity | None:
    if text == "0":
        return Quantity(0, DECIMAL_SI, 0, "0")
    shape = _SHAPE.fullmatch(text) if text else None
    if shape is None:
        return None
    sign, whole, fraction, letters, digits = shape.groups()
    whole, fraction = whole or "0", fraction or ""
    read = _suffix(letters, digits)
    if read is None:
        return None
    base, exponent, family = read
    unscaled = int(whole + fraction)
    if base == 2:
        fast = not fraction and 15 - len(whole) - int(exponent * 3 / 10) - 1 >= 0 and unscaled << exponent <= MAX_INT64
        canonical = exponent % 10 == 0 and unscaled & 7 != 0
        scale, numerator, denominator = 0, unscaled << exponent, 10 ** len(fraction)
    else:
        power = exponent - len(fraction)
        fast = len(whole) + len(fraction) <= 18 and power >= -9
        shifted = whole + fraction
        canonical = power % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
        scale, numerator, denominator = max(0, -power), unscaled * 10 ** max(0, power), 10 ** max(0, -power)
    negative = -1 if sign == "-" else 1
    if fast:
        return Quantity(negative * numerator * NANO // denominator, family, scale, text if canonical else "")
    nano = -(-numerator * NANO // denominator)
    scale = 9 if nano else 0
    if family == BINARY_SI:
        if nano > MAX_INT64 * NANO:
            nano, scale = MAX_INT64 * NANO, 0
        if 0 < nano < NANO:
            family = DECIMAL_SI
    return Quantity(negative * nano, family, scale)


def compare_quantities(a: Quantity, b: Quantity) -> int:
    """-1, 0 or 1."""
    return a.compare(b)


def _suffix(letters: str, digits: str) -> tuple[int, int, str] | None:
    if not digits:
        if letters in _DECIMAL_SUFFIX:
            return 10, _DECIMAL_SUFFIX[letters], DECIMAL_SI
        return (2, _BINARY_SUFFIX[letters], BINARY_SI) if letters in _BINARY_SUFFIX else None
    if letters not in ("e", "E") or digits in ("+", "-") or len(digits) > 6:
        return None
    exponent = int(digits)
    return (10, exponent, DECIMAL_EXPONENT) if abs(exponent) <= _LARGEST_EXPONENT else None


def _away(amount: int, unit: int) -> int:
    up = -(-abs(amount) // unit)
    return -up if amount < 0 else up
