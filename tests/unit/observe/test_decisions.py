"""What is told of judged requests: events, log lines, numbers."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

from runtime.config import Settings
from runtime.decision import decide
from runtime.engine import Engine, EngineResponse
from runtime.observe import decisions
from runtime.observe.decisions import MOST_WAITING, Decisions, without_secrets
from runtime.observe.events import Events
from runtime.observe.metrics import Metrics
from runtime.observe.policy_events import GENERATE, PolicyEvents
from runtime.request import Request
from runtime.webhook.live import Judged, Live, Snapshot
from tests.integration.server import review
from tests.unit.engine.support import adds_label, create, pod, policy, policy_set, wants_label
from tests.unit.runtime.fake_api import FakeApi

EXCEPTION = """
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: let-go, namespace: shop}
spec:
  exceptions: [{policyName: labels, ruleNames: [wants-app]}]
  match: {any: [{resources: {kinds: [Pod]}}]}
"""


class Heard(Events):
    """Keeps what would be written: reason, action, text, about what and with what, by whom."""

    def __init__(self, successes: bool = False) -> None:
        super().__init__(FakeApi(), "here", Metrics(), successes=lambda action: successes)
        self.found: list[tuple[str, str, str, str, str, str]] = []

    def emit(
        self, reason: str, action: str, message: str, regarding: Any, *, related: Any = None,
        reporter: str = "", type: Any = None,
    ) -> None:  # fmt: skip
        if self.wants(reason, action):
            self.found.append((reason, action, message, named(regarding), named(related), reporter))


def named(obj: Any) -> str:
    if obj is None:
        return ""
    metadata = obj["metadata"]
    return "/".join(filter(None, (obj["kind"], metadata.get("namespace"), metadata.get("name"), metadata.get("uid"))))


def judged(response: EngineResponse) -> Judged:
    return Judged(response.request, response, decide(response), "fail", time.monotonic() + 10)


def events_of(response: EngineResponse, *, successes: bool = False) -> list[tuple[str, str, str, str, str, str]]:
    heard = Heard(successes)
    PolicyEvents(heard, lambda kind, namespace, name: "uid").judged(judged(response))
    return heard.found


def evaluated(*texts: str, what: Any = "validate", labels: dict[str, str] | None = None) -> EngineResponse:
    resource = pod(**(labels or {}))
    resource["metadata"]["uid"] = "7"
    return Engine(policy_set(*texts)).evaluate(create(resource), what)


MESSAGE = "validation error: label app is required. rule wants-app failed at path /metadata/labels/app/"


def test_a_refusal_is_told_on_the_policy_alone() -> None:
    assert events_of(evaluated(policy())) == [
        (
            "PolicyViolation",
            "Resource Blocked",
            f"Pod default/web: [wants-app] fail (blocked); {MESSAGE}",
            "ClusterPolicy/labels/uid",
            # Without the uid that this try would have had.
            "Pod/default/web",
            "kyverno-admission",
        )
    ]


def test_what_is_only_audited_is_told_on_the_resource_too() -> None:
    found = events_of(evaluated(policy(rules=wants_label("app", "Audit"))))
    assert [event[1:5] for event in found] == [
        (
            "Resource Passed",
            f"Pod default/web: [wants-app] fail; {MESSAGE}",
            "ClusterPolicy/labels/uid",
            "Pod/default/web/7",
        ),
        ("Resource Passed", f"policy labels/wants-app fail: {MESSAGE}", "Pod/default/web/7", ""),
    ]


def test_policies_that_only_audit_are_silent_about_what_others_refuse() -> None:
    both = evaluated(policy("audits", rules=wants_label("team", "Audit")), policy("refuses"))
    assert {event[3] for event in events_of(both)} == {"ClusterPolicy/refuses/uid"}


def test_a_dry_run_is_not_told_of() -> None:
    given = review(pod())
    given["request"]["dryRun"] = True
    engine = Engine(policy_set(policy()))
    assert events_of(engine.evaluate(Request.from_review(given), "validate"), successes=True) == []


def test_successes_are_told_where_they_are_asked_for() -> None:
    passed = evaluated(policy(), labels={"app": "x"})
    assert events_of(passed) == []
    assert events_of(passed, successes=True) == [
        (
            "PolicyApplied",
            "Resource Passed",
            "Pod default/web: pass",
            "ClusterPolicy/labels/uid",
            "Pod/default/web/7",
            "kyverno-admission",
        )
    ]


def test_a_policy_of_which_one_rule_failed_did_not_pass() -> None:
    rules = wants_label("app", "Audit") + wants_label("team", "Audit")
    found = events_of(evaluated(policy(rules=rules), labels={"app": "x"}), successes=True)
    assert {event[0] for event in found} == {"PolicyViolation"}


def test_a_change_is_a_success() -> None:
    changed = evaluated(policy(rules=adds_label("by", "x")), what="mutate")
    assert events_of(changed) == []
    assert [event[:4] for event in events_of(changed, successes=True)] == [
        (
            "PolicyApplied",
            "Resource Mutated",
            "Pod default/web is successfully mutated",
            "ClusterPolicy/labels/uid",
        )
    ]


def test_an_exception_is_told_on_the_policy_and_on_itself() -> None:
    found = events_of(evaluated(policy(), EXCEPTION))
    assert [event[:4] for event in found] == [
        (
            "PolicySkipped",
            "Resource Passed",
            "resource Pod/default/web was skipped from rule wants-app due to policy exception shop/let-go",
            "ClusterPolicy/labels/uid",
        ),
        (
            "PolicySkipped",
            "Resource Passed",
            "resource Pod/default/web was skipped from policy rule labels/wants-app",
            "PolicyException/shop/let-go/uid",
        ),
    ]


def test_the_controllers_tell_in_the_words_of_the_reference() -> None:
    heard = Heard(successes=True)
    events = PolicyEvents(heard, lambda kind, namespace, name: "")
    response = evaluated(policy())
    info = response.results[0].info
    assert info is not None
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made", "namespace": "shop"}}
    events.generated(info, "rule", [made])
    events.mutated(info, [made])
    events.failed(info, "rule", "no such kind", made, GENERATE)
    events.cleaned(made, made)
    events.cleaned(made, made, "not allowed")
    events.scanned(made, response.results)
    assert [(event[0], event[1], event[2], event[5].removeprefix("kyverno-")) for event in heard.found] == [
        ("PolicyApplied", "Resource Generated", "resource generated", "generate"),
        ("PolicyApplied", "None", "Created ConfigMap made as a result of applying policy labels/rule", "generate"),
        ("PolicyApplied", "Resource Mutated", "resource mutated", "mutate"),
        ("PolicyError", "None", "policy labels/rule error: no such kind", "generate"),
        (
            "PolicyApplied",
            "Resource Cleaned Up",
            "successfully cleaned up the target resource ConfigMap/shop/made",
            "cleanup",
        ),
        ("PolicyError", "None", "failed to clean up the target resource ConfigMap/shop/made: not allowed", "cleanup"),
        ("PolicyViolation", "Resource Passed", f"ConfigMap shop/made: [wants-app] fail; {MESSAGE}", "scan"),
        ("PolicyViolation", "Resource Passed", f"policy labels/wants-app fail: {MESSAGE}", "scan"),
    ]


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, dict[str, Any]]]:
    return [(r.levelname, r.getMessage(), getattr(r, "fields", {})) for r in caplog.records]


def test_refusals_are_logged_with_policy_and_verdict(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "thesmos.decisions")
    Decisions(Metrics())(judged(evaluated(policy())), 0.001)
    failed, denied = lines(caplog)
    assert failed[:2] == ("INFO", "validation failed")
    assert failed[2]["policy"] == "labels"
    assert (failed[2]["rules"], failed[2]["verdict"], failed[2]["action"]) == (["wants-app"], "fail", "Enforce")
    assert denied[:2] == ("INFO", "admission request denied")
    assert denied[2]["verdict"] == "deny"
    assert (denied[2]["kind"], denied[2]["namespace"], denied[2]["name"]) == ("Pod", "default", "web")


def test_admissions_are_logged_at_debug_alone(caplog: pytest.LogCaptureFixture) -> None:
    passed = judged(evaluated(policy(), labels={"app": "x"}))
    caplog.set_level(logging.INFO, "thesmos.decisions")
    Decisions(Metrics())(passed, 0.001)
    assert lines(caplog) == []
    caplog.set_level(logging.DEBUG, "thesmos.decisions")
    Decisions(Metrics())(passed, 0.001)
    assert [(line[1], line[2]["verdict"]) for line in lines(caplog)] == [
        ("validation passed", "pass"),
        ("admission request allowed", "allow"),
    ]


def test_passes_are_counted_before_numbers_are_read() -> None:
    metrics = Metrics()
    told = Decisions(metrics)
    for _ in range(3):
        told(judged(evaluated(policy(), labels={"app": "x"})), 0.002)
    labels = ("enforce", "cluster", "true", "-", "labels", "Pod", "default", "create", "wants-app", "pass", "validate")
    assert metrics.value("kyverno_policy_results_total", *labels, "admission_request") == 3
    assert metrics.value("kyverno_policy_execution_duration_seconds", *labels, "admission_request") == 3
    assert metrics.value("kyverno_policy_evaluate_duration_seconds", "validate") == 3


def test_what_was_found_is_told_once_the_answer_is_on_its_way(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "thesmos.decisions")
    metrics = Metrics()
    told = Decisions(metrics)
    refused = judged(evaluated(policy()))
    failed = ("enforce", "cluster", "true", "-", "labels", "Pod", "default", "create", "wants-app", "fail", "validate")

    async def many() -> None:
        for _ in range(MOST_WAITING + 3):
            told(refused, 0.001)
        assert lines(caplog) == []
        # Whoever reads numbers reads all, and those that nobody is told of are among them.
        assert metrics.value("kyverno_policy_results_total", *failed, "admission_request") == MOST_WAITING + 3
        assert metrics.value("thesmos_untold_decisions_total") == 3
        caplog.clear()
        told(refused, 0.001)
        assert lines(caplog) == []
        await asyncio.sleep(0)
        assert [message for _, message, _ in lines(caplog)] == ["validation failed", "admission request denied"]

    asyncio.run(many())


def test_telling_of_many_lets_others_have_their_turn(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "thesmos.decisions")
    monkeypatch.setattr(decisions, "TURN_SECONDS", 0.0)
    told = Decisions(Metrics())
    refused = judged(evaluated(policy()))

    async def three() -> None:
        for _ in range(3):
            told(refused, 0.001)
        seen = []
        for _ in range(4):
            await asyncio.sleep(0)
            seen.append(len(lines(caplog)) // 2)
        assert seen == [1, 2, 3, 3]

    asyncio.run(three())


def test_payloads_are_logged_without_the_values_of_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "thesmos.decisions")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "key", "namespace": "default", "annotations": {"last-applied": "hidden"}},
        "data": {"key": "hidden"},
    }
    request = Request.from_review(review(secret))
    assert "hidden" not in str(without_secrets(request))
    assert without_secrets(request)["object"]["data"] == {"key": "**REDACTED**"}
    response = Engine(policy_set(policy())).evaluate(request, "validate")
    Decisions(Metrics(), payload=True)(judged(response), 0.001)
    assert "hidden" not in str(lines(caplog))
    assert lines(caplog)[0][2]["payload"]["uid"] == request.uid


def test_a_verdict_stands_when_telling_of_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    live = Live()
    live.swap(Snapshot.of(policy_set(policy())))

    def broken(told: Judged, seconds: float) -> None:
        raise ValueError("broken")

    live.observers.append(broken)
    decision = live.evaluate(create(pod()), "validate", "", time.monotonic() + 10)
    assert not decision.allowed
    assert "could not be told of" in caplog.text


def test_settings_name_the_limits_of_events() -> None:
    from runtime.observe.events import limits_of

    limits = limits_of(Settings(omit_events=frozenset({"PolicySkipped"}), max_queued_events=7))
    assert (limits.omitted, limits.queued) == (frozenset({"PolicySkipped"}), 7)


def test_a_scan_is_logged_with_policy_and_verdict(caplog: pytest.LogCaptureFixture) -> None:
    from runtime.observe.decisions import tell_of_scan

    caplog.set_level(logging.INFO, "thesmos.decisions")
    response = Engine(policy_set(policy(), policy("kept", rules=wants_label("team")))).evaluate(
        create(pod(team="x")), "validate", full=True
    )
    tell_of_scan(pod(), response.results)
    (line,) = lines(caplog)
    assert line[:2] == ("INFO", "background scan: validation failed")
    assert (line[2]["policy"], line[2]["verdict"], line[2]["name"]) == ("labels", "fail", "web")
    caplog.clear()
    caplog.set_level(logging.DEBUG, "thesmos.decisions")
    tell_of_scan(pod(), response.results)
    assert [(r[1], r[2]["policy"]) for r in lines(caplog)] == [
        ("background scan: validation failed", "labels"),
        ("background scan: validation passed", "kept"),
    ]


def test_gathered_passes_are_counted_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.observe.decisions.GATHERED", 5)
    monkeypatch.setattr("runtime.observe.decisions.GATHERED_RULES", 3)
    metrics = Metrics()
    told = Decisions(metrics)
    counted = metrics._families["kyverno_policy_results_total"].values
    many = judged(evaluated(policy(rules="".join(wants_label(f"l{n}") for n in range(7))), labels=dict.fromkeys(
        (f"l{n}" for n in range(7)), "x"
    )))  # fmt: skip
    for _ in range(4):
        told(many, 0.001)
    # More rules than are gathered otherwise, but the same each time.
    assert counted == {}
    told(many, 0.001)
    assert set(counted.values()) == {5.0}
    told(many, 0.001)
    told(judged(evaluated(policy("other"), labels={"app": "x"})), 0.001)
    assert set(counted.values()) == {6.0}
