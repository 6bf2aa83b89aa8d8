"""Runs a real control plane on free loopback ports: etcd, kube-apiserver, kube-controller-manager.

Used by the fixtures of ``conftest.py`` and by ``tests.cluster.up``. There is no kubelet and no scheduler: Pods are
stored and stay pending, which is all that admission needs.
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from runtime.webhook.tls import make_ca, make_serving
from tests.cluster.controlplane.build import Assets

TOKEN: Final = "test-admin-token"
ACCOUNT_TOKEN: Final = "test-account-token"
ACCOUNT: Final = "system:serviceaccount:kyverno:kyverno"
"""The user that Thesmos is in the tests: what it does itself must be told from what others do. It may do everything;
what its roles allow is tried with the manifests."""
START_SECONDS: Final = 90.0

CONTROLLERS: Final = (
    "namespace-controller",
    "serviceaccount-controller",
    "garbage-collector-controller",
    "deployment-controller",
    "replicaset-controller",
    "clusterrole-aggregation-controller",
)
"""Only what tests look at: every controller more is CPU on a small machine."""


AUDIT_POLICY: Final = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: None
  resources: [{group: events.k8s.io}, {group: coordination.k8s.io}]
- level: Metadata
"""
"""Only what webhooks are asked about, and not what is written all the time."""


class StartProblem(Exception):
    """A part of the control plane did not come up; the text ends with the tail of its log."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ControlPlane:
    """One cluster in one folder; it can be stopped and started again on the same ports and data."""

    def __init__(
        self,
        assets: Assets,
        folder: Path,
        *,
        controllers: Sequence[str] = (),
        service_accounts: bool = False,
        user: str = "admin",
    ) -> None:
        """``controllers`` run beside those of :data:`CONTROLLERS`; ``service_accounts``: Pods get the token of theirs
        as a volume, and are refused where it is not there yet. ``user`` is the name of the administrator."""
        self._user = user
        self._service_accounts = service_accounts
        self._controllers = (*CONTROLLERS, *controllers)
        self.assets = assets
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.account = folder / "account.kubeconfig"
        self.audit_log = folder / "audit.log"
        self._etcd_port, self._peer_port, self._api_port = free_port(), free_port(), free_port()
        self._controller_port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ca = make_ca("thesmos-test")
        self._write_files()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._api_port}"

    @property
    def etcd_url(self) -> str:
        return f"http://127.0.0.1:{self._etcd_port}"

    @property
    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._processes.items()}

    def start(self) -> None:
        """Brings everything up and waits until the API server is ready. Raises :class:`StartProblem`."""
        self._start("etcd", self._etcd_flags())
        self.start_api_server()
        self._start("kube-controller-manager", self._controller_flags())

    def start_api_server(self) -> None:
        self._start("kube-apiserver", self._api_flags())
        self._wait_ready()

    def kill_api_server(self) -> None:
        """As a crash would: no time to say goodbye."""
        self._end("kube-apiserver", signal.SIGKILL)

    def stop(self) -> None:
        for name in ("kube-controller-manager", "kube-apiserver", "etcd"):
            self._end(name, signal.SIGTERM)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs kubectl; the caller looks at the exit code."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(self.folder / "kubecache")}
        command = [self.assets.program("kubectl"), *arguments]
        return subprocess.run(
            command, env=environment, input=stdin, capture_output=True, text=True, timeout=60, check=False
        )

    def _write_files(self) -> None:
        serving = make_serving(self._ca, ["127.0.0.1", "localhost", "kubernetes.default.svc", "10.0.0.1"])
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        account_key = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        for name, data in (
            ("ca.crt", self._ca.cert),
            ("ca.key", self._ca.key),
            ("apiserver.crt", serving.pair.cert),
            ("apiserver.key", serving.pair.key),
            ("account.key", account_key),
            ("tokens.csv", _tokens(self._user).encode()),
            ("kubeconfig", self._kubeconfig_text(TOKEN).encode()),
            ("account.kubeconfig", self._kubeconfig_text(ACCOUNT_TOKEN).encode()),
            ("audit-policy.yaml", AUDIT_POLICY.encode()),
        ):
            path = self.folder / name
            path.write_bytes(data)
            path.chmod(0o600)

    def _kubeconfig_text(self, token: str) -> str:
        authority = base64.b64encode(self._ca.cert).decode()
        return f"""apiVersion: v1
kind: Config
clusters:
- name: test
  cluster: {{server: "{self.url}", certificate-authority-data: {authority}}}
users:
- name: admin
  user: {{token: {token}}}
contexts:
- name: test
  context: {{cluster: test, user: admin}}
current-context: test
"""

    def _etcd_flags(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            # The data is thrown away; waiting for the disk is most of the start on a slow one.
            "--unsafe-no-fsync=true",
        ]

    def _api_flags(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._api_port}",
            f"--tls-cert-file={self.folder / 'apiserver.crt'}",
            f"--tls-private-key-file={self.folder / 'apiserver.key'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            f"--client-ca-file={self.folder / 'ca.crt'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'account.key'}",
            f"--service-account-signing-key-file={self.folder / 'account.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Elsewhere Pods need no service account of their namespace: nothing mounts its token.
            *([] if self._service_accounts else ["--disable-admission-plugins=ServiceAccount"]),
            "--allow-privileged=true",
            f"--audit-policy-file={self.folder / 'audit-policy.yaml'}",
            f"--audit-log-path={self.audit_log}",
        ]

    def _controller_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={self.folder / 'account.key'}",
            f"--root-ca-file={self.folder / 'ca.crt'}",
            f"--cluster-signing-cert-file={self.folder / 'ca.crt'}",
            f"--cluster-signing-key-file={self.folder / 'ca.key'}",
            f"--controllers={','.join(self._controllers)}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._controller_port}",
            f"--cert-dir={self.folder}",
        ]

    def _start(self, name: str, flags: Sequence[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [self.assets.program(name), *flags], cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )

    def _end(self, name: str, how: signal.Signals) -> None:
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait_ready(self) -> None:
        context = ssl.create_default_context(cadata=self._ca.cert.decode())
        asked = urllib.request.Request(f"{self.url}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            process = self._processes["kube-apiserver"]
            if process.poll() is not None:
                raise StartProblem(
                    f"kube-apiserver ended with code {process.returncode}:\n{self._tail('kube-apiserver')}"
                )
            with (
                contextlib.suppress(OSError, urllib.error.URLError),
                urllib.request.urlopen(asked, context=context, timeout=2) as answer,
            ):
                if answer.status == 200:
                    return
            time.sleep(0.1)
        raise StartProblem(f"kube-apiserver was not ready in {START_SECONDS:.0f} s:\n{self._tail('kube-apiserver')}")

    def _tail(self, name: str) -> str:
        lines = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-15:])


def _tokens(user: str) -> str:
    groups = "system:masters,system:serviceaccounts,system:serviceaccounts:kyverno"
    return f'{TOKEN},{user},admin,system:masters\n{ACCOUNT_TOKEN},{ACCOUNT},account,"{groups}"\n'
