"""One control plane with Thesmos installed as its manifests do it, in which cases run one after the other."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster.chainsaw.cases import ClusterCase, root
from tests.cluster.cluster import FOLLOWS, POLICIES, empty_default, other_namespaces
from tests.cluster.control_plane import TOKEN, ControlPlane
from tests.cluster.controlplane.build import Assets
from tests.cluster.thesmos import Thesmos

REPOSITORY: Final = Path(__file__).resolve().parents[3]
SCRIPTS: Final = Path(__file__).resolve().parent / "scripts"
"""Our own forms of scripts that the data describes and leaves out; cases call them by name in their own folder."""

MORE_CONTROLLERS: Final = (
    *("job-controller", "cronjob-controller", "daemonset-controller", "statefulset-controller"),
    *("replicationcontroller-controller", "resourcequota-controller", "certificatesigningrequest-signing-controller"),
)

PARTS: Final = ("admission", "background", "reports", "cleanup")

CASE_SECONDS: Final = 240.0
LISTED_SECONDS: Final = 20

BEHIND: Final = ("sh", "-c", 'echo 10 >/proc/self/autogroup 2>/dev/null; exec nice -n 10 "$@"', "sh")
"""Runs a case behind what it looks at. Cases send what follows from a change right after it, as nobody does by hand;
with more planes than cores they overtook the API server itself, which did not know a kind yet that it had defined."""

NODE: Final = """
apiVersion: v1
kind: Node
metadata: {name: kind-control-plane}
status: {capacity: {cpu: "1"}}
"""
"""A node that nobody runs: cases change its labels and its status."""

EXTRA_ROLES: Final = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: suites:extra-admission
  labels: {rbac.kyverno.io/aggregate-to-admission-controller: "true"}
rules:
- apiGroups: ["*"]
  resources: [secrets]
  verbs: [create, update, patch, delete, get, list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: suites:extra-background
  labels: {rbac.kyverno.io/aggregate-to-background-controller: "true"}
rules:
- apiGroups: ["*"]
  resources: [configmaps, networkpolicies, resourcequotas, secrets, roles, rolebindings, clusterroles,
    clusterrolebindings, limitranges, namespaces, nodes, nodes/status, pods]
  verbs: [create, update, patch, delete, get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: suites:extra-cleanup
  labels: {rbac.kyverno.io/aggregate-to-cleanup-controller: "true"}
rules:
- apiGroups: [""]
  resources: [pods]
  verbs: [list, delete, watch]
"""
"""The roles with which the suites are meant to be run, beyond those of an install."""

SEPARATE: Final = """
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "suites:%(part)s"}
aggregationRule:
  clusterRoleSelectors:
  - matchLabels: {rbac.kyverno.io/aggregate-to-%(part)s-controller: "true"}
  - matchLabels: {app.kubernetes.io/component: %(part)s-controller, app.kubernetes.io/instance: kyverno,
      app.kubernetes.io/part-of: kyverno}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "suites:%(part)s"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "suites:%(part)s"}
subjects: [{kind: ServiceAccount, namespace: kyverno, name: kyverno-%(part)s-controller}]
"""
"""The accounts of an install with separate Deployments: cases ask what those may do."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a case ended: ``passed``, its seconds, and the end of what chainsaw said."""

    case: ClusterCase
    passed: bool
    seconds: float
    output: str


class Site:
    """``number`` tells sites of one run apart; ``seconds`` is what an assertion may take."""

    def __init__(self, assets: Assets, chainsaw: str, folder: Path, number: int, seconds: int) -> None:
        self._chainsaw = chainsaw
        self._seconds = seconds
        self._count = 0
        self._folder = folder / f"site-{number}"
        self._folder.mkdir(parents=True)
        self.plane = ControlPlane(
            assets,
            self._folder,
            controllers=MORE_CONTROLLERS,
            service_accounts=True,
            # Cases name the administrator of a cluster made by kubeadm.
            user="kubernetes-admin",
        )
        self.thesmos: Thesmos | None = None
        self._running: subprocess.Popen[str] | None = None
        self._suites = self._folder / "suites"

    def start(self) -> None:
        """Brings it up with Thesmos under its own service account, and copies the suites: cases write beside their
        files."""
        shutil.copytree(root() / "chainsaw", self._suites)
        self._put_scripts()
        self.plane.start()
        self._kubectl("apply", "-k", str(REPOSITORY / "deploy"))
        self._kubectl("delete", "deployment,poddisruptionbudget", "--all", "-n", "kyverno")
        self._kubectl("create", "-f", "-", stdin=NODE)
        self._kubectl("apply", "-f", "-", stdin=EXTRA_ROLES + "".join(SEPARATE % {"part": p} for p in PARTS))
        token = self._kubectl("create", "token", "kyverno", "-n", "kyverno", "--duration=24h").strip()
        kubeconfig = self._folder / "account"
        kubeconfig.write_text(self.plane.kubeconfig.read_text().replace(TOKEN, token))
        kubeconfig.chmod(0o600)
        flags = ("--kubeconfig", str(kubeconfig), "--exceptionNamespace", "*", "--v", "4")
        self.thesmos = Thesmos(self.plane, self._folder, *flags)
        self.thesmos.start()

    def stop(self) -> None:
        if self.thesmos is not None:
            self.thesmos.stop()
        self.plane.stop()

    def run(self, case: ClusterCase) -> Result:
        """Runs one case, and tidies up after one that failed."""
        command = [
            *BEHIND,
            self._chainsaw,
            "test",
            "--no-color",
            "--parallel",
            "1",
            "--test-dir",
            str(self._suites / case.path),
        ]
        # What is expected to fail is not waited for as long.
        seconds = min(self._seconds, LISTED_SECONDS) if case.reason else self._seconds
        for name, limit in (("apply", 10), ("assert", seconds), ("error", seconds), ("exec", 30)):
            command += [f"--{name}-timeout", f"{limit}s"]
        # A namespace of our own: chainsaw would wait 5 s for the end of one that it makes itself.
        self._count += 1
        namespace = f"case-{self._count}"
        if self.plane.kubectl("create", "namespace", namespace).returncode != 0:
            # A policy that the case before left behind refuses it; it is being removed.
            self._tidy()
            time.sleep(2)
            self._kubectl("create", "namespace", namespace)
        self._kubectl("wait", "--for=create", "serviceaccount/default", "-n", namespace, "--timeout=30s")
        command += ["--namespace", namespace]
        command += ["--delete-timeout", "30s", "--cleanup-timeout", "30s"]
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.plane.kubeconfig),
            "KUBECACHEDIR": str(self._folder / "kubecache"),
            "PATH": f"{self.plane.assets.folder}:{os.environ['PATH']}",
        }
        began = time.monotonic()
        with subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as self._running:
            try:
                output, _ = self._running.communicate(timeout=CASE_SECONDS)
            except subprocess.TimeoutExpired:
                self.end_case()
                output, _ = self._running.communicate()
                output += f"\nnot done in {CASE_SECONDS:.0f} s"
        passed = self._running.returncode == 0
        took = time.monotonic() - began
        self.plane.kubectl("delete", "namespace", namespace, "--wait=false")
        if not passed:
            self._tidy()
        if self.thesmos is not None and not self.thesmos.running:
            passed, output = False, f"{output}\nthesmos has ended:\n{self.thesmos.tail()}"
            self.thesmos.start()
        return Result(case, passed, took, output)

    def end_case(self) -> None:
        """Kills the case that runs, its scripts too."""
        if self._running is not None and self._running.poll() is None:
            os.killpg(self._running.pid, signal.SIGKILL)

    def _put_scripts(self) -> None:
        for test in self._suites.rglob("chainsaw-test.yaml"):
            text = test.read_text(encoding="utf-8")
            for script in SCRIPTS.iterdir():
                if f"./{script.name}" in text and not (test.parent / script.name).exists():
                    shutil.copy(script, test.parent)

    def _tidy(self) -> None:
        """Removes what a case that failed may leave behind, and would judge the next ones."""
        self.plane.kubectl("delete", f"{POLICIES},{FOLLOWS}", "--all", "--all-namespaces", "--wait=false")
        if rest := other_namespaces(self.plane):
            self.plane.kubectl("delete", "namespace", *rest, "--wait=false")
        empty_default(self.plane)

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        done = self.plane.kubectl(*arguments, stdin=stdin)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout
