"""Counts answered HTTP requests and admissions for ``/metrics``.

``runtime.webhook.routing`` tells :class:`Requests` of each answer. Six metrics follow from one, at 1.5 to 3 µs each if
they were brought in at once: what has the same labels is gathered, and brought in together before anyone reads.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from runtime.observe.metrics import Labels, Metrics

GATHERED: Final = 1000
"""Requests that are brought in together at most: where each has labels of its own, that takes 10 ms."""

VALIDATING: Final = "ValidatingWebhookConfiguration"
MUTATING: Final = "MutatingWebhookConfiguration"

Key: TypeAlias = tuple[str, str, str, str, str, str, bool]


class Requests:
    """``note`` is all that a request waits for."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._seconds: dict[Key, list[float]] = {}
        self._gathered = 0
        metrics.before_reading.append(self._bring_in)

    def note(
        self,
        seconds: float,
        method: str,
        url: str,
        webhook: str = "",
        kind: str = "",
        namespace: str = "",
        operation: str = "",
        allowed: bool = False,
    ) -> None:
        """A request and the seconds until its answer. ``url`` is the pattern of a route: a label that callers choose
        would grow without bound. ``webhook`` and what follows are of an admission that was answered."""
        key = (method, url, webhook, kind, namespace, operation, allowed)
        known = self._seconds.get(key)
        if known is None:
            self._seconds[key] = [seconds]
        else:
            known.append(seconds)
        self._gathered += 1
        if self._gathered >= GATHERED:
            self._bring_in()

    def _bring_in(self) -> None:
        gathered, self._seconds = self._seconds, {}
        self._gathered = 0
        metrics = self._metrics
        for (method, url, webhook, kind, namespace, operation, allowed), seconds in gathered.items():
            times = float(len(seconds))
            pairs: list[tuple[str, str, Labels]] = [
                ("kyverno_http_requests_total", "kyverno_http_requests_duration_seconds", (method, url))
            ]
            if webhook:
                # The names that Kyverno gives its webhooks here; the guide's metrics tell them apart by path.
                kyverno = MUTATING if "mutate" in webhook else VALIDATING
                labels = (kind, namespace, operation.lower(), str(allowed).lower(), kyverno)
                pairs += [
                    ("kyverno_admission_requests_total", "kyverno_admission_review_duration_seconds", labels),
                    ("kyverno_webhooks_processed_total", "kyverno_webhook_duration_seconds", (webhook,)),
                ]
            for counter, histogram, of in pairs:
                metrics.count(counter, *of, by=times)
                metrics.add(histogram, metrics.bucketed(histogram, seconds), *of)
