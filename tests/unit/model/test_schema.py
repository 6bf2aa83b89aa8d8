"""The model of a policy, defaults and guide forms; the manifests of the kinds."""

from __future__ import annotations

import random
from typing import Any

import pytest

from compiler.diagnostics import Reporter
from compiler.schema import crd_manifests, read_policies
from compiler.schema.model import Override
from compiler.source import Document, load_documents
from tests.unit.model.support import policy, read

RULE = """
- name: r
  match:
    any:
    - resources: {kinds: [Pod]}
  validate:
    message: m
    pattern: {metadata: {name: "?*"}}
"""


def test_defaults() -> None:
    p = policy(RULE)
    assert (p.kind, p.key, p.namespace, p.api_version) == ("ClusterPolicy", "p", "", "kyverno.io/v1")
    assert (p.failure_action, p.apply_rules, p.background, p.admission) == ("Audit", "All", True, True)
    assert (p.failure_policy, p.webhook_timeout, p.emit_warning, p.overrides) == ("Fail", 10, False, ())
    (rule,) = p.rules
    assert rule.exclude is None
    assert rule.preconditions is None
    assert rule.validate is not None
    assert rule.validate.allow_existing
    assert rule.validate.failure_action is None
    assert rule.skip_background_requests


def test_what_is_written_counts() -> None:
    spec = """
validationFailureAction: enforce
validationFailureActionOverrides:
- action: audit
  namespaces: [a]
applyRules: One
background: false
emitWarning: true
failurePolicy: Fail
webhookTimeoutSeconds: 5
webhookConfiguration: {failurePolicy: Ignore, timeoutSeconds: 7}
"""
    p = policy(RULE, spec, "labels: {l: x}\nannotations: {a: z}")
    assert (p.failure_action, p.apply_rules, p.background, p.emit_warning) == ("Enforce", "One", False, True)
    assert p.overrides == (Override("Audit", ("a",)),)
    assert (p.failure_policy, p.webhook_timeout) == ("Ignore", 7)
    assert (p.labels, p.annotations) == ({"l": "x"}, {"a": "z"})


def test_a_namespaced_policy_has_its_namespace_in_its_key() -> None:
    text = "apiVersion: kyverno.io/v1\nkind: Policy\nmetadata: {name: p, namespace: ns}\nspec:\n  rules:\n"
    policies, _ = read(text + "\n".join("  " + line for line in RULE.strip().split("\n")))
    assert [(p.kind, p.key) for p in policies] == [("Policy", "ns/p")]


def test_guide_forms_come_out_in_standard_form() -> None:
    rules = """
- name: r
  match:
    resources:
      kinds: [Pod]
      excludeResources: {namespaces: [kube-system]}
    operations: [CREATE]
  exclude:
    resources:
      labels: {a: b}
  validation:
    failureAction: enforce
    pattern: {metadata: {name: "?*"}}
"""
    (rule,) = policy(rules).rules
    assert "validation" not in rule.raw
    assert rule.raw["validate"]["failureAction"] == "Enforce"
    (match,) = rule.match.filters
    assert rule.match.mode == "direct"
    assert match.operations == ("CREATE",)
    assert match.exclude_resources is not None
    assert match.exclude_resources.namespaces == ("kube-system",)
    assert rule.exclude is not None
    assert rule.exclude.filters[0].labels == {"a": "b"}


def test_reading_changes_no_document() -> None:
    text = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n"
    text += "  validationFailureAction: audit\n  rules:\n"
    text += "  - name: r\n    match: {resources: {kinds: [Pod]}, operations: [CREATE]}\n    validation: {pattern: {}}\n"
    reporter = Reporter()
    (doc,) = load_documents(text, "p.yaml", reporter)
    before = repr(doc.value)
    read_policies([doc], reporter)
    assert repr(doc.value) == before


def test_places_of_renamed_parts_are_where_they_were_written() -> None:
    rules = RULE.replace("validate:", "validation:")
    p = policy(rules)
    span = p.doc.spans.span("/spec/rules/0/validate/message")
    assert p.doc.text.split("\n")[span.line - 1].strip() == "message: m"


def test_one_bad_policy_leaves_the_others() -> None:
    good = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: %s}\nspec:\n  rules:\n" + "\n".join(
        "  " + line for line in RULE.strip().split("\n")
    )
    bad = (good % "bad").replace("pattern", "patern")
    policies, reporter = read("\n---\n".join([good % "a", bad, good % "b"]))
    assert [p.name for p in policies] == ["a", "b"]
    assert reporter.failed


def test_an_exception_of_the_guide() -> None:
    text = """
apiVersion: kyverno.io/v1alpha1
kind: PolicyException
metadata: {name: e, namespace: apps}
spec:
  rules:
  - name: r
  - {name: q, policy: p}
  match:
    resources: {namespaces: [apps], selector: {matchLabels: {legacy: "true"}}}
"""
    reporter = Reporter()
    _, (found,) = read_policies(load_documents(text, "e.yaml", reporter), reporter)
    assert not reporter.failed
    assert [(r.rule, r.policy) for r in found.rules] == [("r", None), ("q", "p")]
    assert (found.name, found.namespace, found.match.filters[0].namespaces) == ("e", "apps", ("apps",))


def _mutants(value: Any, rnd: random.Random) -> Any:
    """A copy of a JSON value with one thing in it replaced, removed or doubled."""
    odd: list[Any] = [None, True, 0, -1, 1.5, "", "x", "{{ a }}", [], {}, [None], {"a": None}, [[1]], {"any": 1}]
    match value:
        case dict() if value:
            key = rnd.choice(list(value))
            match rnd.randrange(4):
                case 0:
                    return {k: v for k, v in value.items() if k != key}
                case 1:
                    return {**value, key + "x": value[key]}
                case _:
                    return {**value, key: _mutants(value[key], rnd)}
        case list() if value and rnd.random() < 0.8:
            at = rnd.randrange(len(value))
            return [*value[:at], _mutants(value[at], rnd), *value[at + 1 :]]
        case _:
            return rnd.choice(odd)


FULL = {
    "apiVersion": "kyverno.io/v1",
    "kind": "ClusterPolicy",
    "metadata": {
        "name": "p",
        "labels": {"a": "b"},
        "annotations": {"pod-policies.kyverno.io/autogen-controllers": "Job"},
    },
    "spec": {
        "validationFailureAction": "enforce",
        "background": False,
        "validationFailureActionOverrides": [{"action": "audit", "namespaces": ["a"]}],
        "webhookConfiguration": {"timeoutSeconds": 3, "matchConditions": []},
        "rules": [
            {
                "name": "r",
                "match": {
                    "any": [
                        {
                            "resources": {
                                "kinds": ["Pod"],
                                "namespaces": ["a"],
                                "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
                                "excludeResources": {"kinds": ["Pod"]},
                                "operations": ["CREATE"],
                            },
                            "subjects": [{"kind": "User", "name": "u"}],
                        }
                    ]
                },
                "exclude": {"resources": {"labels": {"a": "b"}, "namespaces": ["x"]}, "operations": ["DELETE"]},
                "preconditions": {
                    "all": [{"key": "{{ request.operation }}", "operator": "AnyIn", "value": ["CREATE"]}]
                },
                "validation": {
                    "message": "m",
                    "anyPattern": [{"a": 1}],
                    "failureActionOverrides": [{"action": "Audit", "namespaces": ["*"]}],
                },
            },
            {
                "name": "s",
                "match": {"resources": {"kinds": ["Pod"]}},
                "mutate": {"patchesJson6902": "- {op: add, path: /a, value: '{{ x }}'}"},
            },
        ],
    },
}


def test_no_mutation_of_a_policy_makes_the_reader_fail() -> None:
    import json

    rnd = random.Random(7)
    refused = 0
    for _ in range(1500):
        value = FULL
        for _ in range(rnd.randrange(1, 4)):
            value = _mutants(value, rnd)
        reporter = Reporter()
        docs: list[Document] = load_documents(json.dumps(value), "p.json", reporter)
        policies, _ = read_policies(docs, reporter)
        assert bool(policies) != reporter.failed
        refused += reporter.failed
    assert 300 < refused < 1500


def test_every_kind_has_a_manifest() -> None:
    manifests = {m["spec"]["names"]["kind"]: m for m in crd_manifests("*")}
    assert set(manifests) - {m["spec"]["names"]["kind"] for m in crd_manifests()} == {"Report", "ClusterReport"}
    assert set(manifests) == {
        "UpdateRequest",
        "EphemeralReport",
        "ClusterEphemeralReport",
        "PolicyReport",
        "ClusterPolicyReport",
        "Report",
        "ClusterReport",
        "ClusterPolicy",
        "Policy",
        "PolicyException",
        "GlobalContextEntry",
        "ClusterCleanupPolicy",
        "CleanupPolicy",
    }
    assert [v["name"] for v in manifests["ClusterPolicy"]["spec"]["versions"]] == ["v1", "v2beta1"]
    assert [v["name"] for v in manifests["PolicyException"]["spec"]["versions"]] == ["v1alpha1", "v2", "v2beta1"]
    for m in manifests.values():
        assert sum(v["storage"] for v in m["spec"]["versions"]) == 1
        assert m["metadata"]["name"] == f"{m['spec']['names']['plural']}.{m['spec']['group']}"


def _schemas(schema: dict[str, Any], at: str) -> list[tuple[str, dict[str, Any]]]:
    out = [(at, schema)]
    for name, sub in schema.get("properties", {}).items():
        out += _schemas(sub, f"{at}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            out += _schemas(schema[name], f"{at}[]")
    return out


@pytest.mark.parametrize("manifest", crd_manifests("*"), ids=lambda m: m["spec"]["names"]["kind"])
def test_manifests_are_structural(manifest: dict[str, Any]) -> None:
    """The rules of the API server: every node has a type or is free, nothing is left of this compiler's own marks."""
    for version in manifest["spec"]["versions"]:
        for at, schema in _schemas(version["schema"]["openAPIV3Schema"], version["name"]):
            free = schema.get("x-kubernetes-preserve-unknown-fields") is True
            assert "type" in schema or free, at
            assert "$ref" not in schema, at
            assert not any(key.startswith("x-thesmos") for key in schema), at
            if schema.get("type") == "array":
                assert "items" in schema, at
            assert set(schema.get("required", ())) <= set(schema.get("properties", ())), at


@pytest.mark.parametrize("manifest", crd_manifests("*"), ids=lambda m: m["spec"]["names"]["kind"])
def test_the_stored_version_keeps_the_fields_of_the_others(manifest: dict[str, Any]) -> None:
    versions = manifest["spec"]["versions"]
    (stored,) = (v for v in versions if v["storage"])
    known = {at.partition(".")[2] for at, _ in _schemas(stored["schema"]["openAPIV3Schema"], "v")}
    free = tuple(
        at.partition(".")[2]
        for at, s in _schemas(stored["schema"]["openAPIV3Schema"], "v")
        if s.get("x-kubernetes-preserve-unknown-fields")
    )
    for version in versions:
        for at, _ in _schemas(version["schema"]["openAPIV3Schema"], "v"):
            path = at.partition(".")[2]
            assert path in known or path.startswith(free), (version["name"], path)


def test_a_generated_object_of_a_cluster_wide_kind_has_a_namespace_in_kyverno_alone() -> None:
    text = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Namespace]}}]}
    generate:
      apiVersion: rbac.authorization.k8s.io/v1
      kind: ClusterRole
      name: made
      namespace: team
      data: {rules: []}
"""
    found = []
    for quirks in (False, True):
        reporter = Reporter()
        (policy_,), _ = read_policies(load_documents(text, "p.yaml", reporter), reporter, quirks=quirks)
        generate = policy_.rules[0].generate
        assert generate is not None
        assert generate.target is not None
        found.append((generate.target.namespace, [d.code for d in reporter.diagnostics]))
    assert found == [("", ["T1355"]), ("team", [])]
