"""The commands of the runbook (``docs/guide/logs-and-events.md``), as people type them: each finds what it is for.

There is no kubelet here, so that ``kubectl logs`` reads the log of the process; everything else is the real thing.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import ControlPlane, free_port
from tests.cluster.controlplane.build import Assets
from tests.cluster.thesmos import Thesmos

PAGE = Path(__file__).resolve().parents[2] / "docs/guide/logs-and-events.md"

LOGS = "kubectl logs -n kyverno -l app=kyverno --tail=-1 | grep "
METRICS = "curl -s http://localhost:8000/metrics | grep "
AUDIT = "/var/log/kubernetes/audit.log"
ABOUT_WEB = r'kind="Pod" namespace="default" name="web"'

EXPECTED = {
    "kubectl get validatingwebhookconfigurations kyverno-resource-validating-webhook-cfg -o yaml": (
        r"caBundle: \S+(?s:.)*name: validate\.kyverno\.svc-fail(?s:.)*- pods\n"
    ),
    "kubectl get mutatingwebhookconfigurations kyverno-resource-mutating-webhook-cfg -o yaml": (
        r"caBundle: \S+(?s:.)*name: mutate\.kyverno\.svc-fail(?s:.)*- configmaps\n"
    ),
    "kubectl get clusterpolicies": r"require-labels.*True",
    "kubectl get clusterpolicy require-labels -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].message}'": (
        r"^Ready$"
    ),
    "kubectl get leases -n kyverno": r"kyverno-admission",
    "kubectl get events -A --field-selector reportingComponent=kyverno-admission": r"PolicyViolation",
    LOGS + "require-labels": rf'policy="require-labels" rules="check-team" verdict="fail" action="Audit".*{ABOUT_WEB}',
    LOGS + '"admission request denied"': r'policies="require-labels" verdict="deny" .*name="refused" user="admin"',
    LOGS + '"admission request allowed"': rf'policies="require-labels" verdict="allow" .*{ABOUT_WEB}',
    LOGS + '"validation passed"': r'policy="require-labels" rules="check-app,check-team" verdict="pass".*name="good"',
    LOGS + "-i background": rf'background scan: validation failed policy="require-labels".*{ABOUT_WEB}',
    "kubectl describe pod web": r"PolicyViolation .*policy require-labels/check-team fail: .*label team is required",
    "kubectl describe clusterpolicy require-labels": r"PolicyViolation .*Pod default/refused: \[check-app\] fail \(",
    "kubectl get events -A --field-selector reason=PolicyViolation": r"default .*pod/web .*require-labels/check-team",
    "kubectl get policyreports -A": r"default .* web ",
    f'grep \'"validate.kyverno.svc-fail/decision":"deny"\' {AUDIT}': (
        r'"name":"refused".*"validate\.kyverno\.svc-fail/fail":"require-labels/check-app'
    ),
    f'grep \'"validate.kyverno.svc-fail/decision":"allow"\' {AUDIT}': (
        r'"name":"web".*"validate\.kyverno\.svc-fail/policies":"require-labels"'
    ),
    METRICS + "kyverno_policy_results_total": r'policy_name="require-labels".*rule_result="fail".* [1-9]',
    METRICS + "kyverno_policy_execution_duration_seconds": r'_count\{.*policy_name="require-labels".*\} [1-9]',
    METRICS + "kyverno_webhooks_processed_total": r'\{request_webhook="validate"\} [1-9]',
    METRICS + "kyverno_webhook_duration_seconds": r'_count\{request_webhook="validate"\} [1-9]',
    METRICS + "kyverno_policy_evaluate_duration_seconds": r'_count\{request_webhook="validate"\} [1-9]',
    METRICS + "kyverno_policy_apply_duration_seconds": r'_count\{policy_name="require-labels"\} [1-9]',
}
"""What each command finds, as a pattern of a line of what it prints (of all of it where lines are joined)."""

POLICIES = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: require-labels}
spec:
  rules:
  - name: check-app
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      failureAction: Enforce
      message: label app is required
      pattern: {metadata: {labels: {app: "?*"}}}
  - name: check-team
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      failureAction: Audit
      message: label team is required
      pattern: {metadata: {labels: {team: "?*"}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: add-label}
spec:
  rules:
  - name: add
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {by: thesmos}}}}
"""


def pod(name: str, **labels: str) -> str:
    return f"""
    apiVersion: v1
    kind: Pod
    metadata: {{name: {name}, labels: {{{", ".join(f"{k}: {v}" for k, v in labels.items())}}}}}
    spec: {{containers: [{{name: app, image: "registry.example.com/app:1"}}]}}
    """


class Shell:
    """Runs commands as the page has them, with this cluster's places put in."""

    def __init__(self, cluster: Cluster, folder: Path, metrics_port: int) -> None:
        plane = cluster.plane
        self.cluster = cluster
        self._places = {AUDIT: str(plane.audit_log), "localhost:8000": f"127.0.0.1:{metrics_port}"}
        kubectl = folder / "kubectl"
        kubectl.write_text(
            f'#!/bin/sh\n[ "$1" = logs ] && exec cat "{cluster.thesmos.log}"\n'
            f'exec "{plane.assets.program("kubectl")}" "$@"\n'
        )
        kubectl.chmod(0o755)
        self._environment = {
            **os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "KUBECONFIG": str(plane.kubeconfig),
            "KUBECACHEDIR": str(folder / "cache"),
        }  # fmt: skip

    def run(self, command: str) -> str:
        for there, here in self._places.items():
            command = command.replace(there, here)
        done = subprocess.run(
            ["sh", "-c", command], env=self._environment, capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout + done.stderr

    def finds(self, command: str, pattern: str) -> None:
        self.cluster.until(
            lambda: re.search(pattern, self.run(command), re.MULTILINE), seconds=30, what=f"{pattern!r} of {command}"
        )


@pytest.fixture(scope="module")
def shell(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A cluster of its own: the log and the numbers are to be those of these requests."""
    plane = ControlPlane(assets, tmp_path_factory.mktemp("runbook-plane"))
    port = free_port()
    thesmos = Thesmos(plane, tmp_path_factory.mktemp("runbook-thesmos"), "--v=4", f"--metricsPort={port}")
    try:
        plane.start()
        thesmos.start()
        cluster = Cluster(plane, thesmos)
        cluster.apply(POLICIES)
        for policy in ("require-labels", "add-label"):
            cluster.ready("clusterpolicy", policy)
        assert "label app is required" in cluster.refused(pod("refused", team="a"))
        cluster.admitted(pod("web", app="web"))
        cluster.admitted(pod("good", app="web", team="a"))
        yield Shell(cluster, tmp_path_factory.mktemp("bin"), port)
    finally:
        thesmos.stop()
        plane.stop()


def commands() -> list[str]:
    """The commands of the page's runbook: what stands before two blanks and a number sign."""
    runbook = PAGE.read_text(encoding="utf-8").partition("## Runbook")[2].partition("\n## ")[0]
    lines = [line for block in re.findall(r"```sh\n(.*?)```", runbook, re.DOTALL) for line in block.splitlines()]
    return [line.partition("  #")[0].rstrip() for line in lines]


def test_the_page_has_these_commands_and_no_others() -> None:
    assert sorted(commands()) == sorted(EXPECTED)


@pytest.mark.parametrize("command", EXPECTED)
def test_a_command_of_the_runbook_finds_what_it_is_for(shell: Shell, command: str) -> None:
    shell.finds(command, EXPECTED[command])


def test_the_numbers_move(shell: Shell) -> None:
    """Each of the guide's six metrics is larger after another request and another change of a policy."""
    guide = [command for command in EXPECTED if command.startswith(METRICS)]
    before = {command: total(shell.run(command)) for command in guide}
    shell.cluster.admitted(pod("another", app="web"))
    shell.cluster.apply(POLICIES.replace("label team is required", "please name a team"))
    for command in guide:
        grows(shell, command, before[command])


def grows(shell: Shell, command: str, before: float) -> None:
    shell.cluster.until(lambda: total(shell.run(command)) > before, seconds=15, what=f"more of {command}")


def total(text: str) -> float:
    """The sum of a counter, or of how often a histogram was added to."""
    found: list[Any] = re.findall(r"^\w+(?:_total|_count)\{.*\} (\S+)$", text, re.MULTILINE)
    return sum(map(float, found))


def test_the_metrics_follow_their_config_map(shell: Shell) -> None:
    cluster = shell.cluster
    command = METRICS + "kyverno_policy_results_total"
    assert 'resource_namespace="default"' in shell.run(command)
    cluster.plane.kubectl("create", "namespace", "kyverno")
    exposure = '{"kyverno_policy_results_total": {"disabledLabelDimensions": ["resource_namespace", "rule_name"]}}'
    cluster.apply(
        f"""
        apiVersion: v1
        kind: ConfigMap
        metadata: {{name: kyverno-metrics, namespace: kyverno}}
        data: {{metricsExposure: '{exposure}'}}
        """
    )

    def without() -> bool:
        cluster.plane.kubectl("delete", "pod", "more", "--force", "--wait=true")
        cluster.admitted(pod("more", app="web", team="a"))
        served = shell.run(command)
        return 'policy_name="require-labels"' in served and "rule_name=" not in served

    cluster.until(without, seconds=15, what="results without rule_name")
