"""Leaves out rules whose premise an object does not meet, before anything is run: by its name, its namespace and its
labels.

``runtime.policyset`` makes a :class:`Narrowing` for candidates where some rule has a premise (``vm.premises``), and
``runtime.engine`` asks it. So policies for other objects of a kind cost a look-up together, as those for other kinds do
by the index. Rules of one premise are candidates of their own, with a fused function of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from vm.intrinsics.labels import text_map
from vm.intrinsics.match import name_of, namespace_of, namespaces
from vm.intrinsics.wildcard import contains_wildcard
from vm.intrinsics.wildcard import match as glob
from vm.premises import NONE, Premise

if TYPE_CHECKING:
    from runtime.engine import RuleResult
    from runtime.policyset import Candidates, PolicyInfo, RulePlan

_MOST_KNOWN: Final = 512
"""Answers kept of each sort: whoever makes objects chooses where."""
_MOST_LABELS: Final = 4096
"""An object with more labels is asked about by all rules: to look at so many could cost a rule its fuel."""


class Narrowing:
    """The rules of ``groups`` by premise: ``parts`` are the candidates of each. ``made`` makes candidates of rules."""

    __slots__ = (
        "_by_label",
        "_by_name",
        "_by_namespace",
        "_globs",
        "_known",
        "_nameless",
        "_order",
        "_places",
        "_premises",
        "_unlabelled",
        "parts",
    )

    def __init__(
        self,
        groups: Sequence[tuple[PolicyInfo, tuple[RulePlan, ...]]],
        made: Callable[[Sequence[RulePlan]], Candidates],
    ) -> None:
        by_premise: dict[Premise, list[RulePlan]] = {NONE: []}
        for policy, plans in groups:
            for plan in plans:
                # The rules of a policy that applies one of them wait for one another.
                found = NONE if policy.apply_one else plan.premise
                by_premise.setdefault(found, []).append(plan)
        self._premises = tuple(by_premise)
        self.parts = tuple(map(made, by_premise.values()))
        every = [plan for _, plans in groups for plan in plans]
        self._order = {id(plan): at for at, plan in enumerate(every)}
        self._places = {(p.policy.namespace, p.policy.name, p.name): at for at, p in enumerate(every)}
        self._unlabelled = self._mask(lambda p: p.label is None)
        self._nameless = self._mask(lambda p: not p.names)
        by_label: dict[str, dict[str, int]] = {}
        self._by_name: dict[str, int] = {}
        globs: dict[str, int] = {}
        for at, p in enumerate(self._premises):
            if p.label is not None:
                _add(by_label.setdefault(p.label[0], {}), p.label[1], at)
            for name in p.names:
                _add(globs if contains_wildcard(name) else self._by_name, name, at)
        self._by_label = tuple(by_label.items())
        self._globs = tuple(globs.items())
        self._by_namespace: dict[str, int] = {}
        self._known: dict[int, tuple[Candidates, ...]] = {}

    @property
    def useful(self) -> bool:
        """Whether some rule has a premise."""
        return len(self._premises) > 1

    def reached(self, resource: Any) -> tuple[Candidates, ...]:
        """The candidates that may have something to say of an object: those without a premise first."""
        metadata = resource.get("metadata") if type(resource) is dict else None
        labels = metadata.get("labels") if type(metadata) is dict else None
        mask = self._unlabelled
        if self._by_label and type(labels) is dict and labels:
            if len(labels) > _MOST_LABELS:
                return self.parts
            texts = text_map(labels)
            for key, values in self._by_label:
                if key in texts:
                    mask |= values.get(texts[key], 0)
        mask &= self._of_name(name_of(resource)) & self._of_namespace(resource)
        found = self._known.get(mask)
        if found is None:
            found = tuple(part for at, part in enumerate(self.parts) if mask >> at & 1)
            _keep(self._known, mask, found)
        return found

    def in_order(self, results: list[RuleResult]) -> tuple[RuleResult, ...]:
        """Results of several candidates, as if all rules had run one after the other."""
        return tuple(sorted(results, key=lambda r: self._places[r.namespace, r.policy, r.rule]))

    def plans_in_order(self, plans: Iterable[RulePlan]) -> tuple[RulePlan, ...]:
        """Rules of several candidates in the order of all."""
        return tuple(sorted(plans, key=lambda plan: self._order[id(plan)]))

    def _of_name(self, name: str) -> int:
        mask = self._nameless | self._by_name.get(name, 0)
        for pattern, of_pattern in self._globs:
            if glob(pattern, name):
                mask |= of_pattern
        return mask

    def _of_namespace(self, resource: Any) -> int:
        key = namespace_of(resource)
        found = self._by_namespace.get(key)
        if found is None:
            found = self._mask(lambda p: not p.namespaces or namespaces(resource, list(p.namespaces)))
            _keep(self._by_namespace, key, found)
        return found

    def _mask(self, holds: Callable[[Premise], bool]) -> int:
        return sum(1 << at for at, p in enumerate(self._premises) if holds(p))


def _add(masks: dict[str, int], key: str, at: int) -> None:
    masks[key] = masks.get(key, 0) | 1 << at


def _keep(known: dict[Any, Any], key: Any, value: Any) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[key] = value
