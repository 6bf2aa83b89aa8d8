"""Quantities, durations and wildcards against the reference implementations' own results."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from vm.intrinsics.duration import format_duration, parse_duration
from vm.intrinsics.quantity import parse_quantity
from vm.intrinsics.wildcard import match

ROOT = Path(__file__).resolve().parents[3]
DATA = Path(os.environ.get("THESMOS_CONFORMANCE", ROOT / "../shared/conformance")) / "kubernetes-quantity"


def table(name: str) -> list[dict[str, Any]]:
    path = DATA / f"{name}.json"
    if not path.exists():
        pytest.skip("no conformance data: set THESMOS_CONFORMANCE")
    rows: list[dict[str, Any]] = json.loads(path.read_text())
    return rows


def test_quantities_parse_and_print_as_the_reference() -> None:
    for row in table("quantity"):
        q = parse_quantity(row["input"])
        assert (q is not None) == row["valid"], row
        if q is None:
            continue
        got = {
            "string": str(q),
            "canonical": q.canonical(),
            "decimal": q.decimal(),
            "format": q.format,
            "sign": q.sign,
            "value": q.value(),
            "milli_value": q.milli_value(),
        }
        assert {k: got[k] for k in got if row.get(k) is not None} == {
            k: row[k] for k in got if row.get(k) is not None
        }, row


def test_quantities_compare_as_the_reference() -> None:
    for row in table("quantity_compare"):
        a, b = parse_quantity(row["a"]), parse_quantity(row["b"])
        assert a is not None
        assert b is not None
        assert a.compare(b) == row["cmp"], row


def test_durations_parse_and_print_as_go() -> None:
    for row in table("go_duration"):
        got = parse_duration(row["input"])
        assert got == (row["nanoseconds"] if row["valid"] else None), row
        if got is not None:
            assert format_duration(got) == row["canonical"], row


def test_wildcards_match_as_the_reference() -> None:
    for row in table("wildcard"):
        assert match(row["pattern"], row["text"]) == row["match"], row


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("s3:*", "s3:List", True),
        ("my-bucket?/abc*", "mybucket/abc", False),
        ("my-bucket?/abc*", "my-bucket1/abc", True),
        ("abc????", "abcde", False),
        ("abc????", "abcdefg", True),
        ("?*", "", False),
        ("", "", True),
        ("*a?b*c", "xxa1byyc", True),
        ("a*a", "a", False),
    ],
)
def test_worked_wildcards(pattern: str, text: str, expected: bool) -> None:
    assert match(pattern, text) is expected


def test_texts_too_long_to_mean_a_number_are_none() -> None:
    assert parse_duration("1" * 5000 + "s") is None
    assert parse_quantity("1" * 5000) is None
    assert parse_quantity("1e1000000") is None
    assert match("*" + "a" * 300, "b" + "a" * 300)
