"""Fuel for work whose size is known only at run time; both tiers charge it through these functions, at the same points.

The fuel of straight code is summed by the verifier (``vm.structure``). What goes over data (comparing, joining,
writing as text, sorting keys, intrinsics that say so in their catalogue entry) pays for the data on top."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vm.cel.values import CelMap, Optional
from vm.host import Meter, Outcome, Status
from vm.values import Err, Value

CHUNK: Final = 6
"""Bulk work costs one unit of fuel for 2**CHUNK items, nodes or characters."""
MAX_LEVELS: Final = 200
"""How deep the value of a scoped function may be nested: more than any object of Kubernetes, and far from where
Python's own recursion ends."""
_MOST_OWED: Final = 1 << 12
"""Nodes and characters looked at before they are paid."""
_ANY_DEPTH: Final = 1 << 30
_CARRY: Final = (1 << CHUNK) - 1
_MOST_SIZES: Final = 256
SIZED: Final = frozenset({str, list, dict})
_HOLD_MORE: Final = frozenset({list, dict, CelMap, Optional})
LONG: Final = SIZED | {bytes}
"""Types whose length an intrinsic pays for."""


def measure(v: Value, meter: Meter) -> None:
    """Charges for every node and character of a value that the program built: it may hold the same part many times
    over."""
    t = type(v)
    if t is dict:
        seen = 1 + 2 * len(v)
        # A scope names its element two or three times (``element``, ``element0``): paid for each time, looked at once.
        parts: dict[int, tuple[Value, int]] = {}
        for x in v.values():
            t = type(x)
            if t is str or t is bytes:
                seen += len(x)
            elif t in _HOLD_MORE:
                parts[id(x)] = (x, parts[id(x)][1] + 1 if id(x) in parts else 1)
        for x, times in parts.values():
            seen = _part(x, times, seen, meter)
    elif t in _HOLD_MORE:
        _parts(v, 1, 1, _ANY_DEPTH, meter)
        return
    else:
        seen = len(v) if t is str or t is bytes else 0
    if seen >> CHUNK:
        meter.charge(seen >> CHUNK)


def settle(v: Value, meter: Meter) -> Value:
    """The value of a scoped function: charged like what the host answers, so that a loop may hand it to its next round;
    an ``Err`` for one that has grown too deep, as each round may put something around it."""
    t = type(v)
    if t in _HOLD_MORE:
        if _parts(v, 1, 1, MAX_LEVELS, meter) < 0:
            return Err("loop", f"a value is nested more than {MAX_LEVELS} deep")
    elif (t is str or t is bytes) and len(v) >> CHUNK:
        meter.charge(len(v) >> CHUNK)
    return v


def _part(v: Value, times: int, seen: int, meter: Meter) -> int:
    """What ``seen`` comes to with ``times`` a container, without what is paid. The rules of a request put the same
    parts of its object into their scopes: each is looked at once. Nothing that has been put into a scope is changed
    any more (``vm.flow``)."""
    known = meter.sizes.get(id(v))
    if known is None:
        size = _parts(v, times, seen, _ANY_DEPTH, meter)
        if len(meter.sizes) < _MOST_SIZES:
            meter.sizes[id(v)] = (size, v)  # held, so that no other value takes its place
        return seen + size * times & _CARRY
    seen += known[0] * times
    if seen >> CHUNK:
        meter.charge(seen >> CHUNK)
    return seen & _CARRY


def _parts(v: Value, times: int, seen: int, levels: int, meter: Meter) -> int:
    """How many nodes and characters a container holds, itself left out; -1 when containers are nested more than
    ``levels`` deep. Charges for ``times`` that number, and for ``seen`` of before, in whole units.

    Goes through what is below a level when enough of it came together, and on with the level then: a list may hold a
    large one a thousand times, and all that they hold would not be paid before it is gathered."""
    begun: list[tuple[Iterator[Value], int]] = [(iter([v]), 1)]
    size = paid = 0
    while begun:
        level, depth = begun[-1]
        below: list[Value] = []
        found = 0
        for x in level:
            t = type(x)
            if t is dict:
                inner = x.values()
                found += 2 * len(x)
            elif t is list:
                inner = x
                found += len(x)
            elif t is CelMap:
                inner = [y for _, y in x.entries.values()]
                found += 2 * len(inner)
            else:
                inner = [x.value]
                found += 1
            # Most of what an object holds are texts and numbers, which need no look of their own.
            for y in inner:
                t = type(y)
                if t is str or t is bytes:
                    found += len(y)
                elif t in _HOLD_MORE:
                    below.append(y)
            if found > _MOST_OWED:
                break
        else:
            begun.pop()
        size += found
        units = seen + size * times >> CHUNK
        if units > paid:
            meter.charge(units - paid)
            paid = units
        if below:
            if depth == levels:
                return -1
            begun.append((iter(below), depth + 1))
    return size


def charge_operands(sized: tuple[int, ...], measured: tuple[int, ...], args: list[Value], meter: Meter) -> None:
    """What an intrinsic owes for its operands: the length of those its catalogue entry lists, all of those built
    here."""
    for i in sized:
        v = args[i]
        if type(v) in LONG and len(v) >> CHUNK:
            meter.charge(len(v) >> CHUNK)
    for i in measured:
        measure(args[i], meter)


def pairs(m: dict[str, Value], meter: Meter) -> list[tuple[str, Value]]:
    """What ``each_pair`` goes over: keys in sorted order, paid for by their number."""
    meter.charge(len(m) >> CHUNK)
    return [(k, m[k]) for k in sorted(m)]


def received(reply: Value, meter: Meter) -> Value:
    """A reply of the host, paid for by its size."""
    measure(reply, meter)
    return reply


def exhausted(result_kind: str, meter: Meter) -> Outcome | Err:
    """What a run that used up its fuel answers: an error outcome for a rule, an ``Err`` for any other function."""
    text = f"the evaluation used up its fuel of {meter.limit} units"
    return Outcome(Status.ERROR, text) if result_kind == "O" else Err("fuel", text)
