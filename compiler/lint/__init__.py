"""Everything that can be said of policies without making code of them: the compiler's errors, warnings and notes, and
advice about style, which compiling never gives.

:func:`lint` is called by ``thesmos lint``. Rules are lowered to IR for what front ends find in queries, patterns and
expressions, so that each check has one owner; no pass runs and no code comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.diagnostics import Diagnostic, Reporter
from compiler.lint.advice import advise
from compiler.lower import lower
from compiler.schema import read_policies
from compiler.schema.kinds import Schemas, provider
from compiler.schema.model import Policy
from compiler.schema.model_rules import check_models
from compiler.source import Document

__all__ = ["lint"]


def lint(
    docs: Sequence[Document], *, crds: tuple[dict[str, Any], ...] = (), cel_strict: bool = False
) -> list[Diagnostic]:
    """The findings about the policy documents of one file, in the order of their places. ``crds`` are
    CustomResourceDefinitions whose kinds are known besides those of Kubernetes. Never raises for what the documents
    hold."""
    reporter = Reporter()
    schemas = provider(crds)
    policies, exceptions = read_policies(docs, reporter, schemas)
    check_models(policies, schemas, reporter)
    for policy in policies:
        _lowered(policy, reporter, schemas, cel_strict)
        advise(policy, schemas, reporter)
    if exceptions and not reporter.failed:
        lower((), exceptions, reporter, schemas, cel_strict=cel_strict)
    return sorted(reporter.diagnostics, key=_place)


def _lowered(policy: Policy, reporter: Reporter, schemas: Schemas, cel_strict: bool) -> None:
    try:
        lower((policy,), (), reporter, schemas, cel_strict=cel_strict)
    except RecursionError:
        # Trees are walked by recursion; the compiler says the same of what is this deep.
        reporter.error("T2001", None, f"the policy {policy.key} holds expressions that are nested too deeply")


def _place(diagnostic: Diagnostic) -> tuple[int, int, str]:
    span = diagnostic.span
    return (span.line, span.column, diagnostic.code) if span is not None else (0, 0, diagnostic.code)
