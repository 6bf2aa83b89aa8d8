"""Thesmos in a cluster: client, certificates, watches, policy controller, webhook configurations and status, wired up.

``runtime.webhook.serve`` calls :func:`run_in_cluster`. Each part is a task; an API server that is away makes them wait
and try again, never end.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from runtime.config import Settings
from runtime.context.egress import Egress
from runtime.context.services import Services
from runtime.controllers.bundlesource import BundleSources
from runtime.controllers.certs import CHECK_SECONDS, Certificates
from runtime.controllers.clusterconfig import ClusterConfig, parse
from runtime.controllers.crds import apply_crds, served
from runtime.controllers.installation import Installation
from runtime.controllers.leases import ShardLeases, Shards
from runtime.controllers.lookups import Lookups
from runtime.controllers.parts import make_parts
from runtime.controllers.policy import Entry as PolicyEntry
from runtime.controllers.policy import ObjectKey, PolicyController, watched
from runtime.controllers.policyadmission import PolicyAdmission
from runtime.controllers.rbac import Bindings, slim
from runtime.controllers.status import StatusWriter
from runtime.controllers.watchdog import PATH as VERIFY_PATH
from runtime.controllers.watchdog import Watchdog, verifier
from runtime.controllers.webhookconfig import Configurations, WebhookConfigController, build, owner_of
from runtime.k8s.client import HttpKubeClient, Object, Resource, connect
from runtime.k8s.discovery import Discovery, discover
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import (
    CLEANUP_POLICY,
    CLUSTER_CLEANUP_POLICY,
    CLUSTER_POLICY,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CRD,
    EXCEPTION,
    MUTATING_WEBHOOKS,
    NAMESPACE,
    POLICY,
    ROLE_BINDING,
    VALIDATING_WEBHOOKS,
)
from runtime.k8s.watch import Backoff, Change, Watcher, key_of
from runtime.observe import metricsconfig
from runtime.observe.events import Events, limits_of
from runtime.observe.metrics import Metrics
from runtime.observe.otel import Tracing, collectors
from runtime.observe.policy_events import PolicyEvents
from runtime.webhook.app import build_app
from runtime.webhook.entry import Entry
from runtime.webhook.live import Live, slim_namespace
from runtime.webhook.serve import ServeProblem, serve, write_ca
from runtime.webhook.tls import Serving, make_ca, make_serving

if TYPE_CHECKING:
    from vm.host import Imports

log = logging.getLogger("thesmos.cluster")

T = TypeVar("T")

STALE_SECONDS: Final = 30.0
"""How old discovery may be while a kind in use is unknown: its API may have come with another server."""


UNREACHABLE: Final = "the API server does not reach the webhooks"

SOON_SECONDS: Final = 0.5
FOLLOWERS_WAIT: Final = 1.0
"""Seconds by which replicas that do not lead are behind in writing what follows from policies: two that write at once
would put each other's older state back."""
SETTLING_SECONDS: Final = 15.0
"""Discovery tells of a new kind a moment after its definition is established: for a while it is asked more often."""


async def run_in_cluster(settings: Settings, stop: asyncio.Event, ca_out: Path | None) -> int:
    """Serves until ``stop`` is set; takes the webhook configurations away when this was the last replica."""
    metrics = Metrics()

    def asked(verb: str, resource: Resource, namespace: str) -> None:
        metrics.count("kyverno_client_queries_total", verb, "dynamic", resource.kind, namespace)

    try:
        client = await connect(settings.kubeconfig, asked)
    except Unreachable as problem:
        raise ServeProblem(str(problem)) from None
    try:
        async with collectors(settings, metrics) as tracing:
            if tracing is not None:
                client.around = tracing.call
            return await _Cluster(client, settings, metrics, tracing).run(stop, ca_out)
    finally:
        await client.close()


class _Cluster:
    def __init__(
        self, client: HttpKubeClient, settings: Settings, metrics: Metrics, tracing: Tracing | None = None
    ) -> None:
        from runtime.bundles import make_imports

        self._client = client
        self._settings = settings
        self._config = ClusterConfig()
        self._live = Live(namespaces={}, entry=Entry(settings, self._config))
        self._metrics = metrics
        self._webhooks = WebhookConfigController(client, settings)
        self._status = StatusWriter(client, writes=not settings.shadow)
        self._certificates = Certificates(client, settings.names, _hosts(settings))
        self._bindings = Bindings()
        self._live.roles = self._bindings.roles
        services = Services(
            Egress.of(settings.http_allow, settings.http_block),
            seconds=settings.call_seconds,
            max_bytes=settings.call_bytes,
        )
        ask = Lookups(client, self._known_discovery, services).ask
        self._live.ask = ask
        self._live.services = settings.http_namespaced
        self._follow = asyncio.Event()
        self._discovery: Discovery | None = None
        self._discovered = 0.0
        self._crd_changed = 0.0
        self._told: tuple[str, ...] = ()
        self._serving: Serving | None = None
        imports = make_imports()
        self._policies = PolicyController(self._live, settings, self._metrics, imports, self._policies_changed)
        self._tracing = tracing
        if tracing is not None:
            self._policies.trace = tracing.wrap
        self._shards = Shards()
        self._leases = ShardLeases(client, settings.names, settings.identity, settings.parts, self._shards)
        self._watchdog = Watchdog(client, settings.names, lambda: self._shards.leads("admission"), self._follow.set)
        self._events = Events(
            client, settings.identity, metrics, limits_of(settings), lambda action: self._config.tells_of(action)
        )
        self._sources = self._bundle_sources(imports) if settings.bundle_sources else None
        self._tell = PolicyEvents(self._events, self._uid_of)
        self._parts = make_parts(
            Installation(
                client,
                settings,
                self._live,
                metrics,
                self._policies,
                self._known_discovery,
                ask,
                lambda: self._config,
                self._events,
                self._shards,
                self._follow.set,
                self._tell,
            )
        )
        self._metrics.set("kyverno_info", 1, _version())

    async def run(self, stop: asyncio.Event, ca_out: Path | None) -> int:
        start = asyncio.create_task(self._start())
        if not await _first(start, stop):
            return 0
        serving = await start
        self._serving = serving
        write_ca(ca_out, serving)
        app = build_app(
            self._live,
            self._settings,
            self._metrics,
            PolicyAdmission(cel_strict=self._settings.cel_strict, quirks=self._settings.quirks).check,
            self._tell,
            {VERIFY_PATH: verifier(self._settings.names)},
            self._tracing,
        )
        async with serve(self._live, self._settings, self._metrics, serving, app) as server:
            watchers = await self._watchers()
            tasks = [asyncio.create_task(w.run(), name=w.resource.plural) for w in watchers]
            tasks.append(asyncio.create_task(self._leases.run(), name="leases"))
            tasks.append(asyncio.create_task(self._events.run(), name="events"))
            if self._sources is not None:
                tasks.append(asyncio.create_task(self._sources.run(), name="bundles"))
            tasks.append(asyncio.create_task(self._policies_after(watchers), name="policies"))
            if self._settings.admits:
                tasks.append(asyncio.create_task(self._watchdog.run(), name="watchdog"))
                tasks.append(asyncio.create_task(self._follow_loop(), name="follow"))
                tasks.append(asyncio.create_task(self._renew_loop(server.replace_pair), name="certificates"))
            stopping = asyncio.create_task(stop.wait())
            done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in (stopping, *tasks):
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)
            # Before the server goes: the API server must stop asking first.
            await self._leave()
        for task in done - {stopping}:
            log.critical("the task %s ended: %s", task.get_name(), task.exception())
            return 1
        return 0

    async def _start(self) -> Serving:
        if not self._settings.admits:
            # Who answers requests brings the definitions; what is watched depends on which are there.
            await _insist("the custom resource definitions", self._defined)
            return make_serving(make_ca(), _hosts(self._settings))
        if self._settings.apply_crds:
            asked = ("openreports",) if self._settings.reporting.openreports else ()
            await _insist("the custom resource definitions", lambda: apply_crds(self._client, asked))
        return await _insist("the certificates", self._certificates.ensure)

    async def _defined(self) -> None:
        names = [f"{r.plural}.{r.group}" for r in (CLUSTER_POLICY, POLICY, EXCEPTION, CLEANUP_POLICY)]
        while not all([await served(self._client, name) for name in names]):
            await asyncio.sleep(SOON_SECONDS)

    def _bundle_sources(self, imports: Imports) -> BundleSources:
        from runtime.cli.keys import load_trust

        return BundleSources(
            self._client,
            self._settings,
            self._policies,
            self._metrics,
            self._events,
            imports,
            load_trust(list(self._settings.bundle_keys)),
        )

    async def _policy_watchers(self) -> list[Watcher]:
        client, note = self._client, self._policies.note
        if self._sources is not None:
            return []
        watchers = [Watcher(client, CLUSTER_POLICY, note), Watcher(client, POLICY, note)]
        for resource in (EXCEPTION, CLUSTER_CLEANUP_POLICY, CLEANUP_POLICY):
            if await _insist(f"the {resource.plural}", partial(self._serves, resource)):
                watchers.append(Watcher(client, resource, note))
        return watchers

    async def _watchers(self) -> list[Watcher]:
        client = self._client
        watchers = await self._policy_watchers()
        watchers.append(Watcher(client, NAMESPACE, self._note_namespace, keep=slim_namespace))
        watchers += [Watcher(client, r, self._bindings.note, keep=slim) for r in (ROLE_BINDING, CLUSTER_ROLE_BINDING)]
        watchers.append(Watcher(client, CRD, self._note_crd, keep=_slim_crd))
        for resource in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS) if self._settings.admits else ():
            watchers.append(Watcher(client, resource, self._note_webhook))
        watchers.append(Watcher(client, CONFIG_MAP, self._note_config_map, namespace=self._settings.names.namespace))
        return watchers

    async def _serves(self, resource: Resource) -> bool:
        if not await served(self._client, f"{resource.plural}.{resource.group}"):
            return False
        try:
            await self._client.list(resource, "", {"limit": "1"})
        except ApiProblem as problem:
            if problem.missing:
                return False
            raise
        return True

    def _note_namespace(self, change: Change, obj: Object) -> None:
        known = self._live.namespaces
        assert isinstance(known, dict)
        name = key_of(obj)[1]
        if change == "deleted":
            known.pop(name, None)
        else:
            known[name] = obj

    def _note_crd(self, change: Change, obj: Object) -> None:
        self._policies.note_crd(change, obj)
        self._discovery = None
        self._crd_changed = time.monotonic()
        self._follow.set()

    def _note_config_map(self, change: Change, obj: Object) -> None:
        name = key_of(obj)[1]
        if name == self._settings.names.metrics_config_map:
            self._metrics.configure(metricsconfig.parse(None if change == "deleted" else obj))
        if name != self._settings.names.config_map:
            return
        before, config = self._config, parse(None if change == "deleted" else obj)
        if config == before:
            return
        self._config = self._live.entry.config = config
        log.info("the ConfigMap %s is in force", self._settings.names.config_map)
        for problem in config.problems:
            log.warning("the ConfigMap %s: %s", self._settings.names.config_map, problem)
        self._policies.configure(config.registry, config.context_bytes)
        self._follow.set()

    def _note_webhook(self, change: Change, obj: Object) -> None:
        names = self._settings.names
        ours = (names.policy_validating, names.resource_validating, names.resource_mutating, names.verifying)
        if key_of(obj)[1] in ours:
            self._follow.set()

    async def _policies_after(self, watchers: list[Watcher]) -> None:
        """The policy controller starts once everything a decision needs is here: no verdict from half the policies."""
        for watcher in watchers:
            await watcher.synced.wait()
        if self._sources is not None:
            await self._sources.loaded.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._policies.run())
            log.info("parts of this replica: %s", ", ".join(sorted(self._settings.parts)))
            for one in self._parts:
                group.create_task(one.run(), name=one.name)

    def _uid_of(self, kind: str, namespace: str, name: str) -> str:
        entry = self._policies.entries.get((kind, namespace, name))
        return "" if entry is None else str((entry.obj.get("metadata") or {}).get("uid") or "")

    def _policies_changed(self) -> None:
        self._follow.set()
        for part in self._parts:
            part.policies_changed()

    async def _follow_loop(self) -> None:
        """Webhook configurations and status after each change; a failure is tried again, the newest state each time."""
        backoff = Backoff()
        followed = False
        while True:
            await self._follow.wait()
            if followed and not self._shards.leads("admission"):
                # The leader is first; the others find all done, or do it when the leader has just gone.
                await asyncio.sleep(FOLLOWERS_WAIT)
            self._follow.clear()
            if not self._live.ready:
                continue
            try:
                again = await self._follow_once()
                followed = True
                backoff.reset()
                self._metrics.count("kyverno_controller_reconcile_total", "webhook")
            except (ApiProblem, Unreachable, TimeoutError) as problem:
                again = backoff.next()
                self._metrics.count("kyverno_controller_requeue_total", "webhook", "1")
                log.warning("webhooks and status: %s, trying again in %.1f s", problem, again)
            if again:
                asyncio.get_running_loop().call_later(again, self._follow.set)

    async def _follow_once(self) -> float:
        """One round; gives the seconds after which another is wanted, 0 for none."""
        entries = dict(self._policies.entries)
        assert self._serving is not None
        try:
            discovery = await self._current_discovery()
        except ApiProblem as problem:
            # Without it nobody knows what to watch: what is new may not be asked about, and the status says so.
            await self._status.write(entries, f"the kinds of the cluster cannot be read: {problem}")
            raise
        wanted = await self._wanted(entries, discovery)
        if wanted.unknown and time.monotonic() - self._discovered > SOON_SECONDS / 2:
            discovery = await self._current_discovery(fresh=True)
            wanted = await self._wanted(entries, discovery)
        await self._webhooks.ensure(wanted, self._serving.ca)
        await self._status.write(entries, "" if self._watchdog.reachable else UNREACHABLE)
        if wanted.unknown:
            if wanted.unknown != self._told:
                unknown = ", ".join(wanted.unknown)
                log.info("kinds that the cluster does not serve, left out of the webhooks: %s", unknown)
            self._told = wanted.unknown
            recent = time.monotonic() - self._crd_changed < SETTLING_SECONDS
            return SOON_SECONDS if recent else STALE_SECONDS
        self._told = ()
        return 0.0

    async def _wanted(self, entries: Mapping[ObjectKey, PolicyEntry], discovery: Discovery) -> Configurations:
        # Each time: an owner that was made again has another UID, and the old one would take the webhooks with it.
        owner = await owner_of(self._client, self._settings.names)
        # In a thread: many policies and wildcards take tens of milliseconds, and requests are answered meanwhile.
        assert self._serving is not None
        return await asyncio.to_thread(
            build,
            watched(entries.values()),
            discovery,
            self._settings,
            self._serving.ca,
            self._config.webhooks,
            reachable=self._watchdog.reachable,
            owner=owner,
        )

    async def _current_discovery(self, *, fresh: bool = False) -> Discovery:
        if self._discovery is None or fresh:
            self._discovery = await discover(self._client)
            self._discovered = time.monotonic()
        return self._discovery

    async def _known_discovery(self, fresh: bool) -> Discovery:
        """For questions of requests: asked anew only when it is not of just now, so that none can make it a burden."""
        return await self._current_discovery(fresh=fresh and time.monotonic() - self._discovered > SOON_SECONDS)

    async def _renew_loop(self, replace_pair: Callable[[Serving], None]) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            serving = await _insist("the certificates", self._certificates.ensure)
            if serving != self._serving:
                self._serving = serving
                replace_pair(serving)
                self._follow.set()

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(10):
                last = await self._leases.leave() or not self._leases.replicas.alive("admission")
                if last and self._settings.admits and not self._settings.keep_webhooks:
                    await self._webhooks.remove()
                    log.info("the last replica ends: the webhook configurations are removed")
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            log.warning("the webhook configurations may still be there: %s", problem)


async def _insist(what: str, attempt: Callable[[], Awaitable[T]]) -> T:
    """Tries until it works; an API server that is away is waited for."""
    backoff = Backoff()
    while True:
        try:
            return await attempt()
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            wait = backoff.next()
            log.warning("%s: %s, trying again in %.1f s", what, problem, wait)
            await asyncio.sleep(wait)


async def _first(task: asyncio.Task[Any], stop: asyncio.Event) -> bool:
    """Waits for a task or the stop; false when it was the stop (the task is then cancelled)."""
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if task.done():
        return True
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return False


def _hosts(settings: Settings) -> list[str]:
    names = settings.names
    hosts = [names.server_name, f"{names.service}.{names.namespace}", names.service]
    if settings.server_ip is not None:
        hosts = [_host(settings.server_ip), "localhost", *hosts]
    return hosts


def _host(address: str) -> str:
    """The host of ``host[:port]``; an IPv6 address with a port is in brackets."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address.rsplit(":", 1)[0].strip("[]")


def _slim_crd(obj: Object) -> Object:
    """What the compiler reads of a definition: prose is most of its size."""
    metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {k: metadata.get(k) for k in ("name", "resourceVersion")},
        "spec": {
            **{k: spec.get(k) for k in ("group", "scope", "names")},
            "versions": [
                {"name": v.get("name"), "served": v.get("served"), "schema": _without_prose(v.get("schema"))}
                for v in spec.get("versions") or ()
            ],
        },
    }


def _without_prose(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {k: _without_prose(v) for k, v in schema.items() if not (k == "description" and isinstance(v, str))}
    return [_without_prose(v) for v in schema] if isinstance(schema, list) else schema


def _version() -> str:
    try:
        return version("thesmos")
    except PackageNotFoundError:
        return "unknown"
