"""The engine with fused rules answers as it does without, and fuses only where nothing but the pass itself matters."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from runtime.engine import Engine
from runtime.fusing import FusedRules, Verdict
from runtime.policyset import FUEL, PolicySet
from runtime.request import Request
from tests.unit.engine.support import policy, policy_set, wants_label
from vm.host import Meter


def pod(**labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "labels": labels}}


def names(policies: PolicySet, resource: dict[str, Any], times: int = 3, **options: Any) -> list[tuple[list[str], Any]]:
    """What an engine answers, again and again: the rules that passed, and the others with how they ended."""
    engine = Engine(policies, **options)
    answers = []
    for _ in range(times):
        response = engine.evaluate(Request.from_resource(resource), "validate")
        answers.append(([plan.name for plan in response.passed], [(r.rule, r.status) for r in response.results]))
    return answers


def fused_of(policies: PolicySet) -> FusedRules:
    return policies.candidates("", "v1", "Pod", "", "CREATE", "n").fused


def verdict_of(policies: PolicySet, resource: dict[str, Any]) -> Verdict | None:
    root = Request.from_resource(resource).root
    rules = fused_of(policies)
    return rules.judge(root, Meter(FUEL)) or rules.judge(root, Meter(FUEL))


THREE = policy(rules=wants_label("a") + wants_label("b") + wants_label("c"))


@pytest.mark.parametrize("tier", ["1", "2", "check"])
def test_answers_are_the_same_before_and_after_rules_are_fused(tier: Literal["1", "2", "check"]) -> None:
    policies = policy_set(THREE, tier=tier)
    for labels in ({"a": "x", "b": "x", "c": "x"}, {"a": "x", "c": "x"}, {}):
        first, *others = names(policies, pod(**labels))
        assert first == (
            [f"wants-{k}" for k in sorted(labels)],
            [(f"wants-{k}", "fail") for k in "abc" if k not in labels],
        )
        assert all(other == first for other in others)
    assert policies.mismatches.count == 0
    assert bool(policies.mismatches.compared) == (tier == "check")


def test_only_what_is_not_sure_is_left() -> None:
    policies = policy_set(THREE)
    verdict = verdict_of(policies, pod(a="x", c="x"))
    assert verdict is not None
    assert [plan.name for _, plans in verdict.left for plan in plans] == ["wants-b"]
    assert [plan.name for plan in verdict.passed] == ["wants-a", "wants-c"]
    others = [plan for plan in policies.rules if plan.name == "wants-b"]
    assert [plan.name for plan in verdict.with_others(others)] == ["wants-a", "wants-b", "wants-c"]


@pytest.mark.parametrize("spec", ["applyRules: One", "emitWarning: true"])
def test_policies_whose_passes_are_kept_or_end_them_are_not_fused(spec: str) -> None:
    assert verdict_of(policy_set(policy(spec=spec)), pod(app="x")) is None


def test_engines_with_less_fuel_and_rules_with_values_of_their_own_do_without() -> None:
    policies = policy_set(THREE)
    answers = names(policies, pod(a="x", b="x", c="x"), fuel=30)
    assert answers[0] == answers[-1]
    assert all(status == "error" for _, status in answers[0][1])
    assert len(answers[0][1]) == 3


def test_differences_are_counted_and_the_exact_code_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    policies = policy_set(THREE, tier="check")
    names(policies, pod(a="x", b="x", c="x"))
    before = policies.mismatches.count
    from vm.fused import Fused

    monkeypatch.setattr(Fused, "run", lambda self, root, meter: (0, 0))
    (answer,) = names(policies, pod(b="x"), times=1)
    assert answer == (["wants-b"], [("wants-a", "fail"), ("wants-c", "fail")])
    assert policies.mismatches.count == before + 2
    assert "rule wants-a of labels: fused pass, exact fail" in policies.mismatches.last[-2]
