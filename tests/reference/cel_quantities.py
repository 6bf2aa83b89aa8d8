"""Quantities, IP addresses and CIDRs of Kubernetes' CEL libraries, for the reference evaluator."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.reference.cel_values import CelError, V, no_overload

_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{unit: Fraction(1000 ** (n + 1)) for n, unit in enumerate("kMGTPE")},
    **{unit + "i": Fraction(1024 ** (n + 1)) for n, unit in enumerate("KMGTPE")},
}
_QUANTITY = re.compile(r"([+-]?)(\d*\.?\d*)(?:[eE]([+-]?\d+)|(n|u|m|k|Ki|[MGTPE]i?)?)", re.ASCII)


def parse(text: str) -> Fraction | None:
    """The value of a quantity's text, rounded up to whole billionths as the API server keeps it. Whether it is an
    integer depends on how the API server holds it, which is left out here."""
    match = _QUANTITY.fullmatch(text) if text else None
    if match is None:
        return None
    # Kubernetes reads a suffix without digits (``u``) as nothing of that unit.
    value = Fraction(match[2].rstrip(".") or 0)
    value *= Fraction(10) ** int(match[3]) if match[3] else _SUFFIXES[match[4] or ""]
    scaled = value * 10**9
    rounded = Fraction(-((-scaled.numerator) // scaled.denominator), 10**9)
    return -rounded if match[1] == "-" else rounded


def quantity(a: V) -> V:
    if a[0] != "string":
        raise no_overload()
    value = parse(a[1])
    if value is None:
        raise CelError("argument")
    return ("quantity", value)


def is_quantity(a: V) -> V:
    if a[0] != "string":
        raise no_overload()
    return ("bool", parse(a[1]) is not None)


def quantities(work: Callable[[Fraction, Fraction], Any], kind: str) -> Callable[[V, V], V]:
    def call(a: V, b: V) -> V:
        if a[0] != "quantity":
            raise no_overload()
        if b[0] == "int" and kind == "quantity":
            return (kind, work(a[1], Fraction(b[1])))
        if b[0] != "quantity":
            raise no_overload()
        return (kind, work(a[1], b[1]))

    return call


def is_ip(a: V) -> V:
    if a[0] != "string":
        raise no_overload()
    return ("bool", _address(a[1]) is not None)


def _address(text: str) -> Any:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    if "%" in text or (found.version == 6 and found.ipv4_mapped is not None):
        return None
    return found


def is_cidr(a: V) -> V:
    if a[0] != "string":
        raise no_overload()
    address, slash, length = a[1].partition("/")
    found = _address(address)
    digits = slash and length.isascii() and length.isdigit() and (length == "0" or not length.startswith("0"))
    return ("bool", found is not None and bool(digits) and int(length) <= found.max_prefixlen)


QUANTITIES: dict[str, Callable[..., V]] = {
    "quantity": quantity,
    "isQuantity": is_quantity,
    "isGreaterThan": quantities(lambda a, b: a > b, "bool"),
    "isLessThan": quantities(lambda a, b: a < b, "bool"),
    "compareTo": quantities(lambda a, b: (a > b) - (a < b), "int"),
    "add": quantities(lambda a, b: a + b, "quantity"),
    "sub": quantities(lambda a, b: a - b, "quantity"),
    "isIP": is_ip,
    "isCIDR": is_cidr,
}
