"""Boolean and structural laws on the IR.

Conditions are two-valued here (kind ``B`` holds no error), so the classical laws hold as long as nothing with an
effect is dropped: ``not not x = x``, ``x && true = x``, ``x && false = false`` (for what stands behind the false, and
before it when it is pure), the same for ``||``, and choice on a constant. Before and after::

    if not(not(and(is_map(%x), true)))      if is_map(%x)
      return o_pass()                         return o_pass()
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from compiler.ir.build import FALSE, TRUE, negate
from compiler.ir.ops import (
    And,
    Block,
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
    Op,
    Or,
    Return,
    Set,
    Stmt,
)
from compiler.ir.types import is_pure, kind_of
from compiler.ir.walk import iter_exprs, map_functions, rewrite_function, same

_KIND_TEST: Final = {"is_list": "L", "is_map": "M", "is_text": "S", "is_err": "E"}
_KIND_CAST: Final = {
    "as_list": "L",
    "as_map": "M",
    "as_text": "S",
    "to_text": "S",
    "absent_null": "BISLME",
    "j_found": "BISLM",
}
_NEVER: Final = {"is_missing": "BISLME", "is_null": "BISLME", "is_absent": "BISLME", "err_code": "BISLM"}


def simplify(m: Module) -> Module:
    """The module with the laws applied bottom-up to every function."""
    functions = {fn.name: fn for fn in m.functions}
    return map_functions(m, lambda fn: simplify_function(fn, functions))


def simplify_function(fn: Function, functions: Mapping[str, Function]) -> Function:
    """One function of a module; other passes call it on what they have made."""
    kinds = fn.locals

    def expr(e: Expr) -> Expr:
        match e:
            case Op("not", (inner,)):
                return _not(inner, e)
            case And():
                return join(e.terms, True, e)
            case Or():
                return join(e.terms, False, e)
            case Choose():
                return _choose(e)
            case Block((), value):
                return value
            case Op("get", (Load(path),), (str() as key,)):
                return Load((*path, key))
            case Op(name, (arg,)):
                kind = kind_of(arg, kinds, functions)
                if kind in _KIND_CAST.get(name, ""):
                    return arg
                if kind != "V" and name in _KIND_TEST and is_pure(arg):
                    return Const(kind == _KIND_TEST[name])
                if kind in _NEVER.get(name, "") and is_pure(arg):
                    return FALSE
                if kind == "B" and name == "is_true":
                    return arg
                if kind == "B" and name == "is_false":
                    return negate(arg)
        return e

    return rewrite_function(fn, expr, _body)


def _not(inner: Expr, whole: Expr) -> Expr:
    match inner:
        case Op("not", (twice,)):
            return twice
        case Const(bool() as value):
            return Const(not value)
        case And(terms) if all(isinstance(t, Op) and t.name == "not" for t in terms):
            return Or(tuple(negate(t) for t in terms))
        case Or(terms) if all(isinstance(t, Op) and t.name == "not" for t in terms):
            return And(tuple(negate(t) for t in terms))
    return whole


def join(terms: tuple[Expr, ...], unit: bool, whole: Expr) -> Expr:
    """A conjunction (``unit`` true) or disjunction (false) without nesting, units, doubles and what is never
    reached."""
    flat: list[Expr] = []
    for term in terms:
        if isinstance(term, And if unit else Or):
            flat.extend(term.terms)
        else:
            flat.append(term)
    kept: list[Expr] = []
    for term in flat:
        if isinstance(term, Const):
            if term.value is unit:
                continue
            if all(map(is_pure, kept)):
                return term
            kept.append(term)
            break
        if not (is_pure(term) and any(same(term, k) for k in kept)):
            kept.append(term)
    if not kept:
        return TRUE if unit else FALSE
    if len(kept) == 1:
        return kept[0]
    new = tuple(kept)
    if len(new) == len(terms) and all(a is b for a, b in zip(new, terms, strict=True)):
        return whole
    return And(new) if unit else Or(new)


def _choose(e: Choose) -> Expr:
    match e:
        case Choose(Const(value), then, other):
            return then if value is True else other
        case Choose(cond, Const(True), Const(False)):
            return cond
        case Choose(cond, Const(False), Const(True)):
            return negate(cond)
        case Choose(cond, then, other) if is_pure(cond) and is_pure(then) and same(then, other):
            return then
        case Choose(Op("not", (cond,)), then, other):
            return Choose(cond, other, then)
    return e


def _body(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    changed = False
    for stmt in body:
        new = _stmt(stmt)
        changed = changed or len(new) != 1 or new[0] is not stmt
        for s in new:
            if out and (threaded := _threaded(out[-1], s)) is not None:
                out[-1:] = threaded
                changed = True
            else:
                out.append(s)
    return tuple(out) if changed else body


def _threaded(first: Stmt, second: Stmt) -> tuple[Stmt, ...] | None:
    """``x = choose(c, null, e); if is_null(x) return r`` leads straight to the return where ``c`` holds."""
    match first, second:
        case Set(name, Choose(cond, Const(None), other)), If(
            Op("is_null", (Local(read),)), (Return(value),) as then, ()
        ):
            if read == name and not any(e == Local(name) for e in iter_exprs((Return(value),))):
                return If(cond, then, (), second.at), Set(name, other, first.at), second
    return None


def _stmt(stmt: Stmt) -> tuple[Stmt, ...]:
    match stmt:
        case If(Const(value), then, other):
            return then if value is True else other
        case If(cond, (), ()):
            return () if is_pure(cond) else (Do(cond, stmt.at),)
        case If(cond, (), other):
            return (If(negate(cond), other, (), stmt.at),)
        case If(Op("not", (cond,)), then, other) if other:
            return (If(cond, other, then, stmt.at),)
        case Do(value) if is_pure(value):
            return ()
        case Set() | Return() | Do():
            opened, value = _opened(stmt.value)
            if opened:
                return (*opened, replace(stmt, value=value))
        case If(cond, then, other):
            opened, cond = _opened(cond)
            if opened:
                return (*opened, If(cond, then, other, stmt.at))
        case Each() | EachPair():
            opened, over = _opened(stmt.over)
            if opened:
                return (*opened, replace(stmt, over=over))
    return (stmt,)


def _opened(expr: Expr) -> tuple[tuple[Stmt, ...], Expr]:
    """(statements that may run before, the rest) of an expression which evaluates a block first of all."""
    match expr:
        case Block(body, value):
            more, value = _opened(value)
            return (*body, *more), value
        case Op(name, (first, *rest), imm):
            opened, first = _opened(first)
            return (opened, Op(name, (first, *rest), imm)) if opened else ((), expr)
        case Invoke(name, (first, *rest)):
            opened, first = _opened(first)
            return (opened, Invoke(name, (first, *rest))) if opened else ((), expr)
        case Call(name, (first, *rest)):
            opened, first = _opened(first)
            return (opened, Call(name, (first, *rest))) if opened else ((), expr)
        case And((first, *rest)):
            opened, first = _opened(first)
            return (opened, And((first, *rest))) if opened else ((), expr)
        case Or((first, *rest)):
            opened, first = _opened(first)
            return (opened, Or((first, *rest))) if opened else ((), expr)
        case Choose(cond, then, other):
            opened, cond = _opened(cond)
            return (opened, Choose(cond, then, other)) if opened else ((), expr)
    return (), expr
