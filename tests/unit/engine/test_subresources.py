"""Requests about a part of an object: rules name it by the kind that it is of, and it has no history of its own."""

from __future__ import annotations

from typing import Any

from runtime.engine import Engine
from runtime.request import Request
from tests.unit.engine.support import policy_set

POLICY = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: no-scaling}
spec:
  background: false
  rules:
    - name: deny
      match: {any: [{resources: {kinds: [KIND]}}]}
      validate: {failureAction: Enforce, deny: {}}
"""


def scaled(kind_of: Any) -> Request:
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "x"}}
    request = {
        "uid": "1",
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "subResource": "scale",
        "operation": "UPDATE",
        "namespace": "x",
        "name": "a",
        "object": {**scale, "spec": {"replicas": 2}},
        "oldObject": {**scale, "spec": {"replicas": 1}},
        "userInfo": {},
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return Request.from_review(review, kind_of=kind_of)


def results(kind: str, request: Request) -> list[str]:
    response = Engine(policy_set(POLICY.replace("KIND", kind))).evaluate(request, "validate")
    return [result.status for result in response.results]


def kinds(group: str, version: str, plural: str) -> str | None:
    return {("apps", "v1", "deployments"): "Deployment"}.get((group, version, plural))


def test_a_rule_names_the_kind_that_the_part_is_of() -> None:
    assert results("Deployment/scale", scaled(kinds)) == ["fail"]
    assert results("apps/v1/Deployment/scale", scaled(kinds)) == ["fail"]
    assert results("StatefulSet/scale", scaled(kinds)) == []
    assert results("Deployment", scaled(kinds)) == []


def test_without_knowledge_of_the_cluster_the_request_s_own_kind_counts() -> None:
    assert scaled(None).kind == scaled(lambda *_: None).kind == "Scale"
    assert results("Deployment/scale", scaled(None)) == []


def test_what_was_there_before_excuses_no_change_of_a_part() -> None:
    # The old Scale breaks the rule too: that is no violation of an object that existed, since rules about a part look
    # at no object that is made.
    assert scaled(kinds).before().subresource == ""
    assert results("Deployment/scale", scaled(kinds)) == ["fail"]
