"""What a scan puts into reports is what all results of all rules come to, however much of it was known before."""

from __future__ import annotations

import orjson
import pytest

from runtime.controllers.reports import STATUSES, Told, key_of_result, results_of
from runtime.controllers.scanfindings import Findings, Reported
from runtime.engine import Engine
from runtime.policyset import RulePlan
from tests.unit.engine.support import create, pod, policy_set
from tests.unit.engine.test_brief import EXCEPTION, POLICIES, objects, policy

ALL = frozenset(STATUSES)
KINDS = frozenset({"validate"})


def found(engine: Engine, resource: dict[str, object]) -> Findings:
    response = engine.evaluate(create(resource), "validate", brief=True)
    return Findings(response.results, response.passed)


@pytest.mark.parametrize("statuses", [ALL, frozenset({"fail", "error"}), frozenset({"pass"})])
def test_a_report_says_what_a_full_evaluation_says(statuses: frozenset[str]) -> None:
    engine = Engine(policy_set(*POLICIES, EXCEPTION))
    reported = Reported(KINDS, statuses)
    for now in (5, 5, 6):
        for resource in objects():
            full = engine.evaluate(create(resource), "validate", full=True).results
            wanted = sorted(results_of(full, statuses, now), key=key_of_result)
            told = reported.of(found(engine, resource), now)
            assert orjson.loads(told.encoded()) == wanted
            assert told.said == Told.of(wanted).said
            assert told.empty == (not wanted)


def test_kinds_of_rules_that_reports_leave_out_are_not_told() -> None:
    engine = Engine(policy_set(*POLICIES))
    told = Reported(frozenset({"mutate"}), ALL).of(found(engine, pod(app="a")), 1)
    assert (told.empty, told.encoded()) == (True, b"[]")


def test_of_two_versions_of_an_object_the_first_counts_and_then_the_worse_result() -> None:
    engine = Engine(policy_set(policy("p"), policy("q")))
    good, bad = found(engine, pod(app="a")), found(engine, pod())
    p, q = good.passed
    assert good.results == ()
    assert good.with_others(bad) == good
    assert bad.with_others(good) == bad
    half = Findings((bad.results[0],), ())
    assert half.with_others(good) == Findings((bad.results[0],), (q,))
    told = Reported(KINDS, ALL).of(Findings(bad.results, (p,)), 1)
    assert {r["policy"]: r["result"] for r in orjson.loads(told.encoded())} == {"p": "fail", "q": "fail"}


def test_sets_of_passed_rules_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.controllers.scanfindings.MOST_SETS", 2)
    plans: tuple[RulePlan, ...] = policy_set(policy("a"), policy("b"), policy("c")).rules
    reported = Reported(KINDS, ALL)
    for _ in range(2):
        for plan in plans:
            (result,) = orjson.loads(reported.of(Findings((), (plan,)), 1).encoded())
            assert result["policy"] == plan.policy.name
    assert len(reported._sets) <= 2
