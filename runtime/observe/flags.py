"""The flags of ``thesmos serve`` that say what is told: the log, events, traces and metrics for collectors.

``runtime.webhook.serve`` adds them to its parser and takes their values over into the settings.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from runtime.config import Settings


def add_arguments(
    parser: argparse.ArgumentParser,
    boolean: Callable[[str], bool],
    port: Callable[[str], int],
    count: Callable[[str], int],
) -> None:
    """``boolean``, ``port`` and ``count`` read values of flags."""
    logs = parser.add_argument_group("log")
    logs.add_argument(
        "--logging-format", "--loggingFormat", dest="log_format", choices=("text", "json"), default="text"
    )
    logs.add_argument(
        "-v", "--v", dest="verbosity", type=int, default=2, metavar="N",
        help="4 and more: debug, requests that are let through too; below 2: no decisions",
    )  # fmt: skip
    logs.add_argument(
        "--logging-ts-format", "--loggingtsFormat", dest="log_times", default="default",
        choices=("default", "rfc3339", "rfc3339nano", "iso8601", "epoch", "millis", "nano"),
        help="how the time of a line is written",
    )  # fmt: skip
    for flag, kyverno, what_for in (
        ("--dump-payload", "--dumpPayload", "log the requests, values of Secrets left out"),
        ("--dump-patches", "--dumpPatches", "log the patches of mutations"),
        ("--disable-log-color", "--disableLogColor", "taken, and there is no colour"),
    ):
        logs.add_argument(
            flag, kyverno, nargs="?", const=True, default=False, type=boolean, metavar="BOOL", help=what_for
        )
    events = parser.add_argument_group("events")
    events.add_argument(
        "--omit-events", "--omitEvents", dest="omit_events", type=_reasons, default=frozenset(), metavar="LIST",
        help="reasons that no event is written for: PolicyViolation, PolicyApplied, PolicyError, PolicySkipped",
    )  # fmt: skip
    events.add_argument(
        "--max-queued-events", "--maxQueuedEvents", dest="max_queued_events", type=count, default=1000, metavar="N",
        help="events that wait at most, more are dropped (1000)",
    )  # fmt: skip
    events.add_argument(
        "--events-rate-limit-qps", "--eventsRateLimitQPS", dest="events_per_second", type=_rate, default=50.0,
        metavar="N", help="events written a second in the long run (50)",
    )  # fmt: skip
    events.add_argument(
        "--events-rate-limit-burst", "--eventsRateLimitBurst", dest="events_burst", type=count, default=100,
        metavar="N", help="events written at once (100)",
    )  # fmt: skip
    collectors = parser.add_argument_group("OpenTelemetry (needs the extra otel)")
    collectors.add_argument(
        "--enable-tracing", "--enableTracing", dest="tracing", nargs="?", const=True, default=False, type=boolean,
        metavar="BOOL", help="send traces to a collector",
    )  # fmt: skip
    collectors.add_argument(
        "--tracing-address", "--tracingAddress", dest="tracing_address", default="localhost", metavar="HOST",
        help="the collector of traces, by OTLP over gRPC",
    )  # fmt: skip
    collectors.add_argument(
        "--tracing-port", "--tracingPort", dest="tracing_port", type=port, default=4317, help="its port (4317)"
    )
    collectors.add_argument(
        "--tracing-creds", "--tracingCreds", dest="tracing_creds", type=Path, metavar="FILE",
        help="the CA of that collector (PEM); without it the connection is not encrypted",
    )  # fmt: skip
    collectors.add_argument(
        "--otel-config", "--otelConfig", dest="otel_config", choices=("prometheus", "grpc"), default="prometheus",
        help="grpc: send the metrics to a collector",
    )  # fmt: skip
    collectors.add_argument(
        "--otel-collector", "--otelCollector", dest="otel_collector", metavar="HOST",
        default="opentelemetrycollector.kyverno.svc.cluster.local",
        help="the collector of metrics, at the port that --metrics-port names (8000)",
    )  # fmt: skip
    collectors.add_argument(
        "--transport-creds", "--transportCreds", dest="otel_creds", type=Path, metavar="FILE",
        help="the CA of that collector (PEM); without it the connection is not encrypted",
    )  # fmt: skip


def values_of(args: argparse.Namespace) -> dict[str, Any]:
    """The fields of the settings that these flags are."""
    names = (
        "log_format", "verbosity", "log_times", "dump_payload", "dump_patches",
        "omit_events", "max_queued_events", "events_per_second", "events_burst",
        "tracing", "tracing_address", "tracing_port", "tracing_creds", "otel_config", "otel_collector",
        "otel_creds",
    )  # fmt: skip
    return {name: getattr(args, name) for name in names}


def collector_problem(settings: Settings) -> str:
    """What is wrong when collectors were asked for and cannot be had: the packages for them are not installed, or a
    file is not there; empty if nothing is."""
    if not settings.tracing and settings.otel_config != "grpc":
        return ""
    for path in (settings.tracing_creds, settings.otel_creds):
        if path is not None and not path.is_file():
            return f"{path}: no such file; a ConfigMap or Secret with the CA has to be mounted"
    try:
        found = find_spec("opentelemetry.sdk") and find_spec("opentelemetry.exporter.otlp.proto.grpc")
    except ModuleNotFoundError:
        found = None
    return "" if found else "OpenTelemetry needs the extra otel: pip install 'thesmos[otel]'"


def _rate(text: str) -> float:
    with contextlib.suppress(ValueError):
        if float(text) > 0:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")


def _reasons(text: str) -> frozenset[str]:
    from runtime.observe.events import REASONS

    named = frozenset(part.strip() for part in text.split(",") if part.strip())
    if named <= set(REASONS):
        return named
    wrong = ", ".join(sorted(named - set(REASONS)))
    raise argparse.ArgumentTypeError(f"{wrong} is no reason of an event, there are {', '.join(REASONS)}")
