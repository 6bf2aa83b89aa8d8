"""What follows from the live policies: the webhook configurations and the status of each policy, always after the swap.

``runtime.controllers.cluster`` makes one :class:`Following` and calls :meth:`Following.look_again` whenever something
changes that they depend on: policies, kinds of the cluster, the ConfigMap, certificates, the configurations themselves.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from compiler.schema.kinds import provider
from runtime.config import Settings
from runtime.controllers.certs import Certificates
from runtime.controllers.clusterconfig import ClusterConfig
from runtime.controllers.leases import Shards
from runtime.controllers.permissions import Lacking, Rights
from runtime.controllers.policy import Entry, ObjectKey, PolicyController, watched
from runtime.controllers.status import Findings, StatusWriter
from runtime.controllers.watchdog import Watchdog
from runtime.controllers.webhookconfig import MOST_MENDS, Configurations, WebhookConfigController, build, owner_of
from runtime.k8s.client import HttpKubeClient
from runtime.k8s.discovery import Discovery, discover
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.watch import Backoff
from runtime.observe.metrics import Metrics
from runtime.webhook.live import Live

log = logging.getLogger("thesmos.cluster")

STALE_SECONDS: Final = 30.0
"""How old discovery may be while a kind in use is unknown: its API may have come with another server."""

UNREACHABLE: Final = "the API server does not reach the webhooks"

SOON_SECONDS: Final = 0.5
FOLLOWERS_WAIT: Final = 1.0
"""Seconds by which replicas that do not lead are behind in writing what follows from policies: two that write at once
would put each other's older state back."""
SETTLING_SECONDS: Final = 15.0
"""Discovery tells of a new kind a moment after its definition is established: for a while it is asked more often."""

FIGHT_SECONDS: Final = 60.0
FIGHT_WAIT: Final = 5.0
"""Seconds within which so many mends mean that somebody else writes the configurations too, and how long each of ours
waits then."""


class Kinds:
    """What the API server serves, asked anew when something tells that it has changed."""

    def __init__(self, client: HttpKubeClient) -> None:
        self._client = client
        self._discovery: Discovery | None = None
        self._last: Discovery | None = None
        self.asked = 0.0
        """When it was last asked, a reading of ``time.monotonic``."""

    def forget(self) -> None:
        """Another kind may be there."""
        self._discovery = None

    async def current(self, *, fresh: bool = False) -> Discovery:
        """Raises the errors of the client."""
        if self._discovery is None or fresh:
            self._discovery = self._last = await discover(self._client, self._last)
            self.asked = time.monotonic()
        return self._discovery

    def kind_of(self, group: str, version: str, plural: str) -> str | None:
        """The kind of a resource by what is known of the cluster, without asking; of the built-in ones always."""
        found = self._last.named(group, version, plural) if self._last is not None else None
        if found is not None:
            return found.kind
        info = provider().resource(group, version, plural)
        return info.kind if info is not None else None

    async def known(self, fresh: bool) -> Discovery:
        """For questions of requests: asked anew only when it is not of just now, so that none can make it a burden."""
        return await self.current(fresh=fresh and time.monotonic() - self.asked > SOON_SECONDS)


class Following:
    """The loop. ``config`` gives the current ConfigMap, ``certificates`` the bundle that the webhooks carry."""

    def __init__(
        self,
        client: HttpKubeClient,
        settings: Settings,
        live: Live,
        metrics: Metrics,
        policies: PolicyController,
        kinds: Kinds,
        shards: Shards,
        certificates: Certificates,
        config: Callable[[], ClusterConfig],
    ) -> None:
        self.webhooks = WebhookConfigController(client, settings)
        self.watchdog = Watchdog(client, settings.names, lambda: shards.leads("admission"), self.look_again)
        self._client = client
        self._settings = settings
        self._live = live
        self._metrics = metrics
        self._policies = policies
        self._kinds = kinds
        self._shards = shards
        self._certificates = certificates
        self._config = config
        self._status = StatusWriter(client, writes=not settings.shadow)
        scans = settings.reporting.write and settings.reporting.scan
        self._lacking = Lacking(Rights(client, settings.names), scans=scans)
        self._wake = asyncio.Event()
        self._crd_changed = 0.0
        self._swept = False
        self._told: tuple[str, ...] = ()

    def look_again(self) -> None:
        """Something has changed. Called from the loop: sets a flag and returns."""
        self._wake.set()

    def kinds_changed(self) -> None:
        """A definition of a kind has come, changed or gone."""
        self._kinds.forget()
        self._crd_changed = time.monotonic()
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled; a failure is tried again, the newest state each time."""
        backoff = Backoff()
        followed = False
        timer: asyncio.TimerHandle | None = None
        while True:
            await self._wake.wait()
            if followed and not self._shards.leads("admission"):
                # The leader is first; the others find all done, or do it when the leader has just gone.
                await asyncio.sleep(FOLLOWERS_WAIT)
            mends = self.webhooks.mends
            if len(mends) == MOST_MENDS and time.monotonic() - mends[0] < FIGHT_SECONDS:
                log.warning("somebody else writes the webhook configurations in another way, again and again")
                await asyncio.sleep(FIGHT_WAIT)
            self._wake.clear()
            if not self._live.ready:
                continue
            try:
                again = await self._round()
                followed = True
                backoff.reset()
                self._metrics.count("kyverno_controller_reconcile_total", "webhook")
            except (ApiProblem, Unreachable, TimeoutError) as problem:
                again = backoff.next()
                self._metrics.count("kyverno_controller_requeue_total", "webhook", "1")
                log.warning("webhooks and status: %s, trying again in %.1f s", problem, again)
            except Exception:
                # One bad round (a bug) must not end the answering of requests.
                again = backoff.next()
                self._metrics.count("kyverno_controller_requeue_total", "webhook", "1")
                log.exception("webhooks and status could not be written, trying again in %.1f s", again)
            if timer is not None:
                # One timer: each round would else add another that goes on for ever.
                timer.cancel()
            timer = asyncio.get_running_loop().call_later(again, self._wake.set) if again else None

    async def _round(self) -> float:
        """One round; gives the seconds after which another is wanted, 0 for none."""
        entries = dict(self._policies.entries)
        serving = self._certificates.serving
        assert serving is not None
        try:
            discovery = await self._kinds.current()
        except ApiProblem as problem:
            # Without it nobody knows what to watch: what is new may not be asked about, and the status says so.
            await self._status.write(entries, f"the kinds of the cluster cannot be read: {problem}")
            raise
        wanted = await self._wanted(entries, discovery, serving.ca)
        if wanted.unknown and time.monotonic() - self._kinds.asked > SOON_SECONDS / 2:
            discovery = await self._kinds.current(fresh=True)
            wanted = await self._wanted(entries, discovery, serving.ca)
        await self.webhooks.ensure(wanted)
        if not self._swept and not self._settings.shadow:
            await self.webhooks.sweep(wanted)
            self._swept = True
        self._certificates.published(serving.ca)
        models = {key: e.good.model for key, e in entries.items() if e.good is not None and e.good.model is not None}
        findings = Findings(await self._lacking.look(models, discovery), self._policies.native)
        await self._status.write(entries, "" if self.watchdog.reachable else UNREACHABLE, findings)
        if wanted.unknown:
            if wanted.unknown != self._told:
                unknown = ", ".join(wanted.unknown)
                log.info("kinds that the cluster does not serve, left out of the webhooks: %s", unknown)
            self._told = wanted.unknown
            recent = time.monotonic() - self._crd_changed < SETTLING_SECONDS
            return SOON_SECONDS if recent else STALE_SECONDS
        self._told = ()
        # Whoever grants what is lacking tells nobody.
        return STALE_SECONDS if findings.lacking else 0.0

    async def _wanted(self, entries: Mapping[ObjectKey, Entry], discovery: Discovery, ca: bytes) -> Configurations:
        # Each time: an owner that was made again has another UID, and the old one would take the webhooks with it.
        owner = await owner_of(self._client, self._settings.names)
        # In a thread: many policies and wildcards take tens of milliseconds, and requests are answered meanwhile.
        return await asyncio.to_thread(
            build,
            watched(self._policies.asked()),
            discovery,
            self._settings,
            ca,
            self._config().webhooks,
            reachable=self.watchdog.reachable,
            owner=owner,
        )
