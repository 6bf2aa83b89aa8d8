"""Leaves of patterns as expressions: exactly what their predicates say, for values of every kind."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.frontends.pattern import compile_scalar
from vm.leaf_code import Inline, inline
from vm.scalar import ScalarPattern, compile_matcher, leaf_matcher
from vm.values import MISSING, Err

PATTERNS: list[Any] = [
    *("*", "?*", "", "a", "true", "false", "!true", "null", "a*", "*a", "*a*", "a*b", "a?", "**", "5", "0", "!5"),
    *("<=4Gi", ">1h", "1-5", "1!-5", "<=2 | 7", "a | b", "a* | b*", "*a | *b | c", "!a & !b", "!a* & !*b & *:*"),
    *("!*:latest", "a | !b", "? | ?*", "* | a", "IN*", "NaN", "N | I", "1E+00 | x", "a & a*", "!", "a|", "a" * 30),
    *(True, False, None, 0, 1, 5, -3, 1.5, 0.0),
]
TEXTS = ("", "a", "ab", "b", "c", "a:b", "x:latest", "true", "false", "5", "0", "3Gi", "8Gi", "1h", "2h30m", "7", "NaN")
VALUES: list[Any] = [
    *TEXTS,
    *(p for p in PATTERNS if type(p) is str),
    *(None, MISSING, True, False, 0, 1, 5, -3, 2**70, 1.0, 1.5, float("nan"), float("inf"), {}, {"a": 1}),
    Err("type", "a"),
]


def _compiled(pattern: Any) -> ScalarPattern:
    return compile_scalar(pattern) if type(pattern) is str else ScalarPattern(pattern)


def _written(code: Inline, template: str, rest: Any) -> Any:
    names: dict[str, Any] = {"type": type, "list": list, "str": str, "int": int, "MISSING": MISSING, "rest": rest}

    def bind(name: str, value: Any) -> str:
        names[name] = value
        return name

    text = code.applied(template, "x", "rest", bind, "v1")
    return eval(f"lambda x: {text}", names)


@pytest.mark.parametrize("pattern", PATTERNS, ids=repr)
@pytest.mark.parametrize("matcher", [compile_matcher, leaf_matcher])
def test_an_expression_says_what_the_predicate_says(pattern: Any, matcher: Any) -> None:
    p = _compiled(pattern)
    code, holds = inline(p), matcher(p)
    assert code is not None or len(p.alternatives) > 2 or type(pattern) is float
    if code is not None:
        whole = _written(code, code.whole, holds)
        for value in [*VALUES, *([v] for v in VALUES), [], ["a", "b"], ["a", 1], [["a"]]]:
            assert whole(value) is holds(value), value
        if code.of_text:
            of_text = _written(code, code.of_text, holds)
            for value in VALUES:
                if type(value) is str:
                    assert of_text(value) is holds(value), value


def test_terms_of_a_kind_are_one_comparison_and_policies_stay_out_of_the_text() -> None:
    code = inline(compile_scalar("eu.io/* | ghcr.io/* | a | b"))
    assert code == Inline(
        "(({x}.startswith({c0}) or {x} in {c1}) if type({x}) is str else {rest}({x}))",
        "({x}.startswith({c0}) or {x} in {c1})",
        (("eu.io/", "ghcr.io/"), frozenset({"a", "b"})),
    )


def test_a_long_pattern_is_called() -> None:
    assert inline(compile_scalar(" | ".join(f"a*b{n}" for n in range(20)))) is None


def test_patterns_that_are_written_alike_keep_one_table_of_bounded_size() -> None:
    code = inline(compile_scalar("<=4Gi"))
    assert code is not None
    (table,) = code.constants
    assert inline(compile_scalar("<=4Gi")).constants[0] is table  # type: ignore[union-attr]
    for n in range(500):
        assert table[f"{n}Mi"] is True
        assert table["0" * 100 + f"{n}Mi"] is True
    assert 0 < len(table) <= 64
    assert max(map(len, table)) < 30
