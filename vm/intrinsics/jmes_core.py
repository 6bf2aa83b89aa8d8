"""What a query needs besides its functions: the whole root, slices, flattening, ordered comparison, errors by
name."""

from __future__ import annotations

from vm.fuel import CHUNK
from vm.host import Meter
from vm.intrinsics.jmes_errors import is_number
from vm.values import Err, Value, json_equal


def root(v: Value) -> Value:
    """The root as a policy sees it: without the keys of the engine."""
    return {k: x for k, x in v.items() if not k.startswith("$")} if type(v) is dict else v


def error(code: str, text: str) -> Value:
    return Err(code, text)


def flatten(meter: Meter, v: Value) -> Value:
    """A list with the elements of its inner lists in their place, one level; null for anything else, errors
    included.

    Pays for the list it makes, not for what its elements hold: a list that the query has just built is seldom small
    inside.
    """
    if type(v) is not list:
        return None
    out: list[Value] = []
    unpaid = 0
    for x in v:
        if type(x) is list:
            unpaid += len(x)
            if unpaid >> CHUNK:
                meter.charge(unpaid >> CHUNK)
                unpaid &= (1 << CHUNK) - 1
            out.extend(x)
        else:
            unpaid += 1
            out.append(x)
    meter.charge(unpaid >> CHUNK)
    return out


def compact(meter: Meter, v: Value) -> Value:
    """A list without its nulls; null for anything else, an error as it is."""
    if type(v) is list:
        meter.charge(len(v) >> CHUNK)
        return [x for x in v if x is not None]
    return v if type(v) is Err else None


def take(v: Value, start: Value, stop: Value, step: Value) -> Value:
    """A slice of a list as Python cuts it; null of anything else. ``Err value`` for a step of 0."""
    if type(v) is Err:
        return v
    if not all(x is None or type(x) is int for x in (start, stop, step)):
        return Err("type", "the parts of a slice must be integers")
    if step == 0:
        return Err("value", "a slice step must not be 0")
    return v[start:stop:step] if type(v) is list else None


def equal(a: Value, b: Value) -> Value:
    if type(a) is Err:
        return a
    return b if type(b) is Err else json_equal(a, b)


def not_equal(a: Value, b: Value) -> Value:
    same = equal(a, b)
    return same if type(same) is Err else not same


def less(a: Value, b: Value) -> Value:
    return a < b if is_number(a) and is_number(b) else _no_order(a, b)


def less_equal(a: Value, b: Value) -> Value:
    return a <= b if is_number(a) and is_number(b) else _no_order(a, b)


def greater(a: Value, b: Value) -> Value:
    return a > b if is_number(a) and is_number(b) else _no_order(a, b)


def greater_equal(a: Value, b: Value) -> Value:
    return a >= b if is_number(a) and is_number(b) else _no_order(a, b)


def _no_order(a: Value, b: Value) -> Value:
    """Only numbers have an order: null, or the error among the operands."""
    for v in (a, b):
        if type(v) is Err:
            return v
    return None
