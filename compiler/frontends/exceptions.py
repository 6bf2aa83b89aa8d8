"""Lowers a PolicyException to a function that says whether it applies, and its metadata (semantics §15.1).

Called by :mod:`compiler.lower`; the engine calls the function for the rules that the exception names, and decides what
follows. Metadata for the runtime, keys absent where an exception says nothing:

=================  =====================================================================
``apiVersion``     as in the document
``file``           where the exception came from
``background``     false: it does not count in background scans
``podSecurity``    exclusions that it adds to rules with podSecurity, as in such a rule
=================  =====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from compiler.diagnostics import Reporter
from compiler.frontends.conditions import lower_conditions
from compiler.frontends.match import matched
from compiler.frontends.pod_security import exclusion_json
from compiler.frontends.template import PLAIN_ROOTS, Scope
from compiler.ir import ops as ir
from compiler.ir.build import FALSE, TRUE, FunctionBuilder, negate
from compiler.schema.model import ExceptionPolicy

_AUTOGEN_PREFIXES: Final = ("", "autogen-", "autogen-cronjob-")


@dataclass(slots=True)
class _Frame:
    """The function of an exception: what cannot be evaluated keeps it from applying, so that the rule counts."""

    builder: FunctionBuilder
    scope: Scope
    places: set[str] = field(default_factory=set)

    def stop(self, text: ir.Expr, at: str) -> ir.Stmt:
        return ir.Return(FALSE, at)

    def fail_with_error(self, value: ir.Expr, prefix: str, at: str) -> None:
        if not isinstance(value, ir.Const):
            self.builder.emit(ir.If(ir.Op("is_err", (value,)), (self.stop(value, at),), (), at))


def exemption(
    exception: ExceptionPolicy, name: str, functions: list[ir.Function], reporter: Reporter | None
) -> ir.Exemption:
    """The exemption of an exception, whose function ``name`` is added to ``functions``."""
    builder = FunctionBuilder(name, result="B", role="exception")
    condition = matched(exception.match, exception=True)
    if exception.conditions is None:
        builder.ret(condition)
    else:
        scope = Scope(builder, reporter=reporter, spans=exception.doc.spans, roots=PLAIN_ROOTS, functions=functions)
        frame = _Frame(builder, scope)
        if condition != TRUE:
            builder.ret_if(negate(condition), FALSE)
        builder.ret(lower_conditions(frame, exception.conditions, "/spec/conditions", "").holds)
    functions.append(builder.function())
    return ir.Exemption(exception.name, exception.namespace, _rules(exception), name, _meta(exception))


def _rules(exception: ExceptionPolicy) -> tuple[tuple[str | None, str], ...]:
    if not exception.guide:
        return tuple((r.policy, r.rule) for r in exception.rules)
    return tuple((r.policy, prefix + r.rule) for r in exception.rules for prefix in _AUTOGEN_PREFIXES)


def _meta(exception: ExceptionPolicy) -> dict[str, Any]:
    meta: dict[str, Any] = {"apiVersion": exception.api_version, "file": exception.doc.origin}
    if not exception.background:
        meta["background"] = False
    if exception.pod_security:
        meta["podSecurity"] = [exclusion_json(e) for e in exception.pod_security]
    return meta
