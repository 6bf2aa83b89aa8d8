"""What the cluster tests do with a cluster, in kubectl's words; every helper fails with what kubectl said."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from textwrap import dedent
from typing import Any, TypeVar

from tests.cluster.control_plane import ControlPlane
from tests.cluster.thesmos import Thesmos

T = TypeVar("T")

POLICY_KINDS = "clusterpolicies.kyverno.io,policies.kyverno.io,policyexceptions.kyverno.io"


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

    def forget_replicas(self) -> None:
        """Removes the Leases of replicas that other tests have killed: the one left is then the last at once."""
        self.plane.kubectl("delete", "leases", "-n", "kyverno", "-l", "thesmos.io/replica-of")

    def clean(self) -> None:
        """Removes policies and what tests made in ``default``; waits until no webhook is left, so that tests do not
        meet each other's policies."""
        for kind in POLICY_KINDS.split(","):
            self.plane.kubectl("delete", kind, "--all", "--all-namespaces", "--wait=true")
        self.until(
            lambda: not self.webhook_rules() and not self.webhook_rules("mutatingwebhookconfigurations"),
            seconds=15,
            what="the removal of the webhooks",
        )
        self.plane.kubectl("delete", "pods,deployments,configmaps", "--all", "-n", "default", "--force", "--wait=false")
