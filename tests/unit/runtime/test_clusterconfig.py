"""The ConfigMap says which requests policies are not asked about, and what cannot be read of it is told."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.config import Settings
from runtime.controllers.clusterconfig import ClusterConfig, parse
from runtime.request import Request
from runtime.webhook.entry import PROTECTED, Entry


def config(**data: str) -> ClusterConfig:
    return parse({"data": data})


@pytest.mark.parametrize(
    ("filters", "key", "wanted"),
    [
        ("[Event,*,*]", ("", "v1", "Event", "", "shop", "e"), True),
        ("[Event,*,*]", ("events.k8s.io", "v1", "Event", "", "shop", "e"), True),
        ("[Event,*,*]", ("", "v1", "Pod", "", "shop", "e"), False),
        ("[*,kube-*,*]", ("", "v1", "Pod", "", "kube-system", "e"), True),
        ("[*,kube-*,*]", ("", "v1", "Pod", "", "shop", "e"), False),
        ("[*,kube-*,*]", ("", "v1", "Pod", "exec", "kube-system", "e"), False),
        ("[*/*,kube-*,*]", ("", "v1", "Pod", "exec", "kube-system", "e"), True),
        ("[Node,*,*][Node/*,*,*]", ("", "v1", "Node", "", "", "n"), True),
        ("[Node,*,*]", ("", "v1", "Node", "status", "", "n"), False),
        ("[Node,*,*] [Node/?*,*,*]", ("", "v1", "Node", "status", "", "n"), True),
        ("[Pod/binding,*,*]", ("", "v1", "Pod", "binding", "shop", "p"), True),
        ("[apps/v1/Deployment,shop,web-?]", ("apps", "v1", "Deployment", "", "shop", "web-1"), True),
        ("[apps/v1/Deployment,shop,web-?]", ("apps", "v1beta1", "Deployment", "", "shop", "web-1"), False),
        ("[apps/*/Deployment,shop,web-?]", ("extensions", "v1", "Deployment", "", "shop", "web-1"), False),
        ("[ClusterRole,*,kyverno:*]", ("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "", "kyverno:a"), True),
        # All of a namespace is the Namespace too.
        ("[*,kube-system,*]", ("", "v1", "Namespace", "", "", "kube-system"), True),
        ("[Namespace,kube-system,*]", ("", "v1", "Namespace", "", "", "kube-system"), True),
        ("[Namespace,kube-system,*]", ("", "v1", "Namespace", "", "", "shop"), False),
        ("[ Event , shop , * ]\n[Pod,*,*]", ("", "v1", "Event", "", "shop", "e"), True),
    ],
)
def test_resource_filters(filters: str, key: tuple[str, ...], wanted: bool) -> None:
    found = config(resourceFilters=filters)
    assert found.filters_out(*key) is wanted
    assert not found.problems


def test_filters_that_say_less_than_their_writer_thinks_are_told() -> None:
    found = config(resourceFilters="[Event][a,b,c,d][,x,y]")
    assert not found.filters_out("", "v1", "Event", "", "shop", "e")
    assert [p.partition(":")[0] for p in found.problems] == ["resourceFilters"] * 3
    assert "write [Event,*,*]" in found.problems[0]


@pytest.mark.parametrize(
    ("data", "who", "wanted"),
    [
        ({"excludeUsernames": "jane"}, ("jane", [], [], []), True),
        ({"excludeUsernames": "jane, jo*"}, ("joe", [], [], []), True),
        ({"excludeUsernames": "jane"}, ("joe", [], [], []), False),
        ({"excludeGroups": "system:nodes"}, ("n", ["a", "system:nodes"], [], []), True),
        ({"excludeGroups": "system:*,!system:masters"}, ("n", ["system:nodes"], [], []), True),
        ({"excludeGroups": "system:*,!system:masters"}, ("n", ["system:nodes", "system:masters"], [], []), False),
        ({"excludeGroups": "system:nodes", "excludeUsernames": "! bad"}, ("bad", ["system:nodes"], [], []), False),
        ({"excludeRoles": "shop:deployer"}, ("n", [], ["shop:deployer"], []), True),
        ({"excludeClusterRoles": "cluster-*"}, ("n", [], [], ["cluster-admin"]), True),
        ({"excludeClusterRoles": "cluster-*"}, ("n", [], ["cluster-admin"], []), False),
    ],
)
def test_excluded_users(data: dict[str, str], who: tuple[Any, ...], wanted: bool) -> None:
    assert config(**data).excludes(*who) is wanted


def test_no_config_map_is_the_default() -> None:
    assert parse(None) == ClusterConfig()
    assert ClusterConfig().update_request_threshold == 1000
    assert not ClusterConfig().tells_of("Resource Passed")


def test_webhooks_as_an_object_or_a_list() -> None:
    one = config(webhooks='{"namespaceSelector":{"matchLabels":{"a":"b"}},"objectSelector":{}}').webhooks
    assert one == config(webhooks='[{"namespaceSelector":{"matchLabels":{"a":"b"}},"objectSelector":{}}]').webhooks
    assert one.namespace_selector == {"matchLabels": {"a": "b"}}
    assert one.object_selector == {}
    assert config(webhooks="[]").webhooks.namespace_selector is None


def test_what_webhooks_carry() -> None:
    found = config(
        webhookAnnotations='{"a": "b"}',
        webhookLabels='{"c": "d"}',
        matchConditions='[{"name": "n", "expression": "true"}]',
    )
    assert found.webhooks.annotations == {"a": "b"}
    assert found.webhooks.labels == {"c": "d"}
    assert found.webhooks.match_conditions == ({"name": "n", "expression": "true"},)
    assert not found.problems


def test_registry_events_and_limits() -> None:
    found = config(
        defaultRegistry="ghcr.io",
        generateSuccessEvents="true",
        successEventActions="Resource Mutated, Resource Generated",
        updateRequestThreshold="7",
        maxContextSize="4Mi",
    )
    assert found.registry == "ghcr.io"
    assert found.tells_of("Resource Mutated")
    assert not found.tells_of("Resource Passed")
    assert found.update_request_threshold == 7
    assert found.context_bytes == 4 << 20
    assert config(generateSuccessEvents="true").tells_of("Resource Passed")
    assert config(defaultRegistry="ghcr.io", enableDefaultRegistryMutation="false").registry == ""
    assert config(enableDefaultRegistryMutation="true").registry is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("webhooks", "{"),
        ("webhooks", '"text"'),
        ("webhooks", '{"namespaceSelector": 1}'),
        ("webhookAnnotations", '{"a": 1}'),
        ("webhookLabels", "[]"),
        ("matchConditions", '[{"name": "n"}]'),
        ("defaultRegistry", "no host!"),
        ("enableDefaultRegistryMutation", "perhaps"),
        ("generateSuccessEvents", "2"),
        ("updateRequestThreshold", "-1"),
        ("maxContextSize", "much"),
    ],
)
def test_what_cannot_be_read_is_passed_over_and_told(key: str, value: str) -> None:
    found = config(**{key: value})
    (problem,) = found.problems
    assert problem.startswith(f"{key}: ")
    assert found == ClusterConfig(problems=found.problems)


def request(
    kind: str = "Pod", group: str = "", *, user: str = "jane", operation: str = "CREATE", labels: Any = None
) -> Request:
    obj = {"kind": kind, "metadata": {"name": "x", "namespace": "shop", "labels": labels}}
    review = {
        "uid": "u",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": "things"},
        "operation": operation,
        "name": "x",
        "namespace": "shop",
        "userInfo": {"username": user, "groups": ["dev"]},
        "oldObject" if operation == "DELETE" else "object": obj,
    }
    return Request.from_review(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": review}, cluster_roles=("view",)
    )


def test_entry_filters() -> None:
    entry = Entry(Settings())
    assert entry.decide(request()) is None
    for own in (("ClusterPolicy", "kyverno.io"), ("PolicyReport", "wgpolicyk8s.io")):
        decided = entry.decide(request(*own))
        assert decided is not None
        assert decided.allowed
    # Another group may have a kind of the same name.
    assert entry.decide(request("Policy", "example.org")) is None
    for data in ({"excludeGroups": "dev"}, {"excludeClusterRoles": "view"}, {"resourceFilters": "[Pod,shop,*]"}):
        decided = Entry(Settings(), config(**data)).decide(request())
        assert decided is not None
        assert decided.allowed


def test_managed_objects_are_protected_where_that_is_asked_for() -> None:
    managed = {"app.kubernetes.io/managed-by": "kyverno"}
    assert Entry(Settings()).decide(request(labels=managed)) is None
    entry = Entry(Settings(protect_managed=True))
    decided = entry.decide(request(labels=managed))
    assert decided is not None
    assert (decided.allowed, decided.message) == (False, PROTECTED)
    assert entry.decide(request(labels=managed, user="system:serviceaccount:kyverno:kyverno")) is None
    controller = "system:serviceaccount:kube-system:namespace-controller"
    assert entry.decide(request(labels=managed, user=controller, operation="DELETE")) is None
    assert entry.decide(request(labels=managed, user=controller)) is not None
    assert entry.decide(request(labels={"app": "x"})) is None
