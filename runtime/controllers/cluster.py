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
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from runtime.config import Settings
from runtime.context.egress import Egress
from runtime.context.services import Services
from runtime.controllers.bundlesource import BundleSources
from runtime.controllers.certs import Certificates
from runtime.controllers.clusterconfig import ClusterConfig, parse
from runtime.controllers.crds import apply_crds, served
from runtime.controllers.following import Following, Kinds
from runtime.controllers.installation import Installation, Part
from runtime.controllers.leases import ShardLeases, Shards
from runtime.controllers.lookups import Lookups
from runtime.controllers.ownwebhooks import own_names
from runtime.controllers.parts import make_parts
from runtime.controllers.permissions import Rights
from runtime.controllers.policy import PolicyController
from runtime.controllers.policyadmission import PolicyAdmission
from runtime.controllers.rbac import Bindings, slim
from runtime.controllers.watchdog import PATH as VERIFY_PATH
from runtime.controllers.watchdog import verifier
from runtime.k8s.client import HttpKubeClient, Object, Resource, connect
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
    SECRET,
    VALIDATING_WEBHOOKS,
)
from runtime.k8s.watch import Backoff, Change, Watcher, key_of
from runtime.observe import metricsconfig
from runtime.observe.events import Events, limits_of
from runtime.observe.metric_rows import client_type
from runtime.observe.metrics import Metrics
from runtime.observe.otel import Tracing, collectors
from runtime.observe.policy_events import PolicyEvents
from runtime.webhook.app import PolicyCheck, build_app
from runtime.webhook.entry import Entry
from runtime.webhook.live import Live, slim_namespace
from runtime.webhook.serve import ServeProblem, serve, write_ca
from runtime.webhook.tls import CertificateProblem, Serving, make_ca, make_serving

if TYPE_CHECKING:
    from vm.host import Imports

log = logging.getLogger("thesmos.cluster")

T = TypeVar("T")

SOON_SECONDS: Final = 0.5
STEADY_SECONDS: Final = 300.0
"""A part that has run for this long starts again at once when it fails."""


async def run_in_cluster(settings: Settings, stop: asyncio.Event, ca_out: Path | None) -> int:
    """Serves until ``stop`` is set; takes the webhook configurations away when this was the last replica."""
    metrics = Metrics()

    def asked(verb: str, resource: Resource, namespace: str) -> None:
        metrics.count("kyverno_client_queries_total", verb, client_type(resource.group), resource.kind, namespace)

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
        self._certificates = Certificates(client, settings, _hosts(settings))
        self._secrets_changed = asyncio.Event()
        self._bindings = Bindings()
        self._live.roles = self._bindings.roles
        services = Services(
            Egress.of(settings.http_allow, settings.http_block),
            seconds=settings.call_seconds,
            max_bytes=settings.call_bytes,
        )
        self._kinds = Kinds(client)
        self._live.kind_of = self._kinds.kind_of
        lookups = Lookups(client, self._kinds.known, services)
        self._live.ask = lookups.ask
        self._live.services = settings.http_namespaced
        imports = make_imports()
        self._policies = PolicyController(self._live, settings, self._metrics, imports, self._policies_changed)
        self._tracing = tracing
        if tracing is not None:
            self._policies.trace = tracing.wrap
        self._shards = Shards()
        self._leases = ShardLeases(
            client, settings.names, settings.identity, settings.parts, self._shards, beat=settings.leader_retry
        )
        self._following = Following(
            client,
            settings,
            self._live,
            metrics,
            self._policies,
            self._kinds,
            self._shards,
            self._certificates,
            lambda: self._config,
        )
        self._follow = self._following.look_again
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
                self._kinds.known,
                lookups.ask,
                lambda: self._config,
                self._events,
                self._shards,
                self._follow,
                self._tell,
                lookups=lookups,
            )
        )
        self._metrics.set("kyverno_info", 1, _version())

    async def run(self, stop: asyncio.Event, ca_out: Path | None) -> int:
        start = asyncio.create_task(self._start())
        if not await _first(start, stop):
            return 0
        serving = await start
        write_ca(ca_out, serving)
        app = build_app(
            self._live,
            self._settings,
            self._metrics,
            self._tell,
            {**self._own_checks(), VERIFY_PATH: verifier(self._settings.names)},
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
                tasks.append(asyncio.create_task(self._following.watchdog.run(), name="watchdog"))
                tasks.append(asyncio.create_task(self._following.run(), name="follow"))
                tasks.append(asyncio.create_task(self._certificate_loop(server.replace_pair), name="certificates"))
                tasks += [asyncio.create_task(w.run(), name="secrets") for w in self._secret_watchers()]
            stopping = asyncio.create_task(stop.wait())
            done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            await self._end([t for t in tasks if t.get_name() in ("leases", "follow")])
            await self._events.flush(1.0)
            for task in (stopping, *tasks):
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)
        for task in done - {stopping}:
            log.critical("the task %s ended", task.get_name(), exc_info=task.exception())
            return 1
        return 0

    def _own_checks(self) -> dict[str, PolicyCheck]:
        rights = Rights(self._client, self._settings.names)
        return PolicyAdmission(self._settings, rights, self._kinds.known, self._policies.definitions).checks()

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
        exceptions = (EXCEPTION,) if self._settings.exceptions_count else ()
        for resource in (*exceptions, CLUSTER_CLEANUP_POLICY, CLEANUP_POLICY):
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
            watchers.append(Watcher(client, resource, self._note_webhook, keep=_named_only))
        names = self._settings.names
        read = (names.config_map, names.metrics_config_map)
        watchers.append(
            Watcher(
                client,
                CONFIG_MAP,
                self._note_config_map,
                # Others of the namespace may be large: a bundle of policies takes a megabyte.
                keep=lambda obj: obj if key_of(obj)[1] in read else _named_only(obj),
                namespace=names.namespace,
            )
        )
        return watchers

    def _secret_watchers(self) -> list[Watcher]:
        """By name each: so a Role that names them suffices. Nobody waits for these."""
        names = (self._certificates.ca_name, self._certificates.pair_name)
        return [
            Watcher(
                self._client,
                SECRET,
                lambda change, obj: self._secrets_changed.set(),
                keep=_named_only,
                namespace=self._settings.names.namespace,
                query={"fieldSelector": f"metadata.name={name}"},
            )
            for name in names
        ]

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
        self._following.kinds_changed()

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
        self._follow()

    def _note_webhook(self, change: Change, obj: Object) -> None:
        names = self._settings.names
        ours = {names.resource_validating, names.resource_mutating, names.verifying}
        if key_of(obj)[1] in ours | {name for _, name in own_names(self._settings)}:
            self._follow()

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
                group.create_task(self._kept_up(one), name=one.name)

    async def _kept_up(self, part: Part) -> None:
        """Runs a part, and again when it fails: what is wrong with one object must not end the answering of
        requests."""
        backoff = Backoff(first=1.0, longest=60.0)
        while True:
            began = time.monotonic()
            try:
                await part.run()
                log.error("the part %s has ended", part.name)
            except Exception:
                log.exception("the part %s failed", part.name)
            self._metrics.count("kyverno_controller_requeue_total", part.name, "1")
            if time.monotonic() - began > STEADY_SECONDS:
                backoff.reset()
            await asyncio.sleep(backoff.next())

    def _uid_of(self, kind: str, namespace: str, name: str) -> str:
        entry = self._policies.entries.get((kind, namespace, name))
        return "" if entry is None else str((entry.obj.get("metadata") or {}).get("uid") or "")

    def _policies_changed(self) -> None:
        self._follow()
        for part in self._parts:
            part.policies_changed()

    async def _certificate_loop(self, replace_pair: Callable[[Serving], None]) -> None:
        """Serves what the Secrets hold, whoever changes them."""
        served_now = self._certificates.serving
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._certificates.again):
                    await self._secrets_changed.wait()
                # Both Secrets change together.
                await asyncio.sleep(SOON_SECONDS)
            self._secrets_changed.clear()
            serving = await _insist("the certificates", self._certificates.ensure)
            if serving != served_now:
                self._follow()
                try:
                    replace_pair(serving)
                except CertificateProblem as problem:
                    log.warning("%s: the one before it is served on", problem)
            served_now = serving
            self._tell_of_expiry()

    def _tell_of_expiry(self) -> None:
        for name, end in self._certificates.expiry().items():
            self._metrics.set("thesmos_certificate_expiry_timestamp_seconds", end.timestamp(), name)
        namespace = self._settings.names.namespace
        for name in self._certificates.expiring():
            message = f"the certificate of {name} ends at {self._certificates.expiry()[name]:%Y-%m-%d %H:%M} UTC"
            log.warning("%s, and was not renewed", message)
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}
            self._events.emit("CertificateExpiring", "None", message, secret, type="Warning")

    async def _end(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Says goodbye while requests are still answered: not ready any more, shards given back, the webhooks taken
        away when nobody else is left, and a while for those who send requests here to learn of it. ``tasks`` are those
        that would put back what goes."""
        self._live.draining = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._leave()
        if self._settings.admits:
            await asyncio.sleep(_drain_seconds(self._settings))

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(10):
                last = await self._last()
                if last and self._settings.admits and not self._settings.keep_webhooks:
                    await self._following.webhooks.remove()
                    log.info("the last replica ends: the webhook configurations are removed")
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            log.warning("the webhook configurations may still be there: %s", problem)

    async def _last(self) -> bool:
        try:
            return await self._leases.leave() or not self._leases.replicas.alive("admission")
        except ApiProblem as problem:
            if problem.code not in (403, 404):
                raise
            # Uninstalled: the namespace and its roles go first. Others that are there put the webhooks back.
            return True


def _drain_seconds(settings: Settings) -> float:
    """How long a Service goes on sending requests to a replica that is not ready any more: what changes its endpoints
    takes a second or two. An address outside the cluster has nobody to learn it."""
    if settings.drain_seconds is not None:
        return settings.drain_seconds
    return 5.0 if settings.server_ip is None else 0.0


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


def _named_only(obj: Object) -> Object:
    """What tells that something has changed; nothing of a key is kept."""
    metadata = obj.get("metadata") or {}
    return {"metadata": {k: metadata.get(k) for k in ("name", "namespace", "resourceVersion")}}


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
