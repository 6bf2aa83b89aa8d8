"""What tests exercise of their policies: rules, clauses and outcomes; ``thesmos test --coverage`` collects it here.

Outcomes are those that a check looked at. Clauses come from a run on the exact VM with unoptimised code that notes the
places it reaches (``vm.coverage``); whether a filter of ``match`` or ``exclude`` held is asked by a policy of its own,
which has one rule for each filter, since the index answers much of that without any code.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runtime.cli.clauses import CLASSIC, Clause, WrittenRule, written_rules
from runtime.cli.files import PolicyFile
from runtime.cli.offline import Answer, Policies, evaluate, load_policies, offline_request
from runtime.cli.values import Values
from runtime.engine import Engine
from runtime.mismatches import Mismatches
from runtime.policyset import PolicySet
from runtime.request import UserInfo, base_rule

if TYPE_CHECKING:
    from compiler.source import Document
    from runtime.cli.testfile import TestRun
    from runtime.policyset import PolicyInfo
    from vm.coverage import Reached

OUTCOMES: Final = ("pass", "fail", "skip", "error")
WANTED: Final = {"validate": ("pass", "fail")}
"""Outcomes that a kind of rule should be seen with; others should pass. Rules with preconditions should also skip."""


@dataclass(slots=True)
class RuleCoverage:
    """One rule of a file: how often checks saw each outcome, and which of its clauses were exercised."""

    file: str
    policy: str
    rule: WrittenRule
    outcomes: Counter[str] = field(default_factory=Counter)
    hit: set[str] = field(default_factory=set)
    refused: bool = False

    @property
    def wanted(self) -> tuple[str, ...]:
        return (*WANTED.get(self.rule.kind, ("pass",)), *(("skip",) if self.rule.conditional else ()))

    @property
    def exercised(self) -> bool:
        return bool(self.outcomes)

    def clauses(self) -> list[tuple[Clause, bool]]:
        return [(c, c.label in self.hit) for c in self.rule.clauses]

    @property
    def missing(self) -> list[str]:
        """What no test has exercised, in words."""
        if not self.exercised:
            return ["the rule, as its policy does not compile" if self.refused else "the rule"]
        clauses = [f"{c.label} (line {c.line})" for c, hit in self.clauses() if not hit]
        return [*(f"outcome {o}" for o in self.wanted if not self.outcomes[o]), *clauses]

    @property
    def points(self) -> tuple[int, int]:
        """Exercised and all: the rule, each outcome that it should be seen with, and each clause."""
        seen = [self.exercised, *(bool(self.outcomes[o]) for o in self.wanted), *(hit for _, hit in self.clauses())]
        return sum(seen), len(seen)


@dataclass(slots=True)
class _Watched:
    """A policy document under watch. ``asked`` are the filters by the name of the rule of ``probes`` that asks them."""

    document: Document
    name: str
    rules: list[RuleCoverage]
    probes: PolicySet | None
    asked: dict[str, tuple[RuleCoverage, Clause]]

    def open_filters(self) -> list[str]:
        return [name for name, (rule, clause) in self.asked.items() if clause.label not in rule.hit]


class Watching:
    """A backend for tests that notes what they exercise. A file that several tests name is counted once."""

    def __init__(self, *, cel_strict: bool = False, quirks: str = "", crds: tuple[dict[str, Any], ...] = ()) -> None:
        self._flags: Final[dict[str, Any]] = {"cel_strict": cel_strict, "quirks": quirks, "crds": crds}
        self._documents: dict[tuple[str, int], _Watched] = {}
        self._places: dict[str, set[tuple[int, int]]] = {}
        self._reached: dict[str, set[tuple[int, int]]] = {}
        self._now: list[_Watched] = []
        self._seen: list[Reached] = []

    def load(self, files: Iterable[PolicyFile], exceptions: Iterable[Document]) -> Policies:
        files = list(files)
        self._now = [self._watch(d) for f in files for d in f.documents]
        policies = load_policies(files, exceptions=exceptions, level=0, parts=True, join=self._join, **self._flags)
        refused = {r.name.rpartition("/")[2] for r in policies.refused}
        for watched in self._now:
            for rule in watched.rules:
                rule.refused = watched.name in refused
        return policies

    def evaluate(
        self,
        policies: Policies,
        resource: dict[str, Any],
        values: Values,
        user: UserInfo | None,
        operation: str | None,
    ) -> list[Answer]:
        for policy in policies.loaded.policies:
            for watched in self._of(policy.name):
                self._ask_filters(watched, policy, resource, values, user, operation)
        return evaluate(policies.loaded, resource, values=values, user=user, operation=operation)

    def note(self, run: TestRun) -> None:
        """Takes over what the test that ran last has exercised: places reached, outcomes that checks looked at."""
        for reached in self._seen:
            ran = reached.run()
            for place in reached.places:
                file = _resolved(place[0])
                self._places.setdefault(file, set()).add(place[1:])
                if place in ran:
                    self._reached.setdefault(file, set()).add(place[1:])
        looked_at = {id(r): (a, r) for check in run.checks for a, r in check.responses}
        for answer, result in looked_at.values():
            for watched in self._of(answer.policy.name):
                for rule in watched.rules:
                    if rule.rule.name in ("", result.rule, base_rule(result.rule)):
                        rule.outcomes[result.status] += 1

    def rules(self) -> list[RuleCoverage]:
        """Every rule, by file and place in it, with the clauses that were exercised."""
        found: list[RuleCoverage] = []
        for (file, _), watched in sorted(self._documents.items(), key=lambda item: item[0]):
            places, reached = self._places.get(file, set()), self._reached.get(file, set())
            for rule in watched.rules:
                rule.hit |= {c.label for c in rule.rule.clauses if _ran(c, rule, watched, places, reached)}
            found += watched.rules
        return found

    def _watch(self, document: Document) -> _Watched:
        key = (_resolved(document.origin), document.index)
        if key not in self._documents:
            metadata = document.value.get("metadata")
            name = str(metadata.get("name") or "") if type(metadata) is dict else ""
            shown = shown_path(key[0])
            rules = [RuleCoverage(shown, name, r) for r in written_rules(document)]
            probes, asked = _probes(document, rules)
            self._documents[key] = _Watched(document, name, rules, probes, asked)
        return self._documents[key]

    def _join(self, bundles: Sequence[bytes]) -> PolicySet:
        from runtime.bundles import make_imports, run_of
        from vm.bundle import read_bundle
        from vm.coverage import watched
        from vm.verify import verify

        lent = make_imports()
        parts, digests = [], []
        self._seen = []
        for data in bundles:
            unverified = read_bundle(data)
            verified = verify(unverified, lent)
            program, reached = watched(verified)
            self._seen.append(reached)
            parts.append((unverified.module, run_of(program, verified)))
            digests.append(unverified.digest)
        return PolicySet(parts, tier="1", mismatches=Mismatches(), digests=digests)

    def _of(self, policy: str) -> list[_Watched]:
        return [w for w in self._now if w.name == policy]

    def _ask_filters(
        self,
        watched: _Watched,
        policy: PolicyInfo,
        resource: dict[str, Any],
        values: Values,
        user: UserInfo | None,
        operation: str | None,
    ) -> None:
        asked = watched.open_filters()
        if watched.probes is None or not asked:
            return
        request = offline_request(resource, policy, values, user, operation)
        results = Engine(watched.probes).evaluate(request, "validate", full=True).results
        held = {base_rule(result.rule) for result in results}
        for name in asked:
            rule, clause = watched.asked[name]
            # The rule of an exclude filter is one for everything, without what the filter excludes.
            if (name in held) == (clause.kind == "match"):
                rule.hit.add(clause.label)


def _ran(
    clause: Clause,
    rule: RuleCoverage,
    watched: _Watched,
    places: set[tuple[int, int]],
    reached: set[tuple[int, int]],
) -> bool:
    if clause.kind != "code" and watched.probes is not None:
        return clause.label in rule.hit
    if any(clause.start <= place < clause.end for place in places):
        return any(clause.start <= place < clause.end for place in reached)
    # It has no code of its own: then it goes with the rule.
    return bool(rule.outcomes["pass"] or rule.outcomes["fail"])


def _probes(
    document: Document, rules: Iterable[RuleCoverage]
) -> tuple[PolicySet | None, dict[str, tuple[RuleCoverage, Clause]]]:
    """A policy with one rule for each filter of ``match`` and ``exclude``, and which rule asks which filter; None
    where there is none or the filters cannot stand by themselves."""
    from compiler import Options, compile_policies

    asked: dict[str, tuple[RuleCoverage, Clause]] = {}
    written: list[dict[str, Any]] = []
    for rule in rules:
        for clause in rule.rule.clauses:
            if clause.kind == "code":
                continue
            name = f"filter-{len(written)}"
            everything = {"resources": {"kinds": ["*"]}}
            block = (
                {"match": {"any": [clause.value]}}
                if clause.kind == "match"
                else {"match": {"any": [everything]}, "exclude": {"any": [clause.value]}}
            )
            asked[name] = (rule, clause)
            written.append({"name": name, **block, "validate": {"message": "the filter holds", "deny": {}}})
    if not written or document.value.get("kind") not in CLASSIC:
        return None, {}
    metadata = document.value.get("metadata")
    value = {
        **{key: document.value.get(key) for key in ("apiVersion", "kind")},
        "metadata": metadata if type(metadata) is dict else {},
        "spec": {"background": False, "rules": written},
    }
    result = compile_policies([replace(document, value=value)], options=Options(level=0))
    if result.bundle is None:
        return None, {}
    return PolicySet.load(result.bundle, tier="1"), asked


def _resolved(path: str) -> str:
    return path if path == "stdin" else os.path.realpath(path)


def shown_path(path: str) -> str:
    """A path as people know it: relative to where they are when it is below."""
    here = Path.cwd()
    given = Path(path)
    return str(given.relative_to(here)) if given.is_relative_to(here) else path
