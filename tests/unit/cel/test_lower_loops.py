"""Comprehensions: answers, and what becomes of errors in them. Expected texts are cel-go's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.cel_spec import shown
from tests.unit.cel.lowering import error, run


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("v.all(x, x > 0)", True),
        ("v.all(x, x > 1)", False),
        ("v.exists(x, x == 3)", True),
        ("v.exists(x, x == 9)", False),
        ("[].all(x, false)", True),
        ("[].exists(x, true)", False),
        ("v.exists_one(x, x > 2)", True),
        ("v.exists_one(x, x > 1)", False),
        ("v.exists_one(x, x > 9)", False),
        ("v.map(x, x * 2)", [2, 4, 6]),
        ("v.map(x, x > 1, x * 2)", [4, 6]),
        ("v.filter(x, x != 2)", [1, 3]),
        ("v.map(x, [x])[0]", [1]),
        ("v.map(x, v.filter(y, y < x).size())", [0, 1, 2]),
        ("{'a': 1, 'b': 2}.map(k, k)", ["a", "b"]),
        ("{'a': 1, 'b': 2}.all(k, k < 'c')", True),
        ("{1: 'a', 2: 'b'}.exists(k, k == 2)", True),
        ("v.all(i, x, x == i + 1)", True),
        ("v.exists(i, x, i == 2 && x == 3)", True),
        ("{'a': 1}.exists(k, x, k == 'a' && x == 1)", True),
        ("v.existsOne(i, x, x == 2)", True),
        ("v.transformList(i, x, i * x)", [0, 2, 6]),
        ("v.transformList(i, x, x > 1, i)", [1, 2]),
        ("{'a': 1, 'b': 2}.transformMap(k, x, x + 1)", {"a": 2, "b": 3}),
        ("{'a': 1, 'b': 2}.transformMap(k, x, x > 1, x)", {"b": 2}),
        ("{'a': 'x', 'b': 'y'}.transformMapEntry(k, x, {x: k})", {"x": "a", "y": "b"}),
        # an error waits for an element that decides
        ("v.all(x, 1 / (x - 1) > 0 && x < 3)", False),
        ("v.exists(x, 1 / (x - 1) > 0)", True),
        ("v.exists(x, x == 1 ? w : x == 2)", True),
    ],
)
def test_answers(text: str, wanted: Any) -> None:
    assert shown(run(text, v=[1, 2, 3], w="no bool")) == shown(wanted)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("v.all(x, 6 / x > 0)", "division by zero"),
        ("v.exists(x, 6 / x > 7)", "division by zero"),
        ("v.all(x, dyn(x))", "no such overload"),
        ("v.exists_one(x, 6 / x > 1)", "division by zero"),
        ("v.map(x, 6 / x)", "division by zero"),
        ("v.filter(x, 6 / x > 1)", "division by zero"),
        ("v.map(x, dyn(x), x)", "no such overload"),
        ("v.filter(x, x == 0 ? 1 / 0 > 1 : v.none)", "unsupported index type 'string' in list"),
        ("v.map(x, x == 0 ? 1 / 0 : v.none)", "unsupported index type 'string' in list"),
        ("w.all(x, true)", "got 'types.Null', expected iterable type"),
        ("w.a.map(x, x)", "no such key: a"),
        ("v.transformMapEntry(i, x, {'k': x})", "insert failed: key k already exists"),
        ("v.transformMap(i, x, 6 / x)", "division by zero"),
        ("[w.a].all(x, true)", "no such key: a"),
    ],
)
def test_errors(text: str, wanted: str) -> None:
    assert error(text, v=[1, 0, 2], w=None) == wanted


def test_an_error_of_a_predicate_hides_one_before_it() -> None:
    assert error("[0, 5].filter(x, x == 0 ? 1 / 0 > 1 : v.b)", v={}) == "no such key: b"
    assert error("[0, 5].map(x, x == 0 ? 1 / 0 > 1 : v.b)", v={}) == "division by zero"


def test_loops_end_early() -> None:
    """A million elements would use up the fuel."""
    assert run("v.exists(x, x == 1)", v=[1] * 1_000_000) is True
    assert run("v.all(x, x != 1)", v=[1] * 1_000_000) is False
