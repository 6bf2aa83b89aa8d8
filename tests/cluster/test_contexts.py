"""Contexts answered by the real API server, and what a namespaced policy may not read."""

from __future__ import annotations

from tests.cluster.cluster import Cluster
from tests.cluster.test_admission import pod

LIMITS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: limits, namespace: default}
data: {most: "1", teams: '["sales"]'}
"""

POLICY = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: contexts}
spec:
  background: false
  rules:
    - name: teams
      match: {any: [{resources: {kinds: [Pod]}}]}
      context:
        - name: limits
          configMap: {name: limits, namespace: default}
        - name: maps
          apiCall:
            urlPath: "/api/v1/namespaces/{{ request.namespace }}/configmaps?fieldSelector=metadata.name=limits"
            jmesPath: length(items)
        - name: namespaces
          globalReference: {name: all-namespaces.names}
      validate:
        failureAction: Enforce
        message: "{{ request.object.metadata.labels.team }} is none of {{ limits.data.teams }} ({{ maps }})"
        deny:
          conditions:
            any:
              - {key: "{{ request.object.metadata.labels.team }}", operator: AnyNotIn, value: "{{ limits.data.teams }}"}
              - {key: default, operator: AnyNotIn, value: "{{ namespaces }}"}
"""

GLOBAL = """
apiVersion: kyverno.io/v2
kind: GlobalContextEntry
metadata: {name: all-namespaces}
spec:
  kubernetesResource: {version: v1, resource: namespaces}
  projections: [{name: names, jmesPath: "[].metadata.name"}]
"""

PEEK = """
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: peek, namespace: default}
spec:
  background: false
  rules:
    - name: peek
      match: {any: [{resources: {kinds: [Pod]}}]}
      context:
        - name: other
          configMap: {name: limits, namespace: "{{ request.object.metadata.labels.ns }}"}
      validate:
        failureAction: Enforce
        message: "it is {{ other.data.most }}"
        deny: {conditions: {all: [{key: "{{ other.data.most }}", operator: Equals, value: "1"}]}}
"""


def test_contexts_of_a_cluster_policy(cluster: Cluster) -> None:
    cluster.apply(LIMITS)
    cluster.apply(GLOBAL)
    cluster.policy(POLICY, "clusterpolicy", "contexts")
    try:
        assert 'other is none of ["sales"] (1)' in cluster.refused(pod("bad", "team: other"))
        cluster.admitted(pod("good", "team: sales"))
        cluster.delete("globalcontextentry", "all-namespaces")
        found = cluster.until(
            lambda: (
                error
                if "failed to fetch entry" in (error := cluster.create(pod("late", "team: sales")).stderr)
                else None
            )
        )
        assert "key=all-namespaces" in found
    finally:
        cluster.delete("globalcontextentry", "all-namespaces")
        cluster.delete("configmap", "limits", "-n", "default")


def test_a_namespaced_policy_reads_its_own_namespace_alone(cluster: Cluster) -> None:
    cluster.apply(LIMITS)
    cluster.policy(PEEK, "policy", "peek")
    try:
        assert "it is 1" in cluster.refused(pod("own", "ns: default"))
        error = cluster.refused(pod("foreign", "ns: kube-system"))
        assert "is different from policy namespace" in error
        assert "it is 1" not in error
    finally:
        cluster.delete("configmap", "limits", "-n", "default")
