"""Policies become live on change; the last version that compiled stays; the status tells."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from compiler.source import load_values
from runtime.bundles import make_imports
from runtime.config import Settings
from runtime.controllers.policy import PolicyController, watched
from runtime.controllers.policyadmission import PolicyAdmission
from runtime.controllers.status import Findings, Native, StatusWriter, rule_count, wanted
from runtime.k8s.resources import CLUSTER_POLICY
from runtime.observe.metrics import Metrics
from runtime.request import Request
from runtime.webhook.live import Live
from tests.integration.server import review
from tests.unit.runtime.fake_api import FakeApi

TEXT = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: require-team, resourceVersion: "7"}
spec:
  failurePolicy: Ignore
  rules:
    - name: team-label
      match: {any: [{resources: {kinds: [Pod]}}]}
      exclude: {any: [{resources: {operations: [DELETE]}}]}
      validate:
        failureAction: Enforce
        message: "the label team is required"
        pattern: {metadata: {labels: {team: "?*"}}}
"""

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": []}}


def policy(text: str = TEXT, **changes: str) -> dict[str, Any]:
    for old, new in changes.items():
        text = text.replace(old, new)
    (found,) = load_values(text)
    return dict(found)


def run(scenario: Callable[[PolicyController, Live], Awaitable[None]], settings: Settings | None = None) -> None:
    live = Live(namespaces={})
    controller = PolicyController(live, settings or Settings(), Metrics(), make_imports(), lambda: None)
    asyncio.run(_run(scenario, controller, live))


async def _run(
    scenario: Callable[[PolicyController, Live], Awaitable[None]], controller: PolicyController, live: Live
) -> None:
    await controller.round()
    await scenario(controller, live)


def allowed(live: Live, scope: str = "") -> bool:
    request = Request.from_review(review(POD))
    return live.evaluate(request, "validate", scope, float("inf")).allowed


def test_the_first_round_makes_the_webhook_ready_without_policies() -> None:
    async def scenario(controller: PolicyController, live: Live) -> None:
        assert live.ready
        assert allowed(live)

    run(scenario)


def test_a_policy_comes_changes_and_goes() -> None:
    async def scenario(controller: PolicyController, live: Live) -> None:
        controller.note("added", policy())
        await controller.round()
        assert not allowed(live)
        assert not allowed(live, "ignore")
        assert allowed(live, "fail"), "its failure policy is Ignore"
        controller.note("changed", policy(Enforce="Audit"))
        await controller.round()
        assert allowed(live)
        controller.note("deleted", policy())
        await controller.round()
        assert controller.entries == {}

    run(scenario)


def test_a_version_that_does_not_compile_leaves_the_last_one_in_force() -> None:
    async def scenario(controller: PolicyController, live: Live) -> None:
        controller.note("added", policy())
        await controller.round()
        controller.note("changed", policy(**{'"?*"': '"{{ request.object.metadata.name | }}"'}))
        await controller.round()
        assert not allowed(live)
        (entry,) = controller.entries.values()
        condition = wanted(entry)["conditions"][0]
        assert (condition["status"], condition["reason"]) == ("False", "Failed")
        assert condition["message"].startswith("ClusterPolicy/require-team:")
        assert condition["message"].endswith("; the last version that compiled stays in force")
        controller.note("changed", policy(Enforce="Audit"))
        await controller.round()
        assert allowed(live)
        (entry,) = controller.entries.values()
        assert wanted(entry)["conditions"][0]["status"] == "True"

    run(scenario)


def test_a_policy_that_never_compiled_is_not_in_the_set_and_hurts_no_other() -> None:
    async def scenario(controller: PolicyController, live: Live) -> None:
        broken = policy(**{"name: require-team": "name: broken", "pattern:": "patern:"})
        controller.note("added", broken)
        controller.note("added", policy())
        await controller.round()
        assert [p.name for p in live.snapshot.policies.policies] == ["require-team"]  # type: ignore[union-attr]
        assert not allowed(live)

    run(scenario)


def test_a_change_of_status_alone_compiles_nothing() -> None:
    async def scenario(controller: PolicyController, live: Live) -> None:
        controller.note("added", policy())
        await controller.round()
        before = live.snapshot
        same = policy(**{'"7"': '"8"'})
        same["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
        controller.note("changed", same)
        await controller.round()
        assert live.snapshot is before
        (entry,) = controller.entries.values()
        assert entry.obj is same

    run(scenario)


def test_what_the_webhooks_must_watch() -> None:
    async def scenario(controller: PolicyController, live: Live) -> None:
        controller.note("added", policy())
        await controller.round()
        (found,) = watched(controller.entries.values())
        assert (found.key, found.namespaced, found.failure_policy) == ("require-team", False, "Ignore")
        assert {rule.verb for rule in found.rules} == {"validate"}
        assert found.rules[0].without == {"DELETE"}
        assert {key.kind.kind for rule in found.rules for key in rule.keys} >= {"Pod", "Deployment", "CronJob"}

    run(scenario)


GENERATE = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: defaults, resourceVersion: "1"}
spec:
  rules:
    - name: quota
      match: {any: [{resources: {kinds: [Namespace]}}]}
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: defaults
        namespace: "{{request.object.metadata.name}}"
        data: {data: {a: b}}
"""


def test_a_generate_rule_asks_for_its_triggers_and_in_step_for_what_it_makes() -> None:
    async def scenario(controller: PolicyController, live: Live) -> None:
        controller.note("added", policy(GENERATE))
        await controller.round()
        assert [e.error for e in controller.entries.values()] == [""]
        (found,) = watched(controller.entries.values())
        kinds = [[(key.kind.kind, key.operations) for key in rule.keys] for rule in found.rules]
        assert kinds == [[("Namespace", ())]]
        controller.note("changed", policy(GENERATE.replace("generate:", "generate:\n        synchronize: true")))
        await controller.round()
        (found,) = watched(controller.entries.values())
        kinds = [[(key.kind.kind, key.operations) for key in rule.keys] for rule in found.rules]
        assert kinds == [[("Namespace", ())], [("ConfigMap", ("CREATE", "UPDATE", "DELETE"))]]

    run(scenario)


def test_a_policy_without_admission_is_loaded_for_no_request() -> None:
    async def scenario(controller: PolicyController, live: Live) -> None:
        controller.note("added", policy(**{"failurePolicy: Ignore": "admission: false"}))
        await controller.round()
        assert allowed(live)
        assert watched(controller.entries.values()) == []

    run(scenario)


def test_the_status_is_written_once() -> None:
    async def main() -> None:
        api = FakeApi()
        live = Live()
        controller = PolicyController(live, Settings(), Metrics(), make_imports(), lambda: None)
        stored = api.put(CLUSTER_POLICY, policy())
        controller.note("added", stored)
        await controller.round()
        writer = StatusWriter(api)
        await writer.write(controller.entries)
        status = api.objects["clusterpolicies"]["", "require-team"]["status"]
        assert status["conditions"][0]["message"] == "Ready"
        controller.note("changed", api.objects["clusterpolicies"]["", "require-team"])
        await controller.round()
        api.calls.clear()
        await writer.write(controller.entries)
        assert api.calls == []
        # A policy that went meanwhile is no error.
        api.remove(CLUSTER_POLICY, "require-team")
        (key,) = controller.entries
        controller.entries[key].obj.pop("status")
        await writer.write(controller.entries)

    asyncio.run(main())


def test_the_status_tells_what_autogen_makes_and_what_is_lacking() -> None:
    async def main() -> None:
        api = FakeApi()
        controller = PolicyController(Live(), Settings(), Metrics(), make_imports(), lambda: None)
        writer = StatusWriter(api)
        key = ("ClusterPolicy", "", "require-team")

        async def status(obj: dict[str, Any], findings: Findings | None = None) -> dict[str, Any]:
            controller.note("changed", api.put(CLUSTER_POLICY, obj))
            await controller.round()
            await writer.write(controller.entries, findings=findings)
            written: dict[str, Any] = api.objects["clusterpolicies"]["", "require-team"]["status"]
            return written

        plain = policy()
        found = await status(plain, Findings({key: "needs list on pods"}, {key: Native(True)}))
        rules = [rule["name"] for rule in found["autogen"]["rules"]]
        assert rules == ["autogen-team-label", "autogen-cronjob-team-label"]
        assert "template" in found["autogen"]["rules"][0]["validate"]["pattern"]["spec"]
        assert found["validatingadmissionpolicy"] == {"generated": True, "message": ""}
        assert [(c["type"], c["status"]) for c in found["conditions"]] == [
            ("Ready", "True"),
            ("RBACPermissionsGranted", "False"),
        ]
        assert found["conditions"][1]["message"] == "needs list on pods"
        # What is granted is not told of, and rules that are gone leave the status.
        none = {"pod-policies.kyverno.io/autogen-controllers": "none"}
        found = await status({**plain, "metadata": {**plain["metadata"], "annotations": none}, "status": found})
        assert found["autogen"] == {}
        assert [c["type"] for c in found["conditions"]] == ["Ready"]
        assert found["validatingadmissionpolicy"] == {"generated": False, "message": ""}

    asyncio.run(main())


def test_rules_are_counted_as_written() -> None:
    assert rule_count(policy()) == {"validate": 1, "mutate": 0, "generate": 0, "verifyimages": 0}
    assert rule_count({"spec": {"rules": "none"}}) == {"validate": 0, "mutate": 0, "generate": 0, "verifyimages": 0}


def _asked(obj: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    import json

    operation = "CREATE" if old is None else "UPDATE"
    body = json.dumps(review(obj, operation=operation, oldObject=old)).encode()
    answer = asyncio.run(PolicyAdmission().check(body))
    assert answer.status == 200
    response: dict[str, Any] = json.loads(answer.body)["response"]
    return response


def test_a_policy_is_admitted_or_refused_with_the_compilers_text() -> None:
    assert _asked(policy())["allowed"] is True
    response = _asked(policy(**{'"?*"': '"{{ request.object.metadata.name | }}"'}))
    assert response["allowed"] is False
    message = response["status"]["message"]
    assert message.startswith("\nClusterPolicy/require-team:")
    assert "error[" in message
    assert "^" in message.splitlines()[4]


def test_a_broken_policy_may_still_lose_its_finalizers() -> None:
    broken = policy(**{'"?*"': '"{{ request.object.metadata.name | }}"'})
    old = {**broken, "metadata": {**broken["metadata"], "finalizers": ["example.com/wait"]}}
    assert _asked(broken, old)["allowed"] is True
    assert _asked(broken, policy())["allowed"] is False


@pytest.mark.parametrize("kind", ["ClusterPolicyReport", "Pod"])
def test_other_kinds_are_none_of_its_business(kind: str) -> None:
    assert _asked({**policy(), "kind": kind})["allowed"] is True


CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: backups.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: backups, kind: Backup}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {keep: {type: integer}}}}}}
"""


def test_policies_that_name_a_kind_are_compiled_again_with_its_definition() -> None:
    async def scenario(controller: PolicyController, live: Live) -> None:
        controller.note("added", policy(kinds="kinds", Pod="Backup"))
        controller.note("added", policy(**{"require-team": "of-pods"}))
        await controller.round()
        before = {key[2]: entry.good for key, entry in controller.entries.items()}
        controller.note_crd("added", policy(CRD))
        await controller.round()
        after = {key[2]: entry.good for key, entry in controller.entries.items()}
        assert after["of-pods"] is before["of-pods"]
        for found, known in ((before, False), (after, True)):
            good = found["require-team"]
            assert good is not None
            assert ("crds" in str(good.module.header.options)) is known
        controller.note_crd("changed", policy(CRD))
        await controller.round()
        assert controller.entries["ClusterPolicy", "", "require-team"].good is after["require-team"]

    run(scenario)


def conditional() -> dict[str, Any]:
    found = policy()
    conditions = [{"name": "some", "expression": "true"}]
    found["spec"]["webhookConfiguration"] = {"matchConditions": conditions, "failurePolicy": "Ignore"}
    return found


def test_a_policy_with_match_conditions_answers_where_it_is_asked() -> None:
    async def scenario(controller: PolicyController, live: Live) -> None:
        controller.note("added", conditional())
        await controller.round()
        assert not allowed(live, "finegrained/require-team")
        assert allowed(live, "ignore")

    run(scenario)


def test_where_webhooks_are_not_made_for_policies_the_shared_ones_ask_all() -> None:
    async def scenario(controller: PolicyController, live: Live) -> None:
        controller.note("added", conditional())
        await controller.round()
        assert not allowed(live, "ignore")

    run(scenario, Settings(auto_update_webhooks=False))


def test_the_config_map_changes_what_engines_carry() -> None:
    async def scenario(controller: PolicyController, live: Live) -> None:
        assert live.snapshot is not None
        before = live.snapshot.generation
        controller.configure(None, None)
        await controller.round()
        assert live.snapshot.generation == before
        controller.configure("ghcr.io", 4096)
        await controller.round()
        engine = live.snapshot.engine("fail")
        assert (engine.registry, engine.context_limit) == ("ghcr.io", 4096)

    run(scenario)
