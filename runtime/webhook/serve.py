"""``thesmos serve``: from flags to a running webhook, over bundles and policy files or in a cluster.

``runtime.cli.main`` calls :func:`add_arguments` and :func:`run`. Kyverno's flag names are taken too, so that its
manifests start this server. aiohttp and the Kubernetes client are imported only once it is clear that they are needed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.config import DEFAULT_TIMEOUT, MAXIMUM_TIMEOUT, PARTS, Names, Settings, default_namespace
from runtime.observe import flags
from runtime.webhook import operationflags
from runtime.webhook.reportflags import add_report_arguments, reporting_of

if TYPE_CHECKING:
    from aiohttp import web

    from runtime.observe.metrics import Metrics
    from runtime.policyset import PolicySet
    from runtime.webhook.live import Live
    from runtime.webhook.routing import Routes
    from runtime.webhook.tls import Serving
    from runtime.webhook.workers import Sibling

log = logging.getLogger("thesmos.serve")


class ServeProblem(Exception):
    """The server cannot start; the text says why and the exit code is 2."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running webhook: its port, and the way to give it another certificate."""

    port: int
    context: ssl.SSLContext

    def replace_pair(self, serving: Serving) -> None:
        """Connections from now on see this certificate. Raises ``CertificateProblem``."""
        from runtime.webhook.tls import reload

        reload(self.context, serving.pair)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``thesmos serve``."""
    what = parser.add_argument_group("what to serve")
    what.add_argument("--bundle", metavar="FILE", action="append", default=[], type=Path, help="a compiled bundle")
    what.add_argument(
        "--policies", metavar="PATH", action="append", default=[], type=Path, help="policy files or folders, compiled"
    )
    what.add_argument(
        "--key", metavar="PEM", action="append", default=[], help="bundles must be signed by this ed25519 public key"
    )
    what.add_argument("--kubeconfig", metavar="FILE", help="watch the policies of this cluster")
    what.add_argument("--in-cluster", action="store_true", help="watch the policies of the cluster this runs in")
    what.add_argument(
        "--tier", choices=("1", "2", "check"), default="2", help="1: exact VM, 2: generated code, check: both, compared"
    )
    what.add_argument("--cel-strict", action="store_true", help="plain CEL: quantities are texts")
    what.add_argument(
        "--quirks", choices=("kyverno",), default="", help="give Kyverno's answers where they are known to be wrong"
    )
    net = parser.add_argument_group("network")
    net.add_argument("--host", default="0.0.0.0", help="address to listen on (default: all)")
    net.add_argument(
        "--port", "--webhookServerPort", dest="port", type=_port, default=9443, help="port (default 9443, 0: any free)"
    )
    net.add_argument(
        "--metrics-port", "--metricsPort", dest="metrics_port", type=_port, help="serve /metrics without TLS here too"
    )
    net.add_argument(
        "--workers", type=_count, default=1, metavar="N",
        help="processes that answer, with --bundle or --policies: one for each core (1)",
    )  # fmt: skip
    net.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate; made on the spot when not given")
    net.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    net.add_argument("--ca-out", type=Path, metavar="FILE", help="write the CA that callers must trust to this file")
    cluster = parser.add_argument_group("in a cluster")
    cluster.add_argument(
        "--server-ip",
        "--serverIP",
        dest="server_ip",
        metavar="HOST[:PORT]",
        help="the API server calls this address instead of the Service: for running outside the cluster",
    )
    cluster.add_argument("--namespace", default=default_namespace(), help="namespace of this installation")
    cluster.add_argument(
        "--separate-accounts", action="store_true",
        help="the controllers run under accounts of their own, NAME-background-controller and so on",
    )  # fmt: skip
    cluster.add_argument("--name", default="kyverno", help="name on which all names of the installation hang")
    cluster.add_argument("--service-port", "--servicePort", dest="service_port", type=_port, default=443)
    cluster.add_argument(
        "--webhook-timeout", "--webhookTimeout", dest="timeout", type=_timeout, default=DEFAULT_TIMEOUT, metavar="S"
    )
    cluster.add_argument(
        "--parts", type=_parts, default=PARTS, metavar="LIST",
        help="what this process does: admission, background, reports, cleanup (all of them)",
    )  # fmt: skip
    cluster.add_argument(
        "--shadow", action="store_true",
        help="beside another engine: evaluate, log and count every request, admit it as it is, write nothing else",
    )  # fmt: skip
    cluster.add_argument(
        "--bundle-source", dest="bundle_sources", action="append", default=[], metavar="SOURCE",
        help="policies come from a bundle instead of the cluster's objects: file:PATH, configmap:NAMESPACE/NAME, "
        "secret:NAMESPACE/NAME or oci:FOLDER[:TAG], signed by a --key",
    )  # fmt: skip
    cluster.add_argument(
        "--unsigned-bundles", action="store_true", help="take bundles of --bundle-source that nobody has signed"
    )
    cluster.add_argument(
        "--bundle-cache", type=Path, metavar="FOLDER",
        help="keep compiled policies here, so that a process that starts again need not compile",
    )  # fmt: skip
    cluster.add_argument("--no-crds", action="store_true", help="do not apply the custom resource definitions")
    cluster.add_argument(
        "--keep-webhooks", action="store_true", help="leave the webhook configurations in place at shutdown"
    )
    cluster.add_argument(
        "--force-failure-policy-ignore",
        "--forceFailurePolicyIgnore",
        dest="force_ignore",
        nargs="?",
        const=True,
        default=False,
        type=_boolean,
        metavar="BOOL",
    )
    cluster.add_argument(
        "--exception-namespace",
        "--exceptionNamespace",
        dest="exception_namespaces",
        action="append",
        default=[],
        metavar="NAMESPACE",
        help="exceptions of this namespace count for all, * for those of every namespace",
    )
    images = parser.add_argument_group("images")
    images.add_argument(
        "--default-registry",
        "--defaultRegistry",
        dest="registry",
        metavar="NAME",
        help="put before images that name no registry (docker.io)",
    )
    images.add_argument(
        "--enable-default-registry-mutation",
        "--enableDefaultRegistryMutation",
        dest="registry_mutation",
        nargs="?",
        const=True,
        default=True,
        type=_boolean,
        metavar="BOOL",
        help="false: images that name no registry stay without",
    )
    contexts = parser.add_argument_group("contexts of policies")
    contexts.add_argument(
        "--http-allowlist", "--httpAllowlist", dest="http_allow", action="append", default=[], metavar="URLS",
        help="services that may be called, by URL prefix (default: every one that is not blocked)",
    )  # fmt: skip
    contexts.add_argument(
        "--http-blocklist", "--httpBlocklist", dest="http_block", action="append", default=[], metavar="HOSTS",
        help="hosts and networks that may not be called, beside loopback, link-local and metadata addresses",
    )  # fmt: skip
    contexts.add_argument(
        "--allow-http-in-namespaced-policies", "--allowHTTPInNamespacedPolicies", dest="http_namespaced",
        nargs="?", const=True, default=False, type=_boolean, metavar="BOOL",
        help="let namespaced policies call services",
    )  # fmt: skip
    contexts.add_argument(
        "--api-call-timeout", "--apiCallTimeout", dest="call_seconds", type=_seconds, default=30.0, metavar="S",
        help="how long a call may take (30s)",
    )  # fmt: skip
    contexts.add_argument(
        "--max-api-call-response-length", "--maxAPICallResponseLength", dest="call_bytes", type=_bytes,
        default=2_000_000, metavar="N", help="how many bytes the answer of a service may have",
    )  # fmt: skip
    contexts.add_argument(
        "--max-context-size", dest="context_bytes", type=_bytes, default=2 << 20, metavar="N",
        help="how many bytes of JSON the context of a rule may come to",
    )  # fmt: skip
    contexts.add_argument(
        "--max-global-context-entries", "--maxGlobalContextEntries", dest="global_entries", type=_whole, default=0,
        metavar="N", help="how many entries of the global context are loaded (0: all)",
    )  # fmt: skip
    flags.add_arguments(parser, _boolean, _port, _count)
    operationflags.add_arguments(parser, _boolean, _seconds)
    add_report_arguments(parser, _boolean, _seconds, _count)
    add_cleanup_arguments(parser)


def add_cleanup_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of what removes objects by the clock."""
    cleanup = parser.add_argument_group("cleanup")
    cleanup.add_argument(
        "--cleanup-dry-run", "--cleanupDryRun", nargs="?", const=True, default=False, type=_boolean, metavar="BOOL",
        help="log what cleanup policies and times to live would remove, and remove nothing",
    )  # fmt: skip
    cleanup.add_argument(
        "--ttl-reconciliation-interval", "--ttlReconciliationInterval", dest="ttl_seconds", type=_seconds, default=60.0,
        metavar="DURATION", help="how often the kinds are looked for whose objects may have a time to live (1m)",
    )  # fmt: skip


def settings_of(args: argparse.Namespace) -> Settings:
    """Flags to settings. Raises :class:`ServeProblem` for a combination that makes no sense."""
    if (args.tls_cert is None) != (args.tls_key is None):
        raise ServeProblem("--tls-cert and --tls-key go together")
    settings = Settings(
        names=operationflags.names_of(args),
        host=args.host,
        port=args.port,
        workers=args.workers,
        metrics_port=args.metrics_port,
        tier=args.tier,
        timeout=args.timeout,
        bundles=tuple(args.bundle),
        policies=tuple(args.policies),
        in_cluster=args.in_cluster,
        kubeconfig=args.kubeconfig,
        server_ip=args.server_ip,
        service_port=args.service_port,
        tls_cert=args.tls_cert,
        tls_key=args.tls_key,
        apply_crds=not args.no_crds,
        keep_webhooks=args.keep_webhooks,
        force_failure_policy_ignore=args.force_ignore,
        exception_namespaces=tuple(args.exception_namespaces),
        cel_strict=args.cel_strict,
        quirks=args.quirks,
        registry=args.registry if args.registry_mutation else "",
        http_allow=tuple(args.http_allow),
        http_block=tuple(args.http_block),
        http_namespaced=args.http_namespaced,
        call_seconds=args.call_seconds,
        call_bytes=args.call_bytes,
        context_bytes=args.context_bytes,
        parts=args.parts,
        **flags.values_of(args),
        **operationflags.values_of(args),
        bundle_sources=tuple(args.bundle_sources),
        bundle_keys=tuple(args.key),
        bundle_cache=args.bundle_cache,
        reporting=reporting_of(args),
        cleanup_dry_run=args.cleanup_dry_run,
        ttl_seconds=args.ttl_seconds,
        global_entries=args.global_entries,
    )
    from runtime.context.egress import Egress, EgressError

    try:
        Egress.of(settings.http_allow, settings.http_block)
    except EgressError as problem:
        raise ServeProblem(f"services that may be called: {problem}") from None
    if missing := flags.collector_problem(settings):
        raise ServeProblem(missing)
    offline = bool(settings.bundles or settings.policies)
    if offline and settings.clustered:
        raise ServeProblem("--bundle and --policies are for serving without a cluster, leave out --kubeconfig")
    if settings.workers > 1 and not offline:
        raise ServeProblem("--workers is for serving without a cluster: in one there are replicas")
    if settings.bundle_sources:
        _check_sources(settings, unsigned=args.unsigned_bundles)
    if settings.in_cluster and settings.kubeconfig is not None:
        raise ServeProblem("--in-cluster and --kubeconfig exclude each other")
    if not offline and not settings.clustered:
        if "KUBERNETES_SERVICE_HOST" not in os.environ:
            raise ServeProblem("nothing to serve: give --bundle, --policies, --kubeconfig or --in-cluster")
        settings = replace(settings, in_cluster=True)
    if args.shadow:
        settings = _in_shadow(settings)
    if settings.kubeconfig is not None and settings.server_ip is None and settings.admits:
        # Out of the cluster the API server can only call an address.
        raise ServeProblem(
            "--kubeconfig needs --server-ip, the address under which the API server reaches this process"
        )
    return settings


def _in_shadow(settings: Settings) -> Settings:
    """What writes, blocks or works twice is left out; names must be others than those of the engine in charge."""
    if settings.names.install == Names().install:
        raise ServeProblem("--shadow needs another --name: kyverno is the one in charge")
    return replace(
        settings,
        shadow=True,
        apply_crds=False,
        force_failure_policy_ignore=True,
        parts=frozenset(["admission"]),
        omit_events=frozenset(["PolicyViolation", "PolicyApplied", "PolicyError", "PolicySkipped"]),
    )


def _check_sources(settings: Settings, *, unsigned: bool) -> None:
    from runtime.cli.keys import load_trust
    from runtime.cli.problem import Problem
    from runtime.controllers.bundlesource import SourceProblem, parse_source

    if bool(settings.bundle_keys) == unsigned:
        raise ServeProblem(
            "--key and --unsigned-bundles exclude each other"
            if unsigned
            else "--bundle-source needs --key, the public key that must have signed, or --unsigned-bundles"
        )
    try:
        load_trust(list(settings.bundle_keys))
        for text in settings.bundle_sources:
            parse_source(text)
    except SourceProblem as problem:
        raise ServeProblem(f"--bundle-source {problem}") from None
    except Problem as problem:
        raise ServeProblem(str(problem)) from None


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT. 0 at the end, 2 when it cannot start."""
    from runtime.observe.logs import set_up_logs

    try:
        settings = settings_of(args)
        set_up_logs(settings.log_format, settings.verbosity, settings.log_times)
        for line in operationflags.told(args):
            log.info(line)
        if settings.bundles and not settings.policies:
            # Loading makes hundreds of thousands of objects that stay: the collector would go through them for nothing,
            # a tenth of the time to ready with 1,000 policies (:func:`keep_loaded`).
            gc.disable()
        if settings.workers > 1:
            return _run_workers(settings, args.key, args.ca_out)
        return run_loop(_main(settings, args.key, args.ca_out))
    except ServeProblem as problem:
        print(f"thesmos serve: {problem}", file=sys.stderr)
        return 2
    finally:
        gc.enable()


def run_loop(main: Any) -> int:
    """Runs a coroutine on uvloop where it can be had, else on asyncio's own loop."""
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return int(runner.run(main))


def _until_told() -> asyncio.Event:
    """What is set by SIGTERM and SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _main(settings: Settings, keys: list[str], ca_out: Path | None) -> int:
    stop = _until_told()
    if settings.clustered:
        from runtime.controllers.cluster import run_in_cluster

        return await run_in_cluster(settings, stop, ca_out)
    policies = load_policies(settings, keys)
    serving = offline_certificate(settings)
    write_ca(ca_out, serving)
    keep_loaded()
    return await _answer(policies, settings, serving, stop)


async def _answer(
    policies: PolicySet, settings: Settings, serving: Serving, stop: asyncio.Event, sibling: Sibling | None = None
) -> int:
    from runtime.observe.metrics import Metrics
    from runtime.observe.otel import collectors
    from runtime.webhook.app import build_app
    from runtime.webhook.live import Live, Snapshot

    live, metrics = Live(), Metrics()
    live.swap(Snapshot.of(policies, registry=settings.registry))
    async with (
        collectors(settings, metrics) as tracing,
        contextlib.nullcontext() if sibling is None else sibling.telling(metrics),
        serve(live, settings, metrics, serving, build_app(live, settings, metrics, tracing=tracing)) as server,
    ):
        if sibling is None or sibling.number == 0:
            print(f"serving {len(policies.policies)} policies on https://{settings.host}:{server.port}", flush=True)
        # Texts formed at request time need the compiler: its import must not be part of somebody's request.
        await asyncio.to_thread(import_module, "compiler.dynamic")
        await stop.wait()
    return 0


def _run_workers(settings: Settings, keys: Sequence[str], ca_out: Path | None) -> int:
    from runtime.webhook.workers import CANNOT_START, reserve_port, run_workers

    # Before a thread runs: code that threads generate would be a worker's own, and their locks would be lost to it.
    policies = load_policies(settings, keys, at_once=False)
    serving = offline_certificate(settings)
    write_ca(ca_out, serving)
    try:
        held = reserve_port(settings.host, settings.port)
    except OSError as error:
        raise _no_port(settings.host, settings.port, error) from None
    settings = replace(settings, port=held.getsockname()[1], reuse_port=True)
    keep_loaded()

    async def worker(sibling: Sibling) -> int:
        stop = _until_told()
        asyncio.get_running_loop().add_reader(sibling.parent, stop.set)
        return await _answer(policies, settings, serving, stop, sibling)

    def work(sibling: Sibling) -> int:
        try:
            return run_loop(worker(sibling))
        except ServeProblem as problem:
            print(f"thesmos serve: {problem}", file=sys.stderr, flush=True)
            return CANNOT_START

    with held:
        return run_workers(settings.workers, work)


def keep_loaded() -> None:
    """Takes what is loaded by now out of what the garbage collector looks at: it would go through all policies again
    and again, for tens of milliseconds. Requests leave next to no cycles behind: it may look less often, too."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def load_policies(settings: Settings, keys: Sequence[str] = (), *, at_once: bool = True) -> PolicySet:
    """The policy set of bundles and policy files; warnings of the compiler go to standard error.

    ``keys`` are files of public keys, one of which must have signed each bundle. ``at_once``: the exact VM answers
    while code is generated in the background. Raises :class:`ServeProblem`.
    """
    from runtime.bundles import BundleProblem, load_files, make_imports, read_file
    from runtime.cli.keys import load_trust
    from runtime.cli.problem import Problem
    from runtime.controllers.compilation import CompileProblem, compile_files
    from runtime.policyset import PolicySet

    tier: Any = settings.tier
    try:
        trust = load_trust(list(keys))
        from_bundles = load_files(settings.bundles, tier=tier, trust=trust, at_once=at_once, keep=True)
        if not settings.policies:
            return from_bundles
        compiled = compile_files(settings.policies, cel_strict=settings.cel_strict, quirks=settings.quirks)
        for warned in compiled:
            if warned.report:
                print(warned.report, file=sys.stderr)
        # One set of all: an exception of one file frees from the policies of another.
        given = [read_file(path) for path in settings.bundles]
        made = [c.bundle for c in compiled if c.bundle is not None]
        return PolicySet.load([*given, *made], tier=tier, imports=make_imports(), at_once=at_once)
    except (BundleProblem, CompileProblem, Problem) as problem:
        raise ServeProblem(str(problem)) from None


def offline_certificate(settings: Settings) -> Serving:
    """The files that were given, or a fresh CA and certificate for this host. Raises :class:`ServeProblem`."""
    from runtime.webhook.tls import CertificateProblem, Serving, make_ca, make_serving, read_pair

    try:
        if settings.tls_cert is not None and settings.tls_key is not None:
            pair = read_pair(settings.tls_cert, settings.tls_key)
            return Serving(pair, pair.cert)
    except CertificateProblem as problem:
        raise ServeProblem(str(problem)) from None
    hosts = ["localhost", "127.0.0.1", "::1", settings.names.server_name, socket.gethostname()]
    return make_serving(make_ca(), hosts)


def write_ca(path: Path | None, serving: Serving) -> None:
    """Leaves the CA bundle for callers. Raises :class:`ServeProblem`."""
    if path is None:
        return
    try:
        path.write_bytes(serving.ca)
    except OSError as error:
        raise ServeProblem(f"{path}: {(error.strerror or str(error)).lower()}") from None


@contextlib.asynccontextmanager
async def serve(
    live: Live, settings: Settings, metrics: Metrics, serving: Serving, app: Routes | None = None
) -> AsyncIterator[Server]:
    """The webhook over TLS while the block runs. Requests in flight are finished before it ends.

    ``app`` replaces the plain routes (a cluster adds some). Raises :class:`ServeProblem`.
    """
    from aiohttp import web

    from runtime.webhook.app import add_service_routes, build_app
    from runtime.webhook.routing import Routes
    from runtime.webhook.tls import CertificateProblem, server_context

    try:
        context = server_context(serving.pair)
    except CertificateProblem as problem:
        raise ServeProblem(str(problem)) from None
    async with contextlib.AsyncExitStack() as stack:
        runner = await _start(app or build_app(live, settings, metrics), stack)
        reuse = settings.reuse_port or None
        site = web.TCPSite(runner, settings.host, settings.port, ssl_context=context, backlog=1024, reuse_port=reuse)
        await _listen(site, settings.host, settings.port)
        if settings.metrics_port is not None and settings.otel_config != "grpc":
            plain = Routes(body_limit=settings.body_limit)
            add_service_routes(plain, live, metrics)
            plain_runner = await _start(plain, stack)
            plain_site = web.TCPSite(plain_runner, settings.host, settings.metrics_port, reuse_port=reuse)
            await _listen(plain_site, settings.host, settings.metrics_port)
        port: int = runner.addresses[0][1]
        log.info("listening on https://%s:%d", settings.host, port)
        yield Server(port, context)


async def _start(routes: Routes, stack: contextlib.AsyncExitStack) -> web.ServerRunner:
    runner = routes.runner(shutdown_timeout=float(MAXIMUM_TIMEOUT))
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    return runner


async def _listen(site: web.TCPSite, host: str, port: int) -> None:
    try:
        await site.start()
    except OSError as error:
        raise _no_port(host, port, error) from None


def _no_port(host: str, port: int, error: OSError) -> ServeProblem:
    reason = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)
    return ServeProblem(f"cannot listen on {host}:{port}: {reason}")


def _port(text: str) -> int:
    if text.isdigit() and int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port (0 to 65535)")


def _timeout(text: str) -> int:
    if text.isdigit() and 1 <= int(text) <= MAXIMUM_TIMEOUT:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 1 to {MAXIMUM_TIMEOUT}")


def _seconds(text: str) -> float:
    from vm.intrinsics.duration import SECOND, parse_duration

    nanoseconds = parse_duration(text if text[-1:].isalpha() else f"{text}s")
    if nanoseconds is not None and nanoseconds > 0:
        return nanoseconds / SECOND
    raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 30s or 1m")


def _bytes(text: str) -> int:
    if text.isdigit() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes")


def _count(text: str) -> int:
    if text.isdigit() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")


def _whole(text: str) -> int:
    if text.isdigit():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number")


def _parts(text: str) -> frozenset[str]:
    named = frozenset(part.strip() for part in text.split(",") if part.strip())
    if named and named <= PARTS:
        return named
    wrong = ", ".join(sorted(named - PARTS)) or "nothing"
    raise argparse.ArgumentTypeError(f"{wrong} is no part, there are {', '.join(sorted(PARTS))}")


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
