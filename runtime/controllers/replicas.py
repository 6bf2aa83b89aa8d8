"""Which replicas of an installation are alive: each keeps a Lease of its own, and watches how the others' change.

``runtime.controllers.leases`` beats once every few seconds: it renews this replica's Lease, looks at the others, and
divides the work among those alive. The last one that ends takes the webhook configurations with it; otherwise every
request that they name would be refused with nobody left to ask.

No clock of another machine is trusted. A replica is alive while its Lease changes, measured by the clock of who looks,
as client-go's leader election does; ``renewTime`` is for people.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from runtime.config import Names
from runtime.k8s.client import KubeClient, Object
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import LEASE

LABEL: Final = "thesmos.io/replica-of"
KIND_LABEL: Final = "thesmos.io/lease"
"""``replica`` or ``shard``."""
PARTS_ANNOTATION: Final = "thesmos.io/parts"

HOLD: Final = 3.0
DEAD: Final = 4.5
"""In beats: how long a replica may act after the last renewal it sent, and after how long without a change it is gone
for the others. The difference is what clocks may differ in speed, and what stands between two who act on one thing."""

_FORGET: Final = datetime.timedelta(hours=1)

Clock = Callable[[], float]


class Replicas:
    """The replicas of one installation; ``identity`` names this process, ``parts`` are what it runs."""

    def __init__(
        self,
        client: KubeClient,
        names: Names,
        identity: str,
        parts: Iterable[str] = (),
        *,
        beat: float = 2.0,
        clock: Clock = time.monotonic,
    ) -> None:
        self.identity = identity
        self._client = client
        self._names = names
        self._parts = ",".join(sorted(parts))
        self._dead = DEAD * beat
        self._duration = max(1, round(self._dead))
        self._clock = clock
        self._version = ""
        self._seen: dict[str, tuple[str, float]] = {}
        self._others: dict[str, tuple[str, frozenset[str]]] = {}
        self.name = self.lease_name(identity)

    def lease_name(self, identity: str) -> str:
        """The name of a replica's own Lease."""
        safe = re.sub(r"[^a-z0-9-]", "-", identity.lower()).strip("-") or "unnamed"
        return f"{self._names.install}-replica-{safe}"[:250].strip("-")

    async def renew(self) -> bool:
        """Writes the Lease of this replica; false when it was not there. Raises the errors of the client."""
        spec = {"holderIdentity": self.identity, "leaseDurationSeconds": self._duration, "renewTime": now_text()}
        obj = lease(self._names, self.name, "replica", spec)
        obj["metadata"]["annotations"] = {PARTS_ANNOTATION: self._parts}
        try:
            # An update, not a patch: API servers that are too busy give updates of Leases by service accounts a lane of
            # their own (the flow schema workload-leader-election).
            await self._update(obj)
            return True
        except ApiProblem as problem:
            if not problem.missing:
                raise
        self._version = _version(await self._client.create(LEASE, obj, self._names.namespace))
        return False

    async def _update(self, obj: Object) -> None:
        if not self._version:
            self._version = _version(await self._client.get(LEASE, self.name, self._names.namespace))
        obj["metadata"]["resourceVersion"], self._version = self._version, ""
        try:
            written = await self._client.replace(LEASE, obj, self._names.namespace)
        except ApiProblem as problem:
            del obj["metadata"]["resourceVersion"]
            if not problem.conflict:
                raise
            # Somebody has touched it: it is still ours, since nobody else has its name.
            obj["metadata"]["resourceVersion"] = _version(
                await self._client.get(LEASE, self.name, self._names.namespace)
            )
            written = await self._client.replace(LEASE, obj, self._names.namespace)
        self._version = _version(written)

    async def look(self) -> list[Object]:
        """Takes note of who is alive; gives the Leases of the shards. Raises the errors of the client."""
        # Straight from storage: an answer from a cache that lags could show a renewed Lease as it was.
        query = {"labelSelector": f"{LABEL}={self._names.install}"}
        listed = await self._client.list(LEASE, self._names.namespace, query)
        ours = [item for item in listed["items"] if _label(item, LABEL) == self._names.install]
        at = self._clock()
        self._others = {}
        for item in ours:
            metadata = item["metadata"]
            known = self._seen.get(metadata["name"])
            if known is None or known[0] != metadata["resourceVersion"]:
                self._seen[metadata["name"]] = (metadata["resourceVersion"], at)
            if _label(item, KIND_LABEL) == "replica" and metadata["name"] != self.name:
                parts = (metadata.get("annotations") or {}).get(PARTS_ANNOTATION) or ""
                identity = str((item.get("spec") or {}).get("holderIdentity") or metadata["name"])
                self._others[metadata["name"]] = (identity, frozenset(parts.split(",")))
        present = {item["metadata"]["name"] for item in ours}
        self._seen = {name: seen for name, seen in self._seen.items() if name in present}
        return [item for item in ours if _label(item, KIND_LABEL) == "shard"]

    def alive(self, part: str) -> list[str]:
        """The identities of the others that are alive and run a part, as of the last look."""
        return [i for name, (i, parts) in self._others.items() if part in parts and not self.silent(name)]

    def silent(self, name: str) -> bool:
        """Whether a Lease has not changed for so long that who holds it is gone."""
        known = self._seen.get(name)
        return known is not None and self._clock() - known[1] >= self._dead

    def gone(self, holder: str, shard: str) -> bool:
        """Whether the holder of a shard's Lease is gone: silent, or without a Lease for as long as it takes to be."""
        name = self.lease_name(holder)
        return self.silent(name) if name in self._others else self.silent(shard)

    async def leave(self) -> bool:
        """Gives the Lease back; true when no other replica is alive. Raises the errors of the client."""
        await self._client.delete(LEASE, self.name, self._names.namespace)
        await self.look()
        return all(self.silent(name) for name in self._others)

    async def tidy(self) -> None:
        """Removes Leases of replicas that ended long ago without saying so. Raises the errors of the client."""
        query = {"labelSelector": f"{LABEL}={self._names.install},{KIND_LABEL}=replica"}
        for item in (await self._client.list(LEASE, self._names.namespace, query))["items"]:
            metadata = item["metadata"]
            old = _label(item, KIND_LABEL) == "replica" and _age(item) > _FORGET
            if old and metadata["name"] != self.name and self.silent(metadata["name"]):
                await self._client.delete(LEASE, metadata["name"], self._names.namespace)


def lease(names: Names, name: str, kind: str, spec: Mapping[str, Any]) -> Object:
    """A Lease of this installation."""
    metadata = {
        "name": name,
        "namespace": names.namespace,
        "labels": {LABEL: names.install, KIND_LABEL: kind},
    }
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": dict(spec)}


def now_text() -> str:
    """The time as a Lease holds it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _label(obj: Object, key: str) -> str:
    return str(((obj.get("metadata") or {}).get("labels") or {}).get(key) or "")


def _version(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("resourceVersion") or "")


def _age(obj: Object) -> datetime.timedelta:
    try:
        renewed = datetime.datetime.fromisoformat(str((obj.get("spec") or {}).get("renewTime")))
    except ValueError:
        return datetime.timedelta()
    return datetime.datetime.now(datetime.UTC) - renewed
