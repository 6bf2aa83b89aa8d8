"""Products of generate rules to objects: labels, the trigger as its own target, namespaces, and whose copy is whose."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.cli.offline import Offline
from runtime.engine import Engine
from runtime.generate import OWN_TARGET, Generation, generate, is_copy_of
from runtime.host import KEY as HOST
from runtime.request import Request
from tests.unit.engine.support import policy, policy_set

NAMESPACE: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "uid": "u-1"}}
SHARED = [
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "platform", "uid": uid, "labels": {"share": "true"}},
    }
    for name, uid in (("one", "s-1"), ("two", "s-2"))
]


def generated(rules: str, resource: dict[str, Any], sources: list[dict[str, Any]] | None = None, **given: Any) -> Any:
    policies = policy_set(policy("p", rules=rules, **given))
    request = Request.from_resource(resource)
    request.root[HOST] = Offline(sources=tuple(sources or ()))
    (result,) = Engine(policies).evaluate(request, "background").results
    return generate(result, request)


def rule(generate: str, kind: str = "Namespace") -> str:
    body = "\n".join(f"      {line}" for line in generate.strip().splitlines())
    return f"""
  - name: r
    match: {{any: [{{resources: {{kinds: [{kind}]}}}}]}}
    generate:
{body}
"""


CLONES = """
namespace: "{{ request.object.metadata.name }}"
synchronize: true
cloneList: {namespace: platform, kinds: [v1/Secret], selector: {matchLabels: {share: "true"}}}
"""


def test_what_is_made_says_where_it_comes_from() -> None:
    made: Generation = generated(rule(CLONES), NAMESPACE, SHARED)
    assert [m.object["metadata"]["name"] for m in made.made] == ["one", "two"]
    labels = made.made[0].object["metadata"]["labels"]
    assert labels == {
        "share": "true",
        "app.kubernetes.io/managed-by": "kyverno",
        "generate.kyverno.io/policy-name": "p",
        "generate.kyverno.io/policy-namespace": "",
        "generate.kyverno.io/rule-name": "r",
        "generate.kyverno.io/trigger-group": "",
        "generate.kyverno.io/trigger-version": "v1",
        "generate.kyverno.io/trigger-kind": "Namespace",
        "generate.kyverno.io/trigger-namespace": "",
        "generate.kyverno.io/trigger-uid": "u-1",
        "generate.kyverno.io/source-group": "",
        "generate.kyverno.io/source-version": "v1",
        "generate.kyverno.io/source-kind": "Secret",
        "generate.kyverno.io/source-namespace": "platform",
        "generate.kyverno.io/source-uid": "s-1",
    }
    assert "uid" not in made.made[0].object["metadata"]


def test_a_copy_belongs_to_its_own_source() -> None:
    made: Generation = generated(rule(CLONES), NAMESPACE, SHARED)
    copies = [m.object for m in made.made]
    assert [[is_copy_of(c, s) for c in copies] for s in SHARED] == [[True, False], [False, True]]


def test_copies_of_sources_without_uid_belong_by_name() -> None:
    bare = [{**s, "metadata": {k: v for k, v in s["metadata"].items() if k != "uid"}} for s in SHARED]
    copies = [m.object for m in generated(rule(CLONES), NAMESPACE, bare).made]
    assert [[is_copy_of(c, s) for c in copies] for s in bare] == [[True, False], [False, True]]


def test_the_trigger_as_its_own_target_is_a_skip() -> None:
    text = """
kind: ConfigMap
name: "{{ request.object.metadata.name }}"
namespace: "{{ request.object.metadata.namespace }}"
data: "{{ request.object.data }}"
"""
    trigger = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "a"}, "data": {"k": "v"}}
    made: Generation = generated(rule(text, "ConfigMap"), trigger)
    assert (made.result.status, made.result.message, made.made) == ("skip", OWN_TARGET, ())


def test_an_element_that_cannot_be_made_leaves_the_others() -> None:
    text = """
foreach:
- list: request.object.data.names | split(@, ',')
  apiVersion: v1
  kind: Secret
  name: "{{ element }}"
  namespace: b
  clone: {name: "{{ element }}", namespace: platform}
"""
    trigger = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "a"},
        "data": {"names": "one,none,two"},
    }
    made: Generation = generated(rule(text, "ConfigMap"), trigger, SHARED)
    assert [m.object["metadata"]["name"] for m in made.made] == ["one", "two"]
    assert (made.result.status, made.result.message) == (
        "error",
        "source resource v1/Secret/platform/none not found",
    )


@pytest.mark.parametrize("where", ["b", "a"])
def test_a_policy_of_a_namespace_stays_in_it_whatever_variables_say(where: str) -> None:
    text = """
foreach:
- list: "[request.object.data.where]"
  apiVersion: v1
  kind: ConfigMap
  name: made
  namespace: "{{ element }}"
  data: {data: {k: v}}
"""
    trigger = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "a"},
        "data": {"where": where},
    }
    made: Generation = generated(rule(text, "ConfigMap"), trigger, kind="Policy", namespace="a")
    if where == "a":
        assert made.result.status == "pass"
        assert len(made.made) == 1
    else:
        assert (made.result.status, made.made) == ("error", ())
        assert made.result.message == "a policy of the namespace a makes nothing elsewhere"


def test_cluster_wide_kinds_take_no_namespace() -> None:
    text = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
name: made
namespace: b
data: {rules: []}
"""
    made: Generation = generated(rule(text), NAMESPACE)
    assert "namespace" not in made.made[0].object["metadata"]


def test_clones_are_not_chosen_by_wildcards() -> None:
    text = """
apiVersion: v1
kind: Secret
name: made
namespace: b
clone: {name: "{{ request.object.metadata.labels.from }}", namespace: platform}
"""
    made: Generation = generated(rule(text), {**NAMESPACE, "metadata": {"name": "a", "labels": {"from": "*"}}}, SHARED)
    assert made.result.status == "error"
