"""Counting, the ConfigMap of the metrics, and the bound on label sets."""

from __future__ import annotations

import asyncio

import pytest

from runtime.observe import metrics as module
from runtime.observe.metrics import METRICS, Metrics
from runtime.observe.metricsconfig import BUCKETS, MetricsConfig, parse

REQUEST = ("Pod", "default", "create", "true", "validate")


def config(**data: str) -> MetricsConfig:
    return parse({"data": data})


def lines(metrics: Metrics, name: str) -> list[str]:
    return [line for line in metrics.exposition().decode().splitlines() if line.startswith(name)]


def test_no_name_is_there_twice_and_labels_of_selection_exist() -> None:
    assert len({m.name for m in METRICS}) == len(METRICS)
    assert all(m.selected_by in m.labels for m in METRICS if m.selected_by)


def test_a_histogram_is_cumulative_and_has_its_sum() -> None:
    metrics = Metrics(config(bucketBoundaries="0.1,1"))
    metrics.observe("kyverno_webhook_duration_seconds", 0.05, "validate")
    gathered = metrics.bucketed("kyverno_webhook_duration_seconds", [0.5, 0.5, 7.0])
    metrics.add("kyverno_webhook_duration_seconds", gathered, "validate")
    assert lines(metrics, "kyverno_webhook_duration_seconds") == [
        'kyverno_webhook_duration_seconds_bucket{le="0.1",request_webhook="validate"} 1.0',
        'kyverno_webhook_duration_seconds_bucket{le="1.0",request_webhook="validate"} 3.0',
        'kyverno_webhook_duration_seconds_bucket{le="+Inf",request_webhook="validate"} 4.0',
        'kyverno_webhook_duration_seconds_count{request_webhook="validate"} 4.0',
        'kyverno_webhook_duration_seconds_sum{request_webhook="validate"} 8.05',
    ]


def test_a_counter_without_labels_is_served_from_the_start() -> None:
    assert lines(Metrics(), "kyverno_events_dropped") == ["kyverno_events_dropped_total 0.0"]


def test_a_metric_can_be_left_out_or_lose_labels() -> None:
    exposure = (
        '{"kyverno_admission_requests": {"disabledLabelDimensions": ["resource_namespace"]},'
        ' "kyverno_webhooks_processed_total": {"enabled": false}}'
    )
    metrics = Metrics(config(metricsExposure=exposure))
    metrics.count("kyverno_admission_requests_total", *REQUEST)
    metrics.count("kyverno_admission_requests_total", *("Pod", "other-place", "create", "true", "validate"))
    metrics.count("kyverno_webhooks_processed_total", "validate")
    assert lines(metrics, "kyverno_admission_requests_total") == [
        'kyverno_admission_requests_total{request_allowed="true",request_webhook="validate",resource_kind="Pod",'
        'resource_request_operation="create"} 2.0'
    ]
    assert "kyverno_webhooks_processed" not in metrics.exposition().decode()


@pytest.mark.parametrize(
    ("namespaces", "counted"),
    [("", 2), ('{"exclude": ["default"]}', 1), ('{"include": ["default"]}', 1), ('{"include": ["elsewhere"]}', 0)],
)
def test_namespaces_of_the_config_map_choose(namespaces: str, counted: int) -> None:
    metrics = Metrics(config(namespaces=namespaces))
    for namespace in ("default", "team"):
        metrics.count("kyverno_admission_requests_total", "Pod", namespace, "create", "true", "validate")
    assert len(lines(metrics, "kyverno_admission_requests_total")) == counted


def test_what_concerns_no_namespace_is_always_counted() -> None:
    assert all(config(namespaces='{"include": ["team"]}').counts(place) for place in ("", "-", "team"))


def test_a_change_of_settings_keeps_what_is_served_as_before() -> None:
    metrics = Metrics()
    metrics.count("kyverno_webhooks_processed_total", "validate")
    metrics.observe("kyverno_webhook_duration_seconds", 0.5, "validate")
    metrics.configure(config(bucketBoundaries="1,2"))
    assert metrics.value("kyverno_webhooks_processed_total", "validate") == 1
    assert metrics.value("kyverno_webhook_duration_seconds", "validate") == 0


def test_what_cannot_be_read_stays_as_usual(caplog: pytest.LogCaptureFixture) -> None:
    found = config(
        namespaces="[", bucketBoundaries="small,large", metricsExposure='"all"', metricsRefreshInterval="soon"
    )
    assert found == MetricsConfig()
    assert found.buckets == BUCKETS
    assert len(caplog.records) == 4


def test_the_refresh_interval_is_a_duration() -> None:
    assert config(metricsRefreshInterval="24h").refresh == 86400


def test_a_reset_forgets_counters_and_keeps_gauges() -> None:
    metrics = Metrics()
    metrics.count("kyverno_webhooks_processed_total", "validate")
    metrics.set("kyverno_info", 1, "1.0")
    metrics.reset()
    assert metrics.value("kyverno_webhooks_processed_total", "validate") == 0
    assert metrics.value("kyverno_info", "1.0") == 1


def test_label_sets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LABEL_SETS", 3)
    metrics = Metrics()
    for number in range(10):
        metrics.count("kyverno_admission_requests_total", "Pod", f"n{number}", "create", "true", "validate")
    metrics.count("kyverno_admission_requests_total", "Pod", "n0", "create", "true", "validate")
    assert len(lines(metrics, "kyverno_admission_requests_total")) == 4
    assert metrics.value("kyverno_admission_requests_total", *["other"] * 5) == 7
    assert metrics.value("kyverno_admission_requests_total", "Pod", "n0", "create", "true", "validate") == 2
    assert metrics.value("thesmos_metrics_folded_total", "kyverno_admission_requests_total") == 7


def test_the_series_of_a_policy_that_is_gone_are_forgotten() -> None:
    metrics = Metrics()
    for policy in ("old", "new"):
        metrics.observe("kyverno_policy_apply_duration_seconds", 0.1, policy)
    metrics.forget("kyverno_policy_apply_duration_seconds", policy_name="old")
    assert metrics.value("kyverno_policy_apply_duration_seconds", "old") == 0
    assert metrics.value("kyverno_policy_apply_duration_seconds", "new") == 1


def test_those_who_gather_bring_in_before_values_are_read() -> None:
    metrics = Metrics()
    metrics.before_reading.append(lambda: metrics.count("kyverno_webhooks_processed_total", "mutate"))
    assert 'kyverno_webhooks_processed_total{request_webhook="mutate"} 1.0' in metrics.exposition().decode()


def test_the_refresh_interval_begins_anew_after_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics(config(metricsRefreshInterval="1h"))
    metrics.count("kyverno_webhooks_processed_total", "validate")
    assert metrics.value("kyverno_webhooks_processed_total", "validate") == 1
    now = module.time.monotonic()
    monkeypatch.setattr(module.time, "monotonic", lambda: now + 3601)
    assert "kyverno_webhooks_processed_total{" in metrics.exposition().decode()
    assert "kyverno_webhooks_processed_total{" not in metrics.exposition().decode()


def test_many_values_are_written_aside() -> None:
    metrics = Metrics()
    for number in range(module.FEW + 1):
        metrics.observe("kyverno_policy_apply_duration_seconds", 0.1, f"policy-{number}")
    assert asyncio.run(metrics.exposition_aside()) == metrics.exposition()
