"""The long run of the tiers finds a difference where there is one, and none where there is none."""

from __future__ import annotations

from typing import Literal

import pytest

from fuzz import tiers
from fuzz.gen.rules import Case
from runtime.policyset import PolicySet
from tests.cases.engines import compiled


def _case(message: str) -> Case:
    rule = {
        "name": "r",
        "match": {"any": [{"resources": {"kinds": ["Pod"]}}]},
        "validate": {"message": message, "pattern": {"spec": {"hostNetwork": False}}},
    }
    policy = {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "p"},
        "spec": {"rules": [rule]},
    }
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"hostNetwork": on}}
        for on in (False, False, True)
    ]
    return Case([policy], pods)


def test_no_difference() -> None:
    tally = tiers.run_case(_case("one"), 1)
    assert (tally.pairs, tally.policies, tally.found) == (3, 1, [])
    assert tally.statuses.keys() >= {"pass", "fail"}
    assert tally.sure == 4


def test_another_message_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    load = PolicySet.load
    other = compiled(_case("two").documents).bundle
    assert other is not None

    def wrong(bundle: bytes, *, tier: Literal["1", "2"]) -> PolicySet:
        return load(other if tier == "2" else bundle, tier=tier)

    monkeypatch.setattr(PolicySet, "load", wrong)
    tally = tiers.run_case(_case("one"), 1)
    assert len(tally.found) == 1
    assert "fuel" in tally.found[0]


def test_figures_of_both_halves(capsys: pytest.CaptureFixture[str]) -> None:
    assert tiers.main(["--pairs", "20", "--per-policy", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["typed", "bent"]
    assert all("0 differences" in line for line in lines)


def test_numbers_are_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert tiers.main(["--pairs", "0"]) == 2
    assert capsys.readouterr().err == "numbers must be above 0\n"
