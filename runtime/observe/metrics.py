"""Keeps what ``/metrics`` serves: one number, or one row of buckets, for each metric and set of label values.

The table of names is ``runtime.observe.metric_rows``. Called by the webhook for every request and by the controllers,
all on one event loop: plain dictionaries, which can change buckets and labels while the process runs
(``runtime.observe.metricsconfig``), are bounded, and cost less (1.1 µs a count by labels against 2.8 in the client
library, with its locks). The client library still writes the text.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from operator import add
from typing import Final

import orjson

from runtime.observe.metric_rows import METRICS, Labels, Metric
from runtime.observe.metricsconfig import MetricsConfig

__all__ = ["METRICS", "Labels", "Metric", "Metrics"]

MOST_LABEL_SETS: Final = 5000
"""Label sets of one metric: kinds and namespaces come from requests, and each set of the largest histogram takes about
1 KiB. What comes beyond is counted together, under the labels ``other``."""
OTHER: Final = "other"
FEW: Final = 300
"""Lines that are written at once: more take longer than 10 ms, and are written in a thread."""


class Family:
    """The values of one metric. Of a histogram a value is a list: the counts by bucket, those above the last, the sum
    of seconds."""

    __slots__ = ("_kept", "bounds", "enabled", "metric", "selected", "values")

    def __init__(self, metric: Metric, config: MetricsConfig) -> None:
        exposure = config.exposure_of(metric.name)
        self.metric = metric
        self.enabled = exposure.enabled
        self.bounds = (exposure.buckets or config.buckets) if metric.kind == "histogram" else ()
        self.selected = metric.labels.index(metric.selected_by) if metric.selected_by else -1
        kept = tuple(index for index, label in enumerate(metric.labels) if label not in exposure.without)
        self._kept = None if len(kept) == len(metric.labels) else kept
        self.values: dict[Labels, float | list[float]] = {}

    def copied(self) -> Family:
        """The same values, which nothing changes any more: what another thread may read."""
        made = copy(self)
        made.values = {key: value.copy() if isinstance(value, list) else value for key, value in self.values.items()}
        return made

    @property
    def labels(self) -> Labels:
        """The names of the labels that are served."""
        labels = self.metric.labels
        return labels if self._kept is None else tuple(labels[index] for index in self._kept)

    def key(self, labels: Labels) -> Labels:
        """Where the values of these labels are kept."""
        return labels if self._kept is None else tuple(labels[index] for index in self._kept)


class Metrics:
    """Everything that is counted in one process."""

    def __init__(self, config: MetricsConfig | None = None) -> None:
        self.before_reading: list[Callable[[], None]] = []
        """Called before values are read: those who gather on their own bring in what they have."""
        self.others: Callable[[], Awaitable[list[bytes]]] | None = None
        """Answers with numbers of other processes (:meth:`packed`), which :meth:`exposition_aside` adds to its own."""
        self._config = config or MetricsConfig()
        self._began = time.monotonic()
        self._families = {metric.name: Family(metric, self._config) for metric in METRICS}
        self._asked = False

    def configure(self, config: MetricsConfig) -> None:
        """Takes over other settings. A metric that is served in another way from now on begins at zero."""
        if config == self._config:
            return
        # Before the buckets change.
        self._bring_in()
        before, self._config = self._families, config
        self._families = {}
        for metric in METRICS:
            family = Family(metric, config)
            old = before[metric.name]
            if (old.labels, old.bounds, old.enabled) == (family.labels, family.bounds, family.enabled):
                family.values = old.values
            self._families[metric.name] = family

    def reset(self) -> None:
        """Counts everything from zero again (``metricsRefreshInterval``): label sets of what is gone go with it.
        Gauges stay, since nobody would set them again."""
        self._bring_in()
        self._began = time.monotonic()
        for family in self._families.values():
            if family.metric.kind != "gauge":
                family.values = {}

    def count(self, name: str, *labels: str, by: float = 1.0) -> None:
        family, key = self._place(name, labels)
        if family is not None:
            family.values[key] = family.values.get(key, 0.0) + by  # type: ignore[operator]

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        family, key = self._place(name, labels)
        if family is not None:
            buckets = self._buckets(family, key)
            buckets[bisect_left(family.bounds, seconds)] += 1
            buckets[-1] += seconds

    def bucketed(self, name: str, seconds: Iterable[float]) -> list[float]:
        """Several observations in the form that :meth:`add` takes: gathered once for many label sets."""
        bounds = self._families[name].bounds
        buckets = [0.0] * (len(bounds) + 2)
        for value in seconds:
            buckets[bisect_left(bounds, value)] += 1
            buckets[-1] += value
        return buckets

    def add(self, name: str, buckets: Sequence[float], *labels: str) -> None:
        """Adds observations that were gathered by :meth:`bucketed`."""
        family, key = self._place(name, labels)
        if family is not None:
            known = self._buckets(family, key)
            known[:] = map(add, known, buckets)

    def set(self, name: str, value: float, *labels: str) -> None:
        family, key = self._place(name, labels)
        if family is not None:
            family.values[key] = float(value)

    def clear(self, name: str) -> None:
        """Forgets all label sets of a metric, before a gauge of what is loaded is written anew."""
        self._families[name].values.clear()

    def forget(self, name: str, **labels: str) -> None:
        """Forgets the label sets with these values: of a policy that is gone."""
        self._bring_in()
        family = self._families[name]
        served = family.labels
        if not labels.keys() <= set(served):
            return
        wanted = [(served.index(label), value) for label, value in labels.items()]
        for key in [key for key in family.values if all(key[index] == value for index, value in wanted)]:
            del family.values[key]

    def value(self, name: str, *labels: str) -> float:
        """The number of a counter or gauge, of a histogram how many were observed; 0 for what was never counted."""
        self._bring_in()
        family = self._families[name]
        found = family.values.get(family.key(labels), 0.0)
        return sum(found[:-1]) if isinstance(found, list) else found

    def families(self) -> list[Family]:
        """The metrics that are served, with their values as they are now: what an exporter reads, in any thread."""
        self._bring_in()
        return [family.copied() for family in self._families.values() if family.enabled]

    def exposition(self) -> bytes:
        """The text format that Prometheus reads. When ``metricsRefreshInterval`` is over, everything begins at zero
        again after it."""
        text = _text(self.families())
        self._refresh()
        return text

    async def exposition_aside(self) -> bytes:
        """As :meth:`exposition`, without holding up requests: 100,000 lines take seconds to write."""
        families = self.families()
        self._refresh()
        if self.others is not None:
            for packed in await self.others():
                _add(families, packed)
        if self._asked and sum(len(family.values) * (len(family.bounds) + 3) for family in families) <= FEW:
            return _text(families)
        self._asked = True  # what writes the text is imported at the first time
        return await asyncio.to_thread(_text, families)

    def packed(self) -> bytes:
        """The numbers of this process for another one, which has the same settings."""
        return orjson.dumps({family.metric.name: list(family.values.items()) for family in self.families()})

    def _refresh(self) -> None:
        refresh = self._config.refresh
        if refresh and time.monotonic() - self._began >= refresh:
            self.reset()

    def _place(self, name: str, labels: Labels) -> tuple[Family | None, Labels]:
        """The metric and the place in it; no metric when the value is not to be counted."""
        family = self._families[name]
        if not family.enabled or (family.selected >= 0 and not self._config.counts(labels[family.selected])):
            return None, ()
        key = family.key(labels)
        values = family.values
        if key not in values and len(values) >= MOST_LABEL_SETS:
            if name == "thesmos_metrics_folded_total":
                return None, ()
            self.count("thesmos_metrics_folded_total", name)
            key = (OTHER,) * len(key)
        return family, key

    def _buckets(self, family: Family, key: Labels) -> list[float]:
        found = family.values.get(key)
        if isinstance(found, list):
            return found
        made = family.values[key] = [0.0] * (len(family.bounds) + 2)
        return made

    def _bring_in(self) -> None:
        for bring in self.before_reading:
            bring()


def _add(families: list[Family], packed: bytes) -> None:
    """Adds the numbers of another process. Gauges tell of what all have loaded: the highest stands."""
    try:
        values: dict[str, list[tuple[list[str], float | list[float]]]] = orjson.loads(packed)
    except orjson.JSONDecodeError:
        return  # it ended while it told them
    for family in families:
        for labels, other in values.get(family.metric.name, ()):
            key = tuple(labels)
            own = family.values.get(key)
            if own is None:
                family.values[key] = other
            elif isinstance(own, list) and isinstance(other, list):
                family.values[key] = list(map(add, own, other))
            elif not isinstance(own, list) and not isinstance(other, list):
                family.values[key] = max(own, other) if family.metric.kind == "gauge" else own + other


def _text(families: list[Family]) -> bytes:
    # Here: a server is ready 50 ms sooner, and nobody asks before that.
    from runtime.observe.exposition import text_of

    return text_of(families)
