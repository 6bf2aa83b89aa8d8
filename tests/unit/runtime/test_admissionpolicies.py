"""ValidatingAdmissionPolicies that are made of ClusterPolicies (semantics §21), and who judges when."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from compiler.diagnostics import Reporter
from compiler.schema import read_policies
from compiler.schema.model import MatchBlock, Policy
from compiler.source import load_documents
from runtime.bundles import make_imports
from runtime.config import Settings
from runtime.controllers import admissionpolicies
from runtime.controllers.admissionforms import Freed, Ineligible, translate
from runtime.controllers.admissionpolicies import AdmissionPolicies, same
from runtime.controllers.nativepolicies import BINDINGS, POLICIES
from runtime.controllers.policy import PolicyController, watched
from runtime.controllers.status import Native
from runtime.k8s.client import Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.observe.metrics import Metrics
from runtime.webhook.live import Live
from tests.unit.runtime.fake_api import FakeApi

DISCOVERY = Discovery(
    [
        Entry(Resource("", "v1", "pods", "Pod")),
        Entry(Resource("", "v1", "configmaps", "ConfigMap")),
        Entry(Resource("apps", "v1", "deployments", "Deployment")),
        Entry(Resource("apps", "v1", "statefulsets", "StatefulSet")),
        Entry(POLICIES),
        Entry(BINDINGS),
    ]
)

TEXT = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: labelled, uid: u1, resourceVersion: "1"}
spec:
  background: false
  rules:
  - name: has-app
    match: {any: [{resources: {kinds: [Deployment, StatefulSet], operations: [UPDATE, CREATE]}}]}
    validate:
      failureAction: Enforce
      message: the label app is missing
      cel:
        generate: true
        expressions:
        - expression: "'app' in object.metadata.labels"
"""


def obj(text: str = TEXT, **replaced: str) -> dict[str, Any]:
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def model(policy: dict[str, Any]) -> Policy:
    reporter = Reporter()
    (found,), _ = read_policies(load_documents(json.dumps(policy), "p", reporter), reporter)
    return found


def freed(match: str, everywhere: bool = True) -> Freed:
    text = f"""
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {{name: e, namespace: team}}
spec:
  exceptions: [{{policyName: labelled, ruleNames: [has-app]}}]
  match: {{any: [{{resources: {match}}}]}}
"""
    reporter = Reporter()
    _, (found,) = read_policies(load_documents(text, "e", reporter), reporter)
    assert isinstance(found.match, MatchBlock)
    return Freed(found.match, everywhere)


def test_the_policy_and_its_binding() -> None:
    policy = obj()
    made, binding = translate(policy, model(policy), [], DISCOVERY)
    assert made["metadata"] == {
        "name": "cpol-labelled",
        "labels": {"app.kubernetes.io/managed-by": "kyverno"},
        "ownerReferences": [{"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "name": "labelled", "uid": "u1"}],
    }
    assert made["spec"]["failurePolicy"] == "Fail"
    assert made["spec"]["matchConstraints"]["resourceRules"] == [
        {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["deployments", "statefulsets"],
            "scope": "*",
        }
    ]
    (validation,) = made["spec"]["validations"]
    assert validation["message"] == "the label app is missing"
    assert binding["metadata"]["name"] == "cpol-labelled-binding"
    assert binding["spec"] == {"policyName": "cpol-labelled", "validationActions": ["Deny"]}


def test_what_an_audited_policy_and_an_exception_come_to() -> None:
    policy = obj(Enforce="Audit")
    exceptions = [freed("{kinds: [Deployment], names: [old]}"), freed("{namespaces: [lab], operations: [CREATE]}")]
    made, binding = translate(policy, model(policy), exceptions, DISCOVERY, ignore=True)
    assert made["spec"]["failurePolicy"] == "Ignore"
    assert binding["spec"]["validationActions"] == ["Audit", "Warn"]
    first, second = made["spec"]["matchConstraints"]["excludeResourceRules"]
    assert (first["resources"], first["resourceNames"]) == (["deployments"], ["old"])
    assert first["operations"] == ["CREATE", "UPDATE", "CONNECT", "DELETE"]
    assert (second["resources"], second["resourceNames"]) == (["namespaces"], ["lab"])
    # The resource rule lets the Namespace go alone; what is in it needs a condition.
    (condition,) = made["spec"]["matchConditions"]
    assert condition["expression"] == "!(request.operation in ['CREATE'] && request.namespace in ['lab'])"


@pytest.mark.parametrize(
    ("replaced", "why"),
    [
        ({"generate: true": "generate: false"}, "validate.cel.generate is not set to true"),
        ({"kinds: [Deployment, StatefulSet]": "kinds: [Deployment], names: ['web-*']"}, "wildcards in names"),
        ({"kinds: [Deployment, StatefulSet]": "kinds: [Deployment], annotations: {a: b}"}, "Annotations"),
        ({"operations: [UPDATE, CREATE]}}": "operations: [UPDATE]}, roles: [r]}"}, "Roles / ClusterRoles / Subjects"),
        ({"the label app is missing": "'{{ request.object.kind }} lacks app'"}, "variables in messages"),
        ({"kinds: [Deployment, StatefulSet]": "kinds: [Widget]"}, "the cluster serves none of the kinds"),
        ({"background: false": "background: true\n  admission: false"}, "takes no part in admission"),
    ],
)
def test_what_the_api_server_cannot_say_is_left_to_the_webhook(replaced: dict[str, str], why: str) -> None:
    policy = obj(**replaced)
    with pytest.raises(Ineligible, match=f"^skip generating ValidatingAdmissionPolicy: .*{why}"):
        translate(policy, model(policy), [], DISCOVERY)


def test_an_exception_for_its_own_namespace_is_left_to_the_webhook() -> None:
    policy = obj()
    with pytest.raises(Ineligible, match="counts for its own namespace"):
        translate(policy, model(policy), [freed("{kinds: [Deployment]}", everywhere=False)], DISCOVERY)


def test_defaults_of_the_api_server_are_no_difference() -> None:
    policy = obj()
    made, _ = translate(policy, model(policy), [], DISCOVERY)
    stored = json.loads(json.dumps(made))
    stored["spec"]["matchConstraints"].pop("namespaceSelector")
    stored["metadata"]["labels"]["theirs"] = "stays"
    assert same(stored, made)
    stored["spec"]["failurePolicy"] = "Ignore"
    assert not same(stored, made)


class Site:
    """A part with a fake API server, moved on by hand."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.api = FakeApi()
        self.live = Live()
        self.settings = settings or Settings()
        self.controller = PolicyController(self.live, self.settings, Metrics(), make_imports(), lambda: None)
        self.events: list[str] = []
        self.allowed = True
        inner = self.api.create

        async def create(resource: Resource, made: dict[str, Any], namespace: str = "") -> dict[str, Any]:
            if resource.kind == "SelfSubjectAccessReview":
                return {"status": {"allowed": self.allowed}}
            return await inner(resource, made, namespace)

        self.api.create = create  # type: ignore[method-assign,assignment]

        async def discovery(fresh: bool) -> Discovery:
            return DISCOVERY

        installation: Any = SimpleNamespace(
            client=self.api,
            settings=self.settings,
            policies=self.controller,
            discovery=discovery,
            shards=SimpleNamespace(leads=lambda part: True),
            follow=lambda: None,
            events=SimpleNamespace(emit=lambda reason, action, message, *rest, **more: self.events.append(message)),
        )
        self.part = AdmissionPolicies(installation)

    async def stored(self, policy: dict[str, Any]) -> None:
        self.controller.note("changed", policy)
        await self.controller.round()

    async def round(self) -> float | None:
        again = await self.part._round()
        self.seen()
        return again

    def seen(self) -> None:
        """The watches tell of what there is."""
        now = {}
        for resource in (POLICIES, BINDINGS):
            for found in self.api.objects.get(resource.plural, {}).values():
                now[resource.kind, found["metadata"]["name"]] = {**found, "kind": resource.kind}
        for key in set(self.part._stored) - set(now):
            self.part._note("deleted", self.part._stored[key][0])
        for found in now.values():
            self.part._note("changed", found)

    def names(self) -> list[str]:
        return sorted(name for r in (POLICIES, BINDINGS) for _, name in self.api.objects.get(r.plural, {}))


KEY = ("ClusterPolicy", "", "labelled")


def test_rules_go_to_the_api_server_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admissionpolicies, "TRUSTED_SECONDS", 0.05)
    monkeypatch.setattr(admissionpolicies, "HANDED_BACK_SECONDS", 0.05)

    def judged(site: Site) -> list[int]:
        return [len(policy.rules) for policy in watched(site.controller.asked())]

    async def main() -> None:
        site = Site()
        await site.stored(obj())
        assert judged(site) == [1]
        await site.round()
        assert site.names() == ["cpol-labelled", "cpol-labelled-binding"]
        again = await site.round()
        # It is there, but the API server may not know yet: the webhook goes on.
        assert again is not None
        assert site.controller.native == {KEY: Native(True)}
        assert judged(site) == [1]
        await asyncio.sleep(0.06)
        await site.round()
        await site.controller.round()
        assert judged(site) == [0]
        # Somebody takes the binding away: the webhook judges again at once, and it is made again.
        site.api.remove(BINDINGS, "cpol-labelled-binding")
        site.seen()
        await site.round()
        await site.controller.round()
        assert judged(site) == [1]
        assert site.names() == ["cpol-labelled", "cpol-labelled-binding"]
        # A version that does not compile leaves all as it is.
        await site.round()
        await asyncio.sleep(0.06)
        await site.round()
        await site.stored(obj(**{"'app' in object": "'app' inn object"}))
        await site.round()
        await site.controller.round()
        assert judged(site) == [0]
        # One that asks for none gets its rules back first, and only then the others go.
        await site.stored(obj(**{"generate: true": "generate: false"}))
        await site.round()
        await site.controller.round()
        assert judged(site) == [1]
        assert len(site.names()) == 2
        assert "generate is not set" in site.controller.native[KEY].message
        await asyncio.sleep(0.06)
        await site.round()
        assert site.names() == []

    asyncio.run(main())


def test_without_permission_the_status_says_so_and_the_webhook_judges() -> None:
    async def main() -> None:
        site = Site()
        site.allowed = False
        await site.stored(obj())
        await site.round()
        assert site.names() == []
        assert site.controller.native[KEY].message.startswith("insufficient permissions to generate")

    asyncio.run(main())


def test_quantities_are_compared_here_alone() -> None:
    async def main() -> None:
        policy = obj()
        policy["spec"]["rules"][0]["match"]["any"][0]["resources"]["kinds"] = ["Pod"]
        expression = "object.spec.containers.all(c, c.resources.limits.cpu <= '4')"
        policy["spec"]["rules"][0]["validate"]["cel"]["expressions"][0]["expression"] = expression
        site = Site()
        await site.stored(policy)
        await site.round()
        assert "quantities" in site.controller.native[KEY].message
        plain = Site(Settings(cel_strict=True))
        await plain.stored(policy)
        await plain.round()
        assert plain.names() == ["cpol-labelled", "cpol-labelled-binding"]

    asyncio.run(main())


def test_without_the_flag_what_was_made_goes_and_what_others_made_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admissionpolicies, "HANDED_BACK_SECONDS", 0.0)

    async def main() -> None:
        site = Site(Settings(generate_native=False))
        made, binding = translate(obj(), model(obj()), [], DISCOVERY)
        site.api.put(POLICIES, made)
        site.api.put(BINDINGS, binding)
        site.api.put(POLICIES, {**made, "metadata": {"name": "theirs", "labels": made["metadata"]["labels"]}})
        site.seen()
        await site.stored(obj())
        await site.round()
        assert site.names() == ["theirs"]

    asyncio.run(main())
