"""Webhook configurations hold exactly the kinds and operations in use (semantics §24)."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from typing import Any, Literal

import pytest

from runtime.config import Names, Settings
from runtime.controllers.clusterconfig import Webhooks
from runtime.controllers.webhookconfig import (
    Frame,
    WatchedPolicy,
    WebhookConfigController,
    build,
    own_configurations,
    verify_configuration,
)
from runtime.controllers.webhookrules import WatchedRule
from runtime.k8s.client import Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.k8s.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from tests.unit.runtime.fake_api import FakeApi
from vm.code import KindKey, MatchKey

PODS = Resource("", "v1", "pods", "Pod")
DISCOVERY = Discovery(
    [
        Entry(PODS),
        Entry(Resource("", "v1", "pods", "PodExecOptions"), "exec"),
        Entry(Resource("", "v1", "pods", "Pod"), "ephemeralcontainers"),
        Entry(Resource("", "v1", "namespaces", "Namespace", namespaced=False)),
        Entry(Resource("apps", "v1", "deployments", "Deployment")),
        Entry(Resource("apps", "v1", "deployments", "Scale"), "scale"),
        Entry(Resource("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler")),
        Entry(Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")),
    ]
)
ALL = ["CONNECT", "CREATE", "DELETE", "UPDATE"]


def policy(
    *keys: tuple[str, ...],
    verb: Literal["validate", "mutate"] = "validate",
    operations: tuple[str, ...] = (),
    without: frozenset[str] = frozenset(),
    failure: Literal["Fail", "Ignore"] = "Fail",
    timeout: int = 10,
    namespaced: bool = False,
) -> WatchedPolicy:
    matches = tuple(MatchKey(KindKey(*(k if len(k) == 4 else ("*", "*", k[0], ""))), operations) for k in keys)
    return WatchedPolicy("p", namespaced, failure, timeout, (WatchedRule(verb, matches, without),))


def test_match_conditions_make_a_webhook_of_its_own() -> None:
    conditions = ({"name": "small", "expression": "object.spec.n < 3"},)
    shared = policy(("Pod",))
    own = replace(policy(("Deployment",), timeout=20), key="team/q", match_conditions=conditions)
    made = build([shared, own], DISCOVERY, Settings(), b"CA").validating
    assert made is not None
    first, second = made["webhooks"]
    assert first["name"] == "validate.kyverno.svc-fail"
    assert "matchConditions" not in first
    assert [r["resources"] for r in first["rules"]] == [["pods", "pods/ephemeralcontainers"]]
    assert second["name"] == "validate.kyverno.svc-fail-finegrained-team-q"
    assert second["clientConfig"]["service"]["path"] == "/validate/fail/finegrained/team/q"
    assert second["matchConditions"] == list(conditions)
    assert second["timeoutSeconds"] == 20
    assert [r["resources"] for r in second["rules"]] == [["deployments"]]
    # Those of the ConfigMap hold for the shared ones alone.
    common = Webhooks(match_conditions=({"name": "all", "expression": "true"},))
    first, second = build([shared, own], DISCOVERY, Settings(), b"CA", common).validating["webhooks"]
    assert first["matchConditions"] == [{"name": "all", "expression": "true"}]
    assert second["matchConditions"] == list(conditions)


def without(namespace: str) -> Any:
    return {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [namespace]}


def rules(*policies: WatchedPolicy, verb: str = "validating", settings: Settings | None = None) -> Any:
    made = build(policies, DISCOVERY, settings or Settings(), b"CA")
    found = made.validating if verb == "validating" else made.mutating
    return {w["name"]: w["rules"] for w in found["webhooks"]}


def rule(group: str, version: str, resources: list[str], operations: list[str], scope: str = "Namespaced") -> Any:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": operations,
        "resources": resources,
        "scope": scope,
    }


def test_nothing_in_use_is_a_configuration_without_webhooks() -> None:
    made = build([], DISCOVERY, Settings(), b"CA")
    assert made.validating["webhooks"] == made.mutating["webhooks"] == []
    # Nor is anything asked where nobody could answer.
    unreachable = build([policy(("Pod",))], DISCOVERY, Settings(), b"CA", reachable=False)
    assert unreachable.validating["webhooks"] == []


def test_pods_bring_their_ephemeral_containers() -> None:
    assert rules(policy(("Pod",))) == {
        "validate.kyverno.svc-fail": [rule("", "v1", ["pods", "pods/ephemeralcontainers"], ALL)]
    }


def test_mutation_watches_create_and_update() -> None:
    mutating = policy(("Deployment",), verb="mutate")
    assert rules(mutating) == {}
    assert rules(mutating, verb="mutating") == {
        "mutate.kyverno.svc-fail": [rule("apps", "v1", ["deployments"], ["CREATE", "UPDATE"])]
    }


def test_operations_are_those_of_the_match_less_those_excluded() -> None:
    assert rules(policy(("Namespace",), operations=("DELETE",)))["validate.kyverno.svc-fail"] == [
        rule("", "v1", ["namespaces"], ["DELETE"], "*")
    ]
    assert rules(policy(("Namespace",), without=frozenset({"DELETE", "CONNECT"})))["validate.kyverno.svc-fail"] == [
        rule("", "v1", ["namespaces"], ["CREATE", "UPDATE"], "*")
    ]


def test_policies_join_by_failure_policy_and_operations_add_up() -> None:
    found = rules(
        policy(("Deployment",), operations=("CREATE",)),
        policy(("Deployment",), operations=("UPDATE",)),
        policy(("Namespace",), failure="Ignore"),
    )
    assert found == {
        "validate.kyverno.svc-ignore": [rule("", "v1", ["namespaces"], ALL, "*")],
        "validate.kyverno.svc-fail": [rule("apps", "v1", ["deployments"], ["CREATE", "UPDATE"])],
    }


def test_every_served_version_of_a_kind_is_there() -> None:
    found = rules(policy(("HorizontalPodAutoscaler",)))["validate.kyverno.svc-fail"]
    assert [r["apiVersions"] for r in found] == [["v1"], ["v2"]]
    found = rules(policy(("autoscaling", "v2", "HorizontalPodAutoscaler", "")))["validate.kyverno.svc-fail"]
    assert [r["apiVersions"] for r in found] == [["v2"]]


def test_subresources_are_named_with_their_parent() -> None:
    assert rules(policy(("*", "*", "Pod", "exec")))["validate.kyverno.svc-fail"] == [rule("", "v1", ["pods/exec"], ALL)]


def test_a_wildcard_covers_what_others_name() -> None:
    found = rules(policy(("*",)), policy(("Pod",)), policy(("Deployment",)))["validate.kyverno.svc-fail"]
    assert [r["resources"] for r in found] == [["*", "pods/ephemeralcontainers"]]
    assert found[0]["scope"] == "*"


def test_a_namespaced_policy_sees_no_cluster_wide_kinds() -> None:
    made = build([policy(("Namespace",), namespaced=True)], DISCOVERY, Settings(), b"CA")
    assert made.validating["webhooks"] == []
    assert rules(policy(("*",), namespaced=True))["validate.kyverno.svc-fail"][0]["scope"] == "Namespaced"


def test_an_unknown_kind_is_left_out_and_told() -> None:
    made = build([policy(("Widget",), ("Namespace",))], DISCOVERY, Settings(), b"CA")
    assert made.unknown == ("Widget",)


@pytest.mark.parametrize(("timeouts", "want"), [((3,), 10), ((12, 20), 20), ((30,), 30), ((99,), 30)])
def test_the_timeout_is_the_longest_up_to_thirty(timeouts: tuple[int, ...], want: int) -> None:
    made = build([policy(("Pod",), timeout=t) for t in timeouts], DISCOVERY, Settings(), b"CA")
    assert made.validating["webhooks"][0]["timeoutSeconds"] == want


def test_fixed_fields_and_the_client_config() -> None:
    made = build([policy(("Pod",)), policy(("Pod",), verb="mutate")], DISCOVERY, Settings(), b"CA")
    assert made.validating["metadata"] == {
        "name": "kyverno-resource-validating-webhook-cfg",
        "labels": {"webhook.kyverno.io/managed-by": "kyverno"},
    }
    (webhook,) = made.mutating["webhooks"]
    assert webhook["reinvocationPolicy"] == "IfNeeded"
    assert webhook["sideEffects"] == "NoneOnDryRun"
    assert webhook["matchPolicy"] == "Equivalent"
    assert webhook["admissionReviewVersions"] == ["v1"]
    assert webhook["clientConfig"] == {
        "service": {"name": "kyverno-svc", "namespace": "kyverno", "path": "/mutate/fail", "port": 443},
        "caBundle": base64.b64encode(b"CA").decode(),
    }
    assert webhook["objectSelector"] == {}
    assert webhook["namespaceSelector"] == {"matchExpressions": [without("kube-system"), without("kyverno")]}


def test_other_names_and_an_address() -> None:
    settings = Settings(names=Names("shadow", "elsewhere"), server_ip="192.0.2.7", port=8443)
    made = build([policy(("Pod",))], DISCOVERY, settings, b"CA")
    assert made.validating["metadata"]["name"] == "shadow-resource-validating-webhook-cfg"
    (webhook,) = made.validating["webhooks"]
    assert webhook["name"] == "validate.shadow.svc-fail"
    assert webhook["clientConfig"]["url"] == "https://192.0.2.7:8443/validate/fail"


def test_forcing_ignore_leaves_no_failing_webhook() -> None:
    assert list(rules(policy(("Pod",)), settings=Settings(force_failure_policy_ignore=True))) == [
        "validate.kyverno.svc-ignore"
    ]


def test_the_controller_writes_only_what_differs() -> None:
    async def main() -> None:
        api = FakeApi()
        controller = WebhookConfigController(api, Settings())
        one = build([policy(("Pod",))], DISCOVERY, Settings(), b"CA")
        await controller.ensure(one)
        assert len(api.objects[VALIDATING_WEBHOOKS.plural]) == 6
        assert len(api.objects[MUTATING_WEBHOOKS.plural]) == 3
        api.calls.clear()
        await controller.ensure(one)
        assert {verb for verb, _, _ in api.calls} == {"get"}
        name = Names().resource_validating
        # Someone edits it: it is put right.
        edited = await api.get(VALIDATING_WEBHOOKS, name)
        edited["webhooks"][0]["failurePolicy"] = "Ignore"
        edited["metadata"]["labels"] = {"theirs": "stays"}
        api.put(VALIDATING_WEBHOOKS, edited)
        await controller.ensure(one)
        mended = await api.get(VALIDATING_WEBHOOKS, name)
        assert mended["webhooks"][0]["failurePolicy"] == "Fail"
        assert mended["metadata"]["labels"] == {"theirs": "stays", "webhook.kyverno.io/managed-by": "kyverno"}
        await controller.ensure(build([], DISCOVERY, Settings(), b"CA"))
        assert (await api.get(VALIDATING_WEBHOOKS, name))["webhooks"] == []
        await controller.remove()
        assert not api.objects[VALIDATING_WEBHOOKS.plural]
        assert not api.objects.get(MUTATING_WEBHOOKS.plural)

    asyncio.run(main())


def test_policies_are_asked_about_before_they_are_stored() -> None:
    found = {o["metadata"]["name"]: o["webhooks"] for _, o in own_configurations(Frame(Settings(), b"CA"))}
    (webhook,) = found["kyverno-policy-validating-webhook-cfg"]
    assert webhook["name"] == "validate-policy.kyverno.svc"
    assert webhook["rules"][0]["operations"] == ["CREATE", "UPDATE"]
    assert found["kyverno-policy-mutating-webhook-cfg"] == []
    resources = {name: w["rules"][0]["resources"] for name, webhooks in found.items() for w in webhooks}
    assert resources["kyverno-exception-validating-webhook-cfg"] == ["policyexceptions"]
    assert resources["kyverno-global-context-validating-webhook-cfg"] == ["globalcontextentries"]
    assert resources["kyverno-cleanup-validating-webhook-cfg"] == ["cleanuppolicies", "clustercleanuppolicies"]
    (warner,) = found["kyverno-ttl-validating-webhook-cfg"]
    assert (warner["failurePolicy"], warner["rules"][0]["resources"]) == ("Ignore", ["*"])
    assert warner["objectSelector"]["matchExpressions"][0]["key"] == "cleanup.kyverno.io/ttl"


def test_what_the_config_map_says_of_webhooks() -> None:
    config = Webhooks(
        {"matchExpressions": [{"key": "env", "operator": "In", "values": ["prod"]}]},
        {"matchLabels": {"checked": "yes"}},
        {"admissions.enforcer/disabled": "true"},
        {"team": "platform"},
    )
    made = build([policy(("Pod",))], DISCOVERY, Settings(), b"CA", config).validating
    assert made["metadata"]["annotations"] == {"admissions.enforcer/disabled": "true"}
    assert made["metadata"]["labels"] == {"team": "platform", "webhook.kyverno.io/managed-by": "kyverno"}
    (webhook,) = made["webhooks"]
    assert webhook["objectSelector"] == {"matchLabels": {"checked": "yes"}}
    # The namespace of the installation is left alone whatever it says.
    assert webhook["namespaceSelector"]["matchExpressions"][1:] == [without("kyverno")]
    config = Webhooks({"matchExpressions": [without("kyverno")]})
    (webhook,) = build([policy(("Pod",))], DISCOVERY, Settings(), b"CA", config).validating["webhooks"]
    assert webhook["namespaceSelector"] == {"matchExpressions": [without("kyverno")]}


@pytest.mark.parametrize(
    ("wide", "narrow", "left"),
    [
        (("*", "*", "*", "*"), ("*", "*", "Pod", ""), ["*/*"]),
        (("*", "*", "*", "*"), ("*", "*", "Pod", "exec"), ["*/*"]),
        (("*", "*", "*", "scale"), ("*", "*", "Deployment", "scale"), ["*/scale"]),
        (("*", "*", "Pod", "*"), ("*", "*", "Pod", "exec"), ["pods/ephemeralcontainers", "pods/exec"]),
    ],
)
def test_what_another_asks_for_anyway_is_left_out(wide: Any, narrow: Any, left: list[str]) -> None:
    (rule,) = rules(policy(wide, narrow))["validate.kyverno.svc-fail"]
    assert rule["resources"] == left


def test_an_operation_that_the_wider_one_leaves_out_stays() -> None:
    found = rules(policy(("*",), operations=("CREATE",)), policy(("Namespace",), operations=("CREATE", "DELETE")))
    assert found["validate.kyverno.svc-fail"] == [
        rule("", "v1", ["namespaces"], ["DELETE"], "*"),
        rule("*", "*", ["*", "pods/ephemeralcontainers"], ["CREATE"], "*"),
    ]


def test_a_webhook_that_fails_closed_on_everything_leaves_what_repairs_need_alone() -> None:
    (webhook,) = build([policy(("*",))], DISCOVERY, Settings(), b"CA").validating["webhooks"]
    (condition,) = webhook["matchConditions"]
    assert condition["name"] == "kyverno-exclude-own-resources"
    for part in ("clusterpolicies", "wgpolicyk8s.io", ".kyverno.io", '"kyverno:"', "kube-node-lease"):
        assert part in condition["expression"]
    (webhook,) = build([policy(("*",), failure="Ignore")], DISCOVERY, Settings(), b"CA").validating["webhooks"]
    assert "matchConditions" not in webhook
    settings = Settings(exclude_bootstrap=True)
    (webhook,) = build([policy(("Pod",))], DISCOVERY, settings, b"CA").validating["webhooks"]
    assert [c["name"] for c in webhook["matchConditions"]] == ["kyverno-exclude-bootstrap-resources"]


def test_without_updates_everything_is_asked_about_and_written_once() -> None:
    async def main() -> None:
        settings = Settings(auto_update_webhooks=False)
        made = build([policy(("Pod",))], DISCOVERY, settings, b"CA")
        assert [w["name"] for w in made.validating["webhooks"]] == [
            "validate.kyverno.svc-ignore",
            "validate.kyverno.svc-fail",
        ]
        assert [w["rules"][0]["resources"] for w in made.mutating["webhooks"]] == [["*/*"], ["*/*"]]
        api = FakeApi()
        controller = WebhookConfigController(api, settings)
        await controller.ensure(made)
        edited = await api.get(VALIDATING_WEBHOOKS, Names().resource_validating)
        edited["webhooks"][0]["rules"] = []
        api.put(VALIDATING_WEBHOOKS, edited)
        # Theirs stays, but the bundle follows: without it nobody could be asked.
        await controller.ensure(build([], DISCOVERY, settings, b"NEW"))
        found = await api.get(VALIDATING_WEBHOOKS, Names().resource_validating)
        assert found["webhooks"][0]["rules"] == []
        assert found["webhooks"][0]["clientConfig"]["caBundle"] == base64.b64encode(b"NEW").decode()

    asyncio.run(main())


def test_the_health_lease_is_asked_about() -> None:
    (webhook,) = verify_configuration(Frame(Settings(), b"CA"))["webhooks"]
    assert webhook["name"] == "monitor-webhooks.kyverno.svc"
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["objectSelector"] == {"matchLabels": {"app.kubernetes.io/name": "kyverno"}}


def test_an_owner_takes_the_configurations_with_it() -> None:
    owner = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "kyverno", "uid": "u"}
    made = build([], DISCOVERY, Settings(), b"CA", owner=owner)
    assert made.validating["metadata"]["ownerReferences"] == [owner]


def test_what_another_version_left_is_removed() -> None:
    async def main() -> None:
        api = FakeApi()
        ours = {"webhook.kyverno.io/managed-by": "kyverno"}
        for name, labels in (
            ("kyverno-cel-exception-validating-webhook-cfg", ours),
            ("kyverno-theirs-webhook-cfg", {}),
            ("shadow-resource-validating-webhook-cfg", ours),
        ):
            api.put(VALIDATING_WEBHOOKS, {"metadata": {"name": name, "labels": labels}})
        controller = WebhookConfigController(api, Settings())
        made = build([], DISCOVERY, Settings(), b"CA")
        await controller.ensure(made)
        before = {name for _, name in api.objects[VALIDATING_WEBHOOKS.plural]}
        await controller.sweep(made)
        gone = before - {name for _, name in api.objects[VALIDATING_WEBHOOKS.plural]}
        assert gone == {"kyverno-cel-exception-validating-webhook-cfg"}

    asyncio.run(main())
