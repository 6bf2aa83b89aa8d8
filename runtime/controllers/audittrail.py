"""The audit trail as reports: what admission, rules of the background and the background scan say of objects.

One part of an installation (``runtime.controllers.parts``). It listens to judged requests for what no scan reports
(policies with ``background: false``, rules for updates alone, mutations), to controllers for what rules of the
background did, and runs the scan where this process has the part ``reports``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from runtime.controllers.installation import Installation
from runtime.controllers.nativepolicies import NativePolicies
from runtime.controllers.reports import (
    SOURCE,
    Owner,
    Result,
    Rules,
    Subject,
    key_of_result,
    mark,
    reported_rules,
    results_digest,
    results_of,
)
from runtime.controllers.reportwriter import ReportWriter
from runtime.controllers.scan import PART, Scan
from runtime.engine import RuleResult
from runtime.webhook.live import Judged, is_object

log = logging.getLogger("thesmos.reports")

REMEMBERED: Final = 10_000
"""Objects of which is remembered what admission said last: a controller that updates an object every second says the
same each time."""

_PARTS_OF_OBJECTS: Final = frozenset(("", "status", "ephemeralcontainers", "resize"))
"""Requests for these carry the object itself; those for others (``scale``, ``eviction``) something else."""


class AuditTrail:
    """Its ``writer`` writes the reports of this process."""

    name = "reports"

    def __init__(self, installation: Installation) -> None:
        settings = installation.settings.reporting
        self._installation = installation
        self._settings = settings
        self.writer = ReportWriter(
            installation.client, installation.discovery, openreports=settings.openreports, most=settings.most
        )
        self._native: NativePolicies | None = None
        self._scan: Scan | None = None
        if settings.scan and PART in installation.settings.parts:
            if settings.native:
                self._native = NativePolicies(installation.client, installation.settings, self.policies_changed)
            self._scan = Scan(installation, self.writer, self._native)
        self._known: dict[bytes, dict[tuple[str, str], dict[str, Owner]]] = {}
        self._said: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._lost: set[str] = set()
        self._changed = asyncio.Event()
        installation.shards.listen(self._changed.set)
        if settings.write and settings.admission:
            installation.live.observers.append(self.judged)
            installation.outcomes.append(self.outcome)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._settings.write:
                group.create_task(self.writer.run())
            if self._native is not None:
                group.create_task(self._native.run())
            if self._scan is not None:
                group.create_task(self._scan.run())
            group.create_task(self._sweep())

    def policies_changed(self) -> None:
        """A new policy set is live."""
        rules: dict[tuple[str, str], Mapping[str, Owner]] = {}
        known: dict[bytes, dict[tuple[str, str], dict[str, Owner]]] = {}
        for entry in self._installation.policies.entries.values():
            if entry.good is not None:
                digest = entry.good.digest
                known[digest] = self._known.get(digest) or reported_rules([entry.good.module])
                rules |= known[digest]
        if self._native is not None:
            rules |= reported_rules(self._native.policies.modules)
        self._known = known
        self._lost |= _lost(self.writer.rules, rules)
        self.writer.rules = rules
        self._changed.set()
        if self._scan is not None:
            self._scan.policies_changed()

    def judged(self, judged: Judged, seconds: float) -> None:
        """A request as the webhook decided it. Returns at once, and never raises: the request must be answered."""
        try:
            self._note(judged)
        except Exception:
            log.exception("what became of a request could not be reported")

    def _note(self, judged: Judged) -> None:
        request, response = judged.request, judged.response
        if (
            not judged.decision.allowed
            or request.dry_run
            or request.operation not in ("CREATE", "UPDATE")
            or request.subresource not in _PARTS_OF_OBJECTS
            or not response.results
        ):
            return
        found = self._results(response.results)
        resource = response.resource
        if not found or type(resource) is not dict or not is_object(resource):
            # What no API server sends, or a mutation has made that it will not take.
            return
        subject = Subject.of(resource)
        if response.what == "mutate" and request.operation == "CREATE":
            # The API server gives it another.
            subject = replace(subject, uid="")
        if not subject.name or not subject.api_version or subject.kind == "Event":
            return
        if subject.uid and self._is_known(subject.uid, f"{response.what}/{judged.scope}", found):
            return
        self.writer.admitted(subject, found)

    def outcome(self, trigger: Mapping[str, Any], results: Iterable[RuleResult]) -> None:
        """What rules of the background did because of an object, which is there. Returns at once."""
        found = self._results(results)
        subject = Subject.of(dict(trigger))
        if found and subject.uid and not self._is_known(subject.uid, "/".join(key_of_result(found[0])), found):
            self.writer.admitted(subject, found)

    def _results(self, results: Iterable[RuleResult]) -> list[Result]:
        """Those that no scan reports, of rules that may be reported."""
        rules = self.writer.rules
        wanted = [
            r
            for r in results
            if r.kind in self._settings.rules and rules.get((r.policy_key, SOURCE), {}).get(r.rule) == "admission"
        ]
        return results_of(wanted, self._settings.statuses, int(time.time())) if wanted else []

    def _is_known(self, uid: str, scope: str, found: list[Result]) -> bool:
        """Whether the same was said of the object before, and its report still has it."""
        digest = results_digest(found)
        said = self._said.pop((uid, scope), None)
        self._said[uid, scope] = digest
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        known = self.writer.known.get(uid)
        return said == digest and known is not None and all(mark(r["policy"]) in known.admission for r in found)

    async def _sweep(self) -> None:
        """Reports that hold results of rules that are gone, also since before this process, are written again without
        them."""
        if not self._settings.write:
            return
        await self.writer.synced.wait()
        holds = self._installation.shards.holds
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self._installation.live.ready:
                continue
            lost = {mark(policy) for policy in self._lost}
            self._lost = set()
            there = {mark(place[0]) for place, rules in self.writer.rules.items() if "admission" in rules.values()}
            for count, (uid, known) in enumerate(list(self.writer.known.items())):
                if any(one in lost or one not in there for one in known.admission) and holds(PART, uid):
                    self.writer.swept(uid)
                if count % 1000 == 999:
                    await asyncio.sleep(0)


def _lost(before: Rules, now: Rules) -> set[str]:
    """Policies that have lost rules, or are gone."""
    return {place[0] for place, rules in before.items() if rules.keys() - now.get(place, {}).keys()}
