"""The metrics that ``/metrics`` serves: one table of names, and the object through which the rest counts.

Names and labels are those of Kyverno, so that its dashboards and alerts work unchanged, and those the user's guide
names (decision 5). Durations are histograms in seconds. Called by the webhook for every request and by the controllers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

Labels = tuple[str, ...]

_REQUEST: Final[Labels] = (
    "resource_kind",
    "resource_namespace",
    "resource_request_operation",
    "request_allowed",
    "request_webhook",
)
_POLICY: Final[Labels] = (
    "policy_validation_mode",
    "policy_type",
    "policy_background_mode",
    "policy_namespace",
    "policy_name",
)
_RESULT: Final[Labels] = (
    *_POLICY,
    "resource_kind",
    "resource_namespace",
    "resource_request_operation",
    "rule_name",
    "rule_result",
    "rule_type",
    "rule_execution_cause",
)
_SMALL: Final = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01)
_BUCKETS: Final = (*_SMALL, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""From the 50 µs that a small set takes to the 10 s after which the API server gives up."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table. ``origin`` is where the name comes from: Kyverno or the user's guide."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: Labels
    help: str
    origin: Literal["kyverno", "guide"] = "kyverno"


METRICS: Final[tuple[Metric, ...]] = (
    Metric("kyverno_admission_requests_total", "counter", _REQUEST, "Admission requests answered."),
    Metric("kyverno_admission_review_duration_seconds", "histogram", _REQUEST, "Time from request to answer."),
    Metric("kyverno_http_requests_total", "counter", ("http_method", "http_url"), "HTTP requests received."),
    Metric(
        "kyverno_http_requests_duration_seconds", "histogram", ("http_method", "http_url"), "Time of an HTTP request."
    ),
    Metric("kyverno_policy_results_total", "counter", _RESULT, "Results of rules."),
    Metric("kyverno_policy_execution_duration_seconds", "histogram", _RESULT, "Time of a policy call, by rule."),
    Metric("kyverno_policy_changes_total", "counter", (*_POLICY, "policy_change_type"), "Changes of policies seen."),
    Metric(
        "kyverno_policy_rule_info_total",
        "gauge",
        (*_POLICY, "rule_name", "rule_type", "status_ready"),
        "1 for every rule that is loaded.",
    ),
    Metric("kyverno_controller_reconcile_total", "counter", ("controller_name",), "Rounds that a controller has made."),
    Metric(
        "kyverno_controller_requeue_total",
        "counter",
        ("controller_name", "num_requeues"),
        "Rounds that failed and are tried again.",
    ),
    Metric(
        "kyverno_client_queries_total",
        "counter",
        ("operation", "client_type", "resource_kind", "resource_namespace"),
        "Requests to the API server.",
    ),
    Metric("kyverno_info", "gauge", ("version",), "1, with the version as a label."),
    Metric("kyverno_webhooks_processed_total", "counter", ("request_webhook",), "Webhook calls answered.", "guide"),
    Metric("kyverno_webhook_duration_seconds", "histogram", ("request_webhook",), "Time of a webhook call.", "guide"),
    Metric(
        "kyverno_policy_evaluate_duration_seconds",
        "histogram",
        ("request_webhook",),
        "Time of evaluating all policies of a request.",
        "guide",
    ),
    Metric(
        "kyverno_policy_apply_duration_seconds",
        "histogram",
        ("policy_name",),
        "Time from a policy change seen to the policy being live.",
        "guide",
    ),
)
"""Every metric there is; ``docs/guide/metrics.md`` lists the same rows and a test compares the two."""


class Metrics:
    """A registry of its own (several apps may live in one process) holding every row of :data:`METRICS`.

    Label children are kept in a table of our own: ``labels()`` of the client library takes a lock and builds a tuple of
    texts on every call, which is a good part of the time of a small request.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._families: dict[str, Any] = {}
        self._children: dict[tuple[str, Labels], Any] = {}
        for metric in METRICS:
            self._families[metric.name] = self._family(metric)

    def _family(self, metric: Metric) -> Any:
        match metric.kind:
            case "counter":
                return Counter(metric.name, metric.help, metric.labels, registry=self.registry)
            case "gauge":
                return Gauge(metric.name, metric.help, metric.labels, registry=self.registry)
            case "histogram":
                return Histogram(metric.name, metric.help, metric.labels, registry=self.registry, buckets=_BUCKETS)

    def _child(self, name: str, labels: Labels) -> Any:
        child = self._children.get((name, labels))
        if child is None:
            child = self._children[name, labels] = self._families[name].labels(*labels)
        return child

    def count(self, name: str, *labels: str) -> None:
        self._child(name, labels).inc()

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        self._child(name, labels).observe(seconds)

    def set(self, name: str, value: float, *labels: str) -> None:
        self._child(name, labels).set(value)

    def clear(self, name: str) -> None:
        """Forgets all label sets of a family, before a gauge of what is loaded is written anew."""
        self._families[name].clear()
        self._children = {key: child for key, child in self._children.items() if key[0] != name}

    def exposition(self) -> bytes:
        """The text format that Prometheus reads."""
        return generate_latest(self.registry)
