"""Paths of the API are read in one way, and given objects answer them as an API server would."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.context.apipath import ApiPath, PathError, parse
from runtime.context.objects import Objects, SelectorError, field_selector, label_selector, plural_of
from runtime.context.tenancy import admitted
from vm.host import HostCall
from vm.values import Err


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/api/v1/pods", ApiPath("", "v1", "", "pods")),
        ("/api/v1/pods/", ApiPath("", "v1", "", "pods")),
        (" /api/v1/pods ", ApiPath("", "v1", "", "pods")),
        ("/api/v1/namespaces", ApiPath("", "v1", "", "namespaces")),
        ("/api/v1/namespaces/a", ApiPath("", "v1", "", "namespaces", "a")),
        ("/api/v1/namespaces/a/status", ApiPath("", "v1", "", "namespaces", "a", "status")),
        ("/api/v1/namespaces/a/pods/p/log", ApiPath("", "v1", "a", "pods", "p", "log")),
        ("/apis/apps/v1/deployments/d", ApiPath("apps", "v1", "", "deployments", "d")),
        ("/api/v1/pods?labelSelector=a%3Db", ApiPath("", "v1", "", "pods", query={"labelSelector": "a=b"})),
        ("/api/v1/nodes/a%3Ab", ApiPath("", "v1", "", "nodes", "a:b")),
        ("/version", ApiPath(plain="/version")),
        ("/apis/apps/v1", ApiPath(plain="/apis/apps/v1")),
    ],
)
def test_paths(url: str, path: ApiPath) -> None:
    assert parse(url) == path


@pytest.mark.parametrize(
    "url",
    [
        "api/v1/pods", "", "/api/v1//pods", "/api/v1/./pods", "/api/v1/namespaces/a/../b/pods",
        "/api/v1/namespaces/a%2Fb/pods", "/api/v1/namespaces/%2e%2e/pods", "/api/v1/namespaces/%252e/pods",
        "/api/v1/pods\\x", "/api/v1/po ds", "/api/v1/pods%00", "/api/v1/pods%0a", "/api/v1/pods#x",
        "//evil/api/v1/pods",
    ],
)  # fmt: skip
def test_paths_that_could_be_read_in_two_ways(url: str) -> None:
    with pytest.raises(PathError):
        parse(url)


def pod(name: str, namespace: str = "a", node: str = "n", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node, "hostNetwork": True}}


OBJECTS = Objects(
    [
        pod("two", x="1"),
        pod("one", x="2", y="1"),
        pod("three", "b", node="m"),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "a"}},
        {"apiVersion": "x.io/v1", "kind": "Policy", "metadata": {"name": "w", "namespace": "a"}},
    ]
)


def names(url: str) -> list[str]:
    found = OBJECTS.get(url)
    assert not isinstance(found, Err), found
    return [item["metadata"]["name"] for item in found["items"]]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", ["one", "two", "three"]),
        ("?labelSelector=x", ["one", "two"]),
        ("?labelSelector=!x", ["three"]),
        ("?labelSelector=x=1", ["two"]),
        ("?labelSelector=x==1", ["two"]),
        ("?labelSelector=x!=1", ["one", "three"]),
        ("?labelSelector=x%20in%20(1,2),y=1", ["one"]),
        ("?labelSelector=x%20notin%20(1)", ["one", "three"]),
        ("?fieldSelector=metadata.name=two", ["two"]),
        ("?fieldSelector=spec.nodeName!=m", ["one", "two"]),
        ("?fieldSelector=spec.nodeName=m,metadata.namespace=b", ["three"]),
        ("?fieldSelector=spec.hostNetwork=true,metadata.name=one", ["one"]),
        ("?limit=500", ["one", "two", "three"]),
    ],
)
def test_lists(query: str, wanted: list[str]) -> None:
    assert names(f"/api/v1/pods{query}") == wanted


def test_lists_and_objects_have_the_form_of_the_api() -> None:
    found = OBJECTS.get("/apis/apps/v1/namespaces/a/deployments")
    assert (found["apiVersion"], found["kind"]) == ("apps/v1", "DeploymentList")
    assert "kind" not in found["items"][0]
    assert OBJECTS.get("/apis/apps/v1/namespaces/a/deployments/d")["kind"] == "Deployment"
    assert OBJECTS.get("/apis/apps/v1/namespaces/a/deployments/d/scale")["spec"] == {"replicas": 1}
    assert names("/apis/x.io/v1/namespaces/a/policies") == ["w"]
    assert names("/api/v1/namespaces/none/pods") == []
    assert OBJECTS.get("/version")["major"] == "1"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("/api/v1/namespaces/a/pods/gone", 'pods "gone" not found'),
        ("/apis/apps/v1/namespaces/a/deployments/gone", 'deployments.apps "gone" not found'),
        ("/api/v1/pods/one", "the server could not find the requested resource"),
        ("/api/v1/namespaces/a/nodes", "the server could not find the requested resource"),
        ("/api/v1/nonsense", "the server could not find the requested resource"),
        ("/apis/none/v1/things", "the server could not find the requested resource"),
        ("/api/v1/namespaces/a/pods/one/exec", "the server could not find the requested resource"),
        ("/api/v1/pods?labelSelector=(", "unable to parse the label selector '('"),
        ("/api/v1/pods?fieldSelector=x", "unable to parse the field selector 'x'"),
    ],
)
def test_what_is_not_there(url: str, text: str) -> None:
    assert OBJECTS.get(url) == Err("host", text)


def test_without_a_dump_nobody_knows_of_kinds_that_are_not_given() -> None:
    partial = Objects([pod("one")], whole=False)
    assert partial.get("/api/v1/services") == Err("unsupplied", "no services are given")
    assert type(partial.get("/api/v1/pods")) is dict
    assert type(OBJECTS.get("/api/v1/services")) is dict


def test_selectors() -> None:
    assert label_selector("a,!b , c=d") == {
        "matchExpressions": [
            {"key": "a", "operator": "Exists"},
            {"key": "b", "operator": "DoesNotExist"},
            {"key": "c", "operator": "In", "values": ["d"]},
        ]
    }
    assert field_selector("a.b=c,d!=e") == [("a.b", True, "c"), ("d", False, "e")]
    for text in ("a in b", "=", "a=b=c=(", "a,,b"):
        with pytest.raises(SelectorError):
            label_selector(text)
    assert [plural_of(k) for k in ("Policy", "Ingress", "Pod", "Gateway")] == [
        "policies", "ingresses", "pods", "gatewaies",
    ]  # fmt: skip


def call(kind: str, scope: str | None = "mine", **payload: Any) -> HostCall:
    return HostCall(kind, {"for": {"entry": "x"}, **payload}, scope)


@pytest.mark.parametrize(
    "asked",
    [
        call("configmap", name="a", namespace="yours"),
        call("configmap", name="../x", namespace="mine"),
        call("configmap", name="a", namespace="mine/../yours"),
        call("configmap", scope=None, name="", namespace="a"),
        call("configmap", name=1, namespace="mine"),
        call("apicall", urlPath="/api/v1/pods"),
        call("apicall", urlPath="/api/v1/namespaces/mine"),
        call("apicall", urlPath="/api/v1/namespaces/mine/../yours/pods"),
        call("apicall", urlPath="/api/v1/namespaces/yours/pods?x=/namespaces/mine/"),
        call("apicall", urlPath="/api/v1/namespaces/yours/configmaps/namespaces/mine/"),
        call("apicall", urlPath="/api/v1/pods/namespaces/mine/x"),
        call("apicall", urlPath="/apis/namespaces/mine/pods"),
        call("apicall", urlPath="/api/v1/namespaces/mine%2F..%2Fyours/pods"),
        call("apicall", urlPath="/api//v1/namespaces/mine/pods"),
        call("apicall", urlPath=1),
        call("apicall", urlPath="/api/v1/namespaces/mine/pods", method="DELETE"),
        call("apicall", scope=None, urlPath="/api/v1/namespaces/a/../b/pods"),
        call("apicall", service={"url": "https://a.example"}),
        call("globalcontext", name="x"),
    ],
)
def test_what_no_policy_may_ask(asked: HostCall) -> None:
    assert isinstance(admitted(asked), Err)


@pytest.mark.parametrize(
    "asked",
    [
        call("configmap", name="a", namespace=""),
        call("configmap", name="a", namespace="mine"),
        call("configmap", scope=None, name="a", namespace="yours"),
        call("apicall", urlPath="/api/v1/namespaces/mine/pods"),
        call("apicall", urlPath="/apis/apps/v1/namespaces/mine/deployments/d?x=y"),
        call("apicall", scope=None, urlPath="/api/v1/nodes"),
        call("apicall", scope=None, service={"url": "https://a.example"}),
        call("globalcontext", scope=None, name="x"),
        call("imagedata", reference="nginx"),
    ],
)
def test_what_a_policy_may_ask(asked: HostCall) -> None:
    found = admitted(asked)
    assert isinstance(found, HostCall)
    if found.kind == "configmap":
        assert found.payload["namespace"]


def test_services_are_let_by_a_setting() -> None:
    assert isinstance(admitted(call("apicall", service={"url": "https://a.example"}), services=True), HostCall)
