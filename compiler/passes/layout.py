"""Turns guards around so that the way usually taken falls through tests that need no ``not``.

Both tiers run ``test; if`` as one step, and a test that holds then leads straight on. Before and after::

    if not(is_map(%x))                        if is_map(%x)
      return false                              …
    …                                           return true
    return true                               return false

Only where the rest ends (in a return, ``break`` or ``next``) and not deeper than CPython and the verifier like their
blocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from compiler.ir.ops import Each, EachPair, Expr, Function, If, Module, Next, Op, Stmt
from compiler.ir.walk import Body, map_children, map_functions, map_stmt, same_body
from compiler.passes.dead_code import ends

DEEPEST: Final = 16
"""Blocks in one another that this pass makes; 64 are allowed, and what the code holds anyway comes on top."""


def layout(m: Module) -> Module:
    """The module with guards turned around."""
    return map_functions(m, _function)


def _function(fn: Function) -> Function:
    body = _body(fn.body, 0, in_loop=False)
    return fn if body is fn.body else replace(fn, body=body)


def _body(body: Body, depth: int, *, in_loop: bool) -> Body:
    """``in_loop``: the body is that of a loop, behind whose last statement the next round starts by itself."""
    for i, stmt in enumerate(body):
        match stmt:
            case If(Op("not", (cond,)), then, ()) if depth < DEEPEST and ends(then):
                rest = body[i + 1 :]
                if in_loop and not ends(rest):
                    rest = (*rest, Next())
                if not ends(rest):
                    continue
                inner = _body(rest, depth + 1, in_loop=False)
                head = [_stmt(s, depth) for s in body[:i]]
                return (*head, If(cond, inner, (), stmt.at), *then)
    return same_body(body, [_stmt(s, depth) for s in body])


def _stmt(stmt: Stmt, depth: int) -> Stmt:
    match stmt:
        case Each() | EachPair():
            over, body = _expr(stmt.over, depth), _body(stmt.body, depth + 1, in_loop=True)
            return stmt if over is stmt.over and body is stmt.body else replace(stmt, over=over, body=body)
    return map_stmt(stmt, lambda e: _expr(e, depth), lambda b: _body(b, depth + 1, in_loop=False))


def _expr(expr: Expr, depth: int) -> Expr:
    return map_children(expr, lambda e: _expr(e, depth), lambda b: b)
