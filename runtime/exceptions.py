"""Which exceptions hold for a rule and a request, and what they come to (semantics §15.1).

The engine asks once a rule has had something to say. Their conditions are code of the policy set; whose exceptions
count is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runtime.policyset import ExemptionPlan, RulePlan
from vm.code import BACKGROUND_KINDS
from vm.host import Meter
from vm.intrinsics.wildcard import match as wildcard

KEY: Final = "$exclusions"
"""Where the code of a rule with podSecurity finds what exceptions exclude besides."""


@dataclass(frozen=True, slots=True)
class ExceptionScope:
    """Whose exceptions count: all (offline), those of the request's own namespace, and those of named namespaces.

    ``background``: in a background scan, where exceptions with ``background: false`` do not count.
    """

    everywhere: bool = True
    namespaces: tuple[str, ...] = ()
    background: bool = False

    def admits(self, namespace: str, request_namespace: str) -> bool:
        if self.everywhere or namespace == request_namespace:
            return True
        return any(wildcard(pattern, namespace) for pattern in self.namespaces)

    def holding(
        self, plan: RulePlan, request_namespace: str, root: dict[str, Any], meter: Callable[[], Meter]
    ) -> tuple[ExemptionPlan, ...]:
        """The exceptions that hold for a rule and a request, in the order of the set; ``meter`` makes one for each."""
        return tuple(
            e
            for e in plan.exemptions
            if (e.background or not self.background)
            and self.admits(e.namespace, request_namespace)
            and e.run(e.entry, root, meter()) is True
        )


EVERYWHERE: Final = ExceptionScope()
"""Every exception counts, as offline."""


def exclusions(held: Iterable[ExemptionPlan]) -> list[Any] | None:
    """What the exceptions exclude from a rule with podSecurity; None when one of them frees from the rule whole."""
    found: list[Any] = []
    for exemption in held:
        if not exemption.pod_security:
            return None
        found += exemption.pod_security
    return found


def skip_text(plan: RulePlan, held: Sequence[ExemptionPlan]) -> str:
    """The message of a rule that exceptions skip."""
    keys = ", ".join(e.key for e in held)
    if plan.kind in BACKGROUND_KINDS:
        return f"rule is skipped due to policy exception {keys}"
    # Kyverno quirk: only rules with podSecurity have a space before the first name.
    space = " " if "podSecurity" in plan.meta else ""
    return f"rule is skipped due to policy exceptions{space}{keys}"
