"""Killing and restarting either side loses nothing: policies stay in force, changes made meanwhile are taken in."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.test_admission import ENFORCE, pod
from tests.cluster.thesmos import Thesmos

OWNER = ENFORCE.replace("labels: {team:", "labels: {owner:").replace("label team", "label owner")


def test_killing_thesmos_loses_nothing(cluster: Cluster) -> None:
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    cluster.thesmos.kill()
    try:
        # failurePolicy Fail: nobody answers, so nothing slips through.
        error = cluster.refused(pod("meanwhile"))
        assert "failed calling webhook" in error
        cluster.plane.kubectl("delete", "validatingwebhookconfiguration", "kyverno-policy-validating-webhook-cfg")
        cluster.until(lambda: cluster.plane.kubectl("apply", "-f", "-", stdin=OWNER).returncode == 0, what="the edit")
    finally:
        cluster.thesmos.start()
    assert "the label owner is required" in cluster.refused(pod("bad", "team: sales"))
    cluster.admitted(pod("good", "owner: jane"))
    cluster.until(
        lambda: cluster.exists("validatingwebhookconfiguration", "kyverno-policy-validating-webhook-cfg"),
        what="the policy webhook",
    )


def test_a_polite_stop_removes_the_webhooks_and_a_start_brings_them_back(cluster: Cluster) -> None:
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    code = cluster.thesmos.stop()
    try:
        assert code == 0, cluster.thesmos.tail()
        assert cluster.webhook_rules() == {}
        cluster.admitted(pod("unwatched"))
    finally:
        cluster.thesmos.start()
    cluster.until(lambda: cluster.webhook_rules(), what="the webhooks")
    cluster.refused(pod("watched"))


def test_killing_the_api_server_loses_nothing(cluster: Cluster) -> None:
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    cluster.plane.kill_api_server()
    cluster.plane.start_api_server()
    assert "the label team is required" in cluster.refused(pod("bad"))
    cluster.apply(OWNER)
    cluster.until(
        lambda: "the label owner is required" in cluster.create(pod("bad", "team: sales")).stderr,
        seconds=20,
        what="the edit after the restart",
    )
    cluster.ready("clusterpolicy", "require-team")


def test_a_second_replica_keeps_the_webhooks(cluster: Cluster, tmp_path: Path) -> None:
    cluster.policy(ENFORCE, "clusterpolicy", "require-team")
    # As behind one Service: both know the same address, so that they do not write over each other's.
    other = Thesmos(cluster.plane, tmp_path, "--server-ip", f"127.0.0.1:{cluster.thesmos.port}")
    other.start()
    assert other.stop() == 0
    cluster.until(lambda: cluster.webhook_rules(), what="the webhooks")
    cluster.until(
        lambda: "the label team is required" in cluster.create(pod("bad")).stderr, what="the refusal by who stayed"
    )
