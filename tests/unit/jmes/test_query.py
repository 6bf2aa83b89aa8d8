"""Queries run through bytecode: the compliance suite, and where the policy dialect differs (semantics §7)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from compiler.dynamic import search
from tests.unit.jmes.support import query
from vm.values import Err, canonical_key, json_equal

DATA = Path(os.environ.get("THESMOS_CONFORMANCE", Path(__file__).parents[3] / "../shared/conformance")) / "jmespath"
CODES = {
    "syntax": "syntax",
    "invalid-type": "type",
    "invalid-arity": "arity",
    "invalid-value": "value",
    "unknown-function": "unknown_function",
}


def test_compliance_suite() -> None:
    files = sorted(DATA.glob("*.json"))
    if not files:
        pytest.skip(f"no compliance files at {DATA}")
    wrong: list[str] = []
    count = 0
    for file in files:
        for group in json.loads(file.read_text()):
            for case in group["cases"]:
                count += 1
                got = search(case["expression"], group["given"])
                if "error" in case:
                    right = isinstance(got, Err) and got.code == CODES[case["error"]]
                else:
                    right = not isinstance(got, Err) and json_equal(got, case.get("result"))
                if not right:
                    wrong.append(f"{file.name}: {case['expression']} gave {got!r}")
    assert wrong == []
    assert count > 800


ROOT: dict[str, Any] = {
    "a": {"b": 1, "n": None, "s": "text", "m": {"x": 1}},
    "l": [{"k": 1, "v": "p"}, {"k": 2}, None, {"k": 3, "v": "q"}],
    "s": "text",
    "e": [],
    "nested": [[1, 2], [3], 4],
}


@pytest.mark.parametrize("text", ["a.gone", "gone", "gone.b", "a.m.gone", "a.b && gone", "a.gone.more"])
def test_missing_key_surfaces(text: str) -> None:
    got = query(text, ROOT)
    assert isinstance(got, Err)
    assert got.code == "not_found"
    assert got.text == 'Unknown key "gone" in path'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b.c", None),
        ("a.n.c", None),
        ("a.s.c", None),
        ("l[9]", None),
        ("l[9].k", None),
        ("a.gone | @", None),
        ("a.gone | b", None),
        ("gone || 'd'", "d"),
        ("gone && a", None),
        ("!gone", True),
        ("gone == `null`", True),
        ("gone < `1`", None),
        ("'a' < 'b'", None),
        ("gone[]", None),
        ("gone[*]", None),
        ("gone.*", None),
        ("gone[?x]", None),
        ("s[]", None),
        ("s[*]", None),
        ("e[*].x", []),
        ("l[*].v", ["p", "q"]),
        ("l[?k > `1`].v", ["q"]),
        ("l[?v].k", [1, 3]),
        ("[gone, a.b]", [None, 1]),
        ("{x: gone, y: a.b}", {"x": None, "y": 1}),
        ("type(gone)", "null"),
        ("nested[]", [1, 2, 3, 4]),
        ("nested[][]", [1, 2, 3, 4]),
        ("nested[0:2][0]", [1, 3]),
        ("a.m.*", [1]),
        ("length(l)", 4),
        ("map(&v, l)", ["p", None, None, "q"]),
        ("sort_by(l[?v], &v)[*].k", [1, 3]),
        ("not_null(gone, a.n, s)", "text"),
        ("l[?k && contains(['p', 'q'], v)].k", [1, 3]),
        ("a.m | keys(@)", ["x"]),
        ("a.b == `1.0`", True),
        ("a.b == `true`", False),
        ("gone && gone || s", "text"),
    ],
)
def test_value(text: str, value: Any) -> None:
    assert canonical_key(query(text, ROOT)) == canonical_key(value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("length(`null`)", "type"),
        ("to_upper(gone)", "type"),
        ("l[*].length(k)", "type"),
        ("l[?to_upper(k) == 'A']", "type"),
        ("[length(a.b), s]", "type"),
        ("{x: s, y: abs(s)}", "type"),
        ("length(a.b) || s", "type"),
        ("length(a.b) && s", "type"),
        ("!length(a.b)", "type"),
        ("abs(s) == `1`", "type"),
        ("abs(s) | s", "type"),
        ("map(&abs(v), l)", "type"),
        ("sort_by(l, &abs(v))", "type"),
        ("join(',', [s, abs(s)])", "type"),
        ("l[::0]", "value"),
        ("sum(e)", "value"),
    ],
)
def test_error(text: str, code: str) -> None:
    got = query(text, ROOT)
    assert isinstance(got, Err)
    assert got.code == code


@pytest.mark.parametrize("text", ["abs(s).*", "abs(s)[]", "abs(s)[?x]"])
def test_projections_that_swallow_every_error_on_their_left(text: str) -> None:
    assert query(text, ROOT) is None


def test_sum_is_the_policy_dialect_s_own() -> None:
    assert search("sum(@)", []) == 0
    assert search("sum(@)", ["1Gi", "512Mi"], compliance=False) == "1536Mi"


def test_query_too_complex_for_the_machine() -> None:
    got = search("a" + "[*].b" * 25, {"a": []})
    assert isinstance(got, Err)
    assert got.code == "syntax"


def test_fuel_ends_a_query() -> None:
    document = [list(range(1000))] * 1000
    got = search("[*][*].abs(@)", document, fuel=5000)
    assert isinstance(got, Err)
    assert got.code == "fuel"
