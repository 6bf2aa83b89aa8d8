"""Tells whether this is the last replica: each holds a Lease while it runs.

The last one that ends takes the webhook configurations with it; otherwise every request that they name would be refused
with nobody left to ask.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import re
from typing import Final

from runtime.config import Names
from runtime.k8s.client import KubeClient, Object
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import LEASE

log = logging.getLogger("thesmos.replicas")

RENEW: Final = 10.0
DURATION: Final = 30
"""Seconds: a replica that has not renewed for this long counts as gone."""

LABEL: Final = "thesmos.io/replica-of"


class Replicas:
    """The Leases of one installation; ``identity`` names this process."""

    def __init__(self, client: KubeClient, names: Names, identity: str) -> None:
        self._client = client
        self._install = names.install
        self._namespace = names.namespace
        self._identity = identity
        safe = re.sub(r"[^a-z0-9-]", "-", identity.lower()).strip("-") or "unnamed"
        self._name = f"{names.install}-replica-{safe}"[:250]

    async def run(self) -> None:
        """Keeps the Lease until cancelled."""
        while True:
            try:
                await self.renew()
            except (ApiProblem, Unreachable) as problem:
                log.warning("the lease of this replica was not renewed: %s", problem)
            await asyncio.sleep(RENEW)

    async def renew(self) -> None:
        """Writes the Lease once. Raises the errors of the client."""
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": DURATION,
            "renewTime": _now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        try:
            await self._client.patch(LEASE, self._name, {"spec": spec}, self._namespace)
        except ApiProblem as problem:
            if not problem.missing:
                raise
            metadata = {"name": self._name, "namespace": self._namespace, "labels": {LABEL: self._install}}
            obj: Object = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            await self._client.create(LEASE, obj, self._namespace)

    async def leave(self) -> bool:
        """Gives the Lease back; true when no other replica is alive. Raises the errors of the client."""
        await self._client.delete(LEASE, self._name, self._namespace)
        listed = await self._client.list(LEASE, self._namespace, {"labelSelector": f"{LABEL}={self._install}"})
        return not any(_alive(lease) for lease in listed["items"] if lease["metadata"]["name"] != self._name)


def _alive(lease: Object) -> bool:
    spec = lease.get("spec") or {}
    try:
        renewed = datetime.datetime.fromisoformat(str(spec.get("renewTime")))
    except ValueError:
        return False
    return _now() - renewed < datetime.timedelta(seconds=int(spec.get("leaseDurationSeconds") or DURATION))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
