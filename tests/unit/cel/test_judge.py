"""The outside CEL judge: its answers, its crashes, and that known differences do not hide other ones."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from fuzz.cel_differences import Case, explained
from fuzz.targets.f16_cel_judge import Sides, Tally, compare
from tests.support.cel_judge import Crashed, Judge, Missing, Raised, Refused, Told
from vm.cel.values import Duration, Timestamp, UInt


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    try:
        with Judge() as made:
            yield made
    except Missing as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize(
    ("text", "values", "told"),
    [
        ("[1u, 2]", {}, ("list", [("uint", 1), ("int", 2)])),
        ("x", {"x": UInt(1)}, ("uint", 1)),
        ("string(when)", {"when": Timestamp(-62_135_596_800 * 10**9)}, ("string", "0001-01-01T00:00:00Z")),
        ("wait == duration('1.000000001s')", {"wait": Duration(1_000_000_001)}, ("bool", True)),
        ("type(b)", {"b": b"\xff"}, ("type", "bytes")),
    ],
)
def test_values_are_told_with_their_types(judge: Judge, text: str, values: dict[str, Any], told: Any) -> None:
    assert judge.answer(text, values) == Told(told)


def test_errors_and_refusals_are_told_apart(judge: Judge) -> None:
    assert judge.answer("1 / 0", {}) == Raised("INVALID_ARGUMENT: divide by zero")
    assert isinstance(judge.answer("nothing", {}), Refused)


def test_a_crash_is_an_answer_and_the_next_one_comes_from_a_new_process(judge: Judge) -> None:
    os.kill(judge._process.pid, signal.SIGSEGV)
    answer = judge.answer("1 + 1", {})
    assert isinstance(answer, Crashed)
    assert answer.status == -signal.SIGSEGV
    assert judge.answer("1 + 1", {}) == Told(("int", 2))


def test_a_crash_is_counted_and_what_it_hid_is_compared(judge: Judge) -> None:
    tally = Tally()
    os.kill(judge._process.pid, signal.SIGSEGV)
    compare(judge, "i + 1", [{"i": 1}, {"i": 2}], tally)
    assert tally.crashes.total() == 1
    assert (tally.expressions, tally.evaluations) == (1, 2)


@pytest.mark.parametrize(
    "text",
    [
        "has(dyn(1).a)",
        "duration('2s').getMilliseconds() == 2000",
        "size(string(duration('1.5s')))",
        "string(0.0 / 0.0)",
        "0.0 / 0.0 < 1.0",
        "i / 0 == 1 && 0.0 / 0.0 < 1.0",
        "i / 0 == 1 && 0.0 / 0.0 < 1.0 && [1][5] == i",
        "''.split('')",
        "'abc'.substring(1, 3)",
        "'abc'.indexOf('', 9)",
        "double(' 1')",
        "int(duration('1s'))",
        "'%s'.format([1.23456789])",
        "[[1, 2, 3].exists(v, v == 1), cel.bind(v, i, v + 5) == 6]",
    ],
)
def test_a_known_difference_is_counted(judge: Judge, text: str) -> None:
    tally = Tally()
    compare(judge, text, [{"i": 1}], tally)
    assert (tally.evaluations, tally.differences.total()) == (0, 1)


@dataclass(frozen=True)
class Wrong:
    """Sides of which the product adds one to each value that is a number: a fault that no difference may hide."""

    sides: Sides

    def agree(self, here: str, there: str, exact: bool) -> bool:
        return self.sides.agree(f"1 + {here}", there, exact)

    def our_error(self, text: str) -> str:
        return self.sides.our_error(text)


@pytest.mark.parametrize(
    "text",
    [
        "size(string(1.0))",
        "duration('2s').getMilliseconds()",
        "has(object.a) ? 1 : 2",
        "'abc'.indexOf('c', 1)",
        "size('abc'.substring(1, 2))",
        "size('a'.split(''))",
        "[1].map(v, v)[0]",
    ],
)
def test_a_fault_beside_a_known_difference_is_not_explained(judge: Judge, text: str) -> None:
    case = Case(text, ours="('int', 1)", our_error="", theirs="('int', 0)", their_error="", values="{}")
    assert explained(case, Wrong(Sides(judge, {"object": {"a": 1}}))) is None
