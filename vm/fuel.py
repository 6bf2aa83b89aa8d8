"""Fuel for work whose size is known only at run time; both tiers charge it through these functions, at the same points.

The fuel of straight code is summed by the verifier (``vm.structure``). What goes over data (comparing, joining,
writing as text, sorting keys, intrinsics that say so in their catalogue entry) pays for the data on top."""

from __future__ import annotations

from typing import Final

from vm.cel.values import CelMap, Optional
from vm.host import Meter, Outcome, Status
from vm.values import Err, Value

CHUNK: Final = 6
"""Bulk work costs one unit of fuel for 2**CHUNK items, nodes or characters."""
MAX_LEVELS: Final = 200
"""How deep the value of a scoped function may be nested: more than any object of Kubernetes, and far from where
Python's own recursion ends."""
SIZED: Final = frozenset({str, list, dict})
_HOLD_MORE: Final = frozenset({list, dict, CelMap, Optional})
LONG: Final = SIZED | {bytes}
"""Types whose length an intrinsic pays for."""


def measure(v: Value, meter: Meter) -> None:
    """Charges for every node and character of a value that the program built: it may hold the same part many times
    over."""
    t = type(v)
    if t is not list and t is not dict and t is not CelMap and t is not Optional:
        if t is str or t is bytes:
            meter.charge(len(v) >> CHUNK)
        return
    stack = [v]
    seen = 0
    while stack:
        x = stack.pop()
        t = type(x)
        if t is str or t is bytes:
            seen += len(x)
        elif t is list:
            stack.extend(x)
        elif t is dict:
            stack.extend(x.values())
            seen += len(x)
        elif t is CelMap:
            stack.extend(v for _, v in x.entries.values())
            seen += len(x.entries)
        elif t is Optional:
            stack.append(x.value)
        seen += 1
        if seen >> CHUNK:
            meter.charge(seen >> CHUNK)
            seen &= (1 << CHUNK) - 1


def settle(v: Value, meter: Meter) -> Value:
    """The value of a scoped function: charged like what the host answers, so that a loop may hand it to its next round;
    an ``Err`` for one that has grown too deep, as each round may put something around it."""
    level = [v]
    for _ in range(MAX_LEVELS):
        seen = len(level)
        below: list[Value] = []
        for x in level:
            t = type(x)
            if t is dict:
                inner = x.values()
            elif t is list:
                inner = x
            elif t is CelMap:
                inner = [v for _, v in x.entries.values()]
            elif t is Optional:
                inner = [x.value]
            else:
                seen += len(x) if t in LONG else 0
                continue
            seen += len(inner)
            # Most of what an object holds are texts and numbers, which need no look of their own.
            for y in inner:
                t = type(y)
                if t is str or t is bytes:
                    seen += len(y)
                elif t in _HOLD_MORE:
                    below.append(y)
        meter.charge(seen >> CHUNK)
        if not below:
            return v
        level = below
    return Err("loop", f"a value is nested more than {MAX_LEVELS} deep")


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
