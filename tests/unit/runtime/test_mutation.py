"""Rules that change existing objects, over an API server in memory: from requests, for what is there already, under the
version that was read, and nowhere a policy may not reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from compiler.source import load_values
from runtime.controllers.clusterconfig import parse
from runtime.controllers.mutatepolicies import MutatePart
from runtime.controllers.updaterequests import UpdateRequest
from runtime.k8s.client import Object, Resource
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import CONFIG_MAP, NAMESPACE, POLICY, SECRET, UPDATE_REQUEST
from tests.unit.runtime.test_generation import Bench as GenerateBench
from tests.unit.runtime.test_generation import namespace, secret

MARK = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: marks, uid: policy-1, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  rules:
  - name: mark
    match: {any: [{resources: {kinds: [ConfigMap], names: [trigger]}}]}
    mutate:
      mutateExistingOnPolicyUpdate: false
      targets: [{apiVersion: v1, kind: Secret, namespace: "{{ request.namespace }}", name: "pull*"}]
      patchStrategicMerge: {metadata: {labels: {of: "{{ request.object.data.value }}"}}}
"""
OWN = MARK.replace("kind: ClusterPolicy", "kind: Policy").replace("{name: marks,", "{name: marks, namespace: default,")


class Bench(GenerateBench):
    def __init__(self) -> None:
        super().__init__()
        self.mutation = MutatePart(self.installation)

    async def own_policy(self, text: str) -> None:
        (obj,) = load_values(text)
        self.policies.note("added", self.api.put(POLICY, dict(obj)))
        await self.policies.round()
        assert [e.error for e in self.policies.entries.values() if e.error] == []

    async def work(self) -> list[str]:
        states = []
        for obj in self.requests():
            work = UpdateRequest(obj["metadata"]["name"], obj["spec"], age=60.0)
            outcome = await self.installation.requests.processors["mutate"](work)
            states.append(outcome.state if outcome.state != "failed" else outcome.message)
            if outcome.state == "done":
                self.api.remove(UPDATE_REQUEST, obj["metadata"]["name"], "kyverno")
        return states

    def labels(self, name: str = "pull", place: str = "default") -> Any:
        found = self.find("Secret", name, place)
        return None if found is None else found["metadata"].get("labels")

    def writes(self) -> int:
        return sum(verb == "replace" and plural == "secrets" for verb, plural, _ in self.api.calls)


def run(scenario: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario(Bench()))


def trigger(value: str = "x", place: str = "default") -> Object:
    metadata = {"name": "trigger", "namespace": place}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}


def test_a_request_changes_what_wildcards_mean_and_doing_it_again_writes_nothing() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(MARK)
        for name in ("pull", "pull-2", "other"):
            bench.api.put(SECRET, {**secret(), "metadata": {"name": name, "namespace": "default"}})
        await bench.create(trigger("one"))
        (made,) = bench.requests()
        assert made["spec"]["requestType"] == "mutate"
        assert made["spec"]["rule"] == "mark"
        assert await bench.work() == ["done"]
        assert [bench.labels(n) for n in ("pull", "pull-2", "other")] == [{"of": "one"}, {"of": "one"}, None]
        assert bench.writes() == 2
        # A crash after the writes and before the update request went: the same once more.
        bench.api.put(UPDATE_REQUEST, made)
        assert await bench.work() == ["done"]
        assert bench.writes() == 2

    run(scenario)


def test_nothing_follows_from_what_was_not_stored_or_is_a_dry_run() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(MARK)
        bench.api.put(SECRET, secret())
        await bench.create(trigger(), dry_run=True)
        assert bench.requests() == []
        bench.api.remove(CONFIG_MAP, "trigger", "default")
        await bench.create(trigger(), stored=False)
        assert await bench.work() == ["done"]
        assert bench.labels() is None

    run(scenario)


def test_a_target_that_changes_meanwhile_is_read_anew_and_nothing_of_it_is_lost() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(MARK)
        bench.api.put(SECRET, secret("before"))
        await bench.create(trigger())
        replace = bench.api.replace
        raced: list[str] = []

        async def racing(resource: Resource, obj: Object, namespace: str = "", subresource: str = "") -> Object:
            if not raced:
                raced.append("once")
                bench.api.put(SECRET, secret("after"))
            return await replace(resource, obj, namespace, subresource)

        bench.api.replace = racing  # type: ignore[method-assign]
        assert await bench.work() == ["done"]
        found = bench.find("Secret", "pull", "default")
        assert found is not None
        assert found["data"] == {"token": "after"}
        assert bench.labels() == {"of": "x"}

    run(scenario)


def test_one_target_that_is_refused_leaves_the_others_changed_and_is_told_of() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.policy(MARK)
        for name in ("pull", "pull-2"):
            bench.api.put(SECRET, {**secret(), "metadata": {"name": name, "namespace": "default"}})
        await bench.create(trigger())
        replace = bench.api.replace

        async def refusing(resource: Resource, obj: Object, namespace: str = "", subresource: str = "") -> Object:
            if obj["metadata"]["name"] == "pull":
                raise ApiProblem(403, "Forbidden", "may not update it")
            return await replace(resource, obj, namespace, subresource)

        bench.api.replace = refusing  # type: ignore[method-assign]
        assert await bench.work() == ["may not update it"]
        assert (bench.labels("pull"), bench.labels("pull-2")) == (None, {"of": "x"})
        assert bench.tell.failures == ["may not update it"]

    run(scenario)


def test_what_the_background_does_itself_sets_nothing_off_unless_the_rule_says_so() -> None:
    async def scenario(bench: Bench) -> None:
        own = bench.installation.settings.names.user_of("background")
        await bench.policy(MARK)
        await bench.create(trigger(), user=own)
        assert bench.requests() == []
        await bench.policy(MARK.replace("  - name: mark\n", "  - name: mark\n    skipBackgroundRequests: false\n"))
        await bench.create(trigger(), user=own)
        assert len(bench.requests()) == 1

    run(scenario)


def test_a_namespaced_policy_reaches_no_other_namespace() -> None:
    async def scenario(bench: Bench) -> None:
        bench.api.put(NAMESPACE, namespace("elsewhere"))
        for place in ("default", "elsewhere"):
            bench.api.put(SECRET, {**secret(), "metadata": {"name": "pull", "namespace": place}})
        await bench.own_policy(OWN)
        await bench.create(trigger(place="elsewhere"))
        assert bench.requests() == []
        await bench.create(trigger())
        assert await bench.work() == ["done"]
        assert (bench.labels(), bench.labels(place="elsewhere")) == ({"of": "x"}, None)

    run(scenario)


def test_what_is_there_when_a_policy_asks_for_it_is_changed_once() -> None:
    async def scenario(bench: Bench) -> None:
        bench.api.put(SECRET, secret())
        bench.api.put(CONFIG_MAP, trigger("early"))
        await bench.policy(MARK.replace("Update: false", "Update: true"))
        await bench.mutation.follow()
        assert len(bench.requests()) == 1
        assert await bench.work() == ["done"]
        assert bench.labels() == {"of": "early"}
        # Another replica, or the same after a restart.
        await MutatePart(bench.installation).follow()
        assert bench.requests() == []

    run(scenario)


def test_what_is_filtered_sets_nothing_off_though_it_is_there_already() -> None:
    async def scenario(bench: Bench) -> None:
        bench.installation.config = lambda: parse({"data": {"resourceFilters": "[ConfigMap,kube-*,*]"}})
        for place in ("kube-system", "default"):
            bench.api.put(CONFIG_MAP, trigger("early", place))
        await bench.policy(MARK.replace("Update: false", "Update: true"))
        await bench.mutation.follow()
        assert [obj["spec"]["resource"]["namespace"] for obj in bench.requests()] == ["default"]

    run(scenario)
