"""The engine: candidates, statuses, actions, exceptions, sequences of mutations."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.engine import Engine
from runtime.exceptions import ExceptionScope
from runtime.request import Request
from tests.unit.engine.support import adds_label, create, pod, policy, policy_set, wants_label

EXCEPTION = """
apiVersion: kyverno.io/v1alpha1
kind: PolicyException
metadata:
  name: old
  namespace: team-a
spec:
  rules:
  - name: wants-app
  match:
    resources:
      kinds: [Pod, Deployment]
"""


def statuses(engine: Engine, request: Request, **more: Any) -> list[tuple[str, str]]:
    return [(r.rule, r.status) for r in engine.evaluate(request, "validate", full=True, **more).results]


def test_passes_are_recorded_on_request_only() -> None:
    engine = Engine(policy_set(policy()))
    good = create(pod(app="x"))
    assert engine.evaluate(good, "validate").results == ()
    (result,) = engine.evaluate(good, "validate", full=True).results
    assert (result.status, result.message) == ("pass", "validation rule 'wants-app' passed.")
    (result,) = engine.evaluate(create(pod()), "validate").results
    assert result.message == (
        "validation error: label app is required. rule wants-app failed at path /metadata/labels/app/"
    )


def test_kinds_that_no_rule_names_reach_nothing() -> None:
    engine = Engine(policy_set(policy()))
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"}}
    response = engine.evaluate(create(service), "validate", full=True)
    assert response.results == ()
    assert response.policies == ()


def test_apply_rules_one_stops_after_the_first_result() -> None:
    rules = wants_label("app") + wants_label("team")
    both = Engine(policy_set(policy(rules=rules)))
    one = Engine(policy_set(policy(rules=rules, spec="applyRules: One")))
    assert statuses(both, create(pod())) == [("wants-app", "fail"), ("wants-team", "fail")]
    assert statuses(one, create(pod())) == [("wants-app", "fail")]
    assert statuses(one, create(pod(app="x"))) == [("wants-app", "pass")]


def test_a_skip_does_not_count_as_the_one_rule_applied() -> None:
    skipping = wants_label("app").replace(
        "    validate:", "    preconditions: {all: [{key: a, operator: Equals, value: b}]}\n    validate:"
    )
    engine = Engine(policy_set(policy(rules=skipping + wants_label("team"), spec="applyRules: One")))
    assert statuses(engine, create(pod())) == [("wants-app", "skip"), ("wants-team", "fail")]


@pytest.mark.parametrize(
    ("namespace", "labels", "action"),
    [
        ("prod-1", None, "Enforce"),
        ("test", None, "Audit"),
        ("test", {"zone": "strict"}, "Audit"),
        ("both-1", {"zone": "strict"}, "Enforce"),
        ("both-1", {"zone": "open"}, "Audit"),
        ("both-1", None, "Audit"),
    ],
)
def test_overrides_of_the_action(namespace: str, labels: dict[str, str] | None, action: str) -> None:
    overrides = """failureActionOverrides:
- action: Enforce
  namespaces: ["prod-*"]
- action: Enforce
  namespaces: ["both-*"]
  namespaceSelector: {matchLabels: {zone: strict}}"""
    engine = Engine(policy_set(policy(rules=wants_label("app", "Audit", more=overrides))))
    request = create(pod(namespace=namespace), namespace_labels=labels)
    (result,) = engine.evaluate(request, "validate").results
    assert result.action == action


def test_the_spec_gives_the_action_where_the_rule_has_none() -> None:
    rule = wants_label("app").replace("      failureAction: Enforce\n", "")
    spec = "validationFailureAction: Audit\nvalidationFailureActionOverrides:\n- {action: enforce, namespaces: [prod]}"
    engine = Engine(policy_set(policy(rules=rule, spec=spec)))
    actions = [engine.evaluate(create(pod(namespace=n)), "validate").results[0].action for n in ("prod", "dev")]
    assert actions == ["Enforce", "Audit"]


def test_namespaced_policies_keep_to_their_namespace() -> None:
    engine = Engine(policy_set(policy(kind="Policy", namespace="team-a")))
    assert statuses(engine, create(pod(namespace="team-a"))) == [("wants-app", "fail")]
    assert statuses(engine, create(pod(namespace="team-b"))) == []


def test_violations_that_were_there_before_are_skipped() -> None:
    engine = Engine(policy_set(policy()))
    (result,) = engine.evaluate(create(pod(), operation="UPDATE", old=pod()), "validate").results
    assert result.status == "skip"
    assert result.message == "skipping the rule evaluation as pre-existing violations are allowed"
    assert statuses(engine, create(pod(), operation="UPDATE", old=pod(app="x"))) == [("wants-app", "fail")]
    assert statuses(engine, create(pod(), operation="UPDATE")) == [("wants-app", "fail")]
    strict = Engine(policy_set(policy(rules=wants_label("app", more="allowExistingViolations: false"))))
    assert statuses(strict, create(pod(), operation="UPDATE", old=pod())) == [("wants-app", "fail")]


def test_audited_violations_are_reported_again() -> None:
    engine = Engine(policy_set(policy(rules=wants_label("app", "Audit"))))
    assert statuses(engine, create(pod(), operation="UPDATE", old=pod())) == [("wants-app", "fail")]


def test_exceptions_skip_what_they_name() -> None:
    engine = Engine(policy_set(policy(rules=wants_label("app") + wants_label("team")), EXCEPTION))
    results = engine.evaluate(create(pod(namespace="team-a")), "validate").results
    assert [(r.rule, r.status) for r in results] == [("wants-app", "skip"), ("wants-team", "fail")]
    assert results[0].message == "rule is skipped due to policy exceptionsteam-a/old"
    assert results[0].exceptions == ("team-a/old",)


def test_exceptions_cover_the_rules_of_autogen() -> None:
    engine = Engine(policy_set(policy(), EXCEPTION))
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "team-a"},
        "spec": {"template": {"metadata": {}, "spec": {"containers": []}}},
    }
    assert statuses(engine, create(deployment)) == [("autogen-wants-app", "skip")]


@pytest.mark.parametrize(
    ("scope", "namespace", "status"),
    [
        (ExceptionScope(), "team-b", "skip"),
        (ExceptionScope(everywhere=False), "team-a", "skip"),
        (ExceptionScope(everywhere=False), "team-b", "fail"),
        (ExceptionScope(everywhere=False, namespaces=("team-*",)), "team-b", "skip"),
        (ExceptionScope(everywhere=False, namespaces=("ops",)), "team-b", "fail"),
    ],
)
def test_whose_exceptions_count(scope: ExceptionScope, namespace: str, status: str) -> None:
    engine = Engine(policy_set(policy(), EXCEPTION), exceptions=scope)
    assert statuses(engine, create(pod(namespace=namespace))) == [("wants-app", status)]


def test_mutations_see_what_the_ones_before_made() -> None:
    first = policy("first", rules=adds_label("a", "1"))
    second = policy("second", rules=adds_label("b", "{{ request.object.metadata.labels.a }}"))
    given = pod()
    response = Engine(policy_set(first, second)).evaluate(create(given), "mutate")
    assert response.patched["metadata"]["labels"] == {"a": "1", "b": "1"}
    assert given["metadata"]["labels"] == {}
    assert [r.message for r in response.results] == ["mutated Pod/web in namespace default"] * 2


def test_a_mutation_that_changes_nothing_leaves_no_patch() -> None:
    response = Engine(policy_set(policy(rules=adds_label("a", "1")))).evaluate(create(pod(a="1")), "mutate", full=True)
    assert response.patched is None
    assert response.resource == pod(a="1")
    assert [(r.status, r.message) for r in response.results] == [("skip", "no patches applied")]


def test_images_are_there_for_those_who_ask() -> None:
    rule = wants_label("app").replace(
        'pattern:\n        metadata:\n          labels:\n            app: "?*"',
        "deny: {conditions: {any: [{key: '{{ images.containers.main.registry }}', operator: Equals, value: reg*}]}}",
    )
    engine = Engine(policy_set(policy(rules=rule)))
    assert statuses(engine, create(pod())) == [("wants-app", "fail")]


def test_both_tiers_are_compared() -> None:
    loaded = policy_set(policy(), tier="check")
    Engine(loaded).evaluate(create(pod()), "validate")
    assert (loaded.mismatches.compared, loaded.mismatches.count) == (1, 0)


def test_policies_may_stay_out_of_admission() -> None:
    engine = Engine(policy_set(policy(spec="admission: false"), policy("other", rules=wants_label("team"))))
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": "default",
            "object": pod(),
        },
    }
    assert statuses(engine, Request.from_review(review)) == [("wants-team", "fail")]
    assert statuses(engine, create(pod())) == [("wants-app", "fail"), ("wants-team", "fail")]


def test_images_of_the_old_object_decide_whether_it_already_broke_the_rule() -> None:
    rules = """
  - name: registry
    match:
      any:
      - resources:
          kinds: [Pod]
    validate:
      failureAction: Enforce
      deny:
        conditions:
          any:
          - key: "{{ images.containers.*.registry }}"
            operator: AnyNotIn
            value: [registry.example.com]
"""
    engine = Engine(policy_set(policy(rules=rules)))
    good, bad = pod(), pod()
    bad["spec"]["containers"][0]["image"] = "rogue.example.com/web:1"
    worse = engine.evaluate(create(bad, operation="UPDATE", old=good), "validate", full=True)
    assert [r.status for r in worse.results] == ["fail"]
    as_bad = engine.evaluate(create(bad, operation="UPDATE", old=bad), "validate", full=True)
    assert [r.status for r in as_bad.results] == ["skip"]
