"""Refuses expressions of a rule that may cost more than the API server grants, with the lists that make them dear.

Called by :mod:`compiler.frontends.expressions` for every expression of a rule as it is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from compiler.diagnostics import Reporter
from compiler.frontends.cel.checked import Checked
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.estimate import Culprit, Estimate, estimate
from compiler.frontends.cel.sizes import ITEMS, Bounds, Shape, SizeProvider
from compiler.source import SourceMap
from vm.cel.costs import PER_EXPRESSION, PER_RULE

_NAMED: Final = 3
"""So many lists are named; a fourth loop inside them makes no difference to the author."""


@dataclass(slots=True)
class Costs:
    """What the expressions of one rule may cost together, and what is known of its variables, by their full names."""

    variables: dict[str, Shape] = field(default_factory=dict)
    total: int = 0

    def add(self, checked: Checked, env: Env, reporter: Reporter, spans: SourceMap, at: str, text: str) -> Shape:
        """Counts an expression, and reports it when it may cost too much, or when the rule may with it. Returns what is
        known of its value."""
        provider = env.provider if isinstance(env.provider, SizeProvider) else None
        found = estimate(checked, Bounds(provider, self.variables))
        if found.high > PER_EXPRESSION:
            culprit = _place(found)
            span = spans.text_span(at, *(culprit.at if culprit is not None else (0, len(text.rstrip()))))
            reporter.error("T1270", span, _said("the expression", found.high, PER_EXPRESSION), help=_help(found))
            return found.shape
        before = self.total
        self.total += found.high
        if before <= PER_RULE < self.total:
            reporter.error(
                "T1271", spans.span(at), _said("the rule up to here", self.total, PER_RULE), help=_help(found)
            )
        return found.shape


def _said(what: str, cost: int, limit: int) -> str:
    return f"{what} may cost {cost:,} units, more than the {limit:,} that one may"


def _place(found: Estimate) -> Culprit | None:
    """The dearest loop over something that has no bound, else the dearest."""
    return next((c for c in found.culprits if c.guessed), found.culprits[0] if found.culprits else None)


def _help(found: Estimate) -> str:
    paths = list(dict.fromkeys(c.path for c in found.culprits if c.guessed and c.path))[:_NAMED]
    if paths:
        lists = "list" if len(paths) == 1 else "lists"
        return f"{lists} without maxItems in {', '.join(paths)}: counted as {ITEMS} elements"
    if not found.culprits:
        return ""
    return f"the loop goes round up to {max(c.rounds for c in found.culprits):,} times"
