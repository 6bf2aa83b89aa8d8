"""Which kinds are scanned and in which version; a stream tells of each object once and goes on after faults."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.bundles import load_module, make_imports
from runtime.controllers.compilation import compile_text
from runtime.controllers.scankinds import Place, ScannedKind, ScannedRules
from runtime.k8s.client import Object, Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.stream import Listener, Stream
from runtime.k8s.watch import Backoff
from runtime.mismatches import Mismatches
from runtime.policyset import PolicySet
from tests.unit.runtime.fake_api import FakeApi

ALL = frozenset({"get", "list", "watch", "create", "delete"})

SERVED = Discovery(
    [
        Entry(Resource("", "v1", "pods", "Pod"), verbs=ALL),
        Entry(Resource("", "v1", "pods", "PodExecOptions"), "exec", frozenset({"create"})),
        Entry(Resource("", "v1", "events", "Event"), verbs=ALL),
        Entry(Resource("", "v1", "bindings", "Binding"), verbs=frozenset({"create"})),
        Entry(Resource("autoscaling", "v2", "scalers", "Scaler"), verbs=ALL),
        Entry(Resource("autoscaling", "v1", "scalers", "Scaler"), verbs=ALL),
        Entry(Resource("coordination.k8s.io", "v1", "leases", "Lease"), verbs=ALL),
        Entry(Resource("wgpolicyk8s.io", "v1alpha2", "policyreports", "PolicyReport"), verbs=ALL),
        Entry(Resource("kyverno.io", "v1", "clusterpolicies", "ClusterPolicy", namespaced=False), verbs=ALL),
    ]
)

POLICY = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {{name: {name}, labels: {labels}, annotations: {{pod-policies.kyverno.io/autogen-controllers: none}}}}
spec:
  rules:
    - name: r
      match: {{any: [{{resources: {{kinds: [{kinds}]{more}}}}}]}}
      validate: {{message: m, pattern: {pattern}}}
"""

LABELLED = "{metadata: {labels: {team: '?*'}}}"


def kinds(*policies: str) -> dict[Place, ScannedKind]:
    return rules(*policies).kinds(SERVED)


def rules(*policies: str) -> ScannedRules:
    parts, digests = [], []
    for text in policies:
        compiled = compile_text(text, "test")
        assert compiled.bundle is not None, compiled.report
        module, digest, run = load_module(compiled.bundle, "1", None, make_imports(), Mismatches(), at_once=False)
        parts.append((module, run))
        digests.append(digest)
    return ScannedRules(PolicySet(parts, tier="1", mismatches=Mismatches(), digests=digests))


def policy(kinds: str, *, name: str = "p", labels: str = "{}", more: str = "", pattern: str = LABELLED) -> str:
    return POLICY.format(kinds=kinds, name=name, labels=labels, more=more, pattern=pattern)


def test_kinds_that_rules_name_are_scanned() -> None:
    found = kinds(policy("Pod"))

    assert set(found) == {("", "pods")}
    assert found["", "pods"].resource == Resource("", "v1", "pods", "Pod")
    assert not found["", "pods"].labels
    assert not found["", "pods"].status


def test_a_wildcard_means_no_events_reports_leases_and_policies() -> None:
    assert set(kinds(policy('"?*"'))) == {("", "pods"), ("autoscaling", "scalers")}


def test_kinds_left_out_of_a_wildcard_are_scanned_by_name() -> None:
    assert set(kinds(policy("Lease, ClusterPolicy, Event, PolicyReport"))) == {
        ("coordination.k8s.io", "leases"),
        ("kyverno.io", "clusterpolicies"),
    }


@pytest.mark.parametrize("unscanned", ["Binding", "Nothing"])
def test_what_cannot_be_listed_is_not_scanned(unscanned: str) -> None:
    assert kinds(policy(unscanned)) == {}


def test_any_version_is_the_first_that_is_served() -> None:
    found = kinds(policy("Scaler"))["autoscaling", "scalers"]

    assert (found.resource.version, found.others) == ("v2", ())


def test_each_version_that_a_rule_names_is_read() -> None:
    found = kinds(policy("autoscaling/v1/Scaler"), policy("Scaler", name="q"))["autoscaling", "scalers"]
    assert (found.resource.version, found.others) == ("v1", ())

    both = kinds(policy("autoscaling/v1/Scaler"), policy("autoscaling/v2/Scaler", name="q"))["autoscaling", "scalers"]
    assert (both.resource.version, [other.version for other in both.others]) == ("v2", ["v1"])


def test_operations_without_create_are_not_scanned() -> None:
    assert kinds(policy("Pod", more=", operations: [UPDATE]")) == {}
    assert set(kinds(policy("Pod", more=", operations: [UPDATE, CREATE]"))) == {("", "pods")}


def test_a_policy_without_reports_is_not_scanned() -> None:
    assert kinds(policy("Pod", labels='{reports.kyverno.io/disabled: "true"}')) == {}


def test_rules_tell_what_they_look_at() -> None:
    by_labels = policy("Pod", more=", namespaceSelector: {matchLabels: {a: b}}")
    assert kinds(by_labels)["", "pods"].labels
    assert kinds(policy("Pod", pattern="{status: {phase: Running}}"))["", "pods"].status


def test_another_rule_or_exception_changes_the_hash_of_the_kind() -> None:
    exception = """
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: e, namespace: ns}
spec:
  exceptions: [{policyName: p, ruleNames: [r]}]
  match: {any: [{resources: {kinds: [Pod]}}]}
"""
    one = kinds(policy("Pod"), policy("Scaler", name="q"))
    two = kinds(policy("Pod"), policy("Scaler", name="q", pattern="{metadata: {labels: {owner: '?*'}}}"))
    three = kinds(policy("Pod"), policy("Scaler", name="q"), exception)

    assert one["", "pods"] == two["", "pods"]
    assert one["autoscaling", "scalers"].rules != two["autoscaling", "scalers"].rules
    assert one["", "pods"].rules != three["", "pods"].rules
    assert one["autoscaling", "scalers"] == three["autoscaling", "scalers"]


def test_a_kind_may_be_meant_that_is_not_served_now() -> None:
    found = rules(policy("Nothing, autoscaling/v1/Scaler"))

    assert found.may_reach("example.com/Nothing")
    assert found.may_reach("autoscaling/Scaler")
    assert not found.may_reach("example.com/Scaler")
    assert not found.may_reach("/Pod")


THINGS = Resource("example.com", "v1", "things", "Thing")


class Told:
    """What a stream told, in words."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.stream = Stream(FakeApi(), THINGS, Listener(self._begin, self._each, self._end, self._gone))

    def _begin(self) -> None:
        self.words.append("begin")

    async def _each(self, obj: Object, listed: bool) -> None:
        assert (obj["apiVersion"], obj["kind"]) == ("example.com/v1", "Thing")
        self.words.append(f"{'listed' if listed else 'watched'} {obj['metadata']['name']}")

    def _end(self) -> None:
        self.words.append("end")

    def _gone(self, obj: Object) -> None:
        self.words.append(f"gone {obj['metadata']['name']}")


def thing(name: str) -> Object:
    return {"metadata": {"name": name, "namespace": "n"}}


def test_a_stream_lists_then_watches_and_lists_again_when_it_is_asked_or_lost_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Backoff, "next", lambda self: 0.01)
    told = Told()

    async def until(words: str) -> None:
        async with asyncio.timeout(5):
            while words not in " ".join(told.words):
                await asyncio.sleep(0.005)
        told.words.clear()

    async def main() -> None:
        api = FakeApi()
        told.stream._client = api
        for name in ("a", "b", "c"):
            api.put(THINGS, thing(name))
        task = asyncio.create_task(told.stream.run())
        await until("begin listed a listed b listed c end")
        api.put(THINGS, thing("d"))
        api.remove(THINGS, "a", "n")
        await until("watched d gone a")
        told.stream.again.set()
        await until("begin listed b listed c listed d end")
        await asyncio.sleep(0.02)
        api.forget_history()
        await until("begin listed b listed c listed d end")
        await asyncio.sleep(0.02)
        api.fail_next = [Unreachable("away")] * 3
        told.stream.again.set()
        await until("begin begin begin begin listed b listed c listed d end")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def test_a_stream_that_may_list_and_not_watch_lists_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    wait = Backoff.next

    def noted(backoff: Backoff) -> float:
        waits.append(wait(backoff))
        return 0.001

    class Refusing(FakeApi):
        async def watch(self, resource: Resource, resource_version: str, *args: Any, **rest: Any) -> Any:
            raise ApiProblem(403, "Forbidden", "things cannot be watched")
            yield

    monkeypatch.setattr(Backoff, "next", noted)
    told = Told()

    async def main() -> None:
        told.stream._client = Refusing()
        task = asyncio.create_task(told.stream.run())
        async with asyncio.timeout(5):
            while len(waits) < 6:
                await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())

    assert waits[5] > 4.0
