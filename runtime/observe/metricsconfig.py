"""The ConfigMap ``kyverno-metrics`` as one frozen value: which namespaces, buckets, metrics and labels are served.

``runtime.controllers.cluster`` watches the ConfigMap and hands each form to :func:`parse`, the result to
``runtime.observe.metrics.Metrics.configure``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

log = logging.getLogger("thesmos.metrics")

_SMALL: Final = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01)
BUCKETS: Final = (*_SMALL, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""From the 50 µs that a small set takes to the 10 s after which the API server gives up. Kyverno's begin at 5 ms."""
MAX_BUCKETS: Final = 64
"""Buckets of a histogram at most: each is a number for every label set."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """How one metric is served: not at all, without some of its labels, with buckets of its own (None: the usual)."""

    enabled: bool = True
    without: frozenset[str] = frozenset()
    buckets: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """``include`` and ``exclude`` are names of namespaces; an empty ``include`` means all. ``refresh`` is after how
    many seconds everything is counted from zero again, 0 for never."""

    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()
    buckets: tuple[float, ...] = BUCKETS
    exposure: Mapping[str, Exposure] = field(default_factory=dict)
    refresh: float = 0.0

    def counts(self, namespace: str) -> bool:
        """Whether what concerns a namespace is counted; what concerns none (``""`` or ``-``) always is."""
        if namespace in ("", "-"):
            return True
        return namespace not in self.exclude and (not self.include or namespace in self.include)

    def exposure_of(self, metric: str) -> Exposure:
        """Kyverno's own ConfigMap leaves out the ``_total`` of some counters."""
        return self.exposure.get(metric) or self.exposure.get(metric.removesuffix("_total")) or _WHOLE


_WHOLE: Final = Exposure()


def parse(config_map: Mapping[str, Any] | None) -> MetricsConfig:
    """The settings of a ConfigMap; the usual ones when it is not there. What cannot be read is told in the log and
    left at its usual value."""
    data = (config_map or {}).get("data") or {}
    namespaces = _json(data, "namespaces")
    buckets: tuple[float, ...] = BUCKETS
    if text := str(data.get("bucketBoundaries") or ""):
        buckets = _buckets(text.split(","), "bucketBoundaries") or BUCKETS
    exposure = {
        str(name): Exposure(
            entry.get("enabled") is not False,
            frozenset(map(str, entry.get("disabledLabelDimensions") or ())),
            _buckets(entry.get("bucketBoundaries") or (), f"metricsExposure of {name}"),
        )
        for name, entry in _json(data, "metricsExposure").items()
        if isinstance(entry, dict)
    }
    return MetricsConfig(
        frozenset(map(str, namespaces.get("include") or ())),
        frozenset(map(str, namespaces.get("exclude") or ())),
        buckets,
        exposure,
        _seconds(str(data.get("metricsRefreshInterval") or "")),
    )


def _json(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    text = data.get(key)
    if not text:
        return {}
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        log.warning("%s of the metrics ConfigMap is no JSON: %s", key, str(error).lower())
        return {}
    if isinstance(found, dict):
        return found
    log.warning("%s of the metrics ConfigMap is no object", key)
    return {}


def _buckets(given: Any, where: str) -> tuple[float, ...] | None:
    """Bounds in growing order, None when there are none or they cannot be read."""
    try:
        found = tuple(sorted({float(bound) for bound in given}))
    except (TypeError, ValueError):
        log.warning("%s of the metrics ConfigMap: the buckets are no list of numbers", where)
        return None
    if len(found) > MAX_BUCKETS:
        log.warning("%s of the metrics ConfigMap: %d buckets, at most %d are kept", where, len(found), MAX_BUCKETS)
        return None
    return found or None


def _seconds(text: str) -> float:
    from vm.intrinsics.duration import SECOND, parse_duration

    nanoseconds = parse_duration(text) if text else 0
    if nanoseconds is None or nanoseconds < 0:
        log.warning("metricsRefreshInterval of the metrics ConfigMap is no duration: %s", text)
        return 0.0
    return nanoseconds / SECOND
