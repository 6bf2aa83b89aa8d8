"""The CEL specification's tests in every way that code can run: the answers are those of the optimised code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.cel_spec import run_cel_spec, shown, value_of
from tests.conformance.layout import Layout, default_root
from tests.conformance.tally import load_expected
from vm.cel.values import Duration, UInt

ROOT = default_root()
MOST_EXCEPTIONS = 10

needs_data = pytest.mark.skipif(
    not (ROOT / "cel-spec").is_dir(),
    reason=f"no conformance data at {ROOT}: set THESMOS_CONFORMANCE to its folder",
)


def _answers(level: int, tier: str) -> dict[str, str]:
    tally = run_cel_spec(Layout(ROOT, Path(), Path()), level, tier)
    return {result.case: result.got for result in tally.results}


@needs_data
def test_code_answers_the_same_on_both_tiers_and_all_levels() -> None:
    wanted = _answers(2, "check")
    assert len(wanted) > 1800
    assert not [case for case, got in wanted.items() if "on tier 2" in got]
    assert _answers(0, "1") == wanted
    assert _answers(0, "2") == wanted


def test_each_exception_names_its_paragraph() -> None:
    listed = load_expected().get("cel-spec", {})
    assert len(listed) <= MOST_EXCEPTIONS
    assert all("CEL spec §" in reason for reason in listed.values())


def test_values_are_equal_by_type() -> None:
    assert shown(1) != shown(UInt(1)) != shown(1.0)
    assert shown(True) != shown(1)
    assert shown(value_of({"double_value": "NaN"})) == shown(float("nan"))
    assert shown({"a": 1, "b": 2}) == shown({"b": 2, "a": 1})
    message = {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1.5s"}
    assert value_of({"object_value": message}) == Duration(1_500_000_000)
