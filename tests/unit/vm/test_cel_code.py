"""Calls of CEL functions as Python: every way answers, costs and charges as the body and its cost rule do."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.frontends.cel.declarations import KUBERNETES_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.program import CelProgram, compile_program
from compiler.frontends.cel.types import DYN
from vm import cel_code
from vm.cel.text import compiled, needed_literal, searcher
from vm.cel.values import CelMap, Optional, UInt
from vm.fuel import LONG, SIZED, charge_operands
from vm.functions import INTRINSICS, body_of
from vm.host import Meter
from vm.values import MISSING, Err

ENV = Env({"object": DYN}, KUBERNETES_LIBRARIES, strict=True)
LONG_TEXT = "abc" * 50
VALUES: list[Any] = [
    *("", "a", "b", "abcdefghij", "abcdefghijk", "a.b", LONG_TEXT, "é" * 70, "\ud800a"),
    *(None, True, False, 0, 1, -1, 2**63 - 1, -(2**63), 1.0, float("nan"), UInt(1), b"a"),
    *([], ["a"], ["b", "a"], [1, "a"], [True], ["x"] * 70, {}, {"a": 1}, {"a": {"a": 2}}),
    *(CelMap({1: (1, "a")}), Optional(), Optional("a"), Err("x", "y")),
]
NAMES = sorted({n for n in INTRINSICS if n.startswith("cel.") and cel_code.has_ways(n)})


def _by_body(name: str, operands: tuple[Any, ...]) -> tuple[Any, int, int]:
    entry, meter = INTRINSICS[name], Meter()
    body, metered = body_of(entry, None)
    charge_operands(entry.sized, (), list(operands), meter)
    value = body(meter, *operands) if metered else body(*operands)
    return value, meter.cost, meter.left


def _by_way(name: str, operands: tuple[Any, ...], constant: int) -> tuple[Any, int, int] | None:
    """What the first way answers that takes the operands, None where the body is called."""
    bound: dict[str, Any] = {}
    scope = {
        "MISSING": MISSING,
        "SIZED": SIZED,
        "LONG": LONG,
        "meter": Meter(),
        **{f"x{n}": v for n, v in enumerate(operands)},
    }
    known = [cel_code.Operand(f"x{n}", v if n == constant else MISSING) for n, v in enumerate(operands)]

    def bind(made: str) -> str:
        of = operands[int(made[1:])]
        bound[made] = frozenset(of) if made[0] == "w" else searcher(of)
        return made

    for way in cel_code.ways(name, INTRINSICS[name].cost, known, bind):
        scope |= bound
        if eval(way.guard, scope):
            for fuel in way.fuel:
                exec(fuel, scope)
            value = eval(way.value, scope)
            cost = eval(way.cost, scope) if way.cost else 0
            return value, cost, scope["meter"].left
    return None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("constant", [-1, 0, 1], ids=["none", "first", "second"])
def test_a_way_is_the_call_that_it_stands_for(name: str, constant: int) -> None:
    taken = 0
    pairs = [(v,) for v in VALUES] if len(INTRINSICS[name].params) == 1 else [(a, b) for a in VALUES for b in VALUES]
    for operands in pairs:
        found = _by_way(name, operands, constant)
        if found is not None:
            taken += 1
            expected = _by_body(name, operands)
            assert (type(found[0]), found) == (type(expected[0]), expected), operands
    assert taken or constant == 0 or (name.startswith("cel.matches") and constant < 0)


CHAINS = (
    "object.?a",
    "object.?a.?b",
    "object.?a.?b.?c.orValue('d')",
    "object.?a.?b.?c.orValue([])",
    "object.?a[?0].orValue(1)",
    "object.?a.?b.hasValue()",
    "object[?'a'].?b.orValue(false) == false",
    "object.?a.?b.or(optional.of(1))",
    "object.?a.value()",
    "object.?a.?b.orValue(object.?a).?c.orValue(2)",
    "object.all(x, x.?a.?b.orValue('') != '')",
    "optional.of(object).?a.?b.orValue(null)",
    "dyn(optional.of(dyn(optional.of(object)))).?a.?b.orValue(null)",
    "dyn({'a': optional.of({'b': 1})}).?a.?b.orValue(3)",
    "object.?a.?b.orValue('x').matches('^x+$') && object.a.b.contains('x')",
    "object.exists(k, k.startsWith('a') && object[k] != '') || 'a' in object",
    "object.a.b == 'x' || object.a.b.c == 'y' || object.a == 1",
    "object.exists(x, object.a.b == 'x') || (object.a.b == 'y' ? object.a.b.c : object.a.b) == 'x'",
    "object.a.b + object.a.b == object.a.b + []",
)
OBJECTS: list[Any] = [
    *({}, {"a": None}, {"a": 1}, {"a": "x"}, {"a": []}, {"a": ["x"]}, {"a": {"b": "x"}}, {"a": {"b": {"c": "y"}}}),
    *([], [{}], [{"a": {"b": "x"}}], "text", 3, None, {"a": {"b": ["x"]}}, {"a": {"b": "x" * 100}}),
    *(Optional(), Optional({"a": {"b": 1}}), CelMap({"a": ("a", {"b": 1}), 1: (1, 2)}), Err("e", "x"), MISSING),
    *({"a": MISSING}, {"a": {"b": MISSING}}),
]


@pytest.mark.parametrize("text", CHAINS)
def test_both_tiers_agree_on_chains(text: str) -> None:
    one, two = compile_program(text, ENV, tier="1"), compile_program(text, ENV, tier="2")
    assert isinstance(one, CelProgram)
    assert isinstance(two, CelProgram)
    for value in OBJECTS:
        for limit in (None, 3, 5):
            meters = Meter(cost_limit=limit), Meter(cost_limit=limit)
            answers = [p.run({"object": value}, meter=m) for p, m in zip((one, two), meters, strict=True)]
            told = [(m.left, m.spent, m.cost) for m in meters]
            assert (answers[0], told[0]) == (answers[1], told[1]), value


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        *(
            (r"\bjcmd\b", "jcmd"),
            (r"\s*alias\s*.*;", "alias"),
            (r"^https://[a-z]+", "https"),
            (r".*_by_lua.*", "_by_lua"),
        ),
        *((r"abc*", ""), (r"abc?d", ""), (r"ab{0}", ""), (r"abc+", "abc"), (r"a|bc", ""), (r"(?i)abc", ""), (r"a", "")),
        *((r"[ab]cd", ""), (r"(ab)", ""), (r"\x41bc", ""), (r"\.abc", ""), (r".?abc", ""), (r"\Qab*\E", ""), (r"", "")),
    ],
)
def test_a_literal_is_needed_where_it_is_certain(pattern: str, literal: str) -> None:
    assert needed_literal(pattern) == literal
    found = searcher(pattern)
    assert not isinstance(found, Err)
    for text in ("", "a", "ab", "abc", "bc", "jcmd", "x jcmd x", "cd", "acd", "ABC", "Abc", ".abc", "ab*", "https://a"):
        assert found(text) is (compiled(pattern).search(text) is not None)
