"""Policies as objects of a cluster: refused when wrong, told about in the status, followed by the webhooks."""

from __future__ import annotations

import time

from tests.cluster.cluster import Cluster
from tests.cluster.test_admission import ENFORCE, pod


def test_a_wrong_policy_is_refused_with_a_caret(cluster: Cluster) -> None:
    wrong = ENFORCE.replace("validate:\n        message", "validate:\n        mesage")
    done = cluster.create(wrong)
    assert done.returncode != 0
    assert (
        'admission webhook "validate-policy.kyverno.svc" denied the request' in done.stderr or "mesage" in done.stderr
    )
    broken = ENFORCE.replace('"?*"', '"{{ request.object.metadata.name | }}"')
    error = cluster.refused(broken)
    assert 'admission webhook "validate-policy.kyverno.svc" denied the request' in error
    assert "ClusterPolicy/require-team:" in error
    assert "^" in error, "the caret"
    assert not cluster.exists("clusterpolicy", "require-team")


def test_the_status_tells_ready_and_counts_rules(cluster: Cluster) -> None:
    cluster.apply(ENFORCE)
    condition = cluster.ready("clusterpolicy", "require-team")
    assert condition["reason"] == "Succeeded"
    status = cluster.get("clusterpolicy", "require-team")["status"]
    assert status["rulecount"] == {"validate": 1, "mutate": 0, "generate": 0, "verifyimages": 0}


def test_a_stored_policy_that_breaks_keeps_its_last_good_version(cluster: Cluster) -> None:
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    broken = ENFORCE.replace('"?*"', '"{{ request.object.metadata.name | }}"')
    # Past the policy webhook, as an older version or a restored backup would bring it in.
    with cluster.thesmos.paused():
        cluster.plane.kubectl("delete", "validatingwebhookconfiguration", "kyverno-policy-validating-webhook-cfg")
        cluster.until(
            lambda: cluster.plane.kubectl("apply", "-f", "-", stdin=broken).returncode == 0,
            what="the way past the policy webhook",
        )
    condition = cluster.ready("clusterpolicy", "require-team", status="False")
    assert condition["reason"] == "Failed"
    assert "stays in force" in condition["message"]
    assert "the label team is required" in cluster.refused(pod("still-refused"))
    cluster.apply(ENFORCE)
    cluster.ready("clusterpolicy", "require-team")


def test_webhook_rules_follow_the_kinds_in_use(cluster: Cluster) -> None:
    assert cluster.webhook_rules() == {}
    only_services = ENFORCE.replace("kinds: [Pod]", "kinds: [Service], operations: [CREATE]")
    cluster.policy(only_services, "clusterpolicy", "require-team")
    assert cluster.webhook_rules() == {
        "validate.kyverno.svc-fail": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["services"],
                "scope": "Namespaced",
            }
        ]
    }
    assert cluster.webhook_rules("mutatingwebhookconfigurations") == {}
    pods = ENFORCE.replace("spec:\n  validation", "spec:\n  failurePolicy: Ignore\n  validation").replace(
        "metadata: {name: require-team}",
        'metadata: {name: pods, annotations: {pod-policies.kyverno.io/autogen-controllers: "none"}}',
    )
    cluster.policy(pods, "clusterpolicy", "pods")
    rules = cluster.webhook_rules()
    assert sorted(rules) == ["validate.kyverno.svc-fail", "validate.kyverno.svc-ignore"]
    (rule,) = rules["validate.kyverno.svc-ignore"]
    assert rule["resources"] == ["pods", "pods/ephemeralcontainers"]
    assert rule["operations"] == ["CONNECT", "CREATE", "DELETE", "UPDATE"]
    cluster.delete("clusterpolicy", "require-team")
    cluster.until(
        lambda: sorted(cluster.webhook_rules()) == ["validate.kyverno.svc-ignore"], what="the smaller webhooks"
    )
    cluster.delete("clusterpolicy", "pods")
    cluster.until(lambda: not cluster.webhook_rules(), what="the removal of the configuration")


def test_a_webhook_that_someone_deletes_comes_back(cluster: Cluster) -> None:
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    cluster.plane.kubectl("delete", "validatingwebhookconfiguration", "kyverno-resource-validating-webhook-cfg")
    cluster.until(lambda: cluster.webhook_rules(), what="the configuration")
    cluster.refused(pod("bad"))


def test_a_kind_that_comes_later_is_watched(cluster: Cluster) -> None:
    text = ENFORCE.replace("kinds: [Pod]", "kinds: [Widget]")
    cluster.policy(text, "clusterpolicy", "require-team")
    assert cluster.webhook_rules() == {}
    cluster.apply(
        """
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: widgets.example.com}
        spec:
          group: example.com
          scope: Namespaced
          names: {plural: widgets, singular: widget, kind: Widget}
          versions:
            - name: v1
              served: true
              storage: true
              schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
        """
    )
    try:
        cluster.until(lambda: cluster.webhook_rules(), what="the webhook for widgets")
        error = cluster.refused("{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}")
        assert "the label team is required" in error
    finally:
        cluster.delete("crd", "widgets.example.com")


def test_the_guides_exception_frees_objects_of_its_own_namespace(cluster: Cluster) -> None:
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    exception = """
        apiVersion: kyverno.io/v1alpha1
        kind: PolicyException
        metadata: {name: legacy, namespace: NAMESPACE}
        spec:
          rules: [{name: team-label}]
          match: {any: [{resources: {kinds: [Pod], names: ["old-*"]}}]}
        """
    # One of another namespace counts for nothing here (decision 5).
    cluster.apply(exception.replace("NAMESPACE", "kube-public"))
    cluster.refused(pod("old-one"))
    cluster.apply(exception.replace("NAMESPACE", "default"))
    cluster.until(lambda: cluster.create(pod("old-one")).returncode == 0, seconds=2, what="the exception")
    assert "the label team is required" in cluster.refused(pod("new-one"))
    cluster.delete("policyexceptions.kyverno.io", "legacy", "-n", "default")
    cluster.until(lambda: cluster.create(pod("old-two")).returncode != 0, seconds=2, what="the end of the exception")


def test_exceptions_of_the_standard_form(cluster: Cluster) -> None:
    """With podSecurity they exclude more, with conditions they hold where these do; wrong ones are refused."""
    cluster.policy(
        """
        apiVersion: kyverno.io/v1
        kind: ClusterPolicy
        metadata: {name: standard}
        spec:
          rules:
            - name: baseline
              match: {any: [{resources: {kinds: [Pod]}}]}
              validate: {failureAction: Enforce, podSecurity: {level: baseline, version: latest}}
        """,
        "clusterpolicy",
        "standard",
    )
    host = pod("host-one").replace("spec: {", "spec: {hostPID: true, ", 1)
    assert "spec.hostPID is forbidden, forbidden values found: true" in cluster.refused(host)
    exception = """
        apiVersion: kyverno.io/VERSION
        kind: PolicyException
        metadata: {name: host, namespace: default}
        spec:
          exceptions: [{policyName: standard, ruleNames: [baseline]}]
          match: {any: [{resources: {kinds: [Pod]}}]}
          conditions:
            all: [{key: "{{ request.object.metadata.name }}", operator: Equals, value: "host-*"}]
          podSecurity: [{controlName: Host Namespaces}]
        """
    wrong = exception.replace("VERSION", "v2").replace(
        "[{controlName: Host Namespaces}]", "[{controlName: Host Ports}]"
    )
    assert "is a control of containers, and no images are named" in cluster.refused(wrong)
    cluster.apply(exception.replace("VERSION", "v2beta1"))
    cluster.until(lambda: cluster.create(host).returncode == 0, seconds=2, what="the exception")
    assert "spec.hostPID" in cluster.refused(host.replace("host-one", "other"))
    ports = host.replace("host-one", "host-two").replace("image:", "ports: [{containerPort: 1, hostPort: 1}], image:")
    error = cluster.refused(ports)
    assert "hostPort" in error
    assert "spec.hostPID" not in error
    cluster.delete("policyexceptions.kyverno.io", "host", "-n", "default")
    cluster.until(
        lambda: cluster.create(host.replace("host-one", "host-three")).returncode != 0,
        seconds=2,
        what="the end of the exception",
    )


def test_one_change_among_many_does_not_wait_for_them(cluster: Cluster) -> None:
    """A folder of policies and one edit after it: the edit is live in time, and so is each of the folder."""
    names = [f"many-{i}" for i in range(60)]
    folder = "---".join(
        ENFORCE.replace("require-team", name).replace("team", f"key{i}").replace("Enforce", "Audit")
        for i, name in enumerate(names)
    )
    cluster.apply(folder)
    applied = time.monotonic()
    cluster.apply(ENFORCE)
    while "the label team is required" not in cluster.create(pod("probe")).stderr:
        assert time.monotonic() - applied < 2.0, cluster.thesmos.tail()
        cluster.plane.kubectl("delete", "pod", "probe", "--ignore-not-found", "--force")
    cluster.until(
        lambda: all(
            p.get("status", {}).get("conditions", [{}])[0].get("status") == "True"
            for p in cluster.get("clusterpolicies")["items"]
        ),
        what="all policies being ready",
    )
    assert len(cluster.get("clusterpolicies")["items"]) == 61
