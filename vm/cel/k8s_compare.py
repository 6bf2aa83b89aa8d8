"""The methods that quantities and versions have in common: called of the rows of both libraries, since a receiver of
type ``dyn`` may be either."""

from __future__ import annotations

from typing import Final

from vm.cel.k8s_quantity import Quantity
from vm.cel.k8s_semver import Semver
from vm.cel.values import no_overload
from vm.values import Value

_ORDERED: Final = frozenset({Quantity, Semver})


def is_greater_than(a: Value, b: Value) -> Value:
    """``a.isGreaterThan(b)``."""
    if type(a) is type(b) and type(a) in _ORDERED:
        return a.compare(b) > 0
    return no_overload("isGreaterThan", a, b)


def is_less_than(a: Value, b: Value) -> Value:
    """``a.isLessThan(b)``."""
    if type(a) is type(b) and type(a) in _ORDERED:
        return a.compare(b) < 0
    return no_overload("isLessThan", a, b)


def compare_to(a: Value, b: Value) -> Value:
    """``a.compareTo(b)``: -1, 0 or 1."""
    if type(a) is type(b) and type(a) in _ORDERED:
        return a.compare(b)
    return no_overload("compareTo", a, b)
