"""The settings of a running Thesmos: every name of an installation, its ports and limits, as one frozen value.

Built once from the flags of ``thesmos serve`` (``runtime.webhook.serve``) and handed to everything else; nothing reads
flags or the environment later. All names hang on :class:`Names`, so that Thesmos can be installed beside a Kyverno.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from runtime.reporting import Reporting

MANAGED_BY: Final = "webhook.kyverno.io/managed-by"
"""Label of the webhook configurations that are ours (semantics §24)."""

BODY_LIMIT: Final = 7 * 1024 * 1024
"""Largest accepted body in bytes. The API server takes request bodies of at most 3 MiB; a review carries the object
and, on an update, the old one (2 x 3 MiB), plus user, options and JSON where the request was protobuf (1 MiB)."""

DEFAULT_TIMEOUT: Final = 10
MAXIMUM_TIMEOUT: Final = 30
"""Seconds of ``timeoutSeconds``: the default of a webhook and the most that the API server takes."""

PARTS: Final = frozenset(["admission", "background", "reports", "cleanup"])
"""What an installation consists of: the webhooks, generation and changes of existing objects, reports, removals."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of one installation. The default is Kyverno's own, so that dashboards and runbooks keep working.

    The names of Service, service account and ConfigMap follow from the installation's where they are not given.
    """

    install: str = "kyverno"
    namespace: str = "kyverno"
    own_service: str = ""
    own_account: str = ""
    own_config: str = ""
    separate: bool = False
    own_metrics_config: str = ""

    @property
    def service(self) -> str:
        return self.own_service or f"{self.install}-svc"

    @property
    def config_map(self) -> str:
        """The ConfigMap of the installation's settings (``runtime.controllers.clusterconfig``)."""
        return self.own_config or self.install

    @property
    def metrics_config_map(self) -> str:
        """The ConfigMap that says what ``/metrics`` serves (``runtime.observe.metricsconfig``)."""
        return self.own_metrics_config or f"{self.install}-metrics"

    @property
    def resource_validating(self) -> str:
        return f"{self.install}-resource-validating-webhook-cfg"

    @property
    def resource_mutating(self) -> str:
        return f"{self.install}-resource-mutating-webhook-cfg"

    @property
    def policy_validating(self) -> str:
        return f"{self.install}-policy-validating-webhook-cfg"

    @property
    def verifying(self) -> str:
        """The configuration by which a call of the webhooks shows that they can be reached."""
        return f"{self.install}-verify-mutating-webhook-cfg"

    @property
    def health_lease(self) -> str:
        """The Lease that tells when the webhooks were last reached."""
        return f"{self.install}-health"

    @property
    def server_name(self) -> str:
        """The DNS name under which the API server reaches the Service."""
        return f"{self.service}.{self.namespace}.svc"

    @property
    def user(self) -> str:
        """The user name of the account that generates and changes objects."""
        return self.user_of("background")

    def user_of(self, part: str) -> str:
        """The user name of a part's service account: one for all, but where each controller has its own
        (``separate``), as Kyverno's are named."""
        own = f"{self.install}-{part}-controller" if self.separate and part != "admission" else ""
        return f"system:serviceaccount:{self.namespace}:{own or self.own_account or self.install}"

    def webhook(self, verb: str, suffix: str = "") -> str:
        """Name of one webhook in a configuration: ``validate.kyverno.svc-fail``."""
        return f"{verb}.{self.install}.svc{suffix}"


@dataclass(frozen=True, slots=True)
class Settings:
    """What ``thesmos serve`` was asked to do.

    ``server_ip`` is the ``host[:port]`` that the API server calls when Thesmos runs outside the cluster (webhooks by
    URL); None means the Service. ``timeout`` is in seconds. ``exception_namespaces`` holds namespaces whose exceptions
    count for all, or ``*``; when empty, an exception counts for objects of its own namespace (decision 5).
    ``registry`` is put before images that name none; empty: they stay without; None: the usual one.
    ``http_allow`` (URLs) and ``http_block`` (hosts and networks) limit which services context entries may call,
    ``http_namespaced`` lets those of namespaced policies call at all; ``call_seconds``, ``call_bytes`` and
    ``context_bytes`` limit a call, its answer, and what a rule may load. ``parts`` are those of :data:`PARTS` that this
    process runs. ``omit_events`` are reasons of events that are not told of, at most ``max_queued_events`` wait, and
    ``events_per_second`` are written in the long run, ``events_burst`` at once. ``log_times`` is how the log writes the
    time; ``dump_payload`` and ``dump_patches`` put requests and patches into it. With ``cleanup_dry_run`` cleanup
    policies tell what they would remove, and nothing goes; ``ttl_seconds`` is how often the kinds are looked for whose
    objects may have a time to live. ``global_entries`` is how many entries of the global context are loaded; 0: all.

    ``protect_managed`` refuses what others do to objects that Thesmos manages. Without ``auto_update_webhooks``
    webhooks for everything are installed once and left alone; ``exclude_bootstrap`` keeps webhooks that fail closed
    away from what a node needs to join. ``drain_seconds`` is how long requests are still taken after SIGTERM (None: by
    where it runs), ``reuse_port`` lets processes share a port, and
    ``workers`` is how many this one starts to do so. ``leader_retry`` is the time between looks at the
    Leases. ``ca_secret`` and ``tls_secret`` name the Secrets of the certificates (empty: by the Service); without
    ``own_certificates`` others fill them. ``key_algorithm`` is RSA, ECDSA or Ed25519; ``renew_before`` in seconds.
    Without ``exceptions_count`` no exception frees from a policy. ``generate_native`` makes
    ValidatingAdmissionPolicies of the policies that ask for one.

    ``tracing`` sends spans to the OTLP collector at ``tracing_address`` and ``tracing_port``; ``otel_config`` ``grpc``
    sends the metrics to ``otel_collector``, at the port of the metrics, instead of serving them there. Their CAs are
    ``tracing_creds`` and ``otel_creds``.

    ``bundle_sources`` are where the policies of a cluster come from instead of its objects (``file:PATH``,
    ``configmap:NAMESPACE/NAME``, ``secret:NAMESPACE/NAME``, ``oci:FOLDER[:TAG]``), signed by one of ``bundle_keys``
    (files of public keys; none: unsigned ones are taken too). ``bundle_cache`` is the folder where compiled policies
    are kept. ``shadow``: beside an engine that is in charge everything is evaluated, told of in log and metrics, and
    admitted as it is; nothing of the cluster but its own webhooks is written.
    """

    names: Names = field(default_factory=Names)
    host: str = "0.0.0.0"
    port: int = 9443
    metrics_port: int | None = None
    tier: str = "2"
    body_limit: int = BODY_LIMIT
    timeout: int = DEFAULT_TIMEOUT
    bundles: tuple[Path, ...] = ()
    policies: tuple[Path, ...] = ()
    in_cluster: bool = False
    kubeconfig: str | None = None
    server_ip: str | None = None
    service_port: int = 443
    tls_cert: Path | None = None
    tls_key: Path | None = None
    apply_crds: bool = True
    keep_webhooks: bool = False
    force_failure_policy_ignore: bool = False
    exception_namespaces: tuple[str, ...] = ()
    identity: str = ""
    log_format: str = "text"
    verbosity: int = 2
    cel_strict: bool = False
    quirks: str = ""
    http_allow: tuple[str, ...] = ()
    http_block: tuple[str, ...] = ()
    http_namespaced: bool = False
    call_seconds: float = 30.0
    call_bytes: int = 2_000_000
    context_bytes: int = 2 << 20
    registry: str | None = None
    parts: frozenset[str] = PARTS
    reporting: Reporting = field(default_factory=Reporting)
    omit_events: frozenset[str] = frozenset()
    max_queued_events: int = 1000
    events_per_second: float = 50.0
    events_burst: int = 100
    log_times: str = "default"
    dump_payload: bool = False
    dump_patches: bool = False
    tracing: bool = False
    tracing_address: str = "localhost"
    tracing_port: int = 4317
    tracing_creds: Path | None = None
    otel_config: str = "prometheus"
    otel_collector: str = "localhost"
    otel_creds: Path | None = None
    cleanup_dry_run: bool = False
    ttl_seconds: float = 60.0
    global_entries: int = 0
    protect_managed: bool = False
    auto_update_webhooks: bool = True
    exclude_bootstrap: bool = False
    drain_seconds: float | None = None
    reuse_port: bool = False
    workers: int = 1
    leader_retry: float = 2.0
    ca_secret: str = ""
    tls_secret: str = ""
    own_certificates: bool = True
    bundle_sources: tuple[str, ...] = ()
    bundle_keys: tuple[str, ...] = ()
    bundle_cache: Path | None = None
    shadow: bool = False
    key_algorithm: str = "ECDSA"
    renew_before: float = 15 * 86400.0
    exceptions_count: bool = True
    generate_native: bool = True

    @property
    def admits(self) -> bool:
        """Whether this process answers requests, and so owns webhook configurations, certificates and status."""
        return "admission" in self.parts

    @property
    def clustered(self) -> bool:
        return self.in_cluster or self.kubeconfig is not None


def default_namespace() -> str:
    """The namespace of this installation as Kyverno's manifests tell it."""
    return os.environ.get("KYVERNO_NAMESPACE") or "kyverno"
