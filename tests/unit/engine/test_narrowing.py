"""Rules about objects of certain names, places or labels are not asked about others, and nothing else changes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from runtime.engine import Engine
from runtime.policyset import PolicySet
from runtime.request import Request
from tests.unit.engine.support import policy_set
from vm.premises import NONE, Premise, premise
from vm.verify import VerifiedModule

POLICY = """
apiVersion: kyverno.io/v1
kind: {kind}
metadata: {{name: {name}{place}}}
spec:
  {spec}
  rules:
  - name: {name}
    match: {match}
    validate: {{message: m, pattern: {{metadata: {{annotations: {{{name}: ok}}}}}}}}
"""

MATCHES = {
    "named": "{any: [{resources: {kinds: [Pod], names: [web, 'db-*']}}]}",
    "placed": "{any: [{resources: {kinds: [Pod], namespaces: [shop, 'dev-?']}}]}",
    "labelled": "{any: [{resources: {kinds: [Pod], selector: {matchLabels: {app: x, team: blue}}}}]}",
    "wild": "{any: [{resources: {kinds: [Pod], selector: {matchLabels: {team: 'b*'}}}}]}",
    "mixed": "{all: [{resources: {kinds: [Pod], names: ['*b*'], namespaces: [shop],"
    " selector: {matchLabels: {team: blue}, matchExpressions: [{key: app, operator: Exists}]}}}]}",
    "either": "{any: [{resources: {kinds: [Pod], names: [web]}}, {resources: {kinds: [Pod], names: [other]}}]}",
    "every": "{any: [{resources: {kinds: [Pod]}}]}",
    "created": "{any: [{resources: {kinds: [Pod], operations: [CREATE], names: [web]}}]}",
}

PREMISES = {
    "named": Premise(names=("web", "db-*")),
    "placed": Premise(namespaces=("shop", "dev-?")),
    "labelled": Premise(label=("app", "x")),
    "mixed": Premise(("*b*",), ("shop",), ("team", "blue")),
    "created": Premise(names=("web",)),
}


def policy(name: str, spec: str = "background: true", kind: str = "ClusterPolicy", place: str = "") -> str:
    return POLICY.format(name=name, match=MATCHES[name], spec=spec, kind=kind, place=place)


def every_policy(spec: str = "background: true") -> list[str]:
    return [policy(name, spec) for name in MATCHES]


def module_of(policies: PolicySet) -> VerifiedModule:
    module = policies.rules[0].run.module  # type: ignore[attr-defined]
    assert isinstance(module, VerifiedModule)
    return module


@pytest.mark.parametrize("name", MATCHES)
def test_the_premise_of_a_match(name: str) -> None:
    policies = policy_set(policy(name), tier="2")
    plan = next(p for p in policies.rules if p.name == name)
    assert premise(module_of(policies), plan.entry) == PREMISES.get(name, NONE)


def objects() -> list[dict[str, Any]]:
    """Pods of every name, place and labels that some rule asks for, of others, and such as no API server sends."""
    names: list[Any] = ["web", "db-1", "b", "", None, 5]
    places: list[Any] = ["shop", "dev-1", "dev-11", None, {}]
    labels: list[Any] = [
        {"app": "x", "team": "blue"},
        {"team": "blue"},
        {"team": "b"},
        {"app": "x", "team": 1},
        {"app": ["x"]},
        {},
        None,
        "app",
    ]
    made = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": n, "namespace": p, "labels": x}}
        for n, p, x in itertools.product(names, places, labels)
    ]
    generated = {"generateName": "db-", "namespace": "shop"}
    odd: list[Any] = [generated, {"name": 5, "generateName": "web"}, None, [], "web"]
    return [*made, *({"apiVersion": "v1", "kind": "Pod", "metadata": metadata} for metadata in odd)]


def answers(policies: PolicySet, brief: bool) -> list[Any]:
    engine = Engine(policies)
    found = []
    for resource in objects():
        response = engine.evaluate(Request.from_resource(resource), "validate", brief=brief)
        results = [(r.policy_key, r.rule, r.status, r.message) for r in response.results]
        found.append((results, [p.name for p in response.passed], [p.key for p in response.policies]))
    return found


@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("spec", ["background: true", "applyRules: One", "emitWarning: true"])
def test_what_is_left_out_would_have_said_nothing(spec: str, brief: bool) -> None:
    exact = answers(policy_set(*every_policy(spec), tier="1"), brief)
    fast = policy_set(*every_policy(spec), tier="2")
    # Before code is fused, when it has just been, and with all that is kept.
    for _ in range(3):
        assert answers(fast, brief) == exact
    assert any(len(results) > 1 for results, _, _ in exact)


def test_rules_that_pass_are_told_of_in_their_order() -> None:
    policies = policy_set(*every_policy(), tier="2")
    labels = {"app": "x", "team": "blue"}
    notes = dict.fromkeys(MATCHES, "ok")
    metadata = {"name": "web", "namespace": "shop", "labels": labels, "annotations": notes}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    said = [
        [p.name for p in Engine(policies).evaluate(Request.from_resource(pod), "validate").passed] for _ in range(3)
    ]
    assert said == [list(MATCHES)] * 3


def test_only_the_rules_that_an_object_may_be_about_are_run() -> None:
    texts = [policy(name) for name in ("every", "labelled", "placed", "named")]
    found = policy_set(*texts, tier="2").candidates("", "v1", "Pod", "", "CREATE", "shop")
    assert found.narrowing is not None
    reached = {
        name: [plan.name for part in found.narrowing.reached(pod) for _, plans in part.validate for plan in plans]
        for name, pod in {
            "none": {"metadata": {"name": "p", "namespace": "n"}},
            "labels": {"metadata": {"name": "p", "namespace": "n", "labels": {"app": "x"}}},
            "name and place": {"metadata": {"name": "db-0", "namespace": "dev-1", "labels": {"app": "y"}}},
            "too many labels": {"metadata": {"labels": {str(n): "" for n in range(5000)}}},
        }.items()
    }
    assert reached == {
        "none": ["every"],
        "labels": ["every", "labelled"],
        "name and place": ["every", "placed", "named"],
        "too many labels": ["every", "labelled", "placed", "named"],
    }


def test_no_premise_no_narrowing_and_the_exact_machine_is_asked_as_the_code_stands() -> None:
    place = ("", "v1", "Pod", "", "CREATE", "shop")
    assert policy_set(policy("every"), tier="2").candidates(*place).narrowing is None
    assert policy_set(*every_policy(), tier="1").candidates(*place).narrowing is None


def test_objects_that_no_premise_is_about_have_one_answer() -> None:
    found = policy_set(*every_policy(), tier="2").candidates("", "v1", "Pod", "", "CREATE", "shop")
    assert found.narrowing is not None
    pods = [{"metadata": {"name": f"p{n}", "namespace": f"n{n}"}} for n in range(2000)]
    assert len({id(found.narrowing.reached(pod)) for pod in pods}) == 1
