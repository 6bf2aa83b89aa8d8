"""Tells of every judged request: numbers for ``/metrics``, lines for the log, events.

``runtime.webhook.app`` hangs a :class:`Decisions` on the webhook (``Live.observers``). It is called before the answer
is sent, so that it only takes note: what passed is gathered and counted later, what was found is told of once the
answer is on its way (a line of the log takes 33 µs), and lines for requests that are let through are made at ``--v=4``
alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from runtime.decision import same_rules
from runtime.engine import ERROR, FAIL, PASS, SKIP, EngineResponse, RuleResult
from runtime.observe.logs import fields
from runtime.observe.metrics import Metrics
from runtime.policyset import PolicyInfo, RulePlan
from runtime.request import Request

if TYPE_CHECKING:
    from runtime.observe.policy_events import PolicyEvents
    from runtime.webhook.live import Judged

log = logging.getLogger("thesmos.decisions")

ADMISSION: Final = "admission_request"
SCAN: Final = "background_scan"

GATHERED: Final = 1000
"""Requests that are counted together at most."""
GATHERED_RULES: Final = 4000
"""Rules that are: each takes 2 µs to count. The same rules for many requests are counted as one."""
MOST_WAITING: Final = 256
"""Requests that wait to be told of at most: each holds its objects. Of those beyond only numbers are kept."""
TURN_SECONDS: Final = 0.005
"""How long telling may hold up other requests."""
VERBS: Final = {PASS: "passed", SKIP: "skipped"}
LONGEST_TEXT: Final = 512
"""Characters of a rule's message in the log."""


class Decisions:
    """``events`` is None where there is no cluster to tell. ``payload`` and ``patches`` put whole requests and the
    patches of mutations into the log."""

    def __init__(
        self,
        metrics: Metrics,
        events: PolicyEvents | None = None,
        *,
        payload: bool = False,
        patches: bool = False,
    ) -> None:
        self._metrics = metrics
        self._events = events
        self._payload = payload
        self._patches = patches
        self._passed = PassedRules(metrics, ADMISSION)
        self._seconds: dict[str, list[float]] = {"validate": [], "mutate": [], "background": []}
        self._metrics.before_reading.append(self._count_seconds)
        self._waiting: deque[tuple[Judged, float]] = deque()
        self._metrics.before_reading.append(self._tell_all)

    def __call__(self, judged: Judged, seconds: float) -> None:
        response = judged.response
        noted = self._seconds[response.what]
        noted.append(seconds)
        if len(noted) >= GATHERED:
            self._count_seconds()
        rules = len(response.results) + len(response.passed)
        share = seconds / rules if rules else 0.0
        if response.passed:
            self._passed.gather(response.request, response.passed, share)
        if response.results or self._payload or log.isEnabledFor(logging.DEBUG):
            self._later(judged, share)
        elif self._events is not None:
            self._events.judged(judged)

    def _later(self, judged: Judged, share: float) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._metrics.count("thesmos_untold_decisions_total")
            self._count(judged, share)
            return
        self._waiting.append((judged, share))
        if len(self._waiting) > 1:
            return
        try:
            asyncio.get_running_loop().call_soon(self._tell_some)
        except RuntimeError:
            self._tell_all()  # nobody waits for an answer here

    def _tell_some(self) -> None:
        ends = time.monotonic() + TURN_SECONDS
        while self._waiting:
            self._tell_next()
            if self._waiting and time.monotonic() >= ends:
                asyncio.get_running_loop().call_soon(self._tell_some)
                return

    def _tell_all(self) -> None:
        while self._waiting:
            self._tell_next()

    def _tell_next(self) -> None:
        judged, share = self._waiting.popleft()
        try:
            self._count(judged, share)
            self._tell(judged)
        except Exception:
            log.exception("a decision could not be told of")

    def _count(self, judged: Judged, share: float) -> None:
        for result in judged.response.results:
            count_result(self._metrics, judged.request, result, share)

    def _tell(self, judged: Judged) -> None:
        if judged.response.results or log.isEnabledFor(logging.DEBUG):
            tell(judged)
        if self._payload:
            log.info("admission request", extra=_with(_about(judged.request), payload=without_secrets(judged.request)))
        if self._patches and judged.decision.patch:
            log.info("patches", extra=_with(_about(judged.request), patches=judged.decision.patch))
        if self._events is not None:
            self._events.judged(judged)

    def _count_seconds(self) -> None:
        name = "kyverno_policy_evaluate_duration_seconds"
        for what, seconds in self._seconds.items():
            if seconds:
                self._metrics.add(name, self._metrics.bucketed(name, seconds), what)
                seconds.clear()


class PassedRules:
    """Gathers the rules that requests have passed, so that the same rules for many requests are counted as one; brings
    them in before metrics are read. ``cause`` is :data:`ADMISSION` or :data:`SCAN`."""

    def __init__(self, metrics: Metrics, cause: str) -> None:
        self._metrics = metrics
        self._cause = cause
        self._passed: dict[tuple[object, ...], tuple[tuple[RulePlan, ...], list[float]]] = {}
        self._gathered = self._gathered_rules = 0
        metrics.before_reading.append(self._count)

    def gather(self, request: Request, passed: tuple[RulePlan, ...], share: float) -> None:
        """Takes note of one request. Not by its response: that holds the objects, which may be 3 MiB each. The rules
        are kept beside their ids, so that an id stays that of its rule."""
        passed = same_rules(passed)
        key = (request.kind, request.namespace, request.operation, id(passed))
        known = self._passed.get(key)
        if known is None:
            if self._passed and self._gathered_rules + len(passed) > GATHERED_RULES:
                self._count()
            known = self._passed[key] = (passed, [])
            self._gathered_rules += len(passed)
        known[1].append(share)
        self._gathered += 1
        if self._gathered >= GATHERED:
            self._count()

    def _count(self) -> None:
        gathered, self._passed = self._passed, {}
        self._gathered = self._gathered_rules = 0
        metrics = self._metrics
        for (kind, namespace, operation, *_), (passed, shares) in gathered.items():
            times = float(len(shares))
            buckets = metrics.bucketed("kyverno_policy_execution_duration_seconds", shares)
            for plan in passed:
                labels = (
                    *policy_labels(plan.policy),
                    str(kind),
                    str(namespace),
                    str(operation).lower(),
                    plan.name,
                    PASS,
                    plan.kind,
                    self._cause,
                )
                metrics.count("kyverno_policy_results_total", *labels, by=times)
                metrics.add("kyverno_policy_execution_duration_seconds", buckets, *labels)


def count_result(
    metrics: Metrics, request: Request, result: RuleResult, seconds: float, cause: str = ADMISSION
) -> None:
    """Counts one result; scans give :data:`SCAN` as the cause."""
    if result.info is None:
        return
    labels = (
        *policy_labels(result.info),
        request.kind,
        request.namespace,
        request.operation.lower(),
        result.rule,
        result.status,
        rule_type(result.kind),
        cause,
    )
    metrics.count("kyverno_policy_results_total", *labels)
    metrics.observe("kyverno_policy_execution_duration_seconds", seconds, *labels)


def tell(judged: Judged) -> None:
    """The lines of one request: one for every policy that was broken or could not be evaluated, and one for the
    refusal. At ``--v=4`` also for what passed, changed something or was excepted, and for the admission."""
    if not log.isEnabledFor(logging.INFO):
        return
    request, response, decision = judged.request, judged.response, judged.decision
    debug = log.isEnabledFor(logging.DEBUG)
    about = _about(request)
    what = "validation" if response.what == "validate" else "mutation"
    broken: dict[str, list[RuleResult]] = {}
    for result in response.results:
        if result.status in (FAIL, ERROR):
            broken.setdefault(result.policy_key, []).append(result)
        elif result.status == SKIP and result.exceptions:
            skipped = _with(about, policy=result.policy_key, rules=[result.rule], exceptions=result.exceptions)
            log.debug("rule skipped", extra=skipped)
    for policy, results in broken.items():
        worst = ERROR if any(r.status == ERROR for r in results) else FAIL
        action = "Enforce" if any(r.action == "Enforce" for r in results) else "Audit"
        log.info(
            f"{what} failed",
            extra=_with(
                about,
                policy=policy,
                rules=[r.rule for r in results],
                verdict=worst,
                action=action,
                message="; ".join(r.message for r in results)[:LONGEST_TEXT],
            ),
        )
    if debug:
        for policy, rules in _good(response).items():
            if policy not in broken:
                log.debug(f"{what} passed", extra=_with(about, policy=policy, rules=rules, verdict=PASS))
    if not decision.allowed:
        log.info("admission request denied", extra=_with(about, policies=sorted(broken), verdict="deny"))
    elif debug:
        policies = [info.key for info in response.policies]
        log.debug("admission request allowed", extra=_with(about, policies=policies, verdict="allow"))


def tell_of_scan(resource: Mapping[str, Any], results: Iterable[RuleResult], passed: Iterable[RulePlan] = ()) -> None:
    """One line for each policy that an object of the cluster breaks; at ``--v=4`` also for those that it keeps."""
    debug = log.isEnabledFor(logging.DEBUG)
    verdicts: dict[tuple[str, str], list[str]] = {}
    for result in results:
        if debug or result.status in (FAIL, ERROR):
            verdicts.setdefault((result.policy_key, result.status), []).append(result.rule)
    if debug:
        for plan in passed:
            verdicts.setdefault((plan.policy.key, PASS), []).append(plan.name)
    if not verdicts:
        return
    metadata = resource.get("metadata") or {}
    about = {"kind": resource.get("kind"), "namespace": metadata.get("namespace"), "name": metadata.get("name")}
    for (policy, verdict), rules in verdicts.items():
        bad = verdict in (FAIL, ERROR)
        log.log(
            logging.INFO if bad else logging.DEBUG,
            f"background scan: validation {'failed' if bad else VERBS.get(verdict, verdict)}",
            extra=_with(about, policy=policy, rules=rules, verdict=verdict),
        )


def rule_type(kind: str) -> str:
    """The kind of a rule as metrics name it: one with targets mutates too."""
    return "mutate" if kind == "mutateExisting" else kind


def policy_labels(info: PolicyInfo) -> tuple[str, str, str, str, str]:
    """The labels that every metric of a policy begins with, in the order of the table."""
    return (
        "enforce" if info.enforcing else "audit",
        "namespaced" if info.namespace is not None else "cluster",
        str(info.background).lower(),
        info.namespace or "-",
        info.name,
    )


def without_secrets(request: Request) -> dict[str, Any]:
    """A request as the API server sent it, the values of a Secret and what is applied last (it holds them again) left
    out."""
    shown = dict(request.root.get("request") or {})
    if request.kind == "Secret" and not request.group:
        for key in ("object", "oldObject"):
            obj = shown.get(key)
            if type(obj) is dict:
                metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "annotations"}
                hidden = {k: dict.fromkeys(obj[k] or (), "**REDACTED**") for k in ("data", "stringData") if k in obj}
                shown[key] = {**obj, "metadata": metadata, **hidden}
    return shown


def _good(response: EngineResponse) -> dict[str, list[str]]:
    good: dict[str, list[str]] = {}
    for plan in response.passed:
        good.setdefault(plan.policy.key, []).append(plan.name)
    for result in response.results:
        if result.status == PASS:
            good.setdefault(result.policy_key, []).append(result.rule)
    return good


def _about(request: Request) -> dict[str, object]:
    return {
        "operation": request.operation,
        "kind": request.kind,
        "namespace": request.namespace,
        "name": request.name,
        "user": request.username,
        "uid": request.uid,
        "dryRun": request.dry_run or None,
    }


def _with(about: dict[str, object], **values: object) -> dict[str, object]:
    return fields(**values, **about)
