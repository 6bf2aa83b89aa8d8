"""Traces and metrics for OpenTelemetry collectors (extra ``otel``): off costs nothing, the packages are imported late.

``runtime.webhook.serve`` and ``runtime.controllers.cluster`` run inside :func:`collectors`. Spans as Kyverno's: one for
each HTTP request, within it one for each policy and one for each of its rules, one for each call of the API server.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runtime.config import Settings
from runtime.observe.metrics import Family, Metrics
from runtime.policyset import Run

if TYPE_CHECKING:
    from aiohttp import web
    from opentelemetry.sdk.metrics.export import Metric as Pushed
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricsData
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

    from runtime.webhook.admission import Answer
    from runtime.webhook.live import Judged
    from runtime.webhook.routing import Handler, Place
    from vm.code import Module

log = logging.getLogger("thesmos.otel")

SERVICE: Final = "kyverno"
PUSH_SECONDS: Final = 10.0
UNTRACED: Final = ("/health/liveness", "/health/readiness", "/metrics")
"""Paths that are asked for all the time, about which nobody asks a trace."""


class _Open:
    """The policy of a request whose rules run just now, as a span that is ended with the next one."""

    __slots__ = ("_context", "_policy", "_span", "_tracer")

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._policy = ""
        self._span: Span | None = None
        self._context: Any = None

    def rule(self, policy: str, rule: str) -> Span:
        from opentelemetry.trace import set_span_in_context

        if self._span is None or policy != self._policy:
            self.close()
            self._policy = policy
            self._span = self._tracer.start_span(f"POLICY {policy}", attributes={"kyverno.policy.name": policy})
            self._context = set_span_in_context(self._span)
        span: Span = self._tracer.start_span(
            f"RULE {rule}",
            context=self._context,
            attributes={"kyverno.policy.name": policy, "kyverno.rule.name": rule},
        )
        return span

    def close(self) -> None:
        if self._span is not None:
            self._span.end()
            self._span = None


_open: ContextVar[_Open | None] = ContextVar("thesmos_open_policy", default=None)


class Tracing:
    """Makes spans with the tracer of a provider."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("thesmos")

    def around(self, handler: Handler) -> Handler:
        """A span for each request of a handler, which continues the trace of the API server where it has one."""
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        async def traced(http: web.BaseRequest, place: Place) -> Answer:
            url = place.pattern
            if url in UNTRACED:
                return await handler(http, place)
            attributes = {"http.request.method": http.method, "http.route": url, "url.path": http.path}
            with self._tracer.start_as_current_span(
                f"HTTP {http.method} {url}",
                context=extract(http.headers),
                kind=SpanKind.SERVER,
                attributes=attributes,
            ) as span:
                opened = _Open(self._tracer) if span.is_recording() else None
                token = _open.set(opened)
                try:
                    answer = await handler(http, place)
                    span.set_attribute("http.response.status_code", answer.status)
                    return answer
                finally:
                    _open.reset(token)
                    if opened is not None:
                        opened.close()

        return traced

    def wrap(self, module: Module, run: Run) -> Run:
        """The code of a module, its rules in spans where a request is traced."""
        rules = {
            rule.entry: (policy.name if policy.namespace is None else f"{policy.namespace}/{policy.name}", rule.name)
            for policy in module.policies
            for rule in policy.rules
        }

        def traced(entry: int, root: dict[str, Any], meter: Any) -> Any:
            opened = _open.get()
            named = rules.get(entry)
            if opened is None or named is None:
                return run(entry, root, meter)
            span = opened.rule(*named)
            try:
                outcome = run(entry, root, meter)
                status = getattr(outcome, "status", None)
                if status is not None:
                    span.set_attribute("kyverno.rule.result", status.name.lower())
                return outcome
            finally:
                span.end()

        return traced

    def decided(self, judged: Judged, seconds: float) -> None:
        """Puts the decision on the span of the request (an observer of ``runtime.webhook.live``)."""
        from opentelemetry.trace import get_current_span

        span = get_current_span()
        if span.is_recording():
            request = judged.request
            span.set_attributes(
                {
                    "admission.kind": request.kind,
                    "admission.namespace": request.namespace,
                    "admission.name": request.name,
                    "admission.operation": request.operation,
                    "admission.uid": request.uid,
                    "admission.response.allowed": judged.decision.allowed,
                }
            )

    @contextmanager
    def call(self, method: str, path: str) -> Iterator[None]:
        """A span for a call of the API server."""
        from opentelemetry.trace import SpanKind

        with self._tracer.start_as_current_span(
            f"KUBE {method} {path.partition('?')[0]}",
            kind=SpanKind.CLIENT,
            attributes={"http.request.method": method, "url.path": path},
        ):
            yield

    def close(self) -> None:
        """Sends what is left, for at most five seconds."""
        self._provider.force_flush(5000)
        self._provider.shutdown()


def start_tracing(settings: Settings, exporter: SpanExporter | None = None) -> Tracing | None:
    """None when tracing is off. The packages are there (``runtime.observe.flags.collector_problem``)."""
    if not settings.tracing:
        return None
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if exporter is None:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        endpoint = f"{settings.tracing_address}:{settings.tracing_port}"
        exporter = OTLPSpanExporter(endpoint, **_security(settings.tracing_creds))
    provider = TracerProvider(resource=_resource(settings))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    log.info("traces go to %s:%d", settings.tracing_address, settings.tracing_port)
    return Tracing(provider)


@asynccontextmanager
async def collectors(settings: Settings, metrics: Metrics) -> AsyncIterator[Tracing | None]:
    """Traces and metrics go to the collectors of the settings while the block runs, what is left of them after it."""
    tracing = start_tracing(settings)
    pushing = start_pushing(settings, metrics)
    task = None if pushing is None else asyncio.create_task(pushing.run(), name="metrics to a collector")
    try:
        yield tracing
    finally:
        if pushing is not None and task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await pushing.push()
        if tracing is not None:
            await asyncio.to_thread(tracing.close)


class Pushing:
    """Sends the metrics to a collector, again and again."""

    def __init__(self, metrics: Metrics, exporter: MetricExporter, resource: Resource) -> None:
        self._metrics = metrics
        self._exporter = exporter
        self._resource = resource
        self._started = time.time_ns()

    async def run(self) -> None:
        """Until cancelled; a collector that is away is tried again the next time."""
        while True:
            await asyncio.sleep(PUSH_SECONDS)
            await self.push()

    async def push(self) -> None:
        families = self._metrics.families()
        try:
            await asyncio.to_thread(self._send, families)
        except Exception as problem:
            log.warning("the metrics were not sent: %s", problem)

    def _send(self, families: list[Family]) -> None:
        self._exporter.export(self.data(families), timeout_millis=PUSH_SECONDS * 1000)

    def data(self, families: list[Family]) -> MetricsData:
        """Values in the form that exporters take, counted since this process began."""
        from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        now = time.time_ns()
        pushed = [_pushed(family, self._started, now) for family in families if family.values]
        scope = ScopeMetrics(InstrumentationScope("thesmos"), pushed, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])


def start_pushing(settings: Settings, metrics: Metrics, exporter: MetricExporter | None = None) -> Pushing | None:
    """None unless ``--otelConfig=grpc``."""
    if settings.otel_config != "grpc":
        return None
    endpoint = f"{settings.otel_collector}:{settings.metrics_port or 8000}"
    if exporter is None:
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

        exporter = OTLPMetricExporter(endpoint, **_security(settings.otel_creds))
    log.info("metrics go to %s", endpoint)
    return Pushing(metrics, exporter, _resource(settings))


def _pushed(family: Family, started: int, now: int) -> Pushed:
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Gauge,
        Histogram,
        HistogramDataPoint,
        Metric,
        NumberDataPoint,
        Sum,
    )

    metric = family.metric
    labels = family.labels

    def attributes(key: tuple[str, ...]) -> Mapping[str, str]:
        return dict(zip(labels, key, strict=True))

    cumulative = AggregationTemporality.CUMULATIVE
    if metric.kind == "histogram":
        buckets = [
            HistogramDataPoint(
                attributes(key), started, now, int(sum(value[:-1])), value[-1],
                [int(count) for count in value[:-1]], list(family.bounds), 0.0, 0.0,
            )
            for key, value in family.values.items()
            if isinstance(value, list)
        ]  # fmt: skip
        return Metric(metric.name, metric.help, "s", Histogram(buckets, cumulative))
    points = [
        NumberDataPoint(attributes(key), started, now, value)
        for key, value in family.values.items()
        if not isinstance(value, list)
    ]
    data = Sum(points, cumulative, is_monotonic=True) if metric.kind == "counter" else Gauge(points)
    return Metric(metric.name, metric.help, "", data)


def _security(ca: Path | None) -> dict[str, Any]:
    if ca is None:
        return {"insecure": True}
    from grpc import ssl_channel_credentials

    return {"insecure": False, "credentials": ssl_channel_credentials(ca.read_bytes())}


def _resource(settings: Settings) -> Resource:
    from opentelemetry.sdk.resources import Resource

    try:
        build = version("thesmos")
    except PackageNotFoundError:
        build = "unknown"
    return Resource.create(
        {
            "service.name": SERVICE,
            "service.namespace": settings.names.namespace,
            "service.instance.id": settings.identity,
            "service.version": build,
        }
    )
