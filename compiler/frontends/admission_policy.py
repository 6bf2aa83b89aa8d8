"""Lowers the API server's own policies: what they do with a request that a binding of theirs matches.

Called by :mod:`compiler.lower`. Validations go the way of ``validate.cel`` in the API server's manner, mutations have
their own module. Where something fails, the failure policy decides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from compiler.frontends.rule import RuleFrame
from compiler.frontends.validate_cel import Errors, Manner, await_params, begin, lower_cel
from compiler.ir import ops as ir
from compiler.schema.kinds import Schemas
from compiler.schema.model import Params, Policy, Rule

NOT_MET: Final = "match conditions aren't met"


def manner_of(policy: Policy) -> Manner:
    errors: Errors = "ignore" if policy.failure_policy == "Ignore" else "error"
    return Manner(errors, errors, NOT_MET)


def lower_native(frame: RuleFrame, functions: list[ir.Function], schemas: Schemas, *, strict: bool) -> None:
    """Emits the body of a rule that stands for a policy and one of its bindings."""
    mutate = frame.rule.mutate
    params = _params(frame.rule)
    if params is not None and params.chosen:
        await_params(frame)
    expressions = begin(frame, functions, schemas, params, strict=strict)
    if params is not None and not params.chosen:
        # The policy has a kind of parameters and the binding chooses none: they are null (Kubernetes).
        expressions = replace(expressions, places={**expressions.places, "params": ir.Const(None)})
    if mutate is not None and mutate.cel is not None:
        from compiler.frontends.mutate_cel import lower_mutations

        lower_mutations(frame, expressions, mutate.cel, manner_of(frame.policy), schemas)
    else:
        lower_cel(frame, expressions, manner_of(frame.policy))


def native_meta(policy: Policy, rule: Rule, meta: dict[str, Any]) -> dict[str, Any]:
    """What the runtime must know of such a rule besides (see :mod:`compiler.lower`)."""
    from compiler.frontends.mutate_cel import APPLIED

    found: dict[str, Any] = {"cel": True, "passed": "" if rule.mutate is None else APPLIED}
    if "params" in meta:
        found["params"] = {**meta["params"], "onError": "ignore" if policy.failure_policy == "Ignore" else "fail"}
    return found


def _params(rule: Rule) -> Params | None:
    if rule.mutate is not None and rule.mutate.cel is not None:
        return rule.mutate.cel.params
    return rule.validate.cel.params if rule.validate is not None and rule.validate.cel is not None else None
