"""The manifests install, and the permissions they give are enough to run with."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.test_admission import ENFORCE, pod
from tests.cluster.thesmos import Thesmos

ROOT = Path(__file__).resolve().parents[2]


def test_the_service_account_of_the_manifests_may_do_all_that_is_needed(cluster: Cluster, tmp_path: Path) -> None:
    plane = cluster.plane
    done = plane.kubectl("apply", "-k", str(ROOT / "deploy"))
    assert done.returncode == 0, done.stderr
    token = plane.kubectl("create", "token", "kyverno", "-n", "kyverno")
    assert token.returncode == 0, token.stderr
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(plane.kubeconfig.read_text().replace("test-admin-token", token.stdout.strip()))
    cluster.thesmos.stop()
    # It starts over the other's certificates and lease, as an upgrade would.
    own = Thesmos(plane, tmp_path, "--kubeconfig", str(kubeconfig))
    try:
        own.start()
        cluster.policy(ENFORCE, "clusterpolicy", "require-team")
        assert "the label team is required" in cluster.refused(pod("bad"))
        cluster.delete("clusterpolicy", "require-team")
        cluster.until(lambda: not cluster.webhook_rules(), what="the removal of the webhooks")
        assert own.stop() == 0
        assert "forbidden" not in own.log.read_text(), own.tail()
        assert not cluster.exists("validatingwebhookconfiguration", "kyverno-policy-validating-webhook-cfg")
    finally:
        own.stop()
        plane.kubectl("delete", "deployment,service", "--all", "-n", "kyverno")
        cluster.thesmos.start()
