"""Requests: from reviews and from resources, and the root that rules read."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.request import Request, RequestError, UserInfo, service_account, split_path
from tests.unit.engine.support import pod


def review(**changes: Any) -> dict[str, Any]:
    request = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "name": "web",
        "namespace": "default",
        "userInfo": {"username": "system:serviceaccount:ops:bot"},
        "object": pod(),
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | changes}


def test_a_review_becomes_the_root() -> None:
    request = Request.from_review(review(), roles=["ops:r"], cluster_roles=["view"], namespace_labels={"a": "b"})
    root = request.root
    assert (request.uid, request.kind, request.operation, request.namespace) == ("u-1", "Pod", "CREATE", "default")
    assert root["request"]["roles"] == ["ops:r"]
    assert root["request"]["clusterRoles"] == ["view"]
    assert (root["serviceAccountNamespace"], root["serviceAccountName"]) == ("ops", "bot")
    assert root["$kind"] == ["", "v1", "Pod", ""]
    assert root["$admission"] is True
    assert root["$namespaceLabels"] == {"a": "b"}
    assert root["$resource"] == pod()


def test_the_old_object_stands_in_on_delete() -> None:
    request = Request.from_review(review(operation="DELETE", object=None, oldObject=pod("gone")))
    assert request.resource == pod("gone")
    assert request.root["request"]["object"] == pod("gone")
    assert request.root["$old"] is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "no object"),
        ({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}, "admission.k8s.io/v1"),
        ({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}, "no request"),
        (review(uid=""), "no uid"),
        (review(operation="PATCH"), "none of CREATE"),
        (review(kind={"group": ""}), "kind"),
        (review(object="x"), "object is no object"),
        (review(object=None), "neither"),
        (review(userInfo=[1]), "userInfo"),
        (review(subResource=1), "subResource"),
    ],
)
def test_what_is_no_review(given: Any, text: str) -> None:
    with pytest.raises(RequestError, match=text):
        Request.from_review(given)


def test_values_reach_variables_and_the_object() -> None:
    request = Request.from_resource(
        pod(),
        values={'request.object.metadata.annotations."example.com/owner"': "me", "team": "blue", "cm.data.x": 1},
    )
    assert request.resource["metadata"]["annotations"] == {"example.com/owner": "me"}
    assert request.root["team"] == "blue"
    assert request.root["cm"] == {"data": {"x": 1}}


def test_values_do_not_change_what_was_given() -> None:
    given = pod()
    Request.from_resource(given, values={"request.object.metadata.labels.app": "x"})
    assert given == pod()


@pytest.mark.parametrize("path", ["request", 'a."b'])
def test_values_that_make_no_request(path: str) -> None:
    with pytest.raises(RequestError):
        Request.from_resource(pod(), values={path: "x"})


def test_without_a_user_there_is_no_admission() -> None:
    assert Request.from_resource(pod()).root["$admission"] is False
    root = Request.from_resource(pod(), user=UserInfo("alice", ("dev",))).root
    assert root["$admission"] is True
    assert root["request"]["userInfo"] == {"username": "alice", "groups": ["dev"]}


def test_an_update_shows_the_resource_as_its_own_past_but_knows_no_past() -> None:
    request = Request.from_resource(pod(), "UPDATE")
    assert request.root["$old"] == pod()
    assert request.old is None


@pytest.mark.parametrize(
    ("username", "account"),
    [
        ("system:serviceaccount:ns:name", ("ns", "name")),
        ("system:serviceaccount:ns", ("", "")),
        ("alice", ("", "")),
        ("", ("", "")),
    ],
)
def test_service_accounts(username: str, account: tuple[str, str]) -> None:
    assert service_account(username) == account


def test_dotted_names_may_quote_keys() -> None:
    assert split_path('a."b.c/d".e') == ["a", "b.c/d", "e"]
