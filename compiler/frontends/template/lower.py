"""Lowers policy values that hold ``{{ }}`` variables and ``$( )`` references to IR (semantics §6).

Called by the front ends for patterns, conditions, messages and patches. Every lowering is one expression of kind V that
answers the finished value, or an ``Err`` whose text is what the reference says when a variable fails.
"""

from __future__ import annotations

from typing import Any

from compiler.frontends.template.scope import Scope
from compiler.ir.ops import Expr


def lower_value(value: Any, scope: Scope, pointer: str, *, document: Any = None, path: str = "") -> Expr:
    """A whole value: every text leaf and every map key is substituted.

    ``pointer`` is where the value stands in the policy (for diagnostics). ``path`` is where it stands in the document that
    counts as substituted at once (``""``, or ``/mutate/patchStrategicMerge`` within a rule) and ``document`` that document,
    which ``$( )`` references look into; by default the value itself. A value without variables becomes a ``Const``. At run
    time the answer is the value with everything put in, or ``Err("substitution", …)`` of the first variable that fails:
    ``failed to resolve X at path P: JMESPath query failed: Unknown key "k" in path``.
    """
    raise NotImplementedError


def lower_text(text: str, scope: Scope, pointer: str, *, path: str = "") -> Expr:
    """One text. The answer is a text, unless the whole text is one variable, which keeps the type of its value; or an Err."""
    raise NotImplementedError


def lower_query(query: str, scope: Scope, pointer: str, *, offset: int = 0) -> Expr:
    """One JMESPath query without braces. The answer is its value or an Err (``not_found`` included, not wrapped).

    ``offset`` is where the query starts in the text at ``pointer``. A query that does not parse is reported there, and the
    expression then is an error constant.
    """
    raise NotImplementedError


def has_variables(value: Any) -> bool:
    """Whether any text or map key of a value holds a variable, a reference or an escape of one."""
    raise NotImplementedError
