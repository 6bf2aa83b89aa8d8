"""Events on policies, objects and exceptions, as ``kubectl get events`` shows them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.cluster import Cluster

NAMESPACE = "events-test"
SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: kyverno, namespace: kyverno}
data: {generateSuccessEvents: "true"}
"""


def wants_label(kind: str, name: str, action: str, more: str = "") -> str:
    namespaced = kind == "Policy"
    namespace = f", namespace: {NAMESPACE}" if namespaced else ""
    place = "" if namespaced else f", namespaces: [{NAMESPACE}]"
    return f"""
    apiVersion: kyverno.io/v1
    kind: {kind}
    metadata: {{name: {name}{namespace}}}
    spec:
      {more}
      rules:
      - name: wants-app
        match: {{any: [{{resources: {{kinds: [ConfigMap]{place}}}}}]}}
        validate:
          failureAction: {action}
          message: label app is required
          pattern: {{metadata: {{labels: {{app: "?*"}}}}}}
    """


def config_map(name: str, **labels: str) -> str:
    text = ", ".join(f"{key}: {value}" for key, value in labels.items())
    return f"""
    apiVersion: v1
    kind: ConfigMap
    metadata: {{name: {name}, namespace: {NAMESPACE}, labels: {{{text}}}}}
    """


@pytest.fixture
def place(cluster: Cluster) -> Cluster:
    """A namespace without ConfigMaps."""
    cluster.namespaces(NAMESPACE)
    cluster.delete("configmaps", "--all", "-n", NAMESPACE)
    return cluster


def event(cluster: Cluster, kind: str, name: str, reporter: str, reason: str) -> dict[str, Any]:
    """Waits for an event, in the form of the core API that most tools read."""

    def look() -> dict[str, Any] | None:
        for found in cluster.get("events", "-A")["items"]:
            about = found["involvedObject"]
            if (about["kind"], about["name"], found["reportingComponent"], found["reason"]) == (
                kind, name, f"kyverno-{reporter}", reason,
            ):  # fmt: skip
                return dict(found)
        return None

    return cluster.until(look, seconds=20, what=f"{reason} of {reporter} on {kind} {name}")


def told(cluster: Cluster, kind: str, name: str, reporter: str) -> bool:
    return any(
        (e["involvedObject"]["kind"], e["involvedObject"]["name"], e["reportingComponent"])
        == (kind, name, f"kyverno-{reporter}")
        for e in cluster.get("events", "-A")["items"]
    )


def test_a_refusal_is_on_the_policy(place: Cluster) -> None:
    place.apply(wants_label("Policy", "refuses", "Enforce"))
    uid = place.get("policies.kyverno.io", "refuses", "-n", NAMESPACE)["metadata"]["uid"]
    place.ready("policies.kyverno.io", "refuses", "-n", NAMESPACE)
    place.refused(config_map("bad", other="x"))
    found = event(place, "Policy", "refuses", "admission", "PolicyViolation")
    assert found["metadata"]["namespace"] == NAMESPACE
    assert (found["type"], found["action"]) == ("Warning", "Resource Blocked")
    assert found["involvedObject"]["uid"] == uid
    assert found["message"] == (
        f"ConfigMap {NAMESPACE}/bad: [wants-app] fail (blocked); validation error: label app is required. rule "
        "wants-app failed at path /metadata/labels/app/"
    )
    assert (found["related"]["kind"], found["related"]["name"]) == ("ConfigMap", "bad")


def test_what_is_audited_is_on_the_object_by_admission_and_scan(place: Cluster) -> None:
    place.policy(wants_label("ClusterPolicy", "audits", "Audit"), "clusterpolicy", "audits")
    place.admitted(config_map("audited"))
    text = "policy audits/wants-app fail: validation error: label app is required. rule wants-app failed at path "
    for reporter in ("admission", "scan"):
        found = event(place, "ConfigMap", "audited", reporter, "PolicyViolation")
        assert found["message"].startswith(text)
        assert found["action"] == "Resource Passed"
        assert found["metadata"]["namespace"] == NAMESPACE
        assert (
            event(place, "ClusterPolicy", "audits", reporter, "PolicyViolation")["metadata"]["namespace"] == "default"
        )


def test_a_policy_for_scans_alone_is_told_of_by_the_scan_alone(place: Cluster) -> None:
    place.policy(wants_label("ClusterPolicy", "scans", "Enforce", "admission: false"), "clusterpolicy", "scans")
    place.admitted(config_map("scanned"))
    event(place, "ConfigMap", "scanned", "scan", "PolicyViolation")
    assert not told(place, "ConfigMap", "scanned", "admission")
    assert not told(place, "ClusterPolicy", "scans", "admission")


def test_successes_are_told_where_they_are_asked_for(place: Cluster) -> None:
    place.policy(wants_label("ClusterPolicy", "passes", "Enforce"), "clusterpolicy", "passes")
    changes = f"""
    apiVersion: kyverno.io/v1
    kind: ClusterPolicy
    metadata: {{name: changes}}
    spec:
      rules:
      - name: add
        match: {{any: [{{resources: {{kinds: [ConfigMap], namespaces: [{NAMESPACE}]}}}}]}}
        mutate: {{patchStrategicMerge: {{metadata: {{labels: {{by: thesmos}}}}}}}}
    """
    place.policy(changes, "clusterpolicy", "changes")
    place.apply(SETTINGS)

    def passed() -> bool:
        # The ConfigMap is in force a moment after it is written.
        place.plane.kubectl("delete", "configmap", "good", "-n", NAMESPACE)
        place.admitted(config_map("good", app="x"))
        return told(place, "ClusterPolicy", "passes", "admission")

    place.until(passed, seconds=15, what="a success")
    found = event(place, "ClusterPolicy", "passes", "admission", "PolicyApplied")
    assert (found["type"], found["action"]) == ("Normal", "Resource Passed")
    assert found["message"] == f"ConfigMap {NAMESPACE}/good: pass"
    found = event(place, "ClusterPolicy", "changes", "admission", "PolicyApplied")
    assert (found["type"], found["action"]) == ("Normal", "Resource Mutated")
    assert found["message"] == f"ConfigMap {NAMESPACE}/good is successfully mutated"


def test_an_exception_is_told_on_the_policy_and_on_itself(place: Cluster) -> None:
    exception = f"""
    apiVersion: kyverno.io/v2
    kind: PolicyException
    metadata: {{name: let-go, namespace: {NAMESPACE}}}
    spec:
      exceptions: [{{policyName: excepted, ruleNames: [wants-app]}}]
      match: {{any: [{{resources: {{kinds: [ConfigMap], names: [free]}}}}]}}
    """
    place.apply(exception)
    place.policy(wants_label("ClusterPolicy", "excepted", "Enforce"), "clusterpolicy", "excepted")
    place.until(lambda: place.create(config_map("free")).returncode == 0, what="the exception")
    on_policy = event(place, "ClusterPolicy", "excepted", "admission", "PolicySkipped")
    on_itself = event(place, "PolicyException", "let-go", "admission", "PolicySkipped")
    key = f"ConfigMap/{NAMESPACE}/free"
    assert on_policy["message"] == (
        f"resource {key} was skipped from rule wants-app due to policy exception {NAMESPACE}/let-go"
    )
    assert on_itself["message"] == f"resource {key} was skipped from policy rule excepted/wants-app"
    assert on_itself["involvedObject"]["apiVersion"] == "kyverno.io/v2"
    assert on_policy["type"] == on_itself["type"] == "Normal"


def test_a_dry_run_leaves_no_event(place: Cluster) -> None:
    place.policy(wants_label("ClusterPolicy", "dry", "Enforce"), "clusterpolicy", "dry")
    done = place.plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=config_map("wet"))
    assert done.returncode != 0
    place.refused(config_map("wetter"))
    found = event(place, "ClusterPolicy", "dry", "admission", "PolicyViolation")
    assert "wetter" in found["message"]
