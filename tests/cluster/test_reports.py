"""Policy reports on the real API server: what the scan and admission say of objects, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.cluster import Cluster

TEAM = """
    apiVersion: kyverno.io/v1
    kind: ClusterPolicy
    metadata:
      name: {name}
      annotations: {{policies.kyverno.io/category: Labels, policies.kyverno.io/severity: medium}}
      labels: {labels}
    spec:
      background: {background}
      admission: {admission}
      rules:
        - name: {rule}
          match: {{any: [{{resources: {{kinds: [ConfigMap], namespaces: [audited]}}}}]}}
          validate:
            failureAction: Audit
            message: the label team is missing
            pattern: {{metadata: {{labels: {{team: "?*"}}}}}}
"""

CONFIG = """
    apiVersion: v1
    kind: ConfigMap
    metadata: {{name: {name}, namespace: audited, labels: {labels}}}
"""


def team(
    name: str = "teams", *, rule: str = "team", background: bool = True, admission: bool = True, labels: str = "{}"
) -> str:
    flags = {"background": str(background).lower(), "admission": str(admission).lower()}
    return TEAM.format(name=name, rule=rule, labels=labels, **flags)


@pytest.fixture
def audited(cluster: Cluster) -> Cluster:
    cluster.namespaces("audited")
    cluster.plane.kubectl("delete", "configmaps", "--all", "-n", "audited")
    return cluster


def report(cluster: Cluster, name: str, wanted: Callable[[dict[str, Any]], bool] = bool) -> dict[str, Any]:
    """The report of a ConfigMap once it is as wanted."""
    uid = cluster.get("configmap", name, "-n", "audited")["metadata"]["uid"]

    def look() -> dict[str, Any] | None:
        found = [r for r in cluster.get("policyreports", "-n", "audited")["items"] if r["metadata"]["name"] == uid]
        return found[0] if found and wanted(found[0]) else None

    return cluster.until(look, seconds=15, what=f"the report of {name}")


def gone(cluster: Cluster, uid: str) -> None:
    cluster.until(lambda: not cluster.exists("policyreport", uid, "-n", "audited"), seconds=15, what="its removal")


def results(found: dict[str, Any]) -> dict[str, str]:
    return {r["rule"]: r["result"] for r in found["results"]}


def test_the_scan_reports_what_was_there_before_the_policy(audited: Cluster) -> None:
    audited.apply(CONFIG.format(name="old", labels="{}"))
    audited.policy(team(admission=False), "clusterpolicy", "teams")

    found = report(audited, "old")

    uid = audited.get("configmap", "old", "-n", "audited")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "old", "uid": uid}
    assert found["metadata"]["ownerReferences"] == [owner]
    assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "kyverno"
    assert found["scope"] == {**owner, "namespace": "audited"}
    assert found["summary"] == {"pass": 0, "fail": 1, "warn": 0, "error": 0, "skip": 0}
    (result,) = found["results"]
    assert result.pop("timestamp")["seconds"] > 0
    assert result == {
        "source": "kyverno",
        "policy": "teams",
        "rule": "team",
        "result": "fail",
        "message": "validation error: the label team is missing. rule team failed at path /metadata/labels/",
        "category": "Labels",
        "severity": "medium",
        "scored": True,
        "properties": {"process": "background scan"},
    }


def test_reports_follow_the_object_and_the_policy(audited: Cluster) -> None:
    audited.policy(team(), "clusterpolicy", "teams")
    audited.apply(CONFIG.format(name="one", labels="{}"))
    report(audited, "one", lambda r: results(r) == {"team": "fail"})

    audited.apply(CONFIG.format(name="one", labels="{team: a}"))
    report(audited, "one", lambda r: results(r) == {"team": "pass"})

    audited.policy(team(rule="owner"), "clusterpolicy", "teams")
    uid = report(audited, "one", lambda r: results(r) == {"owner": "pass"})["metadata"]["name"]

    audited.delete("clusterpolicy", "teams")
    gone(audited, uid)


def test_the_report_of_an_object_goes_with_it_and_comes_back_when_it_is_removed_alone(audited: Cluster) -> None:
    audited.policy(team(), "clusterpolicy", "teams")
    audited.apply(CONFIG.format(name="one", labels="{}"))
    uid = report(audited, "one")["metadata"]["name"]

    audited.delete("policyreport", uid, "-n", "audited")
    report(audited, "one")

    audited.delete("configmap", "one", "-n", "audited")
    gone(audited, uid)


def test_admission_reports_policies_without_background(audited: Cluster) -> None:
    audited.policy(team("scanned"), "clusterpolicy", "scanned")
    audited.policy(team("asked", rule="at-admission", background=False), "clusterpolicy", "asked")
    audited.apply(CONFIG.format(name="one", labels="{}"))

    found = report(audited, "one", lambda r: results(r) == {"at-admission": "fail", "team": "fail"})
    processes = {r["policy"]: r["properties"]["process"] for r in found["results"]}
    assert processes == {"asked": "admission review", "scanned": "background scan"}

    audited.apply(CONFIG.format(name="one", labels="{team: a}"))
    report(audited, "one", lambda r: results(r) == {"at-admission": "pass", "team": "pass"})

    audited.delete("clusterpolicy", "scanned")
    report(audited, "one", lambda r: results(r) == {"at-admission": "pass"})
    uid = found["metadata"]["name"]
    audited.delete("clusterpolicy", "asked")
    gone(audited, uid)


def test_a_policy_may_ask_for_no_reports(audited: Cluster) -> None:
    audited.policy(team("quiet", labels='{reports.kyverno.io/disabled: "true"}'), "clusterpolicy", "quiet")
    audited.policy(team("loud", rule="loud"), "clusterpolicy", "loud")
    audited.apply(CONFIG.format(name="one", labels="{}"))

    assert results(report(audited, "one")) == {"loud": "fail"}


def test_a_dry_run_is_not_reported(audited: Cluster) -> None:
    audited.policy(team("asked", background=False), "clusterpolicy", "asked")
    done = audited.plane.kubectl("create", "configmap", "dry", "-n", "audited", "--dry-run=server")
    assert done.returncode == 0, done.stderr
    audited.apply(CONFIG.format(name="wet", labels="{}"))

    report(audited, "wet")

    assert len(audited.get("policyreports", "-n", "audited")["items"]) == 1


def test_a_restart_writes_no_report_again(audited: Cluster) -> None:
    def versions() -> dict[str, str]:
        found = audited.get("policyreports", "-n", "audited")["items"]
        return {r["scope"]["name"]: r["metadata"]["resourceVersion"] for r in found}

    audited.policy(team(), "clusterpolicy", "teams")
    for name in ("one", "two"):
        audited.apply(CONFIG.format(name=name, labels="{first: label}"))
        report(audited, name)
    before = versions()

    audited.thesmos.stop()
    audited.apply(CONFIG.format(name="two", labels="{other: label}"))
    audited.thesmos.start()
    audited.apply(CONFIG.format(name="three", labels="{}"))
    report(audited, "three")

    assert {name: version for name, version in versions().items() if name != "three"} == before


def test_mutations_are_reported_under_the_uid_that_the_object_gets(audited: Cluster) -> None:
    audited.policy(
        """
        apiVersion: kyverno.io/v1
        kind: ClusterPolicy
        metadata: {name: labelled}
        spec:
          rules:
            - name: label
              match: {any: [{resources: {kinds: [ConfigMap], namespaces: [audited]}}]}
              mutate: {patchStrategicMerge: {metadata: {labels: {+(team): nobody}}}}
        """,
        "clusterpolicy",
        "labelled",
    )
    audited.apply(CONFIG.format(name="one", labels="{}"))

    (result,) = report(audited, "one")["results"]

    assert (result["rule"], result["result"]) == ("label", "pass")
    assert result["message"] == "mutated ConfigMap/one in namespace audited"
