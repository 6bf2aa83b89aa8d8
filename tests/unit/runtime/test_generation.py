"""From an admitted request to objects in the cluster, over an API server in memory: the hook, the queue, the processor,
the life of the rules."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest

from compiler.source import load_values
from runtime.bundles import make_imports
from runtime.config import Settings
from runtime.controllers import triggers
from runtime.controllers.clusterconfig import ClusterConfig, parse
from runtime.controllers.generatepart import GeneratePart
from runtime.controllers.installation import Installation
from runtime.controllers.leases import Shards
from runtime.controllers.lookups import Lookups
from runtime.controllers.policy import PolicyController
from runtime.controllers.triggers import Triggers
from runtime.controllers.updaterequests import UpdateRequest
from runtime.generate import CLONE_SOURCE, LABELS
from runtime.k8s.client import Object, Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.k8s.resources import CLUSTER_POLICY, CONFIG_MAP, NAMESPACE, SECRET, UPDATE_REQUEST
from runtime.observe.metrics import Metrics
from runtime.webhook.live import Live
from tests.unit.runtime.fake_api import FakeApi
from vm.host import HostCall
from vm.values import Value

VERBS = frozenset({"list", "watch", "get"})
DISCOVERY = Discovery([Entry(r, verbs=VERBS) for r in (CONFIG_MAP, NAMESPACE, SECRET)])
PLURALS = {"Namespace": NAMESPACE, "ConfigMap": CONFIG_MAP, "Secret": SECRET}

DATA = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: defaults, uid: policy-1, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  background: false
  rules:
  - name: settings
    match: {any: [{resources: {kinds: [Namespace], selector: {matchLabels: {team: a}}}}]}
    preconditions: {all: [{key: "{{request.object.metadata.name}}", operator: NotEquals, value: off}]}
    generate:
      apiVersion: v1
      kind: ConfigMap
      name: settings
      namespace: "{{request.object.metadata.name}}"
      synchronize: true
      data: {data: {of: "{{request.object.metadata.name}}", size: "1"}}
"""

CLONE = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: copies, uid: policy-2, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  rules:
  - name: copy
    match: {any: [{resources: {kinds: [Namespace]}}]}
    generate:
      apiVersion: v1
      kind: Secret
      name: pull
      namespace: "{{request.object.metadata.name}}"
      synchronize: true
      clone: {name: pull, namespace: default}
"""


class Api(FakeApi):
    """Gives uids and times, as the API server does."""

    def put(self, resource: Resource, obj: Object) -> Object:
        known = self.objects.get(resource.plural, {})
        metadata = obj["metadata"]
        before = known.get((metadata.get("namespace") or "", metadata["name"]))
        kept = {} if before is None else {k: before["metadata"][k] for k in ("uid", "creationTimestamp")}
        fresh = {"uid": str(uuid4()), "creationTimestamp": "2026-02-02T00:00:00Z", **kept}
        return super().put(resource, {**obj, "metadata": {**fresh, **metadata}})


class Tell:
    """Hears what is told as events."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.made: list[str] = []

    def failed(self, info: Any, rule: str, problem: object, resource: Any, reporter: str) -> None:
        self.failures.append(str(problem))

    def generated(self, info: Any, rule: str, made: Any) -> None:
        self.made += [obj["metadata"]["name"] for obj in made]

    def mutated(self, info: Any, changed: Any) -> None:
        self.made += [obj["metadata"]["name"] for obj in changed]


class Bench:
    def __init__(self, settings: Settings | None = None) -> None:
        self.api = Api()
        self.live = Live(namespaces={})
        self.tell = Tell()
        self.config = ClusterConfig()
        shards = Shards()
        shards.hold_all("background")
        settings = settings or Settings()
        self.policies = PolicyController(self.live, settings, Metrics(), make_imports(), lambda: None)
        self.installation = Installation(
            self.api,  # type: ignore[arg-type]
            settings,
            self.live,
            Metrics(),
            self.policies,
            self._discovery,
            Lookups(self.api, self._discovery).ask,
            lambda: self.config,
            None,  # type: ignore[arg-type]
            shards,
            lambda: None,
            self.tell,  # type: ignore[arg-type]
        )
        self.hook = Triggers(self.installation).hook
        self.part = GeneratePart(self.installation)

    async def _discovery(self, fresh: bool) -> Discovery:
        return DISCOVERY

    async def policy(self, text: str, **changes: str) -> None:
        for old, new in changes.items():
            text = text.replace(old, new)
        (obj,) = load_values(text)
        stored = self.api.put(CLUSTER_POLICY, dict(obj))
        self.policies.note("added", stored)
        await self.policies.round()
        assert [e.error for e in self.policies.entries.values() if e.error] == []

    async def no_policy(self, name: str) -> None:
        gone = self.api.objects["clusterpolicies"]["", name]
        self.api.remove(CLUSTER_POLICY, name)
        self.policies.note("deleted", gone)
        await self.policies.round()

    async def asked(
        self,
        operation: str,
        new: Object | None,
        old: Object | None = None,
        *,
        user: str = "anna",
        stored: bool = True,
        dry_run: bool = False,
    ) -> None:
        """A request that the webhook admits; then it is stored, unless another webhook refuses it."""
        obj = new or old
        assert obj is not None
        kind = str(obj["kind"])
        gvk = {"group": "", "version": "v1", "kind": kind}
        asked: dict[str, Any] = {
            "uid": str(uuid4()),
            "kind": gvk,
            "resource": {"group": "", "version": "v1", "resource": PLURALS[kind].plural},
            "name": obj["metadata"]["name"],
            "namespace": obj["metadata"].get("namespace") or (obj["metadata"]["name"] if kind == "Namespace" else ""),
            "operation": operation,
            "userInfo": {"username": user},
            "dryRun": dry_run,
        }
        if new is not None:
            asked["object"] = new
        if old is not None:
            asked["oldObject"] = old
        request = self.live.decode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked})
        judged = self.live.judge(request, "validate", "", time.monotonic() + 5)
        assert judged is not None
        await self.hook(judged)
        if not stored:
            return
        if operation == "DELETE":
            self.api.remove(PLURALS[kind], obj["metadata"]["name"], obj["metadata"].get("namespace") or "")
        else:
            self.api.put(PLURALS[kind], obj)

    async def create(self, obj: Object, **options: Any) -> Object:
        # The uid is there before validating webhooks are asked.
        made = {**obj, "metadata": {"uid": str(uuid4()), **obj["metadata"]}}
        await self.asked("CREATE", made, **options)
        return self.find(str(obj["kind"]), obj["metadata"]["name"], obj["metadata"].get("namespace") or "") or made

    async def work(self) -> list[str]:
        """Does all update requests that there are, once; gives what became of them."""
        states = []
        for obj in list(self.requests()):
            request = UpdateRequest(obj["metadata"]["name"], obj["spec"], age=60.0)
            outcome = await self.part.generation.process(request)
            states.append(outcome.state if outcome.state != "failed" else outcome.message)
            if outcome.state == "done":
                self.api.remove(UPDATE_REQUEST, obj["metadata"]["name"], "kyverno")
        return states

    def requests(self) -> list[Object]:
        return list(self.api.objects.get("updaterequests", {}).values())

    def find(self, kind: str, name: str, namespace: str = "") -> Object | None:
        return self.api.objects.get(PLURALS[kind].plural, {}).get((namespace, name))

    async def follow(self) -> None:
        await self.part._policies.follow()


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    asyncio.run(scenario(Bench()))


def namespace(name: str = "one", **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def secret(value: str = "x") -> Object:
    metadata = {"name": "pull", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"token": value}}


def test_a_request_is_written_down_before_it_is_answered_and_done_later() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(DATA)
        trigger = await bench.create(namespace(team="a"))
        (written,) = bench.requests()
        assert written["spec"]["requestType"] == "generate"
        assert written["metadata"]["labels"] == {LABELS + "policy-name": "defaults"}
        assert written["spec"]["policy"] == "defaults"
        (context,) = written["spec"]["ruleContext"]
        assert context["trigger"]["uid"] == trigger["metadata"]["uid"]
        assert bench.find("ConfigMap", "settings", "one") is None
        assert await bench.work() == ["done"]
        made = bench.find("ConfigMap", "settings", "one")
        assert made is not None
        assert made["data"] == {"of": "one", "size": "1"}
        assert made["metadata"]["labels"][LABELS + "trigger-uid"] == trigger["metadata"]["uid"]
        assert bench.tell.made == ["settings"]

    run(scenario)


def test_nothing_follows_from_what_is_not_stored() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(DATA)
        await bench.create(namespace(team="a"), dry_run=True, stored=False)
        assert bench.requests() == []
        await bench.create(namespace(team="a"), stored=False)
        assert await bench.work() == ["done"]
        assert bench.find("ConfigMap", "settings", "one") is None
        bench.api.put(NAMESPACE, namespace(team="other"))
        await bench.create(namespace(team="a"), stored=False)
        assert await bench.work() == ["refused"]

    run(scenario)


@pytest.mark.parametrize("labels", [{"team": "b"}, {}])
def test_what_a_trigger_no_longer_asks_for_goes(labels: dict[str, str]) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(DATA)
        old = await bench.create(namespace(team="a"))
        await bench.work()
        new = {**old, "metadata": {**old["metadata"], "labels": labels}}
        await bench.asked("UPDATE", new, old)
        (written,) = bench.requests()
        assert written["spec"]["deleteDownstream"] is True
        assert await bench.work() == ["done"]
        assert bench.find("ConfigMap", "settings", "one") is None

    run(scenario)


def test_an_update_that_others_refuse_takes_nothing_along() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(DATA)
        old = await bench.create(namespace(team="a"))
        await bench.work()
        new = {**old, "metadata": {**old["metadata"], "labels": {}}}
        await bench.asked("UPDATE", new, old, stored=False)
        assert await bench.work() == ["done"]
        assert bench.find("ConfigMap", "settings", "one") is not None

    run(scenario)


def test_a_deleted_trigger_takes_along_what_was_made() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(DATA)
        old = await bench.create(namespace(team="a"))
        await bench.work()
        await bench.asked("DELETE", None, old, stored=False)
        assert await bench.work() == ["done"]
        assert bench.find("ConfigMap", "settings", "one") is not None
        await bench.asked("DELETE", None, old)
        assert await bench.work() == ["done"]
        assert bench.find("ConfigMap", "settings", "one") is None

    run(scenario)


def test_an_update_that_changes_nothing_sets_nothing_off() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(DATA)
        old = await bench.create(namespace(team="a"))
        await bench.work()
        new = {**old, "metadata": {**old["metadata"], "managedFields": [{"manager": "x"}]}}
        await bench.asked("UPDATE", new, old)
        assert bench.requests() == []

    run(scenario)


def test_an_edit_of_what_was_made_is_taken_back_and_one_of_our_own_sets_nothing_off() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(DATA)
        await bench.create(namespace(team="a"))
        await bench.work()
        made = bench.find("ConfigMap", "settings", "one")
        assert made is not None
        edited = {**made, "data": {"of": "one", "size": "2"}}
        own = bench.installation.settings.names.user
        await bench.asked("UPDATE", edited, made, user=own, stored=False)
        assert bench.requests() == []
        await bench.asked("UPDATE", edited, made)
        assert await bench.work() == ["done"]
        found = bench.find("ConfigMap", "settings", "one")
        assert found is not None
        assert found["data"] == {"of": "one", "size": "1"}

    run(scenario)


def test_what_hangs_on_who_asked_is_known_later_and_left_alone_when_nobody_asks() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(DATA.replace('request.object.metadata.name}}", size', 'request.userInfo.username}}", size'))
        await bench.create(namespace(team="a"))
        await bench.work()
        made = bench.find("ConfigMap", "settings", "one")
        assert made is not None
        assert made["data"] == {"of": "anna", "size": "1"}
        await bench.follow()
        await bench.asked("UPDATE", {**made, "data": {"of": "one", "size": "2"}}, made)
        assert await bench.work() == ["done", "done"]
        assert bench.tell.failures == []

    run(scenario)


def test_copies_follow_their_source() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(CLONE)
        bench.api.put(SECRET, secret())
        for name in ("one", "two"):
            await bench.create(namespace(name))
        assert await bench.work() == ["done", "done"]
        source = bench.find("Secret", "pull", "default")
        assert source is not None
        assert source["metadata"]["labels"] == {CLONE_SOURCE: ""}
        await bench.asked("UPDATE", {**source, "data": {"token": "y"}}, source)
        # One update request for all copies, and no Secret in it.
        (written,) = bench.requests()
        assert "token" not in str(written)
        assert await bench.work() == ["done"]
        copies = [bench.find("Secret", "pull", name) for name in ("one", "two")]
        assert [copy and copy["data"] for copy in copies] == [{"token": "y"}] * 2
        source = bench.find("Secret", "pull", "default")
        await bench.asked("DELETE", None, source)
        assert await bench.work() == ["done"]
        assert bench.tell.failures == []
        assert [bench.find("Secret", "pull", name) for name in ("one", "two")] == [None, None]

    run(scenario)


def test_a_source_that_changes_while_it_is_copied_is_copied_again() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(CLONE)
        bench.api.put(SECRET, secret())
        await bench.create(namespace())
        read, count = bench.api.get, 0

        async def changing(resource: Resource, name: str, namespace: str = "") -> Object:
            nonlocal count
            found = await read(resource, name, namespace)
            if resource is SECRET and namespace == "default":
                count += 1
                if count == 1:
                    # Nobody is told of this one: the source is not marked yet.
                    bench.api.put(SECRET, secret("y"))
            return found

        bench.api.get = changing  # type: ignore[method-assign]
        assert await bench.work() == ["done"]
        made = bench.find("Secret", "pull", "one")
        assert made is not None
        assert made["data"] == {"token": "y"}

    run(scenario)


def test_what_a_shorter_list_no_longer_asks_for_goes() -> None:
    loop = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: loops, uid: policy-3, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  rules:
  - name: each
    match: {any: [{resources: {kinds: [Namespace]}}]}
    generate:
      synchronize: true
      foreach:
      - list: "request.object.metadata.annotations.names | split(@, ',')"
        apiVersion: v1
        kind: ConfigMap
        name: "{{element}}"
        namespace: "{{request.object.metadata.name}}"
        data: {data: {a: b}}
"""

    def annotated(obj: Object, names: str) -> Object:
        return {**obj, "metadata": {**obj["metadata"], "annotations": {"names": names}}}

    async def scenario(bench: Bench) -> None:
        await bench.policy(loop)
        old = await bench.create(annotated(namespace(), "a,b,c"))
        assert await bench.work() == ["done"]
        assert all(bench.find("ConfigMap", name, "one") for name in "abc")
        await bench.asked("UPDATE", annotated(old, "a,d"), old)
        assert await bench.work() == ["done"]
        assert [bool(bench.find("ConfigMap", name, "one")) for name in "abcd"] == [True, False, False, True]

    run(scenario)


def test_labels_of_what_is_made_are_texts() -> None:
    async def scenario(bench: Bench) -> None:
        labels = 'metadata: {labels: {count: "{{ `2` }}"}, annotations: {is: "{{ `true` }}"}}, data: {of:'
        await bench.policy(DATA.replace("data: {of:", labels))
        await bench.create(namespace(team="a"))
        assert await bench.work() == ["done"]
        made = bench.find("ConfigMap", "settings", "one")
        assert made is not None
        assert made["metadata"]["labels"]["count"] == "2"
        assert made["metadata"]["annotations"] == {"is": "true"}

    run(scenario)


def test_of_several_sources_the_one_that_goes_takes_its_own_copy_along() -> None:
    listed = CLONE.replace(
        """      apiVersion: v1
      kind: Secret
      name: pull
""",
        "",
    ).replace(
        "clone: {name: pull, namespace: default}",
        "cloneList: {namespace: default, kinds: [v1/Secret], selector: {matchLabels: {share: all}}}",
    )

    def shared(name: str) -> Object:
        metadata = {"name": name, "namespace": "default", "labels": {"share": "all"}}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"token": name}}

    async def scenario(bench: Bench) -> None:
        await bench.policy(listed)
        for name in ("first", "second"):
            bench.api.put(SECRET, shared(name))
        await bench.create(namespace())
        assert await bench.work() == ["done"]
        assert all(bench.find("Secret", name, "one") for name in ("first", "second"))
        await bench.asked("DELETE", None, bench.find("Secret", "first", "default"))
        assert await bench.work() == ["done"]
        assert [bool(bench.find("Secret", name, "one")) for name in ("first", "second")] == [False, True]

    run(scenario)


def test_a_missing_source_is_told_of() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(CLONE)
        await bench.create(namespace())
        (message,) = await bench.work()
        assert "source resource v1/Secret/default/pull not found" in message
        assert bench.tell.failures
        bench.api.put(SECRET, secret())
        assert await bench.work() == ["done"]

    run(scenario)


def test_the_data_of_a_secret_that_sets_a_rule_off_is_not_written_down() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(
            CLONE.replace("kinds: [Namespace]", "kinds: [Secret]").replace("name: pull\n", "name: pull2\n")
        )
        await bench.create(secret("hidden"))
        (written,) = bench.requests()
        assert "hidden" not in str(written)

    run(scenario)


def test_rules_that_come_change_and_go() -> None:
    async def scenario(bench: Bench) -> None:
        bench.api.put(NAMESPACE, namespace("early", team="a"))
        existing = DATA.replace("synchronize: true", "synchronize: true\n      generateExisting: true")
        await bench.policy(existing)
        await bench.follow()
        assert await bench.work() == ["done"]
        made = bench.find("ConfigMap", "settings", "early")
        assert made is not None
        assert made["data"] == {"of": "early", "size": "1"}
        # Seen to: another look does nothing.
        await bench.follow()
        assert bench.requests() == []
        await bench.policy(DATA.replace('size: "1"', 'size: "2"'))
        await bench.follow()
        await bench.work()
        changed = bench.find("ConfigMap", "settings", "early")
        assert changed is not None
        assert changed["data"]["size"] == "2"
        # What the rule makes now is another thing: the old one is left to others.
        await bench.policy(DATA.replace("name: settings\n      namespace", "name: renamed\n      namespace"))
        await bench.follow()
        await bench.work()
        left = bench.find("ConfigMap", "settings", "early")
        assert left is not None
        assert not left["metadata"].get("labels")
        assert bench.find("ConfigMap", "renamed", "early") is not None
        await bench.no_policy("defaults")
        await bench.follow()
        assert bench.find("ConfigMap", "renamed", "early") is None
        assert bench.find("ConfigMap", "settings", "early") is not None

    run(scenario)


def test_what_is_filtered_sets_nothing_off_though_it_is_there_already() -> None:
    async def scenario(bench: Bench) -> None:
        bench.config = parse({"data": {"resourceFilters": "[*/*,early,*]"}})
        for name in ("early", "late"):
            bench.api.put(NAMESPACE, namespace(name, team="a"))
        await bench.policy(DATA.replace("synchronize: true", "synchronize: true\n      generateExisting: true"))
        await bench.follow()
        await bench.work()
        assert bench.find("ConfigMap", "settings", "early") is None
        assert bench.find("ConfigMap", "settings", "late") is not None

    run(scenario)


def test_what_an_orphaning_rule_made_stays() -> None:
    async def scenario(bench: Bench) -> None:
        orphaning = "synchronize: true\n      orphanDownstreamOnPolicyDelete: true"
        await bench.policy(DATA.replace("synchronize: true", orphaning))
        await bench.follow()
        await bench.create(namespace(team="a"))
        await bench.work()
        await bench.no_policy("defaults")
        await bench.follow()
        assert bench.find("ConfigMap", "settings", "one") is not None

    run(scenario)


def test_a_policy_deleted_while_nobody_ran_takes_along_what_it_made() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(DATA)
        await bench.follow()
        await bench.create(namespace(team="a"))
        await bench.work()
        bench.api.remove(CLUSTER_POLICY, "defaults")
        later = Bench()
        later.api.objects = bench.api.objects
        await later.follow()
        assert later.find("ConfigMap", "settings", "one") is None

    run(scenario)


def test_a_policy_made_again_keeps_what_it_made_meanwhile() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(DATA)
        await bench.follow()
        await bench.create(namespace(team="a"))
        await bench.work()
        await bench.no_policy("defaults")
        again = DATA.replace("policy-1", "policy-9").replace("2026-01-01", "2026-02-02")
        await bench.policy(again)
        await bench.follow()
        assert bench.find("ConfigMap", "settings", "one") is not None
        await bench.no_policy("defaults")
        await bench.policy(again.replace("2026-02-02", "2026-02-03").replace("policy-9", "policy-10"))
        await bench.follow()
        assert bench.find("ConfigMap", "settings", "one") is None

    run(scenario)


def test_a_service_that_does_not_answer_loses_nothing(monkeypatch: Any) -> None:
    monkeypatch.setattr(triggers, "EVALUATION", 0.05)

    async def scenario(bench: Bench) -> None:
        asking = (
            "context: [{name: found, apiCall: {urlPath: /api/v1/namespaces/default/configmaps}}]\n    preconditions"
        )
        await bench.policy(DATA.replace("preconditions", asking))
        answers = bench.installation.ask

        async def never(call: HostCall) -> Value:
            await asyncio.sleep(60)
            return None

        bench.installation.ask = never
        old = await bench.create(namespace(team="a"))
        assert len(bench.requests()) == 1
        bench.installation.ask = answers
        bench.api.answers["GET", "/api/v1/namespaces/default/configmaps"] = {"items": []}
        assert await bench.work() == ["done"]
        assert bench.find("ConfigMap", "settings", "one") is not None
        bench.installation.ask = never
        await bench.asked("DELETE", None, old)
        bench.installation.ask = answers
        assert await bench.work() == ["done"]
        assert bench.find("ConfigMap", "settings", "one") is None

    run(scenario)
