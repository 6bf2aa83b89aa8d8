"""What the leader of the background has seen to, and when it looks again.

Rules that generate and rules that change existing objects both follow policies that come, change and go
(``generatepolicies``, ``mutatepolicies``): one replica looks, whenever policies or the leader change, and keeps in a
ConfigMap what it has seen to, so that a restart does not begin anew and a crash in the middle is made good.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from runtime.controllers.installation import Installation
from runtime.controllers.reports import MANAGED
from runtime.controllers.updaterequests import PART
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import CONFIG_MAP
from runtime.k8s.watch import Backoff

log = logging.getLogger("thesmos.background")

LONGEST_WAIT: Final = 60.0


class RuleRecord:
    """A ConfigMap in the namespace of the installation, named ``<installation>-<what>``; its data are texts by key."""

    def __init__(self, installation: Installation, what: str) -> None:
        names = installation.settings.names
        self.name = f"{names.install}-{what}"
        self._client = installation.client
        self._namespace = names.namespace

    async def load(self) -> dict[str, str]:
        """What was kept, empty where nothing was. Raises the errors of the client."""
        try:
            obj = await self._client.get(CONFIG_MAP, self.name, self._namespace)
        except ApiProblem as problem:
            if problem.missing:
                return {}
            raise
        return {str(key): str(text) for key, text in (obj.get("data") or {}).items()}

    async def save(self, data: Mapping[str, str]) -> None:
        """Replaces what was kept. Raises the errors of the client."""
        metadata = {"name": self.name, "namespace": self._namespace, "labels": MANAGED}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
        try:
            await self._client.replace(CONFIG_MAP, obj, self._namespace)
        except ApiProblem as problem:
            if not problem.missing:
                raise
            await self._client.create(CONFIG_MAP, obj, self._namespace)


async def follow_as_leader(
    installation: Installation,
    wake: asyncio.Event,
    follow: Callable[[], Awaitable[None]],
    what: str,
    every: float | None = None,
) -> None:
    """Calls ``follow`` whenever it is woken or the leader changes, and each ``every`` seconds, where this replica leads
    the background; after an error again, ever later. Until cancelled. ``what`` names it in the log."""
    loop = asyncio.get_running_loop()
    installation.shards.listen(wake.set)
    backoff = Backoff(first=0.5, longest=LONGEST_WAIT)
    while True:
        try:
            async with asyncio.timeout(every):
                await wake.wait()
        except TimeoutError:
            pass
        wake.clear()
        if not installation.shards.leads(PART):
            continue
        try:
            await follow()
            backoff.reset()
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            wait = backoff.next()
            log.warning("%s: %s, trying again in %.1f s", what, problem, wait)
            loop.call_later(wait, wake.set)
        except Exception:
            log.exception("%s: the look at policies failed", what)
            loop.call_later(LONGEST_WAIT, wake.set)
