"""Spans of requests, policies, rules and calls; metrics on their way to a collector; off without the extra."""

from __future__ import annotations

import asyncio
from concurrent import futures
from dataclasses import replace
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_grpc
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from compiler import compile_policies, load_documents
from compiler.diagnostics import Reporter
from runtime.bundles import load_module, make_imports
from runtime.config import Settings
from runtime.mismatches import Mismatches
from runtime.observe import flags
from runtime.observe.metrics import Metrics
from runtime.observe.otel import Tracing, collectors, start_pushing, start_tracing
from runtime.policyset import PolicySet
from runtime.webhook.app import build_app
from runtime.webhook.live import Live, Snapshot
from tests.integration.server import review, running
from tests.unit.engine.support import create, pod, policy, wants_label

ON = Settings(tracing=True)
TRACE = "0af7651916cd43dd8448eb211c80319c"


def traced(tracing: Tracing, *texts: str) -> Live:
    """Policies in a bundle each, as a cluster compiles them."""
    parts, digests = [], []
    for text in texts:
        bundle = compile_policies(load_documents(text, "policy.yaml", Reporter())).bundle
        assert bundle is not None
        module, digest, run = load_module(bundle, "2", None, make_imports(), Mismatches())
        parts.append((module, tracing.wrap(module, run)))
        digests.append(digest)
    live = Live()
    live.swap(Snapshot.of(PolicySet(parts, tier="2", mismatches=Mismatches(), digests=digests)))
    return live


def spans_of(exporter: InMemorySpanExporter, tracing: Tracing) -> dict[str, ReadableSpan]:
    tracing.close()
    return {span.name: span for span in exporter.get_finished_spans()}


def test_a_request_has_spans_of_its_policies_and_rules() -> None:
    exporter = InMemorySpanExporter()
    tracing = start_tracing(ON, exporter)
    assert tracing is not None
    rules = wants_label("app") + wants_label("team")
    live = traced(tracing, policy("first", rules=rules), policy("second"))
    with running(lambda: build_app(live, ON, Metrics(), tracing=tracing)) as client:
        client.post("/validate", review(pod(app="x")), headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})
        client.get("/metrics")
    spans = spans_of(exporter, tracing)
    assert set(spans) == {"HTTP POST /validate", "POLICY first", "POLICY second", "RULE wants-app", "RULE wants-team"}
    http = spans["HTTP POST /validate"]
    assert http.attributes is not None
    assert http.attributes["admission.response.allowed"] is False
    assert http.attributes["http.response.status_code"] == 200
    # It goes on with the trace of the API server.
    assert all(format(span.context.trace_id, "032x") == TRACE for span in spans.values())
    parents = {name: span.parent.span_id for name, span in spans.items() if span.parent is not None}
    assert parents["POLICY first"] == parents["POLICY second"] == http.context.span_id
    assert parents["RULE wants-team"] == spans["POLICY first"].context.span_id
    assert spans["RULE wants-team"].attributes == {
        "kyverno.policy.name": "first",
        "kyverno.rule.name": "wants-team",
        "kyverno.rule.result": "fail",
    }


def test_calls_of_the_api_server_are_spans() -> None:
    exporter = InMemorySpanExporter()
    tracing = start_tracing(ON, exporter)
    assert tracing is not None
    with tracing.call("GET", "/api/v1/namespaces?limit=1"):
        pass
    (span,) = spans_of(exporter, tracing).values()
    assert span.name == "KUBE GET /api/v1/namespaces"
    assert span.kind.name == "CLIENT"


def test_code_outside_of_a_request_runs_as_before() -> None:
    exporter = InMemorySpanExporter()
    tracing = start_tracing(ON, exporter)
    assert tracing is not None
    live = traced(tracing, policy())
    assert not live.evaluate(create(pod()), "validate", "", 1e12).allowed
    assert spans_of(exporter, tracing) == {}


class Collector(metrics_grpc.MetricsServiceServicer, trace_grpc.TraceServiceServicer):  # type: ignore[misc]
    """A collector that keeps what it gets, over the real protocol."""

    def __init__(self) -> None:
        self.metrics: list[Any] = []
        self.spans: list[str] = []

    def Export(self, request: Any, context: Any) -> Any:
        if isinstance(request, metrics_pb.ExportMetricsServiceRequest):
            self.metrics += request.resource_metrics
            return metrics_pb.ExportMetricsServiceResponse()
        self.spans += [s.name for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
        return trace_pb.ExportTraceServiceResponse()


@pytest.fixture
def collector() -> Any:
    found = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    metrics_grpc.add_MetricsServiceServicer_to_server(found, server)
    trace_grpc.add_TraceServiceServicer_to_server(found, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield found, port
    server.stop(None)


def test_a_collector_gets_spans_and_metrics(collector: tuple[Collector, int]) -> None:
    found, port = collector
    settings = replace(
        ON, tracing_address="127.0.0.1", tracing_port=port, otel_config="grpc", otel_collector="127.0.0.1",
        metrics_port=port,
    )  # fmt: skip
    metrics = Metrics()
    metrics.count("kyverno_webhooks_processed_total", "validate", by=3)
    metrics.observe("kyverno_webhook_duration_seconds", 0.25, "validate")
    metrics.set("kyverno_info", 1, "1.0")

    async def main() -> None:
        async with collectors(settings, metrics) as tracing:
            assert tracing is not None
            with tracing.call("GET", "/api"):
                pass

    asyncio.run(main())
    assert found.spans == ["KUBE GET /api"]
    (resource,) = found.metrics
    assert {a.key: a.value.string_value for a in resource.resource.attributes}["service.name"] == "kyverno"
    sent = {m.name: m for m in resource.scope_metrics[0].metrics}
    (counted,) = sent["kyverno_webhooks_processed_total"].sum.data_points
    assert (counted.as_double, counted.attributes[0].value.string_value) == (3.0, "validate")
    (observed,) = sent["kyverno_webhook_duration_seconds"].histogram.data_points
    assert (observed.count, observed.sum, sum(observed.bucket_counts)) == (1, 0.25, 1)
    assert sent["kyverno_info"].gauge.data_points[0].as_double == 1.0


def test_a_collector_that_is_away_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Away:
        def export(self, data: Any, timeout_millis: float) -> None:
            raise ConnectionError("nobody there")

    exporter: Any = Away()
    pushing = start_pushing(replace(ON, otel_config="grpc"), Metrics(), exporter)
    assert pushing is not None
    asyncio.run(pushing.push())
    assert "the metrics were not sent: nobody there" in caplog.text


def test_off_is_off() -> None:
    assert start_tracing(Settings()) is None
    assert start_pushing(Settings(), Metrics()) is None
    assert flags.collector_problem(Settings()) == ""


@pytest.mark.parametrize("asked", [ON, Settings(otel_config="grpc")])
def test_without_the_packages_the_answer_names_the_extra(asked: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert flags.collector_problem(asked) == ""

    def absent(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(flags, "find_spec", absent)
    assert flags.collector_problem(asked) == "OpenTelemetry needs the extra otel: pip install 'thesmos[otel]'"
