"""Scalar patterns: every worked example of the semantics, and the JSON form."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.frontends.pattern import compile_scalar
from vm.scalar import ScalarPattern, compile_matcher, leaf_matcher
from vm.values import MISSING

CASES: list[tuple[Any, Any, bool]] = [
    (7, 7.0, True),
    (8.1, 8, False),
    ("8", 8, True),
    ("8.1", 8, False),
    (False, 8, False),
    (None, False, False),
    ("value", None, False),
    ("", None, True),
    (0, None, True),
    (0.0, None, True),
    (False, None, True),
    (MISSING, None, True),
    ({}, None, False),
    ([], None, True),  # as a leaf: of every element
    (True, "true", True),
    (True, True, True),
    (1, True, False),
    ("true", True, False),
    (7, 7.5, False),
    ("7.5", 7.5, True),
    (2, "2!-2", False),
    (2, "2-2", True),
    (15, "10!-20", False),
    (25, "10!-20", True),
    (None, "0", True),
    (None, ">0", False),
    (None, "<5", True),
    (None, "!foo", False),
    (None, "*", False),
    (4, ">= 3", True),
    ("10", ">1 & <20", True),
    ("21", ">1 & <20 | >31 & <33", False),
    ("32", ">1 & <20 | >31 & <33", True),
    ("256Mi", "128Mi-512Mi", True),
    ("1024Mi", "128Mi-512Mi", False),
    ("1Gi", "1024Mi", True),
    ("1h", "60m", True),
    ("100m", "100m", True),
    ("0.1", "100m", True),
    ("nginx:latest", "!*:latest", False),
    ("nginx:1.2", "!*:latest", True),
    ("10.100.11.54", "192.168.88.1 | 10.100.11.*", True),
    ("a|b", "a|b", True),
    ("-9", "-10--8", True),
    (-9, "-10-+8", True),
    (2.99999, "2.99998-3", True),
    ("test-value", "test-value", True),
    ("value-x", "value-*", True),
    ("text1024Mi-2048Mi", "text1024Mi-2048Mi", True),
    (1536, "0Mi-1024Mi", True),
    (1.0, "1E+00", True),
    (">", ">", True),
    ("a", ">", False),
    ("", "", True),
    ("x", "", False),
    ({"a": 1}, "?*", True),
    ([{"a": 1}], "?*", True),
    ({"a": 1}, "*", False),
    (None, "?*", False),
    ("", "?*", False),
    (["a", "ab"], "a*", True),
    (["a", "b"], "a*", False),
    ("b", " a | b ", True),
    ("a", "a |", True),
    ("", "a |", True),
    ("5", "!5", False),
    (" x ", " x ", True),
    ("x", " x ", True),
    ("abc", ">5", False),
]


@pytest.mark.parametrize(("value", "pattern", "expected"), CASES)
def test_worked_examples(value: Any, pattern: Any, expected: bool) -> None:
    compiled = compile_scalar(pattern)
    assert leaf_matcher(compiled)(value) is expected
    again = ScalarPattern.from_json(compiled.to_json())
    assert again == compiled
    assert leaf_matcher(again)(value) is expected


def test_a_matcher_on_one_value_does_not_look_into_lists() -> None:
    assert not compile_matcher(compile_scalar("a*"))(["a"])
    assert not compile_matcher(compile_scalar("a*"))([])


FOREIGN: list[Any] = [None, [], [{}], ["a"], ["a", []], ["a", [[]]], ["a", [[["~", "x"]]]], [1, [[["=", "a"]]]]]


@pytest.mark.parametrize("data", FOREIGN)
def test_a_foreign_json_form_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"pattern|term"):
        ScalarPattern.from_json(data)
