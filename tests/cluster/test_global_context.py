"""GlobalContextEntries in a cluster: data that is current, its status, what a failing one does."""

from __future__ import annotations

from typing import Any

from tests.cluster.cluster import Cluster

ENTRIES = """
apiVersion: kyverno.io/v2
kind: GlobalContextEntry
metadata: {name: maps}
spec:
  kubernetesResource: {group: "", version: v1, resource: configmaps, namespace: default}
  projections: [{name: limited, jmesPath: "[?data.limit].metadata.name | length(@)"}]
---
apiVersion: kyverno.io/v2alpha1
kind: GlobalContextEntry
metadata: {name: spaces}
spec: {apiCall: {urlPath: /api/v1/namespaces, refreshInterval: 1h}}
---
apiVersion: kyverno.io/v2
kind: GlobalContextEntry
metadata: {name: broken}
spec: {apiCall: {urlPath: /apis/nothing.example/v1/things, refreshInterval: 1h, retryLimit: 1}}
"""

POLICY = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: by-global-context}
spec:
  background: false
  rules:
  - name: limited
    match: {any: [{resources: {kinds: [Pod]}}]}
    context:
    - {name: limited, globalReference: {name: maps.limited}}
    - {name: spaces, globalReference: {name: spaces, jmesPath: "items[].metadata.name"}}
    validate:
      failureAction: Enforce
      message: "{{ limited }} limits, {{ length(spaces) > `3` }}"
      deny: {conditions: {any: [{key: "{{ limited }}", operator: LessThan, value: 1}]}}
  - name: broken
    match: {any: [{resources: {kinds: [Secret], names: [asks-broken]}}]}
    context: [{name: broken, globalReference: {name: broken}}]
    validate:
      failureAction: Enforce
      message: never
      deny: {conditions: {any: [{key: "{{ broken }}", operator: Equals, value: x}]}}
"""

POD = "{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: a, image: b}]}}"


def condition(cluster: Cluster, name: str, status: str) -> dict[str, Any]:
    return cluster.ready("globalcontextentry", name, status=status)


def test_entries_are_loaded_kept_current_and_told_of(cluster: Cluster) -> None:
    cluster.apply(ENTRIES)
    assert condition(cluster, "maps", "True")["reason"] == "Succeeded"
    condition(cluster, "spaces", "True")
    assert cluster.get("globalcontextentry", "spaces")["status"]["lastRefreshTime"]
    failed = condition(cluster, "broken", "False")
    assert failed["reason"] == "Failed"
    assert "/apis/nothing.example/v1/things" in failed["message"]
    cluster.policy(POLICY, "clusterpolicy", "by-global-context")
    assert "0 limits, true" in cluster.refused(POD % "early")
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: limits}, data: {limit: '1'}}")
    cluster.until(lambda: cluster.create(POD % "late").returncode == 0, seconds=5, what="the object in the data")
    assert "/apis/nothing.example/v1/things" in cluster.refused(
        "{apiVersion: v1, kind: Secret, metadata: {name: asks-broken}}"
    )
    cluster.delete("configmap", "limits")
    trying = ("create", "--dry-run=server", "-f", "-")
    cluster.until(
        lambda: "0 limits" in cluster.plane.kubectl(*trying, stdin=POD % "later").stderr,
        seconds=5,
        what="its end in the data",
    )
