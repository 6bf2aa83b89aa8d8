"""What the cluster tests do with a cluster, in kubectl's words; every helper fails with what kubectl said."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable
from textwrap import dedent
from typing import Any, TypeVar

from runtime.controllers.replicas import LABEL as REPLICA_LABEL
from runtime.k8s.client import connect
from runtime.k8s.resources import NAMESPACE
from runtime.webhook.operationflags import identity
from tests.cluster.control_plane import ControlPlane
from tests.cluster.thesmos import Thesmos

T = TypeVar("T")

POLICIES = (
    "clusterpolicies.kyverno.io,policies.kyverno.io,policyexceptions.kyverno.io,clustercleanuppolicies.kyverno.io,"
    "cleanuppolicies.kyverno.io,globalcontextentries.kyverno.io"
)
"""What people write, and what would judge the objects of the next test."""
FOLLOWS = "updaterequests.kyverno.io,policyreports.wgpolicyk8s.io,clusterpolicyreports.wgpolicyk8s.io"
"""What Thesmos makes of it."""
OWN_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease", "kyverno"})
"""Those of every cluster, and of the installation."""


def other_namespaces(plane: ControlPlane) -> list[str]:
    """The names of the namespaces that tests have made."""
    done = plane.kubectl("get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}")
    assert done.returncode == 0, done.stderr
    return [name for name in done.stdout.split() if name not in OWN_NAMESPACES]


async def _delete_namespaces(plane: ControlPlane, names: list[str]) -> None:
    """All at once: kubectl took a minute to ask for the end of 400."""
    client = await connect(str(plane.kubeconfig), lambda verb, resource, namespace: None)
    try:
        await asyncio.gather(*(client.delete(NAMESPACE, name) for name in names))
    finally:
        await client.close()


def empty_default(plane: ControlPlane) -> None:
    """Removes what tests make in ``default``, without waiting."""
    kinds = "pods,deployments,jobs,configmaps,secrets"
    plane.kubectl("delete", kinds, "--all", "-n", "default", "--force", "--wait=false")


class Cluster:
    """A control plane with Thesmos beside it."""

    def __init__(self, plane: ControlPlane, thesmos: Thesmos) -> None:
        self.plane = plane
        self.thesmos = thesmos

    def create(self, text: str) -> subprocess.CompletedProcess[str]:
        """``kubectl create``, whatever comes of it."""
        return self.plane.kubectl("create", "-f", "-", stdin=dedent(text))

    def apply(self, text: str) -> None:
        """``kubectl apply`` that must work."""
        done = self.plane.kubectl("apply", "-f", "-", stdin=dedent(text))
        assert done.returncode == 0, f"{done.stderr}\n{self.thesmos.tail()}"

    def admitted(self, text: str) -> None:
        done = self.create(text)
        assert done.returncode == 0, f"{done.stderr}\n{self.thesmos.tail()}"

    def refused(self, text: str) -> str:
        """The error text of a create that must be refused."""
        done = self.create(text)
        assert done.returncode != 0, f"it was admitted: {done.stdout}\n{self.thesmos.tail()}"
        return done.stderr

    def get(self, *what: str) -> dict[str, Any]:
        done = self.plane.kubectl("get", *what, "-o", "json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def exists(self, *what: str) -> bool:
        return self.plane.kubectl("get", *what).returncode == 0

    def delete(self, *what: str) -> None:
        done = self.plane.kubectl("delete", *what, "--ignore-not-found", "--wait=true")
        assert done.returncode == 0, done.stderr

    def ready(self, kind: str, name: str, *place: str, status: str = "True", seconds: float = 10.0) -> dict[str, Any]:
        """Waits for the condition Ready of a policy and gives it. ``place`` are arguments that name a namespace."""

        def condition() -> dict[str, Any] | None:
            found = self.get(kind, name, *place).get("status", {}).get("conditions", [])
            return next((c for c in found if c["type"] == "Ready" and c["status"] == status), None)

        return self.until(condition, seconds=seconds, what=f"{kind} {name} Ready={status}")

    def appears(self, *what: str, seconds: float = 10.0) -> dict[str, Any]:
        """Waits for an object and gives it."""

        def look() -> dict[str, Any] | None:
            done = self.plane.kubectl("get", *what, "-o", "json", "--ignore-not-found")
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout) if done.stdout.strip() else None

        return self.until(look, seconds=seconds, what=" ".join(what))

    def policy(self, text: str, kind: str, name: str) -> None:
        """Applies a policy and waits until it answers."""
        self.apply(text)
        self.ready(kind, name)

    def until(self, look: Callable[[], T | None], *, seconds: float = 10.0, what: str = "what was waited for") -> T:
        """Looks again and again until there is something; fails with the log when there never is."""
        deadline = time.monotonic() + seconds
        while True:
            found = look()
            if found:
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come in {seconds} s\n{self.thesmos.tail()}")
            time.sleep(0.05)

    def webhook_rules(self, kind: str = "validatingwebhookconfigurations") -> dict[str, list[dict[str, Any]]]:
        """Rules of the resource webhooks by webhook name; empty when the configuration is not there."""
        name = f"kyverno-resource-{'validating' if kind.startswith('valid') else 'mutating'}-webhook-cfg"
        done = self.plane.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout) if done.stdout.strip() else {}
        return {w["name"]: w["rules"] for w in found.get("webhooks", [])}

    def namespaces(self, *names: str) -> None:
        """Makes namespaces that are not there; one that is ending is waited for, which takes it five seconds."""
        for name in names:
            self._make_namespace(name)

    def _make_namespace(self, name: str) -> None:
        place = ("namespace", name)

        def stays() -> bool:
            done = self.plane.kubectl("get", *place, "-o", "jsonpath={.metadata.deletionTimestamp}")
            return done.returncode != 0 or not done.stdout

        self.until(stays, seconds=30, what=f"the end of the namespace {name}")
        if not self.exists(*place):
            done = self.plane.kubectl("create", *place)
            assert done.returncode == 0, done.stderr

    def pending(self) -> list[str]:
        """Update requests that nothing has become of yet; those that failed say so."""
        found = self.get("updaterequests.kyverno.io", "-n", "kyverno")["items"]
        return [u["metadata"]["name"] for u in found if (u.get("status") or {}).get("state") != "Failed"]

    def clean(self) -> None:
        """Removes policies, what followed from them, what tests made in ``default``, settings of the installation and
        Leases of replicas that were killed. Waits until no webhook is left, so that tests do not meet each other's
        policies."""
        self.plane.kubectl("delete", POLICIES, "--all", "--all-namespaces", "--wait=true")
        self.until(
            lambda: not self.webhook_rules() and not self.webhook_rules("mutatingwebhookconfigurations"),
            seconds=15,
            what="the removal of the webhooks",
        )
        self.until(lambda: not self.pending(), seconds=30, what="the end of the work that policies left")
        self.plane.kubectl("delete", FOLLOWS, "--all", "--all-namespaces", "--wait=false")
        self.plane.kubectl("delete", "configmap", "kyverno", "kyverno-metrics", "-n", "kyverno", "--ignore-not-found")
        self._forget_replicas()
        empty_default(self.plane)

    def _forget_replicas(self) -> None:
        """The one that runs is then the last at once when it ends; otherwise it would wait for the others to stay
        silent."""
        leases = self.get("leases", "-n", "kyverno", "-l", REPLICA_LABEL)["items"]
        own = identity(self.thesmos.port)
        if killed := [o["metadata"]["name"] for o in leases if o["spec"].get("holderIdentity") != own]:
            self.delete("lease", *killed, "-n", "kyverno")

    def empty(self) -> None:
        """Removes the namespaces that tests have made, and waits for their end."""
        if names := other_namespaces(self.plane):
            asyncio.run(_delete_namespaces(self.plane, names))
            self.until(
                lambda: not other_namespaces(self.plane), seconds=180, what=f"the end of {len(names)} namespaces"
            )
