"""What ``foreach`` does with the value of its list; the rows are in :mod:`vm.intrinsics.table_loop`."""

from __future__ import annotations

from vm.host import Meter
from vm.values import MISSING, Value

_ITEMS_A_UNIT = 6


def elements(meter: Meter, value: Value) -> list[Value]:
    """The elements that a loop goes over; a value that is no list is the only one (semantics §10). Null ones stay, as
    they count in the position of the others, and the loop passes them over."""
    if type(value) is list:
        meter.charge(len(value) >> _ITEMS_A_UNIT)
        return value
    return [] if value is None or value is MISSING else [value]


def without_object(request: Value) -> Value:
    """A request whose ``object`` is null: what a list sees when the object goes away, since its query is no variable
    in which the old object would stand in for the new one (Kyverno quirk)."""
    return {**request, "object": None} if type(request) is dict else request


def with_object(request: Value, obj: Value) -> Value:
    """A request with another object: what the next loop of a mutation sees of the work of those before."""
    return {**request, "object": obj} if type(request) is dict else request


def turns(meter: Meter, value: Value, backwards: Value) -> list[Value]:
    """The elements of a mutation's loop in the order of its turns, as ``{element, index}`` without the null ones; the
    index is the place in the list as it is written, also when the last comes first."""
    found = elements(meter, value)
    meter.charge(len(found) >> _ITEMS_A_UNIT)
    made: list[Value] = [{"element": e, "index": i} for i, e in enumerate(found) if e is not None]
    return made[::-1] if backwards is True else made
