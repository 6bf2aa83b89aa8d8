"""The real API server asks Thesmos: refusals, admissions, mutations, and how soon an edit counts."""

from __future__ import annotations

import time

from tests.cluster.cluster import Cluster

ENFORCE = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: require-team}
spec:
  validationFailureAction: Enforce
  rules:
    - name: team-label
      match: {any: [{resources: {kinds: [Pod]}}]}
      validate:
        message: "the label team is required"
        pattern: {metadata: {labels: {team: "?*"}}}
"""

POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {LABELS}}
spec: {containers: [{name: c, image: "registry.example.com/app:1"}]}
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, labels: {team: sales}}
spec:
  replicas: 1
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: c, image: "registry.example.com/app:1"}]}
"""


def pod(name: str, labels: str = "") -> str:
    return POD.replace("NAME", name).replace("LABELS", labels)


def test_enforce_refuses_with_policy_rule_and_message(cluster: Cluster) -> None:
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    error = cluster.refused(pod("bad"))
    assert "require-team" in error
    assert "team-label" in error
    assert "the label team is required" in error
    assert 'admission webhook "validate.kyverno.svc-fail" denied the request' in error
    cluster.admitted(pod("good", "team: sales"))


def test_audit_admits(cluster: Cluster) -> None:
    cluster.policy(ENFORCE.replace("Enforce", "Audit"), "clusterpolicy", "require-team")
    cluster.admitted(pod("bad"))


def test_autogen_refuses_a_deployment(cluster: Cluster) -> None:
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    error = cluster.refused(DEPLOYMENT)
    assert "autogen-team-label" in error
    assert "/spec/template/metadata/labels/team/" in error


def test_the_mutated_pod_is_stored(cluster: Cluster) -> None:
    cluster.policy(
        """
        apiVersion: kyverno.io/v1
        kind: ClusterPolicy
        metadata: {name: defaults}
        spec:
          rules:
            - name: pull-policy
              match: {any: [{resources: {kinds: [Pod]}}]}
              mutate:
                patchStrategicMerge:
                  metadata: {labels: {"+(by)": thesmos}}
                  spec:
                    containers:
                      - (name): "*"
                        imagePullPolicy: Always
        """,
        "clusterpolicy",
        "defaults",
    )
    cluster.admitted(pod("changed", "team: sales"))
    stored = cluster.get("pod", "changed")
    assert stored["metadata"]["labels"] == {"team": "sales", "by": "thesmos"}
    assert stored["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    assert stored["spec"]["containers"][0]["image"] == "registry.example.com/app:1"


def test_an_edit_is_live_within_two_seconds(cluster: Cluster) -> None:
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    cluster.refused(pod("first"))
    cluster.apply(ENFORCE.replace("labels: {team:", "labels: {owner:").replace("label team", "label owner"))
    edited = time.monotonic()
    while "owner" not in cluster.create(pod("probe")).stderr:
        assert time.monotonic() - edited < 2.0, cluster.thesmos.tail()
    cluster.admitted(pod("second", "owner: jane"))


def test_a_namespaced_policy_speaks_for_its_namespace_alone(cluster: Cluster) -> None:
    if not cluster.exists("namespace", "tenant"):
        cluster.admitted("{apiVersion: v1, kind: Namespace, metadata: {name: tenant}}")
    text = ENFORCE.replace("ClusterPolicy", "Policy").replace("{name: require-team}", "{name: own, namespace: tenant}")
    cluster.apply(text)
    cluster.until(lambda: cluster.webhook_rules(), what="the webhook")
    cluster.admitted(pod("elsewhere"))
    error = cluster.refused(pod("inside").replace("metadata: {", "metadata: {namespace: tenant, "))
    assert "the label team is required" in error


def test_namespace_labels_decide(cluster: Cluster) -> None:
    if not cluster.exists("namespace", "strict"):
        cluster.admitted("{apiVersion: v1, kind: Namespace, metadata: {name: strict, labels: {tier: prod}}}")
    text = ENFORCE.replace("kinds: [Pod]", "kinds: [Pod], namespaceSelector: {matchLabels: {tier: prod}}")
    cluster.policy(text, "clusterpolicy", "require-team")
    cluster.admitted(pod("free"))
    cluster.refused(pod("bound").replace("metadata: {", "metadata: {namespace: strict, "))


def test_a_dry_run_is_answered_and_stores_nothing(cluster: Cluster) -> None:
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    done = cluster.plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=pod("dry"))
    assert done.returncode != 0
    assert "the label team is required" in done.stderr
    done = cluster.plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=pod("dry", "team: sales"))
    assert done.returncode == 0, done.stderr
    assert not cluster.exists("pod", "dry")
