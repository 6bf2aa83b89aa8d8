"""Finds the rules that a request may reach, from the index of a verified bundle; ``PolicySet.candidates`` calls it.

The keys over-approximate a rule's match: the rule's own code decides what they leave open. Answers are kept per
distinct combination of kind, operation and namespace class, so that a request costs one dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from vm.code import MatchKey
from vm.intrinsics.kinds import matches_any

MAX_ANSWERS: Final = 8192
"""Answers kept; a request names its kind, so that the table could be filled from outside."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IndexedRule(Generic[T]):
    """A rule with the ways to reach it; ``namespace`` is its policy's, None for a cluster-wide one."""

    keys: tuple[MatchKey, ...]
    namespace: str | None
    item: T


class MatchIndex(Generic[T]):
    """Immutable but for its answers. ``T`` is whatever the owner wants back, in the order in which it was given."""

    __slots__ = ("_answers", "_by_kind", "_everywhere", "_rules", "namespaces")

    def __init__(self, rules: Iterable[IndexedRule[T]]) -> None:
        self._rules: Sequence[IndexedRule[T]] = tuple(rules)
        self.namespaces = frozenset(r.namespace for r in self._rules if r.namespace is not None)
        by_kind: dict[str, list[int]] = {}
        everywhere: list[int] = []
        for i, rule in enumerate(self._rules):
            kinds = {key.kind.kind for key in rule.keys}
            if any(_is_glob(kind) for kind in kinds):
                everywhere.append(i)
            else:
                for kind in kinds:
                    by_kind.setdefault(kind, []).append(i)
        self._by_kind = by_kind
        self._everywhere = everywhere
        self._answers: dict[tuple[str, str, str, str, str, str], tuple[T, ...]] = {}

    def find(self, group: str, version: str, kind: str, sub: str, operation: str, namespace: str) -> tuple[T, ...]:
        """The rules that the request may reach, in their order. ``namespace`` is "" for a cluster-wide object."""
        place = namespace if namespace in self.namespaces else ""
        question = (group, version, kind, sub, operation, place)
        answer = self._answers.get(question)
        if answer is None:
            answer = self._search(question)
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            self._answers[question] = answer
        return answer

    def _search(self, question: tuple[str, str, str, str, str, str]) -> tuple[T, ...]:
        *kind, operation, place = question
        positions = sorted({*self._by_kind.get(kind[2], ()), *self._everywhere})
        found = []
        for i in positions:
            rule = self._rules[i]
            if rule.namespace is not None and rule.namespace != place:
                continue
            if any(reaches(key, kind, operation) for key in rule.keys):
                found.append(rule.item)
        return tuple(found)


def reaches(key: MatchKey, kind: Sequence[str], operation: str) -> bool:
    """Whether a key covers a request of this (group, version, kind, subresource) and operation.

    Selectors are read by the code of rules and here through one function, since what the keys say is left out of the
    code.
    """
    if key.operations and operation not in key.operations:
        return False
    wanted = key.kind
    return matches_any(list(kind), [[wanted.group, wanted.version, wanted.kind, wanted.subresource]])


def _is_glob(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern
