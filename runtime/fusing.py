"""The rules that judge a request, fused: which of them pass for sure is asked at once, the others run one by one.

:class:`FusedRules` stands for the rules that one kind and operation can reach. ``runtime.policyset`` makes it,
``runtime.engine`` asks it. Functions are generated for rules that have been asked a second time, in the background
where the code of the set is, and at once elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from vm.host import Status

if TYPE_CHECKING:
    from runtime.mismatches import Mismatches
    from runtime.policyset import PolicyInfo, RulePlan
    from vm.fused import Fused, Rule
    from vm.host import Meter
    from vm.verify import VerifiedModule

Group: TypeAlias = "tuple[PolicyInfo, tuple[RulePlan, ...]]"
"""A policy with those of its rules that may reach a request."""

Later: TypeAlias = Callable[[Callable[[], object]], None]

_LOG: Final = logging.getLogger("thesmos.tiers")

UNIT: Final = 64
"""Rules of one generated function: beyond that it is generated too long in one piece, and gains little."""
MOST_KNOWN: Final = 256
"""Answers kept, each of which has as many entries as there are rules."""
_POOR: Final = 4
_REST: Final = 16
"""Where so many requests one after the other break more than three of four rules, nothing is asked of so many that
follow, and then of one again: a controller whose objects are refused tries on and on, and the exact code has nearly all
to do anyway."""


class Keeper(Protocol):
    """Where generated code is kept from one process to the next: what ``marshal`` can write, by name."""

    def get(self, name: str) -> Any: ...

    def put(self, name: str, value: Any) -> None: ...


class Generated(partial[Any]):
    """Runs the code of a module that tier 2 generates, and knows the module, so that its rules can be fused with those
    of others. ``times`` is how many times the fuel of other rules its rules have. ``later`` does what can wait, None
    where nothing waits; ``kept`` is where generated code of its bundle is kept. Where there are ``mismatches``, what
    the fused rules say is compared with the exact code, and differences are noted there."""

    module: VerifiedModule
    times: int
    later: Later | None
    mismatches: Mismatches | None
    kept: Keeper | None

    @classmethod
    def of(
        cls,
        run: Callable[..., Any],
        module: VerifiedModule,
        *,
        times: int = 1,
        later: Later | None = None,
        mismatches: Mismatches | None = None,
        kept: Keeper | None = None,
    ) -> Generated:
        made = cls(run)
        made.module = module
        made.times = times
        made.later = later
        made.mismatches = mismatches
        made.kept = kept
        return made

    def around(self, run: Callable[..., Any], *, times: int) -> Generated:
        """The same of what runs this one."""
        return self.of(run, self.module, times=times, later=self.later, mismatches=self.mismatches, kept=self.kept)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the fused rules say of a request: the rules that are left to run, those that passed, and those that have no
    result."""

    left: tuple[Group, ...]
    passed: tuple[RulePlan, ...]
    silent: tuple[RulePlan, ...]
    poor: bool
    """Whether hardly any rule passed."""
    _positions: dict[int, int] = field(repr=False)
    _known: dict[tuple[int, ...], tuple[RulePlan, ...]] = field(default_factory=dict, repr=False)

    def with_others(self, others: Sequence[RulePlan]) -> tuple[RulePlan, ...]:
        """All rules that passed, in their order: those that did surely, and others of those left."""
        if not others:
            return self.passed
        key = tuple(map(id, others))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            merged = sorted((*self.passed, *others), key=lambda plan: self._positions[id(plan)])
            known = self._known[key] = tuple(merged)
        return known


class FusedRules:
    """The rules in ``groups`` for requests of an operation, each of which may use ``fuel``. ``brief``: a rule that says
    something of a pass, or that has properties of its own, is for the exact code. ``gave_up``: its code had a fault.
    ``idle``: there is none, and never will be."""

    __slots__ = (
        "_answers",
        "_asked",
        "_brief",
        "_mismatches",
        "_plans",
        "_poor",
        "_positions",
        "_rest",
        "_units",
        "fuel",
        "gave_up",
        "groups",
        "idle",
        "operation",
    )

    def __init__(self, groups: tuple[Group, ...], operation: str, fuel: int, *, brief: bool) -> None:
        self.groups = groups
        self.operation = operation
        self.fuel = fuel
        self.gave_up = False
        self._brief = brief
        self._plans = tuple(plan for policy, plans in groups for plan in plans if _fusable(policy, plan, brief))
        self._positions = {id(plan): i for i, plan in enumerate(chain.from_iterable(plans for _, plans in groups))}
        self.idle = not self._plans
        self._units: tuple[tuple[int, Fused], ...] | None = None
        self._asked = 0
        self._poor = 0
        self._rest = 0
        self._answers: dict[tuple[int, int], Verdict] = {}
        self._mismatches = _run(self._plans[0]).mismatches if self._plans else None

    def judge(self, root: dict[str, Any], meter: Meter) -> Verdict | None:
        """What the rules say of a request; None while there is no code for that yet, and where it is not worth it."""
        units = self._units
        if units is None:
            return self._first(root, meter)
        if self._rest:
            self._rest -= 1
            return None
        failed = silent = 0
        try:
            for at, unit in units:
                no, none = unit.run(root, meter)
                if no:
                    failed |= no << at
                if none:
                    silent |= none << at
        except Exception:
            self._give_up()
            return None
        known = self._answers.get((failed, silent))
        if known is None:
            known = self._answer(failed, silent)
        if known.poor:
            self._poor += 1
            if self._poor >= _POOR:
                self._poor, self._rest = _POOR - 1, _REST
        elif self._poor:
            self._poor = 0
        if self._mismatches is not None and not self._agrees(known, root, meter, self._mismatches):
            return None
        return known

    def _agrees(self, verdict: Verdict, root: dict[str, Any], meter: Meter, mismatches: Mismatches) -> bool:
        """Whether the exact code says what the fused rules say; notes where not."""
        good = True
        for plans, status in ((verdict.passed, Status.PASS), (verdict.silent, Status.NONE)):
            for plan in plans:
                meter.begin()
                outcome = plan.run(plan.entry, root, meter)
                mismatches.compared += 1
                if outcome.status is not status:
                    good = False
                    said, exact = status.name.lower(), Status(outcome.status).name.lower()
                    mismatches.add(f"rule {plan.name} of {plan.policy.key}: fused {said}, exact {exact}", root)
        return good

    def _first(self, root: dict[str, Any], meter: Meter) -> Verdict | None:
        self._asked += 1
        if self._asked != 2 or self.idle:
            return None
        later = _run(self._plans[0]).later
        if later is not None:
            later(self._prepare)
            return None
        self._prepare()
        return self.judge(root, meter)

    def _give_up(self) -> None:
        """What is only there to be fast must let no request down: from here on the exact code answers."""
        _LOG.exception("fused code failed (%s, %d rules): the exact code answers", self.operation, len(self._plans))
        self._plans, self._units, self.gave_up, self.idle = (), None, True, True

    def _prepare(self) -> None:
        try:
            self._units = self._made()
        except Exception:
            self._give_up()

    def _made(self) -> tuple[tuple[int, Fused], ...]:
        from vm.fused import Rule

        units = []
        for at in range(0, len(self._plans), UNIT):
            plans = self._plans[at : at + UNIT]
            rules = [Rule(_run(plan).module, plan.entry, _run(plan).times) for plan in plans]
            unit = self._unit(rules, _run(plans[0]).kept)
            if unit is not None:
                units.append((at, unit))
        return tuple(units)

    def _unit(self, rules: list[Rule], keeper: Keeper | None) -> Fused | None:
        """The function of some rules, as it was kept or made anew. An empty tuple is kept where there is none."""
        from vm.fused import Kept, bind, fuse, name_of

        if keeper is None:
            return fuse(rules, self.operation, self.fuel, texts=not self._brief)
        name = name_of(rules, self.operation, self.fuel, texts=not self._brief)
        found = keeper.get(name)
        if found is not None:
            return bind(Kept(*found), rules) if found else None
        made = fuse(rules, self.operation, self.fuel, texts=not self._brief)
        value = () if made is None else (made.kept.sure, made.kept.code, made.kept.recipes)
        with suppress(ValueError):  # a constant that only CEL knows
            keeper.put(name, value)
        return made

    def _answer(self, failed: int, silent: int) -> Verdict:
        sure = 0
        for at, unit in self._units or ():
            sure |= unit.sure << at
        done = sure & ~failed
        over = {id(plan) for i, plan in enumerate(self._plans) if done >> i & 1}
        passed = tuple(plan for i, plan in enumerate(self._plans) if done & ~silent & 1 << i)
        nothing = tuple(plan for i, plan in enumerate(self._plans) if done & silent & 1 << i)
        left = ((policy, tuple(p for p in plans if id(p) not in over)) for policy, plans in self.groups)
        if len(self._answers) >= MOST_KNOWN:
            self._answers.clear()
        poor = len(over) * 4 < len(self._plans)
        found = Verdict(tuple(group for group in left if group[1]), passed, nothing, poor, self._positions)
        self._answers[failed, silent] = found
        return found


def _run(plan: RulePlan) -> Generated:
    """How a rule that can be fused is run."""
    assert isinstance(plan.run, Generated)
    return plan.run


def _fusable(policy: PolicyInfo, plan: RulePlan, brief: bool) -> bool:
    """Whether nothing of a rule matters but that it passes: no message, no order, no exception."""
    keep = policy.properties_vary if brief else policy.recorded
    return not keep and not policy.apply_one and not plan.exemptions and isinstance(plan.run, Generated)
