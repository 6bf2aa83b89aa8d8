"""The engine with fused rules answers as it does without, and fuses only where nothing but the pass itself matters."""

from __future__ import annotations

import json
import marshal
from pathlib import Path
from typing import Any, Literal

import pytest

from runtime.engine import Engine
from runtime.fusing import FusedRules, Generated, Verdict
from runtime.observe.metrics import Metrics
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


def test_differences_are_counted_and_the_exact_code_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    policies = policy_set(THREE, tier="check")
    names(policies, pod(a="x", b="x", c="x"))
    before = policies.mismatches.count
    from vm.fused import Fused

    monkeypatch.setattr(Fused, "run", lambda self, root, meter: (0, 0))
    (answer,) = names(policies, pod(b="x"), times=1)
    assert answer == (["wants-b"], [("wants-a", "fail"), ("wants-c", "fail")])
    assert policies.mismatches.count == before + 2
    assert "rule wants-a of labels: fused pass, exact fail" in policies.mismatches.last[-2]
    assert "the tiers differ: rule wants-a of labels" in caplog.text
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    case = json.loads((folder / "1.json").read_text())
    assert case["difference"] == policies.mismatches.last[-2]
    assert case["root"]["$resource"] == pod(b="x")
    metrics = Metrics()
    for _ in range(2):
        policies.mismatches.tell(metrics)
        assert metrics.value("thesmos_tier_mismatches_total") == before + 2


def test_nothing_is_asked_while_requests_break_nearly_all_rules() -> None:
    rules = fused_of(policy_set(THREE))
    bad, good = (Request.from_resource(pod(**labels)).root for labels in ({}, {"a": "x", "b": "x", "c": "x"}))
    asked = [rules.judge(bad, Meter(FUEL)) is not None for _ in range(60)]
    assert asked[1:5] == [True] * 4
    assert not any(asked[5:21])
    assert asked[21]
    assert not any(asked[22:38])
    answers = [rules.judge(good, Meter(FUEL)) is not None for _ in range(60)]
    assert all(answers[16:])


class Kept(dict[str, Any]):
    """Keeps what ``marshal`` writes."""

    def put(self, name: str, value: Any) -> None:
        self[name] = marshal.dumps(value)

    def get(self, name: str, default: Any = None) -> Any:
        return marshal.loads(self[name]) if name in self else None


def kept_in(kept: Kept, *documents: Any) -> FusedRules:
    """Fused rules of a set whose code is kept."""
    policies = policy_set(*documents)
    for plan in policies.rules:
        assert isinstance(plan.run, Generated)
        plan.run.kept = kept
    return fused_of(policies)


def test_what_was_kept_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    root = Request.from_resource(pod(a="x", c="x")).root
    rules = kept_in(kept, THREE)
    before = rules.judge(root, Meter(FUEL)) or rules.judge(root, Meter(FUEL))
    assert len(kept) == 1
    monkeypatch.setattr("vm.fused.fuse", None)
    rules = kept_in(kept, THREE)
    after = rules.judge(root, Meter(FUEL)) or rules.judge(root, Meter(FUEL))
    assert before is not None
    assert after is not None
    assert [plan.name for plan in after.passed] == [plan.name for plan in before.passed] == ["wants-a", "wants-c"]


def test_that_nothing_is_sure_is_kept_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    rules = kept_in(kept, THREE)
    monkeypatch.setattr("vm.fused.fuse", lambda *_, **__: None)
    root = Request.from_resource(pod(a="x")).root
    assert rules.judge(root, Meter(FUEL)) is None
    assert rules.judge(root, Meter(FUEL)) is not None
    monkeypatch.setattr("vm.fused.fuse", lambda *_, **__: pytest.fail("made again"))
    again = kept_in(kept, THREE)
    verdict = [again.judge(root, Meter(FUEL)) for _ in range(2)][1]
    assert verdict is not None
    assert verdict.passed == ()


@pytest.mark.parametrize("where", ["vm.fused.fuse", "vm.fused.Fused.run"])
def test_a_fault_of_fused_code_lets_no_request_down(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("a fault")

    monkeypatch.setattr(where, fail)
    first, *others = names(policy_set(THREE, tier="2"), pod(a="x", c="x"), times=4)
    assert first == (["wants-a", "wants-c"], [("wants-b", "fail")])
    assert all(other == first for other in others)
    assert caplog.messages == ["fused code failed (CREATE, 3 rules): the exact code answers"]
