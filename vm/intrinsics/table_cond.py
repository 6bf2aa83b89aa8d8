"""The intrinsics of family ``cond`` (operators of conditions, semantics §9), read by ``vm.functions``.

Each takes the key and the value of a condition, substituted and free of errors, and says whether the condition holds.
"""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic

_BODY: Final = "vm.intrinsics.conditions:"
_FUNCTION: Final = {"in": "in_"}

_NUMERIC: Final = (
    ("greater", "the key is greater than the value: numbers, durations, quantities, versions"),
    ("greater_or_equals", "the key is greater than or equals the value"),
    ("less", "the key is less than the value"),
    ("less_or_equals", "the key is less than or equals the value"),
    ("duration_greater", "the key is a longer duration than the value; numbers are seconds (deprecated operator)"),
    ("duration_greater_or_equals", "the key is at least as long a duration as the value (deprecated operator)"),
    ("duration_less", "the key is a shorter duration than the value (deprecated operator)"),
    ("duration_less_or_equals", "the key is at most as long a duration as the value (deprecated operator)"),
)
_SETS: Final = (
    ("any_in", "some key matches some value, wildcards on either side"),
    ("all_in", "every key matches some value"),
    ("any_not_in", "some key matches no value"),
    ("all_not_in", "no key matches any value"),
    ("in", "the key is among the values, or every key is (deprecated operator)"),
    ("not_in", "the key is not among the values, or some key is not (deprecated operator)"),
)

TABLE: Final[tuple[Intrinsic, ...]] = (
    Intrinsic("cond.equals", ("V", "V"), "B", _BODY + "equals", "the key equals the value", fuel=3, sized=(0, 1)),
    Intrinsic(
        "cond.not_equals",
        ("V", "V"),
        "B",
        _BODY + "not_equals",
        "the key does not equal the value",
        fuel=3,
        sized=(0, 1),
    ),
    *(
        Intrinsic(
            f"cond.{name}_kyverno",
            ("V", "V"),
            "B",
            f"{_BODY}{name}_kyverno",
            f"cond.{name} as the reference has it: a text never equals a number (--quirks=kyverno)",
            fuel=3,
            sized=(0, 1),
        )
        for name in ("equals", "not_equals")
    ),
    # What these read is bounded: no number, duration or version is longer than 256 characters.
    *(Intrinsic(f"cond.{name}", ("V", "V"), "B", _BODY + name, doc, fuel=4) for name, doc in _NUMERIC),
    *(
        Intrinsic(f"cond.{name}", ("V", "V"), "B", _BODY + _FUNCTION.get(name, name), doc, fuel=4, metered=True)
        for name, doc in _SETS
    ),
)
