"""Lowers ``validate.cel`` with its preconditions to the body of a rule, and the match conditions of a policy (semantics
§21: what ValidatingAdmissionPolicy does, with Kyverno's outcomes).

Called by :mod:`compiler.lower`. Preconditions all hold or the rule is skipped, one that errs makes the rule an error
unless another is false; then the expressions in order, and the first that is not true decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from compiler.frontends.admission_env import admission_env, object_type
from compiler.frontends.expressions import AUTHORIZERS, ROOTS, Expressions
from compiler.frontends.rule import RuleFrame
from compiler.ir import ops as ir
from compiler.ir.build import FunctionBuilder, any_of, negate
from compiler.ir.ops import Const, Do, If, Invoke, Load, Local, Op
from compiler.schema.kinds import Schemas
from compiler.schema.model import Cel, CelExpression, NamedExpression, Params
from vm.host import CEL_NOT_MET

_PARAMS: Final = Load(("$params",))

Errors: TypeAlias = Literal["fail", "error", "ignore"]
"""What an expression that errs comes to; one that is ignored is no violation, a condition then is not met."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a rule speaks: what errors of preconditions and of expressions come to, and the text of a skip."""

    expression_errors: Errors = "fail"
    condition_errors: Errors = "error"
    not_met: str = CEL_NOT_MET


KYVERNO: Final = Manner()
"""``validate.cel``: as in the reference an expression that errs is a violation, whose message tells of the error."""


def begin(
    frame: RuleFrame, functions: list[ir.Function], schemas: Schemas, params: Params | None, *, strict: bool
) -> Expressions:
    """The expressions of a rule, before its variables are declared."""
    env = admission_env(object_type(frame.rule.match, schemas), schemas, params=params, strict=strict)
    return Expressions(
        frame.builder.name,
        frame.builder.policy or 0,
        functions,
        env,
        {**ROOTS, **AUTHORIZERS},
        frame.scope.reporter,
        frame.policy.doc.spans,
    )


def await_params(frame: RuleFrame) -> None:
    """Emits the early end of a rule with parameters that has none yet: a skip that says that it wants them
    (``runtime.params``). Stands behind match and exclude."""
    frame.builder.ret_if(
        Op("is_missing", (_PARAMS,)), Op("o_skip", (Const("parameters"),)), frame.at("validate", "cel")
    )


def lower_match_conditions(
    frame: RuleFrame, functions: list[ir.Function], schemas: Schemas, conditions: Sequence[NamedExpression]
) -> None:
    """Emits the match conditions of the policy's webhook: one that is false means that the policy is not applied, one
    that errs what the failure policy says. The API server evaluates them too, so they are plain CEL."""
    env = admission_env(object_type(frame.rule.match, schemas), schemas, strict=True)
    places = {**ROOTS, **AUTHORIZERS, "namespaceObject": Const(None)}
    told = frame.scope.reporter if frame.rule.index == 0 else None
    name = f"{frame.builder.name}.m"
    expressions = Expressions(name, frame.builder.policy or 0, functions, env, places, told, frame.policy.doc.spans)
    ignored = frame.policy.failure_policy == "Ignore"
    at = "/spec/webhookConfiguration/matchConditions"
    frame.places.add(at)
    frame.places.update(c.pointer for c in conditions)
    nothing = Op("o_none")
    lower_conditions(
        frame.builder, expressions, conditions, nothing, lambda text: nothing if ignored else Op("o_error", (text,)), at
    )


def lower_cel(frame: RuleFrame, expressions: Expressions, manner: Manner = KYVERNO) -> None:
    """Emits the body of the rule up to its last return."""
    cel = _cel(frame)
    for variable in cel.variables:
        expressions.declare(variable)
    b = frame.builder
    skip = Op("o_skip", (Const(manner.not_met),))
    broken = outcome(manner.condition_errors, skip)
    lower_conditions(b, expressions, frame.rule.cel_preconditions, skip, broken, frame.at("celPreconditions"))
    message = frame.rule.validate.message if frame.rule.validate is not None else None
    lower_checks(b, expressions, cel.expressions, message, manner)
    for annotation in cel.audit_annotations:
        # Nothing reads them yet; a wrong one is told all the same.
        scratch = FunctionBuilder(f"{b.name}.a", result="V")
        expressions.text(annotation.expression, annotation.pointer, scratch, or_null=True)
    b.ret(Op("o_pass"), frame.at("validate", "cel"))


def lower_conditions(
    b: FunctionBuilder,
    expressions: Expressions,
    conditions: Sequence[NamedExpression],
    not_met: ir.Expr,
    broken: Callable[[ir.Expr], ir.Expr],
    at: str,
) -> None:
    """Emits conditions that must all hold: one that is false decides (``not_met``) whatever the others are; else those
    that err do (``broken`` of their text)."""
    values: list[tuple[str, Local]] = []
    for condition in conditions:
        value = b.let(expressions.boolean(condition.expression, condition.pointer, b), "V", "met", condition.pointer)
        b.ret_if(Op("is_false", (value,)), not_met, condition.pointer)
        values.append((condition.expression, value))
    if not values:
        return
    with b.nested() as erred:
        if len(values) == 1:
            ((text, value),) = values
            said: ir.Expr = Invoke("cel_rule.error", (value, Const(text)))
        else:
            texts = b.let(Op("new_list"), "L", "errors")
            for text, value in values:
                add = Do(Op("append", (texts, Invoke("cel_rule.error", (value, Const(text))))))
                b.emit(If(Op("is_true", (value,)), (), (add,)))
            said = Invoke("cel_rule.errors", (texts,))
        b.ret(broken(said), at)
    b.emit(If(any_of([negate(Op("is_true", (value,))) for _, value in values]), tuple(erred), (), at))


def lower_checks(
    b: FunctionBuilder,
    expressions: Expressions,
    checks: Sequence[CelExpression],
    rule_message: str | None,
    manner: Manner,
) -> None:
    """Emits the expressions in order; the code goes on behind them when all are true."""
    # The authorizer is not known to messages (Kubernetes).
    messages = expressions.without("authorizer", "authorizer.requestResource")
    for check in checks:
        at = check.pointer + "/expression"
        value = b.let(expressions.boolean(check.expression, at, b), "V", "holds", at)
        with b.nested() as failed:
            if manner.expression_errors != "ignore":
                error = Invoke("cel_rule.error", (value, Const(check.expression)))
                b.ret_if(negate(Op("is_false", (value,))), outcome(manner.expression_errors, Op("o_pass"))(error), at)
            _violation(b, messages, check, rule_message)
        # An error that is ignored is no violation, and the next expression is asked.
        violated = Op("is_false", (value,)) if manner.expression_errors == "ignore" else negate(Op("is_true", (value,)))
        b.emit(If(violated, tuple(failed), (), at))


def _violation(b: FunctionBuilder, messages: Expressions, check: CelExpression, rule_message: str | None) -> None:
    """The message of an expression that is false: the computed one, its own, the rule's, or the expression itself."""
    from vm.intrinsics.cel_rule import trim

    fixed = trim(check.message or rule_message or "") or f"failed expression: {trim(check.expression)}"
    at = check.pointer + "/messageExpression"
    if check.message_expression:
        computed = messages.text(check.message_expression, at, b)
        said = b.let(Invoke("cel_rule.message", (computed,)), "S", "said", at)
        b.ret_if(negate(Op("is_empty", (said,))), Op("o_fail", (said,)), at)
    b.ret(Op("o_fail", (Const(fixed),)), check.pointer)


def outcome(errors: Errors, ignored: ir.Expr) -> Callable[[ir.Expr], ir.Expr]:
    """What becomes of the text of an error."""
    match errors:
        case "fail":
            return lambda text: Op("o_fail", (text,))
        case "error":
            return lambda text: Op("o_error", (text,))
        case "ignore":
            return lambda text: ignored


def _cel(frame: RuleFrame) -> Cel:
    validate = frame.rule.validate
    if validate is None or validate.cel is None:
        raise ValueError(f"rule {frame.name} has no CEL expressions")
    return validate.cel
