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
