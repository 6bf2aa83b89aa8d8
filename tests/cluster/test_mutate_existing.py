"""Rules that change objects which exist, in a cluster: by requests, by their policy, subresources, and no further."""

from __future__ import annotations

import json

from tests.cluster.cluster import Cluster

BY_REQUEST = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: follow}
spec:
  rules:
  - name: label
    match: {any: [{resources: {kinds: [ConfigMap], names: [source]}}]}
    mutate:
      targets: [{apiVersion: v1, kind: Secret, namespace: "{{ request.namespace }}", name: "t*"}]
      patchStrategicMerge: {metadata: {labels: {of: "{{ request.object.data.of }}"}}}
  - name: gone
    match: {any: [{resources: {kinds: [ConfigMap], names: [source], operations: [DELETE]}}]}
    mutate:
      targets: [{apiVersion: v1, kind: Secret, namespace: "{{ request.namespace }}", name: left}]
      patchStrategicMerge: {metadata: {labels: {gone: "{{ request.object.metadata.name }}"}}}
"""

BY_POLICY = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: existing}
spec:
  mutateExistingOnPolicyUpdate: true
  rules:
  - name: scale
    match: {any: [{resources: {kinds: [ConfigMap], names: [there]}}]}
    mutate:
      targets: [{apiVersion: apps/v1, kind: Deployment/scale, namespace: default, name: web}]
      patchStrategicMerge: {spec: {replicas: 3}}
  - name: by-itself
    match: {any: [{resources: {kinds: [ConfigMap], names: [there]}}]}
    mutate:
      mutateExistingOnPolicyUpdate: false
      targets: [{apiVersion: apps/v1, kind: Deployment, namespace: default, name: web}]
      patchStrategicMerge: {metadata: {labels: {wrong: "true"}}}
"""

REACHING = """
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: reaching, namespace: default}
spec:
  rules:
  - name: elsewhere
    match: {any: [{resources: {kinds: [ConfigMap], names: [source]}}]}
    mutate:
      targets: [{apiVersion: v1, kind: Secret, name: "t*", namespace: "{{ request.object.data.place }}"}]
      patchStrategicMerge: {metadata: {labels: {reached: "true"}}}
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: b}]}}
"""


def secret(name: str, namespace: str = "default") -> str:
    return f"{{apiVersion: v1, kind: Secret, metadata: {{name: {name}, namespace: {namespace}}}}}\n---\n"


def source(of: str, **data: str) -> str:
    return json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "source"}, "data": {"of": of, **data}}
    )


def label(cluster: Cluster, name: str, key: str, namespace: str = "default") -> str | None:
    labels = cluster.get("secret", name, "-n", namespace)["metadata"].get("labels") or {}
    return labels.get(key)


def labelled(cluster: Cluster, name: str, value: str) -> None:
    cluster.until(lambda: label(cluster, name, "of") == value, what=f"the label {value} of {name}")


def waiting(cluster: Cluster) -> int:
    return len(cluster.get("updaterequests", "-n", "kyverno")["items"])


def test_a_request_changes_the_objects_that_wildcards_mean_and_a_deletion_too(cluster: Cluster) -> None:
    cluster.apply(secret("t1") + secret("t2") + secret("left"))
    cluster.policy(BY_REQUEST, "clusterpolicy", "follow")
    cluster.apply(source("one"))
    for name in ("t1", "t2"):
        labelled(cluster, name, "one")
    cluster.apply(source("two"))
    labelled(cluster, "t1", "two")
    cluster.until(lambda: waiting(cluster) == 0, what="the end of the update requests")
    version = cluster.get("secret", "t1")["metadata"]["resourceVersion"]
    cluster.plane.kubectl("annotate", "configmap", "source", "a=b")
    cluster.until(lambda: waiting(cluster) == 0, what="the end of the update requests")
    assert cluster.get("secret", "t1")["metadata"]["resourceVersion"] == version
    assert label(cluster, "left", "of") is None
    cluster.delete("configmap", "source")
    cluster.until(lambda: label(cluster, "left", "gone") == "source", what="the label of the deletion")


def test_a_policy_changes_what_is_there_by_a_subresource(cluster: Cluster) -> None:
    cluster.apply(DEPLOYMENT)
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: there}}")
    cluster.policy(BY_POLICY, "clusterpolicy", "existing")
    cluster.until(lambda: cluster.get("deployment", "web")["spec"]["replicas"] == 3, what="the replicas")
    cluster.until(lambda: waiting(cluster) == 0, what="the end of the update requests")
    assert "wrong" not in (cluster.get("deployment", "web")["metadata"].get("labels") or {})


def test_a_namespaced_policy_changes_nothing_elsewhere(cluster: Cluster) -> None:
    cluster.namespaces("victim")
    cluster.apply(secret("t1") + secret("t1", "victim"))
    cluster.policy(BY_REQUEST, "clusterpolicy", "follow")
    cluster.create(REACHING)
    cluster.apply(source("one", place="victim"))
    cluster.until(lambda: label(cluster, "t1", "of") == "one", what="the label of the other policy")
    cluster.until(lambda: waiting(cluster) == 0, what="the end of the update requests", seconds=20)
    assert label(cluster, "t1", "reached", "victim") is None
