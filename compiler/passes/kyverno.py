"""Gives a module the answers of the reference where Thesmos is right and the reference is not (``--quirks=kyverno``).

Runs once, between lowering and the passes, and only when asked: what it changes are the names of intrinsics, so that
nothing is paid for it otherwise. ``foreach`` and generate rules are lowered accordingly by their front ends. What
keeps namespaces apart stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from compiler.ir.ops import Expr, Invoke, Module
from compiler.ir.walk import map_functions, rewrite_function

TWINS: Final = {
    "pat.walk": "pat.walk_kyverno",
    "cond.equals": "cond.equals_kyverno",
    "cond.not_equals": "cond.not_equals_kyverno",
    "patch.strategic": "patch.strategic_kyverno",
    "jmes.semver_compare": "jmes.semver_compare_kyverno",
}
"""Intrinsics with the one that answers as the reference does."""


def as_kyverno(m: Module) -> Module:
    """The module with every intrinsic of :data:`TWINS` exchanged."""
    return map_functions(m, lambda fn: rewrite_function(fn, _twin))


def _twin(e: Expr) -> Expr:
    return replace(e, name=TWINS[e.name]) if isinstance(e, Invoke) and e.name in TWINS else e
