"""From results to an admission answer: what blocks, the text of a refusal, warnings, the patch."""

from __future__ import annotations

import pytest
import yaml

from runtime.decision import decide, yaml_scalar
from runtime.engine import Engine
from tests.unit.engine.support import adds_label, create, pod, policy, policy_set, wants_label

ERROR_RULE = wants_label("app").replace('app: "?*"', 'app: "{{ request.object.metadata.annotations.nothing }}"')


def test_a_refusal_names_policies_and_rules_as_yaml() -> None:
    first = policy("b-policy", rules=wants_label("team") + wants_label("app"))
    second = policy("a-policy", rules=wants_label("owner"))
    response = Engine(policy_set(first, second)).evaluate(create(pod()), "validate")
    decision = decide(response)
    assert not decision.allowed
    reason = "'validation error: label {0} is required. rule wants-{0} failed at path /metadata/labels/{0}/'"
    assert decision.message == (
        "\n\nresource Pod/default/web was blocked due to the following policies \n\n"
        f"a-policy:\n  wants-owner: {reason.format('owner')}\n"
        f"b-policy:\n  wants-app: {reason.format('app')}\n  wants-team: {reason.format('team')}\n"
    )


def test_audit_admits() -> None:
    response = Engine(policy_set(policy(rules=wants_label("app", "Audit")))).evaluate(create(pod()), "validate")
    decision = decide(response)
    assert decision.allowed
    assert decision.message == ""
    assert decision.audit_annotations == {"decision": "allow", "policies": "labels", "fail": "labels/wants-app"}


def test_audit_annotations_tell_who_took_part() -> None:
    engine = Engine(policy_set(policy("passes", rules=wants_label("app")), policy("fails", rules=wants_label("team"))))
    refused = decide(engine.evaluate(create(pod(app="x")), "validate"))
    assert refused.audit_annotations == {"decision": "deny", "policies": "passes, fails", "fail": "fails/wants-team"}
    admitted = decide(engine.evaluate(create(pod(app="x", team="y")), "validate"))
    assert admitted.audit_annotations == {"decision": "allow", "policies": "passes, fails"}
    # The API server drops a key with a slash: it puts the webhook's name and one before it.
    assert not any("/" in key for key in refused.audit_annotations)


def test_audit_annotations_are_short() -> None:
    names = [f"a-policy-with-a-rather-long-name-{number:03d}" for number in range(200)]
    engine = Engine(policy_set(*(policy(name, rules=wants_label("app")) for name in names)))
    value = decide(engine.evaluate(create(pod()), "validate")).audit_annotations["fail"]
    assert value.startswith("a-policy-with-a-rather-long-name-000/wants-app, ")
    assert value.endswith(", …")
    assert len(value) <= 1024


def test_audit_rules_of_an_enforcing_policy_are_told_but_do_not_block() -> None:
    rules = wants_label("app", "Audit") + wants_label("team", "Enforce")
    engine = Engine(policy_set(policy(rules=rules)))
    assert decide(engine.evaluate(create(pod(team="x")), "validate")).allowed
    refused = decide(engine.evaluate(create(pod()), "validate"))
    assert not refused.allowed
    assert "wants-app" in refused.message


@pytest.mark.parametrize(
    ("spec", "action", "allowed"),
    [("", "Enforce", False), ("failurePolicy: Ignore", "Enforce", True), ("", "Audit", True)],
)
def test_errors_block_under_failure_policy_fail(spec: str, action: str, allowed: bool) -> None:
    rules = ERROR_RULE.replace("Enforce", action)
    response = Engine(policy_set(policy(rules=rules, spec=spec))).evaluate(create(pod()), "validate")
    assert [r.status for r in response.results] == ["error"]
    assert decide(response).allowed is allowed


def test_failure_policy_may_be_forced_to_ignore() -> None:
    engine = Engine(policy_set(policy(rules=ERROR_RULE)))
    assert decide(engine.evaluate(create(pod()), "validate"), force_ignore=True).allowed
    violated = Engine(policy_set(policy())).evaluate(create(pod()), "validate")
    assert not decide(violated, force_ignore=True).allowed


def test_warnings_are_given_on_request_only() -> None:
    rules = wants_label("app", "Audit")
    quiet = decide(Engine(policy_set(policy(rules=rules))).evaluate(create(pod()), "validate"))
    loud = decide(Engine(policy_set(policy(rules=rules, spec="emitWarning: true"))).evaluate(create(pod()), "validate"))
    assert quiet.warnings == ()
    assert loud.warnings == (
        "policy labels.wants-app: validation error: label app is required. "
        "rule wants-app failed at path /metadata/labels/app/",
    )


def test_changes_are_told_on_request_only() -> None:
    quiet = decide(Engine(policy_set(policy(rules=adds_label("a", "1")))).evaluate(create(pod()), "mutate"))
    loud_set = policy_set(policy(rules=adds_label("a", "1"), spec="emitWarning: true"))
    loud = decide(Engine(loud_set).evaluate(create(pod()), "mutate"))
    assert quiet.warnings == ()
    assert [w.startswith("policy labels.") and ": mutated Pod/" in w for w in loud.warnings] == [True]
    assert decide(Engine(loud_set).evaluate(create(pod(a="1")), "mutate")).warnings == ()


def test_the_patch_leads_from_the_object_to_the_result() -> None:
    texts = [policy("first", rules=adds_label("a", "1")), policy("second", rules=adds_label("b", "2"))]
    decision = decide(Engine(policy_set(*texts)).evaluate(create(pod()), "mutate"))
    assert decision.allowed
    assert decision.patch == [
        {"op": "add", "path": "/metadata/labels/a", "value": "1"},
        {"op": "add", "path": "/metadata/labels/b", "value": "2"},
    ]


def test_nothing_to_change_is_no_patch() -> None:
    assert decide(Engine(policy_set(policy())).evaluate(create(pod()), "mutate")).patch is None


WORDS = "plain words|with: colon|ends:|it's|- dash|-dash|# no|a # b|true|1|1.5|null|~|0x1f|2026-01-02|yes|=|---"
MARKS = '[a]|{a}|*x|&x|!x|%x|@x|`x|\'x|"x"| lead|trail |? x|: x|>x|, x|caf\u00e9'
LINES = ["", "a\nb", "a\nb\n", "a\n\nb", "\nfirst", " a\nb", "tab\there", "a: b\nc: d", "a|b", "|x", "bell\x07"]


@pytest.mark.parametrize("text", [*WORDS.split("|"), *MARKS.split("|"), *LINES])
def test_texts_read_back_as_they_were(text: str) -> None:
    assert yaml.safe_load(f"policy:\n  rule: {yaml_scalar(text, indent=4)}\n") == {"policy": {"rule": text}}
