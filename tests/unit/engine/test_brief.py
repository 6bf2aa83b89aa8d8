"""A brief evaluation says what a full one says: results, and rules whose pass is what it always is."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.engine import Engine, EngineResponse, RuleResult, standing
from runtime.request import Request
from tests.unit.engine.support import create, pod, policy_set

POLICY = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {{name: {name}}}
spec:
  {spec}
  rules:
  - name: {name}-rule
    match: {{any: [{{resources: {{kinds: [Pod]}}}}]}}
    {more}
    validate:
      {validate}
"""

EXCEPTION = """
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: free, namespace: default}
spec:
  match: {any: [{resources: {kinds: [Pod], names: [free]}}]}
  exceptions: [{policyName: excepted, ruleNames: [excepted-rule]}]
"""

APP = "{message: m, pattern: {metadata: {labels: {app: '?*'}}}}"


def policy(name: str, validate: str = APP, spec: str = "background: true", more: str = "") -> str:
    return POLICY.format(name=name, validate=validate, spec=spec, more=more)


POLICIES = (
    policy("plain"),
    policy("excepted"),
    policy("first", spec="applyRules: One"),
    policy("unscanned", spec="background: false"),
    policy(
        "unmet", more="preconditions: {all: [{key: '{{ request.object.metadata.name }}', operator: Equals, value: y}]}"
    ),
    policy("either", "{message: m, anyPattern: [{metadata: {labels: {app: a}}}, {metadata: {labels: {app: b}}}]}"),
    policy(
        "each",
        "{message: m, foreach: [{list: 'request.object.spec.containers', pattern: {image: '!*:latest'}}]}",
    ),
    policy("asked", '{cel: {expressions: [{expression: "has(object.metadata.labels)", message: m}]}}'),
    policy("standard", "{podSecurity: {level: baseline, version: latest}}"),
    policy("told", more="reportProperties: {team: core}"),
    policy("told-of-each", more="reportProperties: {pod: '{{ request.object.metadata.name }}'}"),
)


def objects() -> list[dict[str, Any]]:
    named = pod(app="b")
    named["metadata"]["name"] = "free"
    host = pod(app="a")
    host["spec"]["hostNetwork"] = True
    return [pod(), pod(app="a"), pod(app="b"), pod(app="c"), named, host]


def written(results: tuple[RuleResult, ...], *more: RuleResult) -> list[tuple[Any, ...]]:
    return sorted(
        (r.policy_key, r.rule, r.kind, r.status, r.message, r.action, r.exceptions, sorted(r.properties.items()))
        for r in (*results, *more)
    )


def all_of(response: EngineResponse) -> list[tuple[Any, ...]]:
    return written(response.results, *map(standing, response.passed))


@pytest.mark.parametrize("tier", ["1", "2"])
def test_a_brief_evaluation_says_all_that_a_full_one_says(tier: Any) -> None:
    engine = Engine(policy_set(*POLICIES, EXCEPTION, tier=tier))
    unsaid = 0
    for resource in objects():
        for _ in range(3):
            full = engine.evaluate(create(resource), "validate", full=True)
            brief = engine.evaluate(create(resource), "validate", brief=True)
            assert full.passed == ()
            assert all_of(brief) == written(full.results)
            unsaid += len(brief.passed)
    assert unsaid > 60, "most passes say nothing of their own"


@pytest.mark.parametrize("most", [1, 3, 4, 100])
def test_portions_are_all_rules_in_their_order(most: int) -> None:
    loaded = policy_set(*POLICIES, EXCEPTION)
    engine = Engine(loaded)
    request: Request = create(pod(app="b"))
    place = (request.group, request.version, request.kind, request.subresource, request.operation, request.namespace)
    whole = loaded.candidates(*place)
    portions = loaded.portions(whole, most)
    assert loaded.portions(loaded.candidates(*place), most) is portions or portions == (whole,)
    assert [p.name for one in portions for p in one.validating] == [p.name for p in whole.validating]
    assert all(len(one.validate) <= most for one in portions)
    parts = [engine.evaluate(request, "validate", full=True, among=one) for one in portions]
    at_once = engine.evaluate(request, "validate", full=True)
    assert [r for part in parts for r in part.results] == list(at_once.results)
