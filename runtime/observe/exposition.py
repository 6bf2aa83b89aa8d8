"""The text of ``/metrics``, which the client library of Prometheus writes.

``runtime.observe.metrics`` imports it when it is first asked for a text: the library takes 50 ms to import.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Served
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from runtime.observe.metrics import Family


def text_of(families: list[Family]) -> bytes:
    """The text format that Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(_Taken(families))
    return generate_latest(registry)


class _Taken(Collector):
    """Values as they were."""

    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Served]:
        return map(_served, self._families)


def _served(family: Family) -> Served:
    metric = family.metric
    labels = family.labels
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=labels)
        names = [*map(_bound, family.bounds), "+Inf"]
        for key, value in family.values.items():
            if isinstance(value, list):
                histogram.add_metric(key, _cumulative(names, value), value[-1])
        return histogram
    simple = (CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily)(
        metric.name, metric.help, labels=labels
    )
    for key, value in family.values.items():
        if not isinstance(value, list):
            simple.add_metric(key, value)
    if not labels and not family.values:
        # Without labels there is nothing to wait for: an alert on the rate needs the zero.
        simple.add_metric((), 0.0)
    return simple


def _cumulative(names: Sequence[str], buckets: Sequence[float]) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    total = 0.0
    for name, count in zip(names, buckets, strict=False):
        total += count
        found.append((name, total))
    return found


def _bound(bound: float) -> str:
    """A bound as the client library writes it: ``1.0``, ``5e-05``."""
    return repr(float(bound))
