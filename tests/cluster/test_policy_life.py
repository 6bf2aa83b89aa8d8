"""What is asked before a policy is stored, and policies that the API server judges by itself."""

from __future__ import annotations

from tests.cluster.cluster import Cluster

NATIVE = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: native-label}
spec:
  background: false
  rules:
  - name: has-app
    match: {any: [{resources: {kinds: [ConfigMap], operations: [CREATE], namespaces: [default]}}]}
    validate:
      failureAction: Enforce
      message: the label app is missing
      cel:
        generate: true
        expressions: [{expression: "has(object.metadata.labels) && 'app' in object.metadata.labels"}]
"""

CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: bare, namespace: default}
"""


def test_the_api_server_judges_in_place_of_the_webhook(cluster: Cluster) -> None:
    cluster.policy(NATIVE, "clusterpolicy", "native-label")
    # The webhook judges from the beginning, the API server as soon as it can.
    assert "the label app is missing" in cluster.refused(CONFIG_MAP)
    cluster.appears("validatingadmissionpolicybinding", "cpol-native-label-binding")

    def handed_over() -> bool:
        return not any("configmaps" in r["resources"] for rules in cluster.webhook_rules().values() for r in rules)

    cluster.until(handed_over, seconds=30, what="the end of the webhook's rule")
    refused = cluster.refused(CONFIG_MAP)
    assert "ValidatingAdmissionPolicy 'cpol-native-label'" in refused
    assert "the label app is missing" in refused
    status = cluster.get("clusterpolicy", "native-label")["status"]
    assert status["validatingadmissionpolicy"] == {"generated": True, "message": ""}
    cluster.delete("clusterpolicy", "native-label")
    cluster.until(
        lambda: not cluster.exists("validatingadmissionpolicy", "cpol-native-label"), seconds=30, what="its removal"
    )
    cluster.until(lambda: cluster.create(CONFIG_MAP).returncode == 0, what="the end of its refusals")


def test_wrong_objects_of_other_kinds_are_refused_too(cluster: Cluster) -> None:
    entry = """
apiVersion: kyverno.io/v2
kind: GlobalContextEntry
metadata: {name: wrong}
spec: {apiCall: {urlPath: /api/v1/namespaces, method: GET, data: [{key: a, value: b}]}}
"""
    assert "denied the request" in cluster.refused(entry)
    cleanup = """
apiVersion: kyverno.io/v2
kind: ClusterCleanupPolicy
metadata: {name: wrong}
spec: {schedule: "99 * * * *", match: {any: [{resources: {kinds: [Pod]}}]}}
"""
    assert "is no schedule" in cluster.refused(cleanup)
    labelled = CONFIG_MAP.replace("bare,", "timed, labels: {cleanup.kyverno.io/ttl: tomorrow},")
    warned = cluster.create(labelled)
    assert warned.returncode == 0
    assert "tomorrow" in warned.stderr
