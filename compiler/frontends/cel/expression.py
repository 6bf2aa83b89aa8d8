"""Expressions of policies, from text to IR: :func:`checked_expression` parses and checks, keeping what it found;
:func:`lower_expression` puts the code where a front end wants it."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Final

from compiler.frontends.cel.check import check
from compiler.frontends.cel.checked import Checked, Problem
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.lower import lower
from compiler.frontends.cel.lowered import CelFrame, Path
from compiler.frontends.cel.parse import parse
from compiler.ir import ops as ir
from grammar.errors import SyntaxProblem

__all__ = ["CelFrame", "Path", "checked_expression", "lower_expression"]

_KEPT: Final = 256
_found: Final[OrderedDict[tuple[str, int], tuple[Env, Checked | Problem]]] = OrderedDict()
_lock: Final = Lock()


def checked_expression(text: str, env: Env) -> Checked | Problem:
    """The checked tree of an expression, or why it cannot be read.

    Rules that autogen makes hold the same texts in the same environment, so the last few are kept; by the identity of
    the environment, which holds mappings.
    """
    key = (text, id(env))
    with _lock:
        kept = _found.get(key)
        if kept is not None and kept[0] is env:
            _found.move_to_end(key)
            return kept[1]
    found: Checked | Problem
    try:
        found = check(parse(text), env)
    except SyntaxProblem as problem:
        found = syntax(problem)
    except RecursionError:
        found = Problem("depth", "the expression is nested too deeply", (0, len(text)))
    with _lock:
        _found[key] = (env, found)
        if len(_found) > _KEPT:
            _found.popitem(last=False)
    return found


def syntax(problem: SyntaxProblem) -> Problem:
    """What the parser found, as the checker says things."""
    kind = problem.code if problem.code in ("depth", "length") else "syntax"
    return Problem(kind, problem.message, (problem.start, problem.end), help=problem.hint)


def lower_expression(checked: Checked, frame: CelFrame) -> ir.Expr:
    """The value of a checked expression without errors, of kind V: an ``Err`` when it fails or costs too much."""
    return lower(checked, frame)
