"""Checks that need the model and the kinds it speaks of, once policies are read: patterns that no object can meet,
matches and excludes that leave nothing, rules behind others, generate rules that set each other off.

``check_models`` is called by :mod:`compiler.compilation` and :mod:`compiler.lint`. Nothing here refuses what Kyverno
accepts: what cannot happen is a warning.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.diagnostics import Reporter
from compiler.schema.generate_loops import check_loops
from compiler.schema.kinds import Schemas
from compiler.schema.kinds.pattern_paths import check_patterns
from compiler.schema.model import Policy
from compiler.schema.precondition_rules import check_preconditions
from compiler.schema.reach_rules import check_reach


def check_models(policies: Sequence[Policy], schemas: Schemas, reporter: Reporter) -> None:
    """Reports what the policies ask in vain (T12, T14)."""
    for policy in policies:
        check_patterns(policy, schemas, reporter)
        if not policy.native:
            check_reach(policy, schemas, reporter)
            for rule in policy.rules:
                check_preconditions(policy, rule, reporter)
    check_loops(policies, reporter)
