"""Deep, wide and dear expressions: they work, or are refused in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.frontends.cel.declarations import PLAIN_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.program import compile_program
from compiler.frontends.cel.types import DYN
from tests.unit.cel.lowering import cost, program, run
from vm.host import Meter
from vm.values import Err


@pytest.mark.parametrize("n", [32, 200])
@pytest.mark.parametrize(
    ("before", "middle", "after", "value", "wanted"),
    [
        ("v + ", "v", "", 1, None),
        ("(", "v", ")", 1, 1),
        ("v && ", "v", "", True, True),
        ("v == 3 ? 1 : ", "2", "", True, 2),
        ("!!", "v", "", True, True),
        ("-(-(", "v", "))", 5, 5),
        ("dyn(", "v", ")", 5, 5),
        ("", "v", ".lowerAscii()", "X", "x"),
        ("", "[v]", ".map(x, x)", 1, [1]),
        ("(v || (v && ", "v", "))", True, True),
    ],
)
def test_deep_expressions(n: int, before: str, middle: str, after: str, value: Any, wanted: Any) -> None:
    times = n // 2 if before.count("(") > 1 else n
    answer = run(before * times + middle + after * times, v=value)
    assert answer == (n + 1 if wanted is None else wanted)


def test_loops_in_one_another() -> None:
    n = 32
    text = "".join(f"[v].exists(x{i}, " for i in range(n)) + f"x{n - 1} == x0" + ")" * n
    assert run(text, v=3) is True


def test_wide_literals() -> None:
    assert run(f"[{', '.join(['v'] * 2000)}].size()", v=1) == 2000
    assert run("{" + ", ".join(f"'k{i}': v" for i in range(500)) + "}.size()", v=1) == 500


@pytest.mark.parametrize("text", ["[" * 150 + "v" + "]" * 150, "{'a': " * 150 + "v" + "}" * 150])
def test_values_too_deep_are_refused(text: str) -> None:
    found = compile_program(text, Env({"v": DYN}, PLAIN_LIBRARIES))
    assert isinstance(found, tuple)
    assert found[0].message == "lists and maps are built more than 124 deep"


def test_chained_lists_too_deep_are_refused() -> None:
    found = compile_program("[v]" + ".map(x, [x])" * 140, Env({"v": DYN}, PLAIN_LIBRARIES))
    assert isinstance(found, tuple)
    assert found[0].kind == "depth"


def test_depth_beyond_the_parser_is_refused() -> None:
    found = compile_program("[" * 400 + "]" * 400, Env())
    assert isinstance(found, tuple)
    assert found[0].kind == "depth"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("object.a", 2),
        ("object.a.b.c", 4),
        ("object['a']", 2),
        ("has(object.a)", 1),
        ("1 + 2", 1),
        ("[1, 2]", 0),
        ("[object.a]", 12),
        ("{'k': object.a}", 32),
        ("object.a == object.a", 5),
        ("object.t && object.t", 4),
        ("object.t ? object.a : object.b", 3),
        ("object.t ? object.n + 1 : object.b", 5),
        ("object.l.all(x, x > 0)", 13),
        ("object.l.exists(x, x == 1)", 12),
        ("object.l.exists(x, x == 2)", 15),
        ("object.l.exists_one(x, x == 1)", 10),
        ("object.l.map(x, x)", 29),
        ("object.l.map(x, false, x)", 3),
        ("object.l.filter(x, true)", 29),
        ("object.l.map(x, x)[0]", 31),
        ("object.l[object.n]", 4),
        ("object.n in [1, 2, 3]", 2),
        ("object.l.transformMap(i, x, x)", 11),
        ("optional.of(1).optMap(x, x + 1)", 7),
        ("object.s.matches('^a+$')", 4),
        ("object.s == 'aaaaaaaaaaaaaaaaaaaa'", 4),
        ("timestamp('2024-01-01T00:00:00Z') < timestamp(object.when)", 4),
    ],
)
def test_costs_are_the_api_servers(text: str, wanted: int) -> None:
    value = {"a": {"b": {"c": 1}}, "t": True, "n": 1, "l": [1, 2], "s": "a" * 15, "when": "2025-01-01T00:00:00Z"}
    assert cost(text, object=value) == wanted


@pytest.mark.parametrize("tier", ["1", "2"])
def test_a_cost_limit_ends_the_expression(tier: Any) -> None:
    found = program("v.map(x, v.map(y, y)).size() > 0", {"v": 0}, tier=tier)
    meter = Meter(10_000_000, cost_limit=10_000)
    answer = found.run({"v": [1] * 1000}, meter=meter)
    assert answer == Err("cost", "operation cancelled: actual cost limit exceeded")
    assert meter.spent < 60_000


@pytest.mark.parametrize("tier", ["1", "2"])
def test_a_budget_is_for_all_expressions(tier: Any) -> None:
    found = program("v.map(x, x).size() == 10", {"v": 0}, tier=tier)
    meter = Meter(cost_limit=1000, budget=300)
    answers = [found.run({"v": [1] * 10}, meter=meter) for _ in range(3)]
    assert answers[:2] == [True, True]
    assert answers[2].code == "cost"


def test_fuel_bounds_what_has_no_cost_limit() -> None:
    answer = program("v.all(x, v.all(y, v.all(z, z == 1)))", {"v": 0}).run({"v": [1] * 1000}, 100_000)
    assert answer == Err("fuel", "the evaluation used up its fuel of 100000 units")
