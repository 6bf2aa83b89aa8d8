"""The table of metrics: every name, its kind and its labels.

Names and labels are those of Kyverno, so that its dashboards and alerts work unchanged, those the user's guide names
(decision 5), and a few of our own where neither has one. ``runtime.observe.metrics`` keeps the values;
``docs/guide/metrics.md`` lists the same rows, and a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Labels = tuple[str, ...]
Kind = Literal["counter", "gauge", "histogram"]

REQUEST: Final[Labels] = (
    "resource_kind",
    "resource_namespace",
    "resource_request_operation",
    "request_allowed",
    "request_webhook",
)
POLICY: Final[Labels] = (
    "policy_validation_mode",
    "policy_type",
    "policy_background_mode",
    "policy_namespace",
    "policy_name",
)
RESULT: Final[Labels] = (
    *POLICY,
    "resource_kind",
    "resource_namespace",
    "resource_request_operation",
    "rule_name",
    "rule_result",
    "rule_type",
    "rule_execution_cause",
)
REMOVAL: Final[Labels] = (
    "policy_type",
    "policy_namespace",
    "policy_name",
    "resource_kind",
    "resource_group",
    "resource_version",
    "resource_namespace",
    "deletion_policy",
)
RESOURCE: Final[Labels] = ("resource_group", "resource_version", "resource_resource")


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table. ``origin`` is where the name comes from: Kyverno, the user's guide, or neither.

    ``selected_by`` is the label whose value the namespaces of the ConfigMap ``kyverno-metrics`` choose by; empty: the
    row is kept whatever they say."""

    name: str
    kind: Kind
    labels: Labels
    help: str
    origin: Literal["kyverno", "guide", "thesmos"] = "kyverno"
    selected_by: str = ""


METRICS: Final[tuple[Metric, ...]] = (
    Metric(
        "kyverno_admission_requests_total",
        "counter",
        REQUEST,
        "Admission requests answered.",
        selected_by="resource_namespace",
    ),
    Metric(
        "kyverno_admission_review_duration_seconds",
        "histogram",
        REQUEST,
        "Time from request to answer.",
        selected_by="resource_namespace",
    ),
    Metric("kyverno_http_requests_total", "counter", ("http_method", "http_url"), "HTTP requests received."),
    Metric(
        "kyverno_http_requests_duration_seconds", "histogram", ("http_method", "http_url"), "Time of an HTTP request."
    ),
    Metric("kyverno_policy_results_total", "counter", RESULT, "Results of rules.", selected_by="policy_namespace"),
    Metric(
        "kyverno_policy_execution_duration_seconds",
        "histogram",
        RESULT,
        "Time of a rule: its share of the evaluation it was part of.",
        selected_by="policy_namespace",
    ),
    Metric(
        "kyverno_policy_changes_total",
        "counter",
        (*POLICY, "policy_change_type"),
        "Changes of policies seen.",
        selected_by="policy_namespace",
    ),
    Metric(
        "kyverno_policy_rule_info_total",
        "gauge",
        (*POLICY, "rule_name", "rule_type", "status_ready"),
        "1 for every rule that is loaded.",
        selected_by="policy_namespace",
    ),
    Metric("kyverno_controller_reconcile_total", "counter", ("controller_name",), "Rounds that a controller has made."),
    Metric(
        "kyverno_controller_requeue_total",
        "counter",
        ("controller_name", "num_requeues"),
        "Rounds that failed and are tried again.",
    ),
    Metric(
        "kyverno_controller_drop_total",
        "counter",
        ("controller_name",),
        "Rounds that failed too often and are given up.",
    ),
    Metric(
        "kyverno_client_queries_total",
        "counter",
        ("operation", "client_type", "resource_kind", "resource_namespace"),
        "Requests to the API server.",
    ),
    Metric("kyverno_cleanup_controller_deletedobjects_total", "counter", REMOVAL, "Objects that cleanup removed."),
    Metric("kyverno_cleanup_controller_errors_total", "counter", REMOVAL, "Objects that cleanup could not remove."),
    Metric(
        "kyverno_ttl_controller_deletedobjects_total",
        "counter",
        ("resource_namespace", *RESOURCE),
        "Objects removed because their time to live was over.",
    ),
    Metric(
        "kyverno_ttl_controller_errors_total",
        "counter",
        ("resource_namespace", *RESOURCE),
        "Objects whose time to live was over and that could not be removed.",
    ),
    Metric("kyverno_ttl_controller_info", "gauge", RESOURCE, "1 for every resource watched for times to live."),
    Metric(
        "kyverno_updaterequest_total", "gauge", ("resource_namespace",), "Update requests that wait in the cluster."
    ),
    Metric("kyverno_events_dropped_total", "counter", (), "Events that were not written."),
    Metric("kyverno_breaker_total", "counter", ("circuit_name",), "Times that a breaker was asked."),
    Metric("kyverno_breaker_drops_total", "counter", ("circuit_name",), "Times that a breaker let nothing through."),
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
    Metric(
        "thesmos_certificate_expiry_timestamp_seconds",
        "gauge",
        ("secret",),
        "When the certificate of a Secret ends that the webhook serves or is trusted by.",
        "thesmos",
    ),
    Metric(
        "thesmos_bundle_loads_total",
        "counter",
        ("source", "result"),
        "Bundles of policies that were new: `loaded`, or `refused` while the last good one stays.",
        "thesmos",
    ),
    Metric(
        "thesmos_bundle_loaded_timestamp_seconds",
        "gauge",
        ("source",),
        "When the bundle of policies in force was loaded.",
        "thesmos",
    ),
    Metric(
        "thesmos_metrics_folded_total",
        "counter",
        ("metric",),
        "Values counted under the labels `other`, since the metric has too many label sets.",
        "thesmos",
    ),
    Metric(
        "thesmos_untold_decisions_total",
        "counter",
        (),
        "Decisions that are counted but neither logged nor told of by events, since too many waited.",
        "thesmos",
    ),
    Metric(
        "thesmos_tier_mismatches_total",
        "counter",
        (),
        "Answers in which the exact VM and generated code differ, with `--tier=check`.",
        "thesmos",
    ),
)
"""Every metric there is, in the order in which they are served."""


_CLIENTS: Final = {
    "kyverno.io": "kyverno",
    "policies.kyverno.io": "kyverno",
    "wgpolicyk8s.io": "policyreport",
    "openreports.io": "policyreport",
    "apiextensions.k8s.io": "apiserver",
}


def client_type(group: str) -> str:
    """The ``client_type`` of a request to the API server: which of Kyverno's clients would ask for this group."""
    return _CLIENTS.get(group, "dynamic")
