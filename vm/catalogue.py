"""The intrinsics: one table that the checker, the verifier, fuel, both tiers and the reference page share.

An intrinsic is a total function on values: bad input gives an ``Err``, never an exception. ``impl`` names its body as
``module:function``, resolved on load, so that reading the table imports nothing. ``sized`` lists the parameters whose
length is charged beside ``fuel`` (one unit per 64 items or characters). A ``metered`` body takes the meter as its first
argument and charges for its own work; a ``dynamic`` one takes the :class:`vm.host.Imports` first (before the meter).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Intrinsic:
    name: str
    params: tuple[str, ...]  # static kinds; one trailing "*" repeats the kind before it: ("V", "*")
    result: str
    impl: str
    doc: str
    fuel: int = 2
    sized: tuple[int, ...] = ()
    metered: bool = False
    dynamic: bool = False
    pure: bool = True
    version: int = 1
    cost: str = ""  # rule of vm.cel.costs by which calls add to the cost of an expression; none here: the code does
    changes: bool = False  # changes its first operand, which the same function must have made, and answers it
    wraps: bool = False  # the result may hold an operand as a whole, one layer deeper
