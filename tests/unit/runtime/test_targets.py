"""The objects that rules with targets change, as an API server in memory has them: by name, wildcard, selector and
subresource, and what a namespaced policy may not reach."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.controllers import targets as module
from runtime.controllers.targets import targets
from runtime.host import TARGETS
from runtime.k8s.client import Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.k8s.resources import CONFIG_MAP, NAMESPACE
from tests.unit.runtime.fake_api import FakeApi
from vm.host import HostCall
from vm.values import Err, Value

DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment")
OLDER = Resource("apps", "v1beta1", "deployments", "Deployment")
DISCOVERY = Discovery(
    [Entry(r, verbs=frozenset(["get", "list"])) for r in (CONFIG_MAP, NAMESPACE, DEPLOYMENT, OLDER)],
)
SCALE = {
    "apiVersion": "autoscaling/v1",
    "kind": "Scale",
    "metadata": {"name": "web", "namespace": "one", "resourceVersion": "7"},
    "spec": {"replicas": 3},
}


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    for place in ("one", "two"):
        api.put(NAMESPACE, {"metadata": {"name": place}})
        for name, labels in (("web", {"app": "web"}), ("worker", {"app": "worker"})):
            api.put(DEPLOYMENT, {"metadata": {"name": name, "namespace": place, "labels": labels}})
    return api


def found(api: FakeApi, scope: str | None = None, **query: Any) -> Value:
    async def discovery(fresh: bool) -> Discovery:
        return DISCOVERY

    return asyncio.run(targets(api, discovery, HostCall(TARGETS, query, scope)))


def names(answer: Value) -> list[str]:
    assert type(answer) is list, answer
    return [f"{one['object']['metadata'].get('namespace')}/{one['object']['metadata']['name']}" for one in answer]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"namespace": "one", "name": "web"}, ["one/web"]),
        ({"namespace": "one", "name": "none"}, []),
        ({"namespace": "t?o"}, ["two/web", "two/worker"]),
        ({"name": "w*r"}, ["one/worker", "two/worker"]),
        ({"namespace": "one", "selector": {"matchLabels": {"app": "web"}}}, ["one/web"]),
    ],
)
def test_what_is_meant_is_found(api: FakeApi, query: dict[str, Any], expected: list[str]) -> None:
    assert names(found(api, apiVersion="apps/v1", kind="Deployment", **query)) == expected


def test_a_kind_of_several_versions_is_found_once(api: FakeApi) -> None:
    assert names(found(api, apiVersion="*", kind="Deployment", namespace="one")) == ["one/web", "one/worker"]


def test_a_scale_is_the_one_that_the_server_shows(api: FakeApi) -> None:
    api.answers["GET", "/apis/apps/v1/namespaces/one/deployments/web/scale"] = SCALE
    query = {"apiVersion": "apps/v1", "kind": "Deployment/scale", "namespace": "one", "name": "web"}
    (one,) = found(api, **query)
    assert one["object"] == SCALE
    assert one["subresource"] == "scale"
    assert one["resource"] == {"group": "apps", "version": "v1", "plural": "deployments", "kind": "Deployment"}


def test_the_status_is_written_as_such_and_read_with_its_object(api: FakeApi) -> None:
    (one,) = found(api, apiVersion="apps/v1", kind="Deployment/status", namespace="one", name="web")
    assert one["subresource"] == "status"
    assert one["object"]["kind"] == "Deployment"


def test_a_namespaced_policy_changes_nothing_cluster_wide(api: FakeApi) -> None:
    answer = found(api, "one", apiVersion="v1", kind="Namespace", name="two", namespace="one")
    assert answer == Err("host", "a policy of the namespace one changes no Namespace: it is cluster-wide")
    assert [verb for verb, _, _ in api.calls] == []


def test_a_kind_that_is_not_there_and_too_many_objects_are_errors(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(api, apiVersion="v1", kind="Nothing") == Err("host", "the cluster has no Nothing of v1")
    monkeypatch.setattr(module, "MOST", 3)
    assert found(api, apiVersion="apps/v1", kind="Deployment") == Err("host", "the rule has more than 3 targets")
