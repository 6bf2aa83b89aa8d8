"""Quantities as the API server's ``quantity`` library has them: exact decimals, with what 64 bits hold told apart.

Kubernetes keeps a quantity as a 64-bit integer with a decimal exponent as long as it fits, else as a decimal of any
size; ``isInteger`` and ``asInteger`` see the difference (``1.0`` and a quantity beyond 64 bits are no integers there),
comparison and arithmetic do not. Also the values that ``vm.cel.thesmos_quantities`` calculates with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Final

from vm.cel.values import INT_MAX, INT_MIN, no_overload
from vm.intrinsics.quantity import BINARY_SI, DECIMAL_EXPONENT, DECIMAL_SI, MAX_INT64
from vm.intrinsics.quantity import Quantity as Printed
from vm.values import Err, Value

_FORMAT_WRONG: Final = Err(
    "argument",
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
)
_NUMERIC: Final = Err("argument", "unable to parse numeric part of quantity")
_SUFFIX: Final = Err("argument", "unable to parse quantity's suffix")
_NO_INTEGER: Final = Err("argument", "cannot convert value to integer")

_SHAPE: Final = re.compile(r"([+-]?)(0*([0-9]*)(?:\.([0-9]*))?)([eEinumkKMGTP]*[+-]?[0-9]*)")
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]{1,6})")
_LONGEST: Final = 1024
_LARGEST_EXPONENT: Final = 1000
"""Bounds of ours: the API server itself takes minutes for ``1e1000000000000``."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """``amount × 10^exponent``. ``wide``: no longer kept in 64 bits. ``format``: the family of suffixes it was read
    with. Equal to a quantity of the same size, however that is written."""

    CEL_TYPE: ClassVar[str] = "kubernetes.Quantity"
    amount: int
    exponent: int = 0
    wide: bool = False
    format: str = DECIMAL_SI

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1."""
        a, b = self.amount, other.amount
        if self.exponent > other.exponent:
            a *= 10 ** (self.exponent - other.exponent)
        elif self.exponent < other.exponent:
            b *= 10 ** (other.exponent - self.exponent)
        return (a > b) - (a < b)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __hash__(self) -> int:
        return hash(self.reduced())

    def reduced(self) -> tuple[int, int]:
        """``amount`` and ``exponent`` without trailing zeros of the amount."""
        amount, exponent = self.amount, self.exponent
        if not amount:
            return 0, 0
        while amount % 10 == 0:
            amount, exponent = amount // 10, exponent + 1
        return amount, exponent

    def plus(self, other: Quantity) -> Quantity:
        """The sum, in the family of the first operand that is not zero."""
        family = other.format if self.amount == 0 else self.format
        if not self.wide and not other.wide:
            if other.amount == 0:
                return Quantity(self.amount, self.exponent, False, family)
            if self.amount == 0:
                return Quantity(other.amount, other.exponent, False, family)
        exponent = min(self.exponent, other.exponent)
        a = self.amount * 10 ** (self.exponent - exponent)
        b = other.amount * 10 ** (other.exponent - exponent)
        wide = self.wide or other.wide or not all(INT_MIN <= n <= INT_MAX for n in (a, b, a + b))
        return Quantity(a + b, exponent, wide, family)

    def minus(self, other: Quantity) -> Quantity:
        return self.plus(Quantity(-other.amount, other.exponent, other.wide, other.format))

    def times(self, other: Quantity) -> Quantity:
        """The exact product, in the family of the one that has a suffix of its own."""
        amount = self.amount * other.amount
        wide = self.wide or other.wide or not INT_MIN <= amount <= INT_MAX
        family = other.format if self.format == DECIMAL_EXPONENT else self.format
        return Quantity(amount, self.exponent + other.exponent, wide, family)

    def integer(self) -> int | None:
        """The whole number, None where Kubernetes does not keep it as one in 64 bits."""
        if self.wide or self.exponent < 0:
            return None
        n = self.amount * 10**self.exponent
        return n if INT_MIN <= n <= INT_MAX else None

    def __str__(self) -> str:
        """The canonical text in its own family."""
        if self.exponent < -9:
            return f"{self.amount}e{self.exponent}"
        return Printed(self.amount * 10 ** (self.exponent + 9), self.format).canonical()


def parse(text: str) -> Quantity | Err:
    """The quantity that a text denotes, as ``resource.ParseQuantity`` of Kubernetes reads it: what is finer than 10⁻⁹
    is rounded away from zero. Texts of more than 1024 characters and exponents beyond 1000 denote none."""
    if not text or len(text) > _LONGEST or not text.isascii():
        return _FORMAT_WRONG
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        return _FORMAT_WRONG
    sign, number, whole, fraction, suffix = shape.groups()
    whole, fraction = whole or "0", fraction or ""
    amount, negative = int(whole + fraction), sign == "-"
    if suffix in _BINARY:
        power = _BINARY[suffix]
        if not fraction and 15 - len(whole) - int(power * 3 / 10) - 1 >= 0 and amount << power <= MAX_INT64:
            return Quantity(-(amount << power) if negative else amount << power, 0, False, BINARY_SI)
        if number in ("", "."):
            return _NUMERIC
        return _wide(amount << power, -len(fraction), negative, BINARY_SI)
    family, exponent = DECIMAL_SI, _DECIMAL.get(suffix)
    if exponent is None:
        read = _EXPONENT.fullmatch(suffix)
        if read is None or abs(int(read[1])) > _LARGEST_EXPONENT:
            return _SUFFIX
        family, exponent = DECIMAL_EXPONENT, int(read[1])
    exponent -= len(fraction)
    if len(whole) + len(fraction) <= 18 and exponent >= -9:
        return Quantity(-amount if negative else amount, exponent, False, family)
    return _NUMERIC if number in ("", ".") else _wide(amount, exponent, negative, family)


def _wide(amount: int, exponent: int, negative: bool, family: str) -> Quantity:
    """A quantity that 64 bits do not hold: kept in nano-units, and a binary one capped at the largest 64-bit
    integer."""
    if exponent < -9:
        amount = -(-amount // 10 ** (-9 - exponent))
    elif amount:
        amount *= 10 ** (exponent + 9)
    exponent = -9 if amount else min(exponent, 0)
    if family == BINARY_SI:
        if amount > MAX_INT64 * 10**9:
            amount, exponent = MAX_INT64, 0
        elif amount < 10**9:
            family = DECIMAL_SI
    return Quantity(-amount if negative else amount, exponent, True, family)


def of_int(n: int) -> Quantity:
    return Quantity(n, 0, not INT_MIN <= n <= INT_MAX, DECIMAL_EXPONENT)


def quantity(text: Value) -> Value:
    """``quantity(text)``."""
    return parse(text) if type(text) is str else no_overload("quantity", text)


def is_quantity(text: Value) -> Value:
    """``isQuantity(text)``."""
    return type(parse(text)) is Quantity if type(text) is str else no_overload("isQuantity", text)


def sign(q: Value) -> Value:
    """``sign(q)``: -1, 0 or 1. A function: Kubernetes declares no method of that name."""
    return (q.amount > 0) - (q.amount < 0) if type(q) is Quantity else no_overload("sign", q)


def is_integer(q: Value) -> Value:
    """``q.isInteger()``."""
    return q.integer() is not None if type(q) is Quantity else no_overload("isInteger", q)


def as_integer(q: Value) -> Value:
    """``q.asInteger()``."""
    if type(q) is not Quantity:
        return no_overload("asInteger", q)
    n = q.integer()
    return _NO_INTEGER if n is None else n


def as_approximate_float(q: Value) -> Value:
    """``q.asApproximateFloat()``: the amount as a double times the power of ten as one, as Kubernetes calculates."""
    if type(q) is not Quantity:
        return no_overload("asApproximateFloat", q)
    try:
        base = float(q.amount)
    except OverflowError:
        base = inf if q.amount > 0 else -inf
    return base if q.exponent == 0 else base * _pow10(q.exponent)


def _pow10(n: int) -> float:
    """Go's ``math.Pow10``: a product of two powers from tables, so not always the nearest double."""
    if n > 308:
        return inf
    if n >= 0:
        return float(f"1e{n // 32 * 32}") * float(f"1e{n % 32}")
    return float(f"1e-{-n // 32 * 32}") / float(f"1e{-n % 32}") if n >= -323 else 0.0


def add(a: Value, b: Value) -> Value:
    """``a.add(b)`` of a quantity and a quantity or an int."""
    if type(a) is Quantity:
        if type(b) is Quantity:
            return a.plus(b)
        if type(b) is int:
            return a.plus(of_int(b))
    return no_overload("add", a, b)


def sub(a: Value, b: Value) -> Value:
    """``a.sub(b)`` of a quantity and a quantity or an int."""
    if type(a) is Quantity:
        if type(b) is Quantity:
            return a.minus(b)
        if type(b) is int:
            return a.minus(of_int(b))
    return no_overload("sub", a, b)


def from_double(x: float) -> Quantity:
    """The quantity of a finite double: its shortest decimal form, as JSON writes it."""
    found = _FLOAT.fullmatch(repr(x))
    if found is None:
        raise ValueError("the double is not finite")
    digits, exponent = found[2] + (found[3] or ""), int(found[4] or 0) - len(found[3] or "")
    return Quantity(int(found[1] + digits), exponent, False, DECIMAL_EXPONENT)


_FLOAT: Final = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:e([+-]?[0-9]+))?")
