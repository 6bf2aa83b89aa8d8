"""The conformance data as tests: no set may fail beyond ``expected.toml``, and no listed case may pass."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from runtime.cli.offline import Machine
from tests.conformance.__main__ import SETS, run_sets
from tests.conformance.layout import Layout, default_root, slice_patterns
from tests.conformance.suites import Runner, mask
from tests.conformance.tally import Result, Tally, judge, load_expected

ROOT = default_root()
SHARE = {"kyverno-cli": 0.98, "policies": 0.98, "messages": 0.95, "messages-pass": 0.95}
"""What of the results of the spine must be right, whatever is listed as known."""

pytestmark = pytest.mark.skipif(
    not (ROOT / "INDEX.tsv").is_file(),
    reason=f"no conformance data at {ROOT}: set THESMOS_CONFORMANCE to its folder",
)


def _layout(slice_name: str | None = None) -> Layout:
    patterns = slice_patterns(ROOT, slice_name) if slice_name else None
    return Layout(ROOT, ROOT.parent / "seed", ROOT.parent / "bugs", patterns)


@cache
def _runner() -> Runner:
    return Runner()


@pytest.mark.parametrize("name", SETS)
def test_set_has_no_failure_beyond_the_known_ones(name: str) -> None:
    tallies = run_sets(_layout(), [name], _runner())
    verdict = judge(tallies, load_expected())
    assert not verdict.unexpected
    assert not verdict.recovered
    assert all(tally.results for tally in tallies)


@pytest.mark.parametrize("name", ["kyverno-cli", "policies", "messages"])
def test_the_spine_is_right(name: str) -> None:
    for tally in run_sets(_layout("spine"), [name], _runner()):
        assert tally.passed >= SHARE[tally.name] * len(tally.results), tally.summary()


def test_the_tiers_agree_on_the_spine() -> None:
    runner = Runner(Machine("check"))
    run_sets(_layout("spine"), ["seed", "kyverno-cli", "policies"], runner)
    assert runner.mismatches() == []


def test_the_guide_is_met_by_results_of_its_own() -> None:
    (tally,) = run_sets(_layout(), ["seed"], _runner())
    complete = {case for case, ok in tally.cases().items() if ok}
    not_built = {"07", "08", "11", "14b", "18", "22"}
    assert {case.partition("-")[0] for case in tally.cases()} - not_built <= {c.partition("-")[0] for c in complete}


def test_the_message_of_the_guide() -> None:
    case = next((ROOT.parent / "seed").glob("20-*"))
    (run,) = _runner().run(case / "kyverno-test.yaml")  # type: ignore[misc]
    texts = [r.message for a in run.answers for r in a.results if r.status == "fail"]
    wanted = "Image must be from approved registries (gcr.io or docker.io). Current image: quay.io/acme/app:1"
    assert texts
    assert all(wanted in text for text in texts)
    assert all(" failed at path /spec/containers/0/image/" in text for text in texts)


def test_a_listed_case_that_passes_fails_the_run() -> None:
    tally = Tally("seed", [Result("a", "x", True), Result("b", "x", False)])
    assert judge([tally], {"seed": {"a": "once broken", "b": "still is"}}).recovered == (("seed", "a"),)
    assert judge([tally], {"seed": {"a": "once broken"}}).unexpected == (("seed", "b"),)
    assert judge([tally], {"seed": {"b": "still is"}}).ok


def test_known_failures_need_reasons(tmp_path: Path) -> None:
    listed = tmp_path / "expected.toml"
    listed.write_text('["seed"]\n"a" = " "\n')
    with pytest.raises(ValueError, match="a has no reason"):
        load_expected(listed)


def test_times_and_random_values_do_not_count() -> None:
    assert mask("at 2026-01-02T03:04:05Z for 24h0m0s") == "at <time> for <duration>"
    assert mask("at 2024-11-02T03:04:05.123+01:00") == mask("at 2026-01-02T03:04:05Z")


def test_data_is_named_by_the_environment() -> None:
    named = os.environ.get("THESMOS_CONFORMANCE")
    assert default_root() == (Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "conformance")
