"""What a scan has found of an object, and how that stands in the object's report.

``runtime.controllers.scan`` makes :class:`Findings` of what the engine answers, :class:`Reported` turns them into what
``reportwriter`` takes. Most objects pass most rules, and what a report says of a pass does not depend on the object:
such results are put together once for the rules that passed, so that an object that passes them all costs no more with
many rules than with few (measured with 111 rules: 5 µs instead of 700).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

import orjson

from runtime.controllers.reports import ResultKey, Told, digest, key_of_result, result_of, timeless, worse
from runtime.engine import RuleResult, standing
from runtime.policyset import RulePlan

MOST_SETS: Final = 256
"""Sets of passed rules that are remembered: kinds of objects differ, and objects of one kind in what they break."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What rules say of an object: results, and the rules that passed and say no more than that."""

    results: tuple[RuleResult, ...]
    passed: tuple[RulePlan, ...]

    def with_others(self, more: Findings) -> Findings:
        """These, and those of another version of the same object: what a rule has said already is not said again."""
        known = {(r.policy_key, r.rule) for r in self.results} | {(p.policy.key, p.name) for p in self.passed}
        return Findings(
            (*self.results, *(r for r in more.results if (r.policy_key, r.rule) not in known)),
            (*self.passed, *(p for p in more.passed if (p.policy.key, p.name) not in known)),
        )


@dataclass(frozen=True, slots=True)
class _Entry:
    """A result in a report: how good it is, and its JSON without the time."""

    status: str
    data: bytes


class Reported:
    """``rules`` and ``statuses`` are the kinds of rules and the results that reports hold."""

    def __init__(self, rules: frozenset[str], statuses: frozenset[str]) -> None:
        self._rules = rules
        self._statuses = statuses
        self._sets: dict[tuple[int, ...], _Passed] = {}

    def of(self, found: Findings, now: int) -> Told:
        """The results of an object for its report; of several of one rule the worst counts."""
        passed = self._passed(found.passed)
        said = self._entries(found.results)
        if not said:
            return passed.told(now)
        entries = dict(passed.entries)
        for key, entry in said.items():
            known = entries.get(key)
            if known is None or worse(entry.status, known.status):
                entries[key] = entry
        return _told(entries, now)

    def _passed(self, plans: tuple[RulePlan, ...]) -> _Passed:
        key = tuple(map(id, plans))
        known = self._sets.get(key)
        if known is None:
            if len(self._sets) >= MOST_SETS:
                self._sets.clear()
            known = self._sets[key] = _Passed(plans, self._entries(map(standing, plans)))
        return known

    def _entries(self, results: Iterable[RuleResult]) -> dict[ResultKey, _Entry]:
        found: dict[ResultKey, _Entry] = {}
        for result in results:
            status = result.report_status()
            if result.kind not in self._rules or status not in self._statuses:
                continue
            made = result_of(result, status, 0)
            key = key_of_result(made)
            known = found.get(key)
            if known is None or worse(status, known.status):
                found[key] = _Entry(status, orjson.dumps(timeless(made), option=orjson.OPT_SORT_KEYS))
        return found


class _Passed:
    """Rules that passed together. They are kept beside what they came to, so that their ids stay theirs."""

    __slots__ = ("_at", "_plans", "_told", "entries")

    def __init__(self, plans: tuple[RulePlan, ...], entries: dict[ResultKey, _Entry]) -> None:
        self._plans = plans
        self.entries = entries
        self._told = _told(entries, 0)
        self._at = 0

    def told(self, now: int) -> Told:
        """What a report says where nothing else is found: the same JSON for all objects of a second."""
        if now != self._at:
            self._told, self._at = _told(self.entries, now, self._told.said), now
        return self._told


def _told(entries: dict[ResultKey, _Entry], now: int, said: str | None = None) -> Told:
    if not entries:
        return Told("", lambda: b"[]")
    parts = [entries[key].data for key in sorted(entries)]
    return Told(digest(b"[" + b",".join(parts) + b"]") if said is None else said, partial(_encoded, parts, now))


def _encoded(parts: list[bytes], now: int) -> bytes:
    """The results as a JSON list, with their time."""
    time = b',"timestamp":{"seconds":%d,"nanos":0}}' % now
    return b"[" + b",".join(part[:-1] + time for part in parts) + b"]"
