"""Every function of every library answers for operands of every type: a value or an ``Err``, never an exception."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

from vm.cel.libraries import LIBRARIES
from vm.cel.library import Function
from vm.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    TIME_MAX,
    TIME_MIN,
    UINT_MAX,
    CelMap,
    Duration,
    Optional,
    Record,
    Timestamp,
    TypeValue,
    UInt,
)
from vm.functions import INTRINSICS, resolve
from vm.host import Meter, OutOfFuel
from vm.intrinsics.text import go_value, json_text
from vm.values import Err

FUNCTIONS: Final = tuple({f.intrinsic: f for lib in LIBRARIES.values() for f in lib.functions}.values())
PROBLEM: Final = Err("divide", "division by zero")
CALLS: Final = 400
FUEL: Final = 100_000


def nested(depth: int) -> list[Any]:
    out: list[Any] = []
    for _ in range(depth):
        out = [out]
    return out


def nested_map(depth: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for _ in range(depth):
        out = {"a": out}
    return out


VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    *(0, 1, -1, 7, 63, 64, 1 << 53, INT_MAX, INT_MIN, 1 << 64, -(1 << 900)),
    *map(UInt, (0, 1, 64, 1 << 63, UINT_MAX)),
    *(0.0, -0.0, 1.0, 1.5, -2.5, 1e30, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf")),
    *("", "a", "äö😀", "\ud800", "a" * 5000, "%d%s%.3f%", "(", "[a-z]+", "(a)|(b)", "$1\\1", "\x00", " \n\t"),
    *("1", "-9223372036854775808", "1e400", "0x1p-2", "Inf", "true", "1h30m", "2009-02-13T23:31:30.5+02:00"),
    *("10.0.0.1", "::1", "10.0.0.0/8", "1Gi", "1.2.3-a+b", "https://user@[::1]:80/a?b=c", "America/New_York", "-05:30"),
    *("../x", "YWJj", "en_US", "a,b,c", "apps", "get", "default/x"),
    *(b"", b"\xff\xfe", b"abc"),
    *(
        Timestamp(0),
        Timestamp(TIME_MIN, -3600),
        Timestamp(TIME_MAX, 86_400),
        Duration(INT_MIN),
        Duration(1_500_000_000),
    ),
    *(NONE, Optional(1), Optional(NONE), Optional([1, "a"]), TypeValue("int"), Record("Object", {"a": 1})),
    *([], [1, 2, 3], [3, 1, 2], ["b", "a"], [1, UInt(1), 1.0, True, None], [[1], ["a"]], [float("nan")], ["a"] * 300),
    *({}, {"a": 1}, {"a": {"b": [1]}}, {"": None}),
    *(CelMap({1: (UInt(1), "a"), ("bool", True): (True, []), "x": ("x", {})}), CelMap({})),
    nested(3000),
    nested_map(3000),
    PROBLEM,
)


def call(f: Function, operands: list[Any]) -> Any:
    body = resolve(f.intrinsic)
    try:
        return body(Meter(FUEL), *operands) if f.metered else body(*operands)
    except OutOfFuel:
        return PROBLEM


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.intrinsic)
def test_no_operands_raise(f: Function) -> None:
    """What calls answer are operands of later ones, so that values of the libraries come in too."""
    pick = random.Random(f.intrinsic)
    pool = list(VALUES)
    for _ in range(CALLS):
        operands = [pick.choice(pool) for _ in range(f.operands)]
        if f.changes and type(operands[0]) in (list, dict, CelMap):
            operands[0] = pick.choice(([], {}, CelMap({})))
        found = call(f, operands)
        assert found is not NotImplemented
        if type(found) is not Err and len(pool) < 200:
            pool.append(found)


@pytest.mark.parametrize("f", [f for f in FUNCTIONS if f.operands], ids=lambda f: f.intrinsic)
def test_an_error_goes_on(f: Function) -> None:
    """A function that is given nothing but an error answers it."""
    assert call(f, [PROBLEM] * f.operands) == PROBLEM


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.intrinsic)
def test_a_row_has_one_number_of_operands_and_a_body(f: Function) -> None:
    assert {len(o.params) for o in f.overloads} == {f.operands}
    assert INTRINSICS[f.intrinsic].impl == f.body
    assert callable(resolve(f.intrinsic))


@pytest.mark.parametrize("v", VALUES, ids=lambda v: type(v).__name__)
def test_every_value_has_a_text(v: Any) -> None:
    assert type(json_text(v)) is str
    assert type(go_value(v)) is str
