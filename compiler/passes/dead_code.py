"""Drops what no evaluation reaches: statements behind a return, functions that nobody calls, locals that nobody uses.

A module's roots are the entries of rules, queries and exceptions; a rule itself is never dead, since its outcome shows
in reports.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir.check import callees
from compiler.ir.ops import (
    Break,
    Do,
    Each,
    EachPair,
    Expr,
    Function,
    If,
    Local,
    Module,
    Next,
    Op,
    Return,
    Set,
    Stmt,
)
from compiler.ir.walk import iter_expr, iter_stmts, map_functions, own_exprs, rewrite_function


def dead_code(m: Module) -> Module:
    """The module without unreachable statements, unused functions and unused locals."""
    m = map_functions(m, _function)
    by_name = {fn.name: fn for fn in m.functions}
    open_ = [fn.name for fn in m.functions if fn.role == "entry"] + [x.entry for x in m.exemptions]
    live: set[str] = set()
    while open_:
        name = open_.pop()
        if name not in live:
            live.add(name)
            open_ += callees(by_name[name])
    kept = tuple(fn for fn in m.functions if fn.name in live)
    if len(kept) == len(m.functions):
        return m
    return map_functions(replace(m, functions=kept), lambda fn: _without_resets(fn, live))


def _without_resets(fn: Function, live: set[str]) -> Function:
    """A cell that nobody reads is gone, so there is nothing to forget at the start of an element."""

    def body(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(s for s in stmts if not _is_reset(s, live))

    return rewrite_function(fn, _same, body)


def _is_reset(stmt: Stmt, live: set[str]) -> bool:
    match stmt:
        case Do(Op("reset", (), (name,))):
            return name not in live
    return False


def _function(fn: Function) -> Function:
    fn = rewrite_function(fn, _same, _reachable)
    used = set(fn.params)
    for stmt in iter_stmts(fn.body):
        match stmt:
            case Set():
                used.add(stmt.name)
            case Each():
                used.add(stmt.item)
                if stmt.index is not None:
                    used.add(stmt.index)
            case EachPair():
                used.update((stmt.key, stmt.value))
        for expr in own_exprs(stmt):
            used.update(e.name for e in iter_expr(expr) if isinstance(e, Local))
    if len(used) == len(fn.locals):
        return fn
    return replace(fn, locals={name: kind for name, kind in fn.locals.items() if name in used})


def _same(expr: Expr) -> Expr:
    return expr


def ends(body: tuple[Stmt, ...]) -> bool:
    """Whether control never goes on behind a body."""
    if not body:
        return False
    match body[-1]:
        case Return() | Break() | Next():
            return True
        case If(_, then, other):
            return ends(then) and ends(other)
    return False


def _reachable(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    for i, stmt in enumerate(body[:-1]):
        if ends((stmt,)):
            return body[: i + 1]
    return body
