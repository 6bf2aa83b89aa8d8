"""The other shapes of an installation: parts in processes of their own, the shadow of another engine, bundles."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.cli.main import main
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import TOKEN, ControlPlane
from tests.cluster.test_admission import ENFORCE, pod
from tests.cluster.test_chart import render
from tests.cluster.thesmos import Thesmos

GENERATE = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: default-deny}
spec:
  rules:
    - name: deny
      match: {any: [{resources: {kinds: [Namespace], selector: {matchLabels: {net: "on"}}}}]}
      generate:
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        name: default-deny
        namespace: "{{request.object.metadata.name}}"
        synchronize: true
        data: {spec: {podSelector: {}, policyTypes: [Ingress]}}
"""
NOT_ENOUGH = GENERATE.replace("NetworkPolicy", "Deployment").replace("networking.k8s.io", "apps")


class Controller(Thesmos):
    command = "controller"


@pytest.fixture
def alone(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster whose usual installation stands still."""
    cluster.thesmos.stop()
    yield cluster
    cluster.thesmos.start()


def account(plane: ControlPlane, name: str, folder: Path, namespace: str = "kyverno") -> str:
    """A kubeconfig of a service account."""
    token = plane.kubectl("create", "token", name, "-n", namespace)
    assert token.returncode == 0, token.stderr
    path = folder / f"{name}.kubeconfig"
    path.write_text(plane.kubeconfig.read_text().replace(TOKEN, token.stdout.strip()))
    path.chmod(0o600)
    return str(path)


def install(plane: ControlPlane, helm: str, *values: str) -> None:
    """All of a shape of the chart but what would run: there is no kubelet."""
    objects = render(helm, *values)
    plane.kubectl("create", "namespace", "kyverno")
    kept = [obj for obj in objects.values() if obj["kind"] not in ("Deployment", "PodDisruptionBudget")]
    done = plane.kubectl("apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, kept)))
    assert done.returncode == 0, done.stderr


def test_parts_in_processes_and_under_accounts_of_their_own_work_together(
    alone: Cluster, helm: str, tmp_path: Path
) -> None:
    plane = alone.plane
    install(plane, helm, "separate=true")
    admission = Thesmos(
        plane,
        tmp_path,
        "--parts",
        "admission",
        "--separate-accounts",
        "--kubeconfig",
        account(plane, "kyverno", tmp_path),
    )
    (tmp_path / "background").mkdir()
    background = Controller(
        plane, tmp_path / "background", "--parts", "background", "--separate-accounts",
        "--kubeconfig", account(plane, "kyverno-background-controller", tmp_path),
    )  # fmt: skip
    alone.thesmos, usual = admission, alone.thesmos
    try:
        admission.start()
        background.start()
        # Who answers asks about the permissions of who acts.
        told = alone.refused(NOT_ENOUGH)
        assert "system:serviceaccount:kyverno:kyverno-background-controller requires permissions" in told
        alone.policy(GENERATE, "clusterpolicy", "default-deny")
        alone.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: shaped, labels: {net: 'on'}}\n")
        alone.appears("networkpolicy", "default-deny", "-n", "shaped")
        alone.delete("clusterpolicy", "default-deny")
        # A controller that ends takes no webhooks with it, who answered last does.
        assert background.stop() == 0
        assert alone.exists("validatingwebhookconfiguration", "kyverno-policy-validating-webhook-cfg")
        assert admission.stop() == 0
        assert not alone.exists("validatingwebhookconfiguration", "kyverno-policy-validating-webhook-cfg")
        for one in (admission, background):
            assert "forbidden" not in one.log.read_text(), one.tail()
    finally:
        background.stop()
        admission.stop()
        alone.thesmos = usual


def test_in_the_shadow_of_another_engine_everything_is_seen_and_nothing_is_done(
    cluster: Cluster, helm: str, tmp_path: Path
) -> None:
    plane = cluster.plane
    install(plane, helm, "shadow=true", "name=thesmos")
    shadow = Thesmos(
        plane, tmp_path, "--shadow", "--name", "thesmos", "--kubeconfig", account(plane, "thesmos", tmp_path)
    )
    try:
        cluster.policy(ENFORCE, "clusterpolicy", "require-team")
        shadow.start()
        cluster.appears("validatingwebhookconfiguration", "thesmos-resource-validating-webhook-cfg")
        (webhook,) = cluster.get("validatingwebhookconfiguration", "thesmos-resource-validating-webhook-cfg")[
            "webhooks"
        ]
        assert webhook["failurePolicy"] == "Ignore"
        assert webhook["name"] == "validate.thesmos.svc-ignore"
        assert not cluster.exists("validatingwebhookconfiguration", "thesmos-policy-validating-webhook-cfg")
        # The one in charge is away: nobody refuses, and the shadow tells what would have been.
        cluster.thesmos.stop()
        cluster.until(lambda: not cluster.webhook_rules(), what="the removal of the webhooks of the one in charge")
        cluster.admitted(pod("bad"))
        counted = 'request_allowed="true"'
        cluster.until(lambda: counted in shadow.get("/metrics"), what="the request in the metrics of the shadow")
        assert "require-team" in shadow.log.read_text()
        assert shadow.stop() == 0
        assert not cluster.exists("validatingwebhookconfiguration", "thesmos-resource-validating-webhook-cfg")
        assert "forbidden" not in shadow.log.read_text(), shadow.tail()
    finally:
        shadow.stop()
        cluster.thesmos.start()


def test_policies_of_a_signed_bundle_in_a_secret_are_in_force_and_a_wrong_one_changes_nothing(
    alone: Cluster, tmp_path: Path
) -> None:
    plane = alone.plane
    done = plane.kubectl("apply", "-k", str(Path(__file__).resolve().parents[2] / "deploy"))
    assert done.returncode == 0, done.stderr
    plane.kubectl("delete", "deployment,poddisruptionbudget", "--all", "-n", "kyverno")
    for command in ("genpkey -algorithm ed25519 -out key.pem", "pkey -in key.pem -pubout -out key.pub"):
        subprocess.run(["openssl", *command.split()], cwd=tmp_path, check=True, capture_output=True)
    policy, bundle = tmp_path / "policy.yaml", tmp_path / "policies.thb"
    policy.write_text(ENFORCE)

    def publish(*flags: str) -> None:
        assert main(["compile", "-q", str(policy), "--with-objects", "-o", str(bundle), *flags]) == 0
        made = plane.kubectl(
            "create", "secret", "generic", "kyverno-policies", "-n", "kyverno", f"--from-file={bundle}",
            "--dry-run=client", "-o", "yaml",
        )  # fmt: skip
        done = plane.kubectl("apply", "--server-side", "-f", "-", stdin=made.stdout)
        assert done.returncode == 0, done.stderr

    signed = ("--sign", str(tmp_path / "key.pem"))
    publish(*signed)
    source = ("--bundle-source", "secret:kyverno/kyverno-policies", "--key", str(tmp_path / "key.pub"))
    own = Thesmos(plane, tmp_path, *source, "--kubeconfig", account(plane, "kyverno", tmp_path))
    alone.thesmos, usual = own, alone.thesmos
    try:
        own.start()
        alone.until(alone.webhook_rules, what="the webhooks for the policies of the bundle")
        assert "the label team is required" in alone.refused(pod("bad"))
        # Objects of the cluster are another thing, and who writes them is told so.
        stored = plane.kubectl("apply", "-f", "-", stdin=GENERATE)
        assert "has its policies from bundles" in stored.stderr
        alone.delete("clusterpolicy", "default-deny")
        policy.write_text(ENFORCE.replace("the label team is required", "a label is missing"))
        publish()
        alone.until(lambda: "the last good bundle stays in force" in own.log.read_text(), what="the refusal in the log")
        assert "the label team is required" in alone.refused(pod("bad"))
        publish(*signed)
        alone.until(lambda: "a label is missing" in alone.refused(pod("bad")), what="the new bundle")
        events = alone.get("events", "-n", "kyverno")["items"]
        assert any("the bundle is not used" in e.get("message", e.get("note", "")) for e in events)
        assert "forbidden" not in own.log.read_text(), own.tail()
    finally:
        own.stop()
        alone.thesmos = usual
        plane.kubectl("delete", "secret", "kyverno-policies", "-n", "kyverno")
