"""What all extension functions keep to: they answer for any operands, and never more than their limits allow."""

from __future__ import annotations

import random
from time import perf_counter
from typing import Any, Final

import pytest

from tests.unit.cel.calling import called
from vm.cel.libraries import LIBRARIES
from vm.cel.library import Function
from vm.cel.limits import MAX_ITEMS, MAX_TEXT, TOO_LONG, TOO_MANY
from vm.cel.values import NONE, CelMap, Duration, Optional, Timestamp, TypeValue, UInt
from vm.functions import INTRINSICS
from vm.host import Meter, OutOfFuel
from vm.values import Err

NAMES: Final = (
    "strings",
    "strings.kubernetes",
    "math",
    "lists",
    "lists.kubernetes",
    "sets",
    "encoders",
    "regex",
    "optional",
)
FUNCTIONS: Final = tuple({f.intrinsic: f for n in NAMES for f in LIBRARIES[n].functions}.values())
VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    3,
    -(1 << 63),
    (1 << 63) - 1,
    UInt(1),
    0.5,
    float("nan"),
    float("inf"),
    "",
    "aä%s",
    "%.3f%d",
    b"\xff",
    [],
    ["a", "b"],
    [1, "a", None],
    [[1], [2.0]],
    {},
    {"a": 1},
    CelMap({1: (1, "a")}),
    NONE,
    Optional(1),
    Timestamp(0),
    Duration(1),
    TypeValue("int"),
)
PROBLEM: Final = Err("divide", "division by zero")


def nested(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.intrinsic)
def test_answers_for_any_operands(f: Function) -> None:
    pick = random.Random(7)
    name = f.intrinsic.removeprefix("cel.")
    for _ in range(200):
        called(name, *pick.choices(VALUES, k=f.operands))


@pytest.mark.parametrize("f", [f for f in FUNCTIONS if f.operands], ids=lambda f: f.intrinsic)
def test_hands_errors_on(f: Function) -> None:
    name = f.intrinsic.removeprefix("cel.")
    assert called(name, PROBLEM, *[1] * (f.operands - 1)) == PROBLEM


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.intrinsic)
def test_has_one_number_of_operands(f: Function) -> None:
    assert {len(o.params) for o in f.overloads} == {f.operands}
    assert len(INTRINSICS[f.intrinsic].params) == f.operands


def test_an_error_counts_only_where_it_is_needed() -> None:
    assert called("or.2", Optional(1), PROBLEM) == Optional(1)
    assert called("orValue.2", Optional(1), PROBLEM) == 1
    assert called("orValue.2", NONE, PROBLEM) == PROBLEM


@pytest.mark.parametrize(
    ("name", "operands", "limit"),
    [
        ("replace.3", ("a" * 3000, "", "b" * 3000), TOO_LONG),
        ("replace.4", ("a" * 3000, "", "b" * 3000, 2000), TOO_LONG),
        ("join.2", (["a"] * 3000, "b" * 3000), TOO_LONG),
        ("regex.replace.3", ("a" * 3000, "", "b" * 3000), TOO_LONG),
        ("format.2", (f"%.{MAX_TEXT}f", [1.5]), Err("argument", f"error during formatting: {TOO_LONG.text}")),
        (
            "format.2",
            ("%s" * 3, ["a" * (MAX_TEXT // 2)] * 3),
            Err("argument", f"error during formatting: {TOO_LONG.text}"),
        ),
        ("format.old.2", (f"%.{MAX_TEXT}e", [1.5]), Err("argument", f"error during formatting: {TOO_LONG.text}")),
        ("lists.range.1", (MAX_ITEMS + 1,), TOO_MANY),
        ("lists.range.1", ((1 << 63) - 1,), TOO_MANY),
        ("flatten.2", ([[list(range(1024))] * 1024] * 2, 9), TOO_MANY),
        ("base64.encode.1", (b"a" * MAX_TEXT,), TOO_LONG),
    ],
)
def test_limits(name: str, operands: tuple[Any, ...], limit: Err) -> None:
    assert called(name, *operands) == limit


@pytest.mark.parametrize("name", ["format.2", "format.old.2"])
def test_format_refuses_what_is_nested_deeper_than_its_stack(name: str) -> None:
    assert called(name, "%s", [nested(200)]) == "[" * 201 + "]" * 201
    found = called(name, "%s", [nested(5000)])
    assert found == Err("argument", "error during formatting: the value is nested more than 256 levels deep")


def test_flatten_takes_any_depth() -> None:
    assert called("flatten.2", [nested(5000)], 1 << 62) == []


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("distinct.1", ([[i] for i in range(800)],)),
        ("sets.contains.2", ([[i] for i in range(800)], [[i] for i in range(800)])),
        ("sets.intersects.2", ([[i] for i in range(800)], [[-i] for i in range(1, 800)])),
    ],
)
def test_quadratic_work_is_paid_for(name: str, operands: tuple[Any, ...]) -> None:
    with pytest.raises(OutOfFuel):
        called(name, *operands, meter=Meter(200_000))


def test_last_index_of_is_linear() -> None:
    text, part = "a" * 200_000, "b" + "a" * 100_000
    start = perf_counter()
    assert called("lastIndexOf.2", text, part) == -1
    assert perf_counter() - start < 0.5  # str.rfind takes 8 s


def test_last_index_of_long_texts_is_that_of_short_ones() -> None:
    pick = random.Random(3)
    for _ in range(300):
        text = "".join(pick.choices("ab", k=3000))
        part = "".join(pick.choices("ab", k=pick.randrange(1, 12))) + "b" * pick.choice((0, 40))
        start = pick.randrange(0, len(text))
        assert called("lastIndexOf.3", text, part, start) == text.rfind(part, 0, start + len(part))
        assert called("lastIndexOf.2", text, part) == text.rfind(part)
