"""The installation configures itself: the ConfigMap is followed, webhooks are mended, and what is broken elsewhere in
the cluster stops nothing here."""

from __future__ import annotations

import json

from tests.cluster.cluster import Cluster
from tests.cluster.test_admission import ENFORCE, pod

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: kyverno, namespace: kyverno}
data:
  resourceFilters: "[Pod,default,free-*]"
  excludeGroups: "trusted,!watched"
  webhooks: '[{"objectSelector": {"matchLabels": {"judge": "yes"}}}]'
  webhookAnnotations: '{"example.org/told": "yes"}'
"""

BROKEN_API = """
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.broken.example.org}
spec:
  group: broken.example.org
  version: v1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: nobody, namespace: default}
"""


def test_the_config_map_is_followed(cluster: Cluster) -> None:
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    cluster.refused(pod("free-1"))
    try:
        cluster.apply(CONFIG.replace("  webhooks:", "  unread:"))
        cluster.until(lambda: cluster.create(pod("free-1")).returncode == 0, what="the filter")
        cluster.refused(pod("other"))
        for groups, wanted in ((["trusted"], 0), (["trusted", "watched"], 1), (["other"], 1)):
            # Who may impersonate may be anybody; the groups are what counts.
            flags = ["--as=jane", "--as-group=system:masters", *(f"--as-group={g}" for g in groups)]
            done = cluster.plane.kubectl("create", *flags, "-f", "-", stdin=pod("by-jane"))
            assert done.returncode == wanted, done.stderr
        cluster.apply(CONFIG)
        name = "kyverno-resource-validating-webhook-cfg"

        def selected() -> bool:
            found = cluster.get("validatingwebhookconfiguration", name)
            (webhook,) = found["webhooks"]
            told = (found["metadata"].get("annotations") or {}).get("example.org/told")
            return webhook["objectSelector"] == {"matchLabels": {"judge": "yes"}} and told == "yes"

        cluster.until(selected, what="the selector of the webhook")
    finally:
        cluster.delete("configmap", "kyverno", "-n", "kyverno")
    cluster.until(lambda: cluster.create(pod("free-2")).returncode != 0, what="the end of the filter")


def test_webhooks_that_somebody_edits_or_deletes_are_put_right(cluster: Cluster) -> None:
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    wanted = cluster.webhook_rules()
    name = "kyverno-resource-validating-webhook-cfg"
    patch = json.dumps([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}])
    cluster.plane.kubectl("patch", "validatingwebhookconfiguration", name, "--type=json", "-p", patch)

    def mended() -> bool:
        done = cluster.plane.kubectl("get", "validatingwebhookconfiguration", name, "-o", "json")
        return done.returncode == 0 and json.loads(done.stdout)["webhooks"][0]["failurePolicy"] == "Fail"

    cluster.until(mended, what="the failure policy")
    cluster.plane.kubectl("delete", "validatingwebhookconfiguration", name)
    cluster.until(mended, what="the configuration")
    assert cluster.webhook_rules() == wanted


def test_an_api_whose_server_is_away_stops_nothing(cluster: Cluster) -> None:
    cluster.apply(BROKEN_API)
    try:
        cluster.until(lambda: "broken" in str(cluster.get("apiservice", "v1.broken.example.org")), what="the API")
        cluster.policy(ENFORCE, "clusterpolicy", "require-team")
        cluster.refused(pod("bad"))
        kinds = ENFORCE.replace("[Pod]", "[Pod, broken.example.org/v1/Thing]").replace("require-team", "with-broken")
        cluster.policy(kinds, "clusterpolicy", "with-broken")
        cluster.admitted(pod("good", "team: sales"))
    finally:
        cluster.delete("apiservice", "v1.broken.example.org")


def scraped(cluster: Cluster, metric: str) -> None:
    cluster.until(lambda: metric in cluster.thesmos.get("/metrics"), what=metric)


def test_the_webhooks_are_called_through_the_health_lease(cluster: Cluster) -> None:
    def called() -> str:
        done = cluster.plane.kubectl("get", "lease", "kyverno-health", "-n", "kyverno", "-o", "json")
        if done.returncode != 0:
            return ""
        return str(json.loads(done.stdout)["metadata"].get("annotations", {}).get("kyverno.io/last-request-time", ""))

    for secret in ("tls-ca", "tls-pair"):
        metric = f'thesmos_certificate_expiry_timestamp_seconds{{secret="kyverno-svc.kyverno.svc.kyverno-{secret}"}}'
        scraped(cluster, metric)
    first = cluster.until(called, seconds=20, what="the health lease")
    cluster.until(lambda: called() != first, seconds=30, what="a call")


def test_what_is_uninstalled_leaves_no_webhooks_behind(cluster: Cluster) -> None:
    name = "kyverno-resource-validating-webhook-cfg"
    cluster.apply("""
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRole
        metadata: {name: kyverno}
        rules: []
        """)
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    cluster.until(
        lambda: cluster.get("validatingwebhookconfiguration", name)["metadata"].get("ownerReferences"),
        what="the owner of the webhooks",
    )
    # Nobody is left to say goodbye: the cluster itself removes what belongs to the role.
    cluster.thesmos.kill()
    try:
        cluster.delete("clusterrole", "kyverno")
        cluster.until(
            lambda: not cluster.exists("validatingwebhookconfiguration", name),
            seconds=60,
            what="the end of the webhooks",
        )
        cluster.admitted(pod("unwatched"))
    finally:
        cluster.thesmos.start()
    cluster.until(lambda: cluster.webhook_rules(), what="the webhooks")
