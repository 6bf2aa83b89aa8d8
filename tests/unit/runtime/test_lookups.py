"""What rules ask of the cluster: parameters, access, namespaces, and the way there from a request."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from compiler import compile_policies, load_documents
from compiler.diagnostics import Reporter
from runtime.controllers import lookups
from runtime.controllers.lookups import Lookups
from runtime.controllers.selectors import selector_text
from runtime.host import KEY as HOST
from runtime.host import MAX_QUESTIONS, Table, drive, settle, within
from runtime.k8s.client import Object, Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import ACCESS_REVIEW, NAMESPACE
from runtime.policyset import PolicySet
from runtime.webhook import admission
from runtime.webhook.live import Live, Snapshot
from tests.unit.runtime.fake_api import FakeApi
from vm.host import Execution, HostCall, Outcome, Status
from vm.values import Err, Value

MAPS = Resource("", "v1", "configmaps", "ConfigMap")
DISCOVERY = Discovery([Entry(MAPS), Entry(NAMESPACE)])
BY_NAME = {"apiVersion": "v1", "kind": "ConfigMap", "name": "limits", "resourceNamespace": "default"}


class Api(FakeApi):
    """Answers reviews of access too."""

    def __init__(self) -> None:
        super().__init__()
        self.status: Any = {"allowed": True}
        self.reviews: list[Object] = []

    async def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        if resource is not ACCESS_REVIEW:
            return await super().create(resource, obj, namespace)
        self._enter("create", resource)
        self.reviews.append(obj)
        return {**obj, "status": self.status}


async def _discovery(fresh: bool) -> Discovery:
    return DISCOVERY


def config_map(name: str, namespace: str = "default", labels: dict[str, str] | None = None, **data: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def asked(api: FakeApi, call: HostCall) -> Value:
    return asyncio.run(Lookups(api, _discovery).ask(call))


def test_a_parameter_by_name() -> None:
    api = Api()
    api.put(MAPS, config_map("limits", most="1"))
    (found,) = asked(api, HostCall("params", BY_NAME))
    assert found["data"] == {"most": "1"}
    assert asked(api, HostCall("params", {**BY_NAME, "name": "other"})) == []


def test_parameters_of_a_list_say_what_they_are_and_come_by_name() -> None:
    api = Api()
    for name in ("b", "a"):
        api.put(MAPS, config_map(name, labels={"for": "pods"}))
    api.put(MAPS, config_map("c", labels={"for": "jobs"}))
    payload = {**BY_NAME, "name": "", "selector": {"matchLabels": {"for": "pods"}}}
    found = asked(api, HostCall("params", payload))
    assert [(o["kind"], o["apiVersion"], o["metadata"]["name"]) for o in found] == [
        ("ConfigMap", "v1", "a"),
        ("ConfigMap", "v1", "b"),
    ]


def test_a_namespaced_policy_reads_its_own_namespace_alone() -> None:
    api = Api()
    api.put(MAPS, config_map("limits", "other"))
    answer = asked(api, HostCall("params", {**BY_NAME, "namespace": "other"}, "default"))
    assert type(answer) is Err
    assert api.calls == []


@pytest.mark.parametrize("problem", [ApiProblem(403, "Forbidden", "not yours"), Unreachable("gone"), TimeoutError()])
def test_what_cannot_be_read_is_an_error(problem: Exception) -> None:
    api = Api()
    api.fail_next = [problem]
    assert type(asked(api, HostCall("params", BY_NAME))) is Err


def test_a_kind_that_is_not_served_is_an_error() -> None:
    answer = asked(Api(), HostCall("params", {**BY_NAME, "kind": "Limit"}))
    assert answer == Err("host", "the cluster has no Limit of v1")


def test_parameters_are_kept_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(lookups.time, "monotonic", lambda: now)
    api = Api()
    api.put(MAPS, config_map("limits"))

    async def twice() -> list[int]:
        nonlocal now
        found, counts = Lookups(api, _discovery), []
        for step in (0.0, lookups.KEPT_SECONDS / 2, lookups.KEPT_SECONDS):
            now += step
            await found.ask(HostCall("params", BY_NAME))
            counts.append(len(api.calls))
        return counts

    assert asyncio.run(twice()) == [1, 1, 2]


def test_selectors_as_the_api_server_takes_them() -> None:
    expressions = [
        {"key": "a", "operator": "In", "values": ["x", "y"]},
        {"key": "b", "operator": "NotIn", "values": ["z"]},
        {"key": "c", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
    ]
    text = selector_text({"matchLabels": {"l": "1"}, "matchExpressions": expressions})
    assert text == "l=1,a in (x,y),b notin (z),c,!d"


def test_an_answer_is_waited_for_until_the_deadline() -> None:
    async def slow(call: HostCall) -> Value:
        await asyncio.sleep(10)

    async def run() -> Value:
        return await within(slow, time.monotonic() + 0.01)(HostCall("params", {}))

    assert asyncio.run(run()) == Err("host", "the API server did not answer in time")


def test_questions_are_bounded() -> None:
    count = 0

    async def ask(call: HostCall) -> Value:
        nonlocal count
        count += 1
        return None

    def run() -> Execution:
        for i in range(10 * MAX_QUESTIONS):
            # A loop that passes over what cannot be evaluated does not get to see that nobody was asked.
            yield HostCall("authorize", {"resourceAttributes": {"name": str(i)}})
        return Outcome(Status.PASS)

    outcome = asyncio.run(settle(lambda table: drive(run(), {HOST: table}), ask))
    assert outcome.status is Status.ERROR
    assert f"more than {MAX_QUESTIONS} questions" in outcome.message
    assert count == MAX_QUESTIONS


POLICY = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  background: false
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      failureAction: Enforce
      cel:
"""


def live(cel: str, api: Api, tier: Any = "1") -> Live:
    reporter = Reporter()
    text = POLICY + "\n".join(f"        {line}" for line in cel.strip().splitlines())
    result = compile_policies(load_documents(text, "p.yaml", reporter))
    assert result.bundle is not None, result.diagnostics
    found = Live(namespaces={"default": {"metadata": {"name": "default"}}}, ask=Lookups(api, _discovery).ask)
    found.swap(Snapshot.of(PolicySet.load(result.bundle, tier=tier)))
    return found


def review(namespace: str = "default", **spec: Any) -> bytes:
    request = {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": namespace,
        "name": "p",
        "userInfo": {"username": "ann", "groups": ["g"]},
        "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}, "spec": spec},
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def answered(live: Live, body: bytes) -> tuple[bool, str]:
    def attempt(host: Table) -> admission.Answer:
        return admission.answer(
            body,
            lambda document: live.decode(document, host),
            lambda request: live.evaluate(request, "validate", "", time.monotonic() + 10),
        )

    assert live.ask is not None
    response = json.loads(asyncio.run(settle(attempt, live.ask)).body)["response"]
    return response["allowed"], (response.get("status") or {}).get("message", "")


@pytest.mark.parametrize("tier", ["1", "2", "check"])
def test_access_is_asked_for_in_a_loop(tier: str) -> None:
    api = Api()
    check = "authorizer.group('').resource(n).check('get').allowed()"
    cel = f'expressions: [{{expression: "object.spec.names.all(n, {check})"}}]'
    serving = live(cel, api, tier)
    assert answered(serving, review(names=["pods", "secrets"]))[0]
    specs = [r["spec"] for r in api.reviews]
    assert [(s["user"], s["groups"], s["resourceAttributes"]["resource"]) for s in specs] == [
        ("ann", ["g"], "pods"),
        ("ann", ["g"], "secrets"),
    ]
    api.status = {"allowed": False, "reason": "no"}
    allowed, message = answered(serving, review(names=["nodes"]))
    assert not allowed
    assert "failed expression" in message
    snapshot = serving.snapshot
    assert snapshot is not None
    assert snapshot.policies.mismatches.count == 0


def test_access_that_cannot_be_asked_for_is_no_refusal_of_access() -> None:
    api = Api()
    cel = "expressions: [{expression: \"!authorizer.requestResource.check('delete').allowed()\"}]"
    api.fail_next = [Unreachable("gone")]
    allowed, message = answered(live(cel, api), review())
    assert not allowed
    assert "the API server cannot be asked: gone" in message


def test_parameters_of_a_request() -> None:
    api = Api()
    cel = """
paramKind: {apiVersion: v1, kind: ConfigMap}
paramRef: {name: limits, parameterNotFoundAction: Deny}
expressions: [{expression: "object.spec.n <= int(params.data.most)", message: too many}]
"""
    serving = live(cel, api)
    allowed, message = answered(serving, review(n=1))
    assert not allowed
    assert "error in parameterized resource: no params found" in message
    api.put(MAPS, config_map("limits", most="1"))
    serving.ask = Lookups(api, _discovery).ask
    assert answered(serving, review(n=1))[0]
    assert "too many" in answered(serving, review(n=2))[1]
    api.fail_next = [ApiProblem(500, "", "broken")]
    serving.ask = Lookups(api, _discovery).ask
    assert answered(serving, review(n=1))[0] is False


def test_a_namespace_that_the_watch_has_not_told_of_is_asked_for() -> None:
    api = Api()
    api.put(NAMESPACE, {"metadata": {"name": "new", "labels": {"env": "prod"}, "managedFields": [1]}})
    cel = """
expressions:
- expression: namespaceObject.metadata.labels.env == 'prod' && !has(namespaceObject.metadata.annotations)
"""
    serving = live(cel, api)
    assert answered(serving, review("new")) == (True, "")
    assert [c[0] for c in api.calls] == ["get"]
    allowed, message = answered(serving, review("nowhere"))
    assert not allowed
    assert "no such attribute(s): namespaceObject" in message


def test_without_a_cluster_there_is_nobody_to_ask() -> None:
    cel = "expressions: [{expression: \"authorizer.requestResource.check('get').allowed()\"}]"
    serving = live(cel, Api())
    serving.ask = None
    answer = admission.answer(
        review(), serving.decode, lambda request: serving.evaluate(request, "validate", "", time.monotonic() + 10)
    )
    response = json.loads(answer.body)["response"]
    assert not response["allowed"]
    assert "there is no cluster to ask" in response["status"]["message"]
