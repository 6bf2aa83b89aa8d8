"""Context entries in the webhook: what rules wait for is asked together, once, and never for nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from compiler import compile_policies, load_documents
from compiler.diagnostics import Reporter
from runtime.context.cluster import CONFIG_MAP
from runtime.context.global_live import ENTRIES, interval
from runtime.controllers.lookups import Lookups
from runtime.host import within
from runtime.k8s.discovery import Discovery
from runtime.policyset import PolicySet
from runtime.webhook import admission
from runtime.webhook.live import Live, Snapshot
from tests.unit.runtime.fake_api import FakeApi
from vm.host import HostCall
from vm.values import Err


def policy(name: str, entries: str, key: str, namespace: str = "", **more: str) -> str:
    kind, where = ("Policy", f", namespace: {namespace}") if namespace else ("ClusterPolicy", "")
    return f"""
apiVersion: kyverno.io/v1
kind: {kind}
metadata: {{name: {name}{where}}}
spec:
  background: false
  rules:
  - name: r
    match: {{any: [{{resources: {{kinds: [Pod]}}}}]}}
    context:
{entries}
    validate:
      failureAction: Enforce
      message: "it is {key}"
      deny: {{conditions: {{all: [{{key: "{key}", operator: Equals, value: bad}}]}}}}
"""


MAP = "    - name: cm\n      configMap: {name: settings, namespace: default}"
CALL = "    - name: pods\n      apiCall: {urlPath: /api/v1/namespaces/default/pods, jmesPath: 'items[0].kindOf'}"


def live(api: FakeApi, *policies: str, tier: Any = "1") -> Live:
    reporter = Reporter()
    result = compile_policies(load_documents("\n---\n".join(policies), "p.yaml", reporter))
    assert result.bundle is not None
    assert not reporter.failed

    async def discovery(fresh: bool) -> Discovery:
        raise AssertionError("contexts need no discovery")

    found = Live(namespaces={"default": {"metadata": {"name": "default"}}}, ask=Lookups(api, discovery).ask)
    found.swap(Snapshot.of(PolicySet.load(result.bundle, tier=tier)))
    return found


def answered(live: Live, labels: dict[str, str] | None = None) -> tuple[bool, str]:
    from runtime.host import settle

    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "labels": labels or {}}}
    request = {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "default",
        "name": "p",
        "userInfo": {"username": "ann"},
        "object": obj,
    }
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()

    def attempt(host: Any) -> Any:
        def evaluate(decoded: Any) -> Any:
            return live.evaluate(decoded, "validate", "", 1e18)

        return admission.answer(body, lambda review: live.decode(review, host), evaluate)

    async def run() -> Any:
        assert live.ask is not None
        return await settle(attempt, within(live.ask, 1e18))

    response = json.loads(asyncio.run(run()).body)["response"]
    return response["allowed"], (response.get("status") or {}).get("message", "")


@pytest.mark.parametrize("tier", ["1", "2"])
def test_a_config_map_and_a_call_of_two_policies_are_asked_at_once(tier: str) -> None:
    api = FakeApi()
    api.put(CONFIG_MAP, {"metadata": {"name": "settings", "namespace": "default"}, "data": {"level": "bad"}})
    api.answers["GET", "/api/v1/namespaces/default/pods"] = {"items": [{"kindOf": "good"}]}
    serving = live(api, policy("one", MAP, "{{ cm.data.level }}"), policy("two", CALL, "{{ pods }}"), tier=tier)
    seen: list[float] = []
    serving.observers.append(lambda judged, seconds: seen.append(seconds))
    allowed, message = answered(serving)
    assert not allowed
    assert "it is bad" in message
    assert sorted(api.calls) == [("GET", "/api/v1/namespaces/default/pods", ""), ("get", "configmaps", "settings")]
    assert len(seen) == 1  # an evaluation that waits is none


def test_an_entry_that_no_query_mentions_is_not_asked() -> None:
    api = FakeApi()
    assert answered(live(api, policy("p", f"{MAP}\n{CALL}", "{{ request.object.metadata.name }}")))[0]
    assert api.calls == []


def test_one_entry_may_need_another() -> None:
    api = FakeApi()
    api.put(CONFIG_MAP, {"metadata": {"name": "settings", "namespace": "default"}, "data": {"which": "pods"}})
    api.answers["GET", "/api/v1/namespaces/default/pods"] = {"kindOf": "bad"}
    entries = MAP + (
        '\n    - name: next\n      apiCall: {urlPath: "/api/v1/namespaces/default/{{ cm.data.which }}", default: x}'
    )
    assert not answered(live(api, policy("p", entries, "{{ next.kindOf }}")))[0]
    assert [path for _, path, _ in api.calls] == ["configmaps", "/api/v1/namespaces/default/pods"]


def test_a_default_stands_for_a_call_that_fails_only() -> None:
    api = FakeApi()
    entry = "    - name: x\n      apiCall: {urlPath: /api/v1/nodes, default: bad}"
    assert not answered(live(api, policy("p", entry, "{{ x }}")))[0]
    assert api.calls == [("GET", "/api/v1/nodes", "")]
    api.answers["GET", "/api/v1/nodes"] = "good"
    assert answered(live(api, policy("p", entry, "{{ x }}")))[0]


def test_a_missing_config_map_is_an_error_in_the_words_of_the_reference() -> None:
    allowed, message = answered(live(FakeApi(), policy("p", MAP, "{{ cm.data.level }}")))
    assert not allowed
    assert "failed to retrieve config map for context entry cm: failed to get configmap default/settings : " in message


def test_namespaced_policies_stay_in_their_namespace() -> None:
    entry = '    - name: cm\n      configMap: {name: settings, namespace: "{{ request.object.metadata.labels.ns }}"}'
    api = FakeApi()
    for namespace in ("default", "secret"):
        api.put(CONFIG_MAP, {"metadata": {"name": "settings", "namespace": namespace}, "data": {"level": "bad"}})
    serving = live(api, policy("p", entry, "{{ cm.data.level }}", namespace="default"))
    assert "it is bad" in answered(serving, {"ns": "default"})[1]
    api.calls.clear()
    allowed, message = answered(serving, {"ns": "secret"})
    assert not allowed
    assert "different from policy namespace" in message
    assert api.calls == []


@pytest.mark.parametrize(
    "path", ["../secret", "default/../secret", "default%2f..%2fsecret", "secret", "default/%2e%2e/secret"]
)
def test_no_spelling_of_a_path_leaves_the_namespace(path: str) -> None:
    entry = '    - name: x\n      apiCall: {urlPath: "/api/v1/namespaces/{{ request.object.metadata.labels.ns }}/pods"}'
    api = FakeApi()
    allowed, _ = answered(live(api, policy("p", entry, "{{ x }}", namespace="default")), {"ns": path})
    assert not allowed
    assert api.calls == []


def global_entry(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "kyverno.io/v2", "kind": "GlobalContextEntry", "metadata": {"name": name}, "spec": spec}


def test_global_context_of_objects_with_a_projection() -> None:
    api = FakeApi()
    api.put(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "x"}, "data": {"level": "bad"}})
    spec = {
        "kubernetesResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "projections": [{"name": "first", "jmesPath": "[0].data.level"}],
    }
    api.put(ENTRIES, global_entry("maps", spec))
    entry = "    - name: g\n      globalReference: {name: maps.first}"
    assert not answered(live(api, policy("p", entry, "{{ g }}")))[0]
    entry = '    - name: g\n      globalReference: {name: maps, jmesPath: "[].data.level | [0]"}'
    assert not answered(live(api, policy("p", entry, "{{ g }}")))[0]
    entry = "    - name: g\n      globalReference: {name: nothing}"
    assert "failed to fetch entry key=nothing" in answered(live(api, policy("p", entry, "{{ g }}")))[1]


def test_global_calls_are_kept_for_their_interval_and_tried_again() -> None:
    api = FakeApi()
    spec = {"apiCall": {"urlPath": "/api/v1/nodes", "refreshInterval": "1h", "retryLimit": 1}}
    api.put(ENTRIES, global_entry("nodes", spec))
    api.answers["GET", "/api/v1/nodes"] = "bad"
    serving = live(api, policy("p", "    - name: g\n      globalReference: {name: nodes}", "{{ g }}"))
    assert not answered(serving)[0]
    assert ("GET", "/api/v1/nodes", "") in api.calls
    assert interval("1h30m") == 5400.0
    assert interval("nonsense") == 600.0


def test_services_of_namespaced_policies_are_off() -> None:
    entry = '    - name: x\n      apiCall: {service: {url: "https://example.com"}}'
    serving = live(FakeApi(), policy("p", entry, "{{ x }}", namespace="default"))
    assert "calls no service" in answered(serving)[1]
    serving.services = True
    assert "services are not called here" in answered(serving)[1]


def test_a_large_context_is_an_error() -> None:
    api = FakeApi()
    api.put(CONFIG_MAP, {"metadata": {"name": "settings", "namespace": "default"}, "data": {"level": "x" * (2 << 20)}})
    allowed, message = answered(live(api, policy("p", MAP, "{{ cm.data.level }}")))
    assert not allowed
    assert "context size limit of 2097152 bytes exceeded" in message


def test_calls_that_cannot_be_made() -> None:
    call = HostCall("apicall", {"urlPath": "/api/v1/pods", "method": "POST", "data": {"a": 1}, "for": {"entry": "x"}})

    async def discovery(fresh: bool) -> Discovery:
        raise AssertionError

    found = asyncio.run(Lookups(FakeApi(), discovery).ask(call))
    assert type(found) is Err
    assert found.text.startswith("failed to POST resource with raw url: /api/v1/pods: ")


@pytest.mark.parametrize("tier", ["1", "2"])
def test_what_a_rule_is_certain_to_need_is_asked_at_once(tier: str) -> None:
    api = FakeApi()
    api.put(CONFIG_MAP, {"metadata": {"name": "settings", "namespace": "default"}, "data": {"level": "good"}})
    api.answers["GET", "/api/v1/namespaces/default/pods"] = {"items": [{"kindOf": "bad"}]}
    rounds: list[int] = []
    serving = live(api, policy("p", f"{MAP}\n{CALL}", "{{ cm.data.level }}{{ pods }}"), tier=tier)
    assert serving.ask is not None
    plain, waiting = serving.ask, [0]

    async def counted(call: HostCall) -> Any:
        waiting[0] += 1
        await asyncio.sleep(0)
        rounds.append(waiting[0])
        waiting[0] = 0
        return await plain(call)

    serving.ask = counted
    assert answered(serving)[0]
    assert rounds == [2, 0]


@pytest.mark.parametrize("tier", ["1", "2"])
def test_a_text_formed_at_run_time_asks_for_what_it_names(tier: str) -> None:
    api = FakeApi()
    api.put(CONFIG_MAP, {"metadata": {"name": "settings", "namespace": "default"}, "data": {"level": "bad"}})
    serving = live(api, policy("p", MAP, "{{ cm.data.{{ request.object.metadata.labels.key }} }}"), tier=tier)
    assert not answered(serving, {"key": "level"})[0]
    assert api.calls == [("get", "configmaps", "settings")]
    api.calls.clear()
    serving = live(api, policy("p", MAP, "x{{ request.object.metadata.labels.text }}"), tier=tier)
    assert answered(serving, {"text": "plain"})[0]
    assert api.calls == []
    assert answered(serving, {"text": "{{ cm.data.level }}"})[0]
    assert api.calls == [("get", "configmaps", "settings")]
