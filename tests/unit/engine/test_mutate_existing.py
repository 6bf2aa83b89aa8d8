"""Rules with targets: which objects they change, one by one, and what is said of those that cannot be had."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler import compile_policies
from compiler.diagnostics import Reporter
from compiler.source import load_documents
from runtime.cli.offline import Offline
from runtime.context.objects import Objects
from runtime.context.outside import Outside
from runtime.engine import Engine
from runtime.host import KEY, Host
from runtime.mutate_existing import Changed, mutate_existing, selected
from tests.unit.engine.support import create, pod, policy, policy_set
from vm.host import HostCall
from vm.values import Err, Value


def thing(kind: str, name: str, namespace: str = "", api_version: str = "v1", **labels: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": labels}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


WEB = {
    **thing("Deployment", "web", "prod", "apps/v1", tier="front"),
    "spec": {"replicas": 3},
    "status": {"replicas": 2},
}
API = thing("Deployment", "api", "prod", "apps/v1", tier="back")
OLD = thing("Deployment", "web", "test", "apps/v1", tier="front")
SECRET = thing("Secret", "web", "prod")
NAMESPACE = thing("Namespace", "prod")
GIVEN = (WEB, API, OLD, SECRET, NAMESPACE)


def rule(
    targets: str, patch: str = "patchStrategicMerge: {metadata: {labels: {seen: '{{ target.metadata.name }}'}}}"
) -> str:
    return f"""
  - name: mark
    match: {{any: [{{resources: {{kinds: [Pod]}}}}]}}
    mutate:
      targets: {targets}
      {patch}
"""


def changes(rules: str, host: Host | None = None, **of_policy: Any) -> tuple[Changed, ...]:
    engine = Engine(policy_set(policy(rules=rules, **of_policy), tier="check"))
    request = create(pod(namespace="prod"))
    request.root[KEY] = host or Offline(targets=GIVEN)
    found: tuple[Changed, ...] = ()
    for result in engine.evaluate(request, "background").results:
        found += mutate_existing(result, request, engine.meter)
    assert engine.policies.mismatches.count == 0
    return found


SPECS = [
    ({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "prod"}, [WEB]),
    ({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, [WEB, OLD]),
    ({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "prod"}, [WEB, API]),
    ({"apiVersion": "apps/*", "kind": "Deploy*", "name": "w?b", "namespace": "t*"}, [OLD]),
    ({"apiVersion": "*", "kind": "*", "name": "web", "namespace": "prod"}, [WEB, SECRET]),
    ({"apiVersion": "v1", "kind": "Deployment"}, []),
    ({"apiVersion": "apps/v1", "kind": "Deployment", "selector": {"matchLabels": {"tier": "back"}}}, [API]),
    ({"apiVersion": "apps/v1", "kind": "Deployment", "selector": {"matchLabels": {"tier": "b*"}}}, [API]),
    ({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "another"}, []),
    ({"apiVersion": "v1", "kind": "Namespace", "namespace": "prod"}, []),
    ({"apiVersion": "v1", "kind": "Namespace", "name": "prod"}, [NAMESPACE]),
]


@pytest.mark.parametrize(("spec", "wanted"), SPECS)
def test_specs_select_objects(spec: dict[str, Any], wanted: list[dict[str, Any]]) -> None:
    found = selected(spec, GIVEN)
    assert [one["object"] for one in found] == wanted
    assert all(one["subresource"] == "" for one in found)


def test_the_scale_of_a_workload_is_an_object_of_its_own() -> None:
    made = changes(
        rule("[{apiVersion: apps/v1, kind: Deployment/scale, name: web, namespace: prod}]",
             "patchStrategicMerge: {spec: {replicas: 0}}")
    )  # fmt: skip
    assert [(c.subresource, c.target and c.target["kind"], c.result.patched["spec"]) for c in made] == [
        ("scale", "Scale", {"replicas": 0})
    ]
    (status,) = selected({"apiVersion": "apps/v1", "kind": "Deployment/status", "name": "api"}, GIVEN)
    assert status == {"object": API, "subresource": "status"}


def test_each_target_has_its_own_result() -> None:
    made = changes(
        rule(
            """
      - {apiVersion: apps/v1, kind: Deployment, preconditions: {all: [
          {key: "{{ target.metadata.namespace }}", operator: Equals, value: prod}]}}
      - {apiVersion: v1, kind: Secret, name: "{{ request.object.spec.nothing }}"}
      - {apiVersion: v1, kind: Namespace, name: "*"}"""
        )
    )
    assert [(c.target, c.result.status) for c in made] == [
        (WEB, "pass"),
        (API, "pass"),
        (OLD, "skip"),
        (None, "error"),
        (NAMESPACE, "pass"),
    ]
    assert made[0].result.message == "mutated Deployment/web in namespace prod"
    assert made[0].result.patched["metadata"]["labels"] == {"tier": "front", "seen": "web"}
    assert WEB["metadata"]["labels"] == {"tier": "front"}
    assert made[2].result.message == "preconditions not met"
    assert made[3].result.message.startswith("failed to substitute variables in target[1]: failed to resolve request.")


def test_a_namespaced_policy_keeps_to_its_namespace() -> None:
    rules = rule("[{apiVersion: apps/v1, kind: Deployment}, {apiVersion: v1, kind: Namespace, name: prod}]")
    made = changes(rules, kind="Policy", namespace="prod")
    assert [c.target for c in made] == [WEB, API]


def test_targets_follow_the_variables_of_the_request() -> None:
    made = changes(rule('[{apiVersion: v1, kind: Secret, namespace: "{{ request.namespace }}"}]'))
    assert [c.target for c in made] == [SECRET]


class Silent:
    def __init__(self, answer: Value) -> None:
        self.answer = answer

    def ask(self, call: HostCall) -> Value:
        assert call.kind == "targets"
        return self.answer


@pytest.mark.parametrize("answer", [Err("host", "no such kind"), {"not": "a list"}])
def test_targets_that_cannot_be_had_are_one_error(answer: Value) -> None:
    (made,) = changes(rule("[{apiVersion: v1, kind: Secret}]"), Silent(answer))
    assert (made.target, made.result.status) == (None, "error")


def test_the_kind_of_the_target_says_how_lists_merge() -> None:
    target = {**thing("Pod", "p", "prod"), "spec": {"containers": [{"name": "a", "x": 1}, {"name": "b"}]}}
    host = replace(Offline(), outside=Outside(objects=Objects([target])))
    rules = rule(
        "[{apiVersion: v1, kind: Pod, name: p}]",
        "patchStrategicMerge: {spec: {containers: [{name: b, '+(y)': '{{ @ || `2` }}'}]}}",
    )
    (made,) = changes(rules.replace("kinds: [Pod]", "kinds: [ConfigMap, Pod]"), host)
    assert [c["name"] for c in made.result.patched["spec"]["containers"]] == ["a", "b"]


def test_a_delete_sets_off_rules_that_ask_for_it() -> None:
    targets = "[{apiVersion: v1, kind: Secret, name: web}]"
    for operations, count in (("", 0), (", operations: [CREATE]", 0), (", operations: [CREATE, DELETE]", 1)):
        rules = rule(targets).replace("kinds: [Pod]", f"kinds: [Pod]{operations}")
        engine = Engine(policy_set(policy(rules=rules)))
        request = create(pod(), operation="DELETE")
        request.root[KEY] = Offline(targets=GIVEN)
        assert len(engine.evaluate(request, "background").results) == count


def test_the_context_of_a_target_has_the_engines_limit() -> None:
    targets = """
        - apiVersion: apps/v1
          kind: Deployment
          name: web
          namespace: prod
          context: [{name: note, variable: {value: "0123456789012345678901234567890123456789"}}]
          preconditions: {all: [{key: "{{ note }}", operator: NotEquals, value: ""}]}"""
    for limit, status in ((1000, "pass"), (20, "error")):
        engine = Engine(policy_set(policy(rules=rule(targets)), tier="check"), context_limit=limit)
        request = create(pod(namespace="prod"))
        request.root[KEY] = Offline(targets=GIVEN)
        (result,) = engine.evaluate(request, "background").results
        (changed,) = mutate_existing(result, request, engine.meter)
        assert changed.result.status == status, changed.result.message


@pytest.mark.parametrize(
    ("part", "known"),
    [
        ('context: [{name: x, variable: {jmesPath: "{{ target.metadata.name }}"}}]', False),
        ("context: [{name: x, variable: {jmesPath: target.metadata.name}}]", True),
        ('preconditions: {all: [{key: "{{ target.metadata.name }}", operator: Equals, value: web}]}', False),
    ],
)
def test_the_rule_comes_before_its_targets(part: str, known: bool) -> None:
    """Kyverno quirk: only texts are looked at, a query without braces is computed late."""
    text = policy(rules=rule("[{apiVersion: v1, kind: Secret}]").replace("    mutate:", f"    {part}\n    mutate:"))
    found = compile_policies(load_documents(text, "p.yaml", Reporter())).diagnostics
    assert [d.code for d in found if d.severity == "error"] == ([] if known else ["T1104"])
