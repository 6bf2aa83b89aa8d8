"""What the user's example policies do over time in a cluster: made objects, copies that follow, Jobs that go, roles."""

from __future__ import annotations

import json
import time

import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.seed_cases import seed_folder
from tests.cluster.test_seed import NO_CASES, bare, text

SEED = seed_folder()

pytestmark = pytest.mark.skipif(not SEED.is_dir(), reason=NO_CASES)


def policy(cluster: Cluster, folder: str) -> str:
    """Applies the cluster-wide policy of a folder, waits until it answers, and gives its name."""
    written = next(yaml.safe_load_all((SEED / folder / "policy.yaml").read_text(encoding="utf-8")))
    cluster.policy(text(bare(written)), "clusterpolicy", written["metadata"]["name"])
    return str(written["metadata"]["name"])


def config_map(name: str, namespace: str, value: str) -> str:
    return f"""\
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: {name}
          namespace: {namespace}
          labels: {{app.kubernetes.io/part-of: namespace-config}}
        data: {{PROXY: "{value}"}}
        """


def data_of(cluster: Cluster, name: str, namespace: str) -> str:
    done = cluster.plane.kubectl("get", "configmap", name, "-n", namespace, "-o", "json", "--ignore-not-found")
    return str(json.loads(done.stdout)["data"].get("PROXY")) if done.stdout.strip() else ""


def holds(cluster: Cluster, name: str, namespace: str, value: str) -> None:
    """Waits until a ConfigMap is there with a value."""
    cluster.until(lambda: data_of(cluster, name, namespace) == value, what=f"{value} in {namespace}/{name}")


def test_a_refusal_holds_policy_rule_and_message(cluster: Cluster) -> None:
    policy(cluster, "09-require-labels")
    said = cluster.refused("{apiVersion: v1, kind: Service, metadata: {name: bare}, spec: {ports: [{port: 80}]}}")
    for part in ("require-labels", "check-labels", "Required labels missing: app, team, environment"):
        assert part in said


def test_audit_admits_and_reports_the_violation(cluster: Cluster) -> None:
    policy(cluster, "06-require-resource-limits")
    cluster.admitted("{apiVersion: v1, kind: Pod, metadata: {name: lazy}, spec: {containers: [{name: a, image: b}]}}")
    uid = cluster.get("pod", "lazy")["metadata"]["uid"]
    report = cluster.appears("policyreport", uid, "-n", "default", seconds=20)
    assert [(r["policy"], r["rule"], r["result"]) for r in report["results"]] == [
        ("require-resource-limits", "check-resources", "fail")
    ]
    assert report["scope"]["name"] == "lazy"
    assert report["summary"]["fail"] == 1


def test_a_new_namespace_gets_both_network_policies_within_two_seconds(cluster: Cluster) -> None:
    policy(cluster, "11-generate-networkpolicy")
    cluster.admitted("{apiVersion: v1, kind: Namespace, metadata: {name: fresh}}")
    deadline = time.monotonic() + 2
    for name in ("deny-all-traffic", "allow-dns"):
        cluster.appears("networkpolicy", name, "-n", "fresh", seconds=max(deadline - time.monotonic(), 0.1))


def test_a_copy_follows_its_source(cluster: Cluster) -> None:
    policy(cluster, "14b-sync-copy")
    cluster.namespaces("platform")
    cluster.apply(config_map("follow", "platform", "one"))
    holds(cluster, "follow-copy", "platform", "one")
    cluster.apply(config_map("follow", "platform", "two"))
    holds(cluster, "follow-copy", "platform", "two")
    cluster.plane.kubectl("patch", "configmap", "follow-copy", "-n", "platform", "-p", '{"data":{"PROXY":"mine"}}')
    holds(cluster, "follow-copy", "platform", "two")
    cluster.delete("configmap", "follow", "-n", "platform")
    cluster.until(lambda: not cluster.exists("configmap", "follow-copy", "-n", "platform"), what="the end of the copy")


def test_labelled_config_maps_are_in_every_namespace_later_ones_included(cluster: Cluster) -> None:
    cluster.namespaces("platform", "before")
    cluster.apply(config_map("shared", "platform", "one"))
    policy(cluster, "14c-sync-to-all-namespaces")
    holds(cluster, "shared", "before", "one")
    cluster.admitted("{apiVersion: v1, kind: Namespace, metadata: {name: after}}")
    holds(cluster, "shared", "after", "one")
    cluster.apply(config_map("shared", "platform", "two"))
    for name in ("before", "after"):
        holds(cluster, "shared", name, "two")
    cluster.delete("configmap", "shared", "-n", "platform")


def job(name: str, label: str) -> str:
    return f"""\
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: {name}, labels: {{cleanup: "{label}"}}}}
        spec:
          template:
            spec: {{restartPolicy: Never, containers: [{{name: a, image: gcr.io/acme/app:1}}]}}
        """


def complete(cluster: Cluster, name: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions}
    patch = json.dumps({"status": status})
    done = cluster.plane.kubectl("patch", "job", name, "--subresource=status", "--type=merge", "-p", patch)
    assert done.returncode == 0, done.stderr


def test_completed_jobs_go_those_that_complete_later_too(cluster: Cluster) -> None:
    for name, label in (("done", "true"), ("running", "true"), ("kept", "false")):
        cluster.admitted(job(name, label))
    for name in ("done", "kept"):
        complete(cluster, name)
    policy(cluster, "15-cleanup-rule")
    cluster.until(lambda: not cluster.exists("job", "done"), what="the removal of the Job that was there")
    cluster.admitted(job("later", "true"))
    complete(cluster, "later")
    cluster.until(lambda: not cluster.exists("job", "later"), what="the removal of the Job that came later")
    assert cluster.exists("job", "running")
    assert cluster.exists("job", "kept")
    cluster.delete("job", "running", "kept")


def test_a_pod_is_changed_before_a_rule_on_the_changed_field_sees_it(cluster: Cluster) -> None:
    policy(cluster, "19-dev-defaults")
    cluster.policy(
        """
        apiVersion: kyverno.io/v1
        kind: ClusterPolicy
        metadata: {name: need-non-root}
        spec:
          validationFailureAction: Enforce
          rules:
          - name: non-root
            match: {any: [{resources: {kinds: [Pod]}}]}
            validate: {message: not root, pattern: {spec: {securityContext: {runAsNonRoot: true}}}}
        """,
        "clusterpolicy",
        "need-non-root",
    )
    cluster.admitted("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, image: b}]}}")
    pod = cluster.get("pod", "p")
    assert pod["spec"]["securityContext"] == {"runAsNonRoot": True}
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_the_policy_admins_of_the_guide_may_write_policies_and_nobody_else(cluster: Cluster) -> None:
    cluster.apply((SEED / "rbac.yaml").read_text(encoding="utf-8"))
    written = text(bare(next(yaml.safe_load_all((SEED / "09-require-labels" / "policy.yaml").read_text("utf-8")))))

    def create(group: str) -> str:
        done = cluster.plane.kubectl("create", "-f", "-", "--as=dana", f"--as-group={group}", stdin=written)
        return done.stdout if done.returncode == 0 else done.stderr

    assert "forbidden" in create("others")
    assert "created" in create("platform-team")
    cluster.ready("clusterpolicy", "require-labels")
