"""Rebuilding and searching IR trees. A node whose children did not change stays the very same object, so that a pass
that finds nothing to do costs no memory and the pipeline can see by identity which functions to check again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from compiler.ir.ops import (
    And,
    Block,
    Break,
    Call,
    Choose,
    Const,
    Do,
    Each,
    EachPair,
    Expr,
    Function,
    If,
    Invoke,
    Load,
    Local,
    Module,
    Next,
    Op,
    Or,
    Return,
    Set,
    Stmt,
)
from vm.values import canonical_key

Rewrite: TypeAlias = Callable[[Expr], Expr]
Body: TypeAlias = tuple[Stmt, ...]


def _all(items: tuple[Expr, ...], f: Rewrite) -> tuple[Expr, ...]:
    new = [f(x) for x in items]
    for a, b in zip(items, new, strict=True):
        if a is not b:
            return tuple(new)
    return items


def map_children(expr: Expr, f: Rewrite, body: Callable[[Body], Body]) -> Expr:
    """The expression with ``f`` applied to each direct operand and ``body`` to the statements of a block."""
    match expr:
        case Op():
            args = _all(expr.args, f)
            return expr if args is expr.args else Op(expr.name, args, expr.imm)
        case Invoke():
            args = _all(expr.args, f)
            return expr if args is expr.args else Invoke(expr.name, args, expr.at)
        case Call():
            args = _all(expr.args, f)
            return expr if args is expr.args else Call(expr.name, args)
        case And():
            terms = _all(expr.terms, f)
            return expr if terms is expr.terms else And(terms)
        case Or():
            terms = _all(expr.terms, f)
            return expr if terms is expr.terms else Or(terms)
        case Choose():
            cond, then, other = f(expr.cond), f(expr.then), f(expr.other)
            same = cond is expr.cond and then is expr.then and other is expr.other
            return expr if same else Choose(cond, then, other)
        case Block():
            stmts, value = body(expr.body), f(expr.value)
            return expr if stmts is expr.body and value is expr.value else Block(stmts, value)
        case Const() | Local() | Load():
            return expr


def map_stmt(stmt: Stmt, f: Rewrite, body: Callable[[Body], Body]) -> Stmt:
    """The statement with ``f`` applied to the expressions it holds itself and ``body`` to each body below it."""
    match stmt:
        case Set():
            value = f(stmt.value)
            return stmt if value is stmt.value else Set(stmt.name, value, stmt.at)
        case Return():
            value = f(stmt.value)
            return stmt if value is stmt.value else Return(value, stmt.at)
        case Do():
            value = f(stmt.value)
            return stmt if value is stmt.value else Do(value, stmt.at)
        case If():
            cond, then, other = f(stmt.cond), body(stmt.then), body(stmt.other)
            same = cond is stmt.cond and then is stmt.then and other is stmt.other
            return stmt if same else If(cond, then, other, stmt.at)
        case Each():
            over, inner = f(stmt.over), body(stmt.body)
            same = over is stmt.over and inner is stmt.body
            return stmt if same else Each(stmt.item, over, inner, stmt.index, stmt.at)
        case EachPair():
            over, inner = f(stmt.over), body(stmt.body)
            same = over is stmt.over and inner is stmt.body
            return stmt if same else EachPair(stmt.key, stmt.value, over, inner, stmt.at)
        case Break() | Next():
            return stmt


def same_body(old: Body, new: list[Stmt]) -> Body:
    """``old`` itself when ``new`` holds the very same statements."""
    if len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True)):
        return old
    return tuple(new)


def rewrite_body(body: Body, f: Rewrite, stmts: Callable[[Body], Body] | None = None) -> Body:
    """Bottom-up rewrite: ``f`` sees every expression after its operands, ``stmts`` every body after its statements."""

    def expr(e: Expr) -> Expr:
        return f(map_children(e, expr, block))

    def block(b: Body) -> Body:
        new = same_body(b, [map_stmt(s, expr, block) for s in b])
        return stmts(new) if stmts else new

    return block(body)


def rewrite_function(fn: Function, f: Rewrite, stmts: Callable[[Body], Body] | None = None) -> Function:
    """:func:`rewrite_body` of a function."""
    body = rewrite_body(fn.body, f, stmts)
    return fn if body is fn.body else replace(fn, body=body)


def map_functions(m: Module, f: Callable[[Function], Function]) -> Module:
    """The module with ``f`` applied to each function."""
    new = tuple(f(fn) for fn in m.functions)
    return m if all(a is b for a, b in zip(m.functions, new, strict=True)) else replace(m, functions=new)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Direct operands of an expression, in order of evaluation; of a block only its value."""
    match expr:
        case Op() | Invoke() | Call():
            return expr.args
        case And() | Or():
            return expr.terms
        case Choose():
            return (expr.cond, expr.then, expr.other)
        case Block():
            return (expr.value,)
        case Const() | Local() | Load():
            return ()


def iter_stmts(body: Body) -> Iterator[Stmt]:
    """Every statement below a body, those inside blocks of expressions too, in order of the text."""
    for stmt in body:
        yield stmt
        for expr in own_exprs(stmt):
            for e in iter_expr(expr):
                if isinstance(e, Block):
                    yield from iter_stmts(e.body)
        match stmt:
            case If():
                yield from iter_stmts(stmt.then)
                yield from iter_stmts(stmt.other)
            case Each() | EachPair():
                yield from iter_stmts(stmt.body)


def own_exprs(stmt: Stmt) -> tuple[Expr, ...]:
    """Expressions that a statement holds itself, not those of bodies below it."""
    match stmt:
        case Set() | Return() | Do():
            return (stmt.value,)
        case If():
            return (stmt.cond,)
        case Each() | EachPair():
            return (stmt.over,)
        case Break() | Next():
            return ()


def iter_expr(expr: Expr) -> Iterator[Expr]:
    """An expression and all below it; a block's statements are left to :func:`iter_stmts`."""
    yield expr
    for child in children(expr):
        yield from iter_expr(child)


def iter_exprs(body: Body) -> Iterator[Expr]:
    """Every expression below a body, blocks included, in an order that depends on the body alone.

    With a stack of its own, since this is what the checker and the passes spend their time in.
    """
    stmts: list[Stmt] = list(body)
    exprs: list[Expr] = []
    while stmts:
        stmt = stmts.pop()
        match stmt:
            case Set() | Return() | Do():
                exprs.append(stmt.value)
            case If():
                exprs.append(stmt.cond)
                stmts += stmt.then
                stmts += stmt.other
            case Each() | EachPair():
                exprs.append(stmt.over)
                stmts += stmt.body
        while exprs:
            expr = exprs.pop()
            yield expr
            match expr:
                case Op() | Invoke() | Call():
                    exprs += expr.args
                case And() | Or():
                    exprs += expr.terms
                case Choose():
                    exprs += (expr.cond, expr.then, expr.other)
                case Block():
                    exprs.append(expr.value)
                    stmts += expr.body


def same(a: Expr, b: Expr) -> bool:
    """Whether two expressions are the same text. Python's ``==`` on nodes takes ``1``, ``1.0`` and ``True`` for one
    constant, so constants are compared once more, by kind."""
    return a == b and _constants(a) == _constants(b)


def _constants(expr: Expr) -> list[object]:
    found: list[object] = []
    for e in iter_expr(expr):
        if isinstance(e, Const):
            found.append(canonical_key(e.value))
        elif isinstance(e, Op):
            found.extend(map(canonical_key, e.imm))
        elif isinstance(e, Block):
            found.extend(c for inner in iter_exprs(e.body) for c in _constants(inner))
    return found
