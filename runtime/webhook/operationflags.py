"""The flags of ``thesmos serve`` that concern running an installation: webhooks, certificates, Leases, the end; and the
flags of Kyverno that mean nothing here, which are taken all the same so that its manifests start this server.

``runtime.webhook.serve`` calls :func:`add_arguments`, :func:`values_of` and :func:`told`.
"""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from runtime.config import Names

ALGORITHMS: Final = ("RSA", "ECDSA", "Ed25519")

_ALWAYS: Final = "it is always so here"
_NATIVE: Final = "mutations of the API server's own policies are not reported"
_IMAGES: Final = "no rule of this version asks a registry"
_PROFILE: Final = "there is no profiler, use py-spy on the process"
_KLOG: Final = "the log goes to standard error in one format"

IGNORED: Final[tuple[tuple[str, str], ...]] = (
    ("--autogenV2", "there is one autogen, whose answers are Kyverno's"),
    ("--enableDeferredLoading", f"contexts are loaded when they are first read: {_ALWAYS}"),
    ("--enableConfigMapCaching", f"ConfigMaps of contexts are kept for a second: {_ALWAYS}"),
    ("--crdWatcher", f"definitions of kinds are watched: {_ALWAYS}"),
    ("--resyncPeriod", "what is watched is compared with a fresh list whenever a watch breaks"),
    ("--clientRateLimitQPS", "requests to the API server are bounded by what there is to do"),
    ("--clientRateLimitBurst", "requests to the API server are bounded by what there is to do"),
    ("--genWorkers", "one loop works on many update requests at a time"),
    ("--maxAuditWorkers", "audited rules are answered with the enforced ones"),
    ("--maxAuditCapacity", "audited rules are answered with the enforced ones"),
    ("--webhookRegistrationTimeout", "webhooks are tried until they are there"),
    ("--autoDeleteWebhooks", "the last replica takes the webhooks away; --keep-webhooks leaves them"),
    ("--backgroundServiceAccountName", "one service account does all the work"),
    ("--reportsServiceAccountName", "one service account does all the work"),
    ("--cleanupServerHost", "cleanup policies are asked about where all others are"),
    ("--cleanupServerPort", "cleanup policies are asked about where all others are"),
    ("--controllerRuntimeMetricsAddress", "metrics are served by --metricsPort"),
    ("--disableMetrics", "metrics are served where --metricsPort says, and at /metrics of the webhook"),
    ("--generateMutatingAdmissionPolicy", "no rule of this version becomes a MutatingAdmissionPolicy"),
    ("--reportsChunkSize", "there is one report an object"),
    ("--mutatingAdmissionPolicyReports", _NATIVE),
    ("--imageVerifyCacheEnabled", _IMAGES),
    ("--imageVerifyCacheMaxSize", _IMAGES),
    ("--imageVerifyCacheTTLDuration", _IMAGES),
    ("--registryCredentialHelpers", _IMAGES),
    ("--imagePullSecrets", _IMAGES),
    ("--allowInsecureRegistry", _IMAGES),
    ("--enableTuf", _IMAGES),
    ("--tufMirror", _IMAGES),
    ("--tufRoot", _IMAGES),
    ("--tufRootRaw", _IMAGES),
    ("--profile", _PROFILE),
    ("--profileAddress", _PROFILE),
    ("--profilePort", _PROFILE),
    ("--alsologtostderr", _KLOG),
    ("--logtostderr", _KLOG),
    ("--log_dir", _KLOG),
    ("--log_file", _KLOG),
    ("--skip_headers", _KLOG),
    ("--stderrthreshold", _KLOG),
    ("--vmodule", _KLOG),
)
"""Flags of Kyverno that do nothing here, and why. One that begins to mean something is taken out of the table."""

Parse = Callable[[str], Any]


def add_arguments(parser: argparse.ArgumentParser, boolean: Parse, duration: Parse) -> None:
    """``boolean`` and ``duration`` read the values, as for the other flags."""
    group = parser.add_argument_group("operation")
    group.add_argument(
        "--leader-election-retry-period", "--leaderElectionRetryPeriod", dest="leader_retry", type=duration,
        default=2.0, metavar="DURATION", help="time between looks at the leases; who is dead is followed after 6 (2s)",
    )  # fmt: skip
    group.add_argument(
        "--drain-seconds", dest="drain_seconds", type=duration, metavar="DURATION",
        help="how long requests are taken after SIGTERM while the Service forgets this replica "
        "(5s in a cluster, none outside)",
    )  # fmt: skip
    group.add_argument("--reuse-port", action="store_true", help="let several processes of one host share the port")
    group.add_argument("--ca-secret-name", "--caSecretName", dest="ca_secret", default="", metavar="NAME")
    group.add_argument("--tls-secret-name", "--tlsSecretName", dest="tls_secret", default="", metavar="NAME")
    group.add_argument(
        "--tls-key-algorithm", "--tlsKeyAlgorithm", dest="key_algorithm", choices=ALGORITHMS, default="ECDSA",
        help="of the keys that are made here (ECDSA)",
    )  # fmt: skip
    group.add_argument(
        "--renew-before", "--renewBefore", dest="renew_before", type=duration, default=15 * 86400.0, metavar="DURATION",
        help="how long before its end a certificate is renewed (360h)",
    )  # fmt: skip
    for names, dest, default, text in (
        (("--disable-certificates", "--disableCertManagerController"), "no_certificates", False,
         "others make the secrets of the certificates"),
        (("--auto-update-webhooks", "--autoUpdateWebhooks"), "auto_update_webhooks", True,
         "false: webhooks for everything, written once"),
        (("--exclude-bootstrap-resources", "--excludeBootstrapResources"), "exclude_bootstrap", False,
         "webhooks that fail closed leave Nodes and CertificateSigningRequests alone"),
        (("--protect-managed-resources", "--protectManagedResources"), "protect_managed", False,
         "refuse what others do to objects that Thesmos made"),
        (("--enable-policy-exception", "--enablePolicyException"), "exceptions", True,
         "false: exceptions do not count"),
        (("--generate-validating-admission-policy", "--generateValidatingAdmissionPolicy"), "generate_native", True,
         "false: no ValidatingAdmissionPolicy is made of policies with validate.cel.generate"),
    ):  # fmt: skip
        group.add_argument(
            *names, dest=dest, nargs="?", const=True, default=default, type=boolean, metavar="BOOL", help=text
        )
    ignored = parser.add_argument_group("flags of Kyverno that are taken and do nothing")
    for flag, why in IGNORED:
        ignored.add_argument(flag, dest="ignored", action=_Ignored, nargs="?", default=(), metavar="VALUE", help=why)


class _Ignored(argparse.Action):
    """Keeps which flags were given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        namespace.ignored = (*namespace.ignored, option_string)


def values_of(args: argparse.Namespace) -> dict[str, Any]:
    """The fields of ``Settings`` that these flags are."""
    return {
        "leader_retry": args.leader_retry,
        "drain_seconds": args.drain_seconds,
        "reuse_port": args.reuse_port,
        "ca_secret": args.ca_secret,
        "tls_secret": args.tls_secret,
        "own_certificates": not args.no_certificates,
        "key_algorithm": args.key_algorithm,
        "renew_before": args.renew_before,
        "auto_update_webhooks": args.auto_update_webhooks,
        "exclude_bootstrap": args.exclude_bootstrap,
        "protect_managed": args.protect_managed,
        "exceptions_count": args.exceptions,
        "generate_native": args.generate_native,
        "identity": identity(args.port, shared=args.reuse_port),
    }


def identity(port: int, *, shared: bool = False) -> str:
    """What names this replica among those of its installation: the Pod, or host and port. What starts again in the same
    place is the same replica, also after a crash; processes that share a port are told apart by their number."""
    pod = os.environ.get("KYVERNO_POD_NAME")
    if pod:
        return pod
    return f"{socket.gethostname()}-{port}" + (f"-{os.getpid()}" if shared else "")


def names_of(args: argparse.Namespace) -> Names:
    """The names of the installation, by flags and by the environment of Kyverno's manifests."""
    found = os.environ.get
    return Names(
        args.name,
        args.namespace,
        own_service=found("KYVERNO_SVC", ""),
        # With accounts of their own the variable tells that of this process, and not those of the others.
        own_account="" if args.separate_accounts else found("KYVERNO_SERVICEACCOUNT_NAME", ""),
        own_config=found("INIT_CONFIG", ""),
        own_metrics_config=found("METRICS_CONFIG", ""),
        separate=args.separate_accounts,
    )


def told(args: argparse.Namespace) -> list[str]:
    """A line for each flag that was given and does nothing."""
    reasons = dict(IGNORED)
    return [f"{flag} is taken and does nothing: {reasons[flag]}" for flag in args.ignored]
