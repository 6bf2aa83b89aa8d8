"""Computes a pure expression over the root once in a function and keeps it in a local.

The root does not change while a function runs, and the operations that take part are pure and total, so an expression
that was evaluated on the way to another occurrence of itself has the same value there. Occurrences in arms that
exclude each other are left alone: nothing is evaluated that would not have been. Before and after::

    if is_map(@$resource.spec)                t = @$resource.spec
      x = get["a"](@$resource.spec)           if is_map(%t)
                                                x = get["a"](%t)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from compiler.ir.build import FunctionBuilder
from compiler.ir.ops import (
    And,
    Block,
    Choose,
    Const,
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
    Set,
    Stmt,
)
from compiler.ir.walk import Body, map_children, map_functions, map_stmt, same_body
from compiler.passes.dead_code import ends
from compiler.passes.simplify import simplify_function
from vm.functions import INTRINSICS
from vm.isa import BY_NAME, Effect
from vm.values import canonical_key

_SMALL: Final = (str, int, float, bool, type(None))


@dataclass(slots=True)
class _Record:
    """One first occurrence: how often its value is wanted again, and the local it gets when it is."""

    uses: int = 0
    local: str | None = None


_Known = dict[Any, _Record]


def share_loads(m: Module) -> Module:
    """The module with shared expressions in locals, function by function."""
    functions = {fn.name: fn for fn in m.functions}
    return map_functions(m, lambda fn: _function(fn, functions))


def _function(fn: Function, functions: Mapping[str, Function]) -> Function:
    # Twice the same walk: the first counts, the second, which meets the same occurrences in the same order, writes.
    counting = _Walk(None)
    counting.body(fn.body, {})
    if not any(record.uses for record in counting.records):
        return fn
    names = FunctionBuilder(fn.name)
    names.locals = dict(fn.locals)
    for record in counting.records:
        if record.uses:
            record.local = names.fresh("V", "shared")
    kinds = dict(names.locals)
    writing = _Walk(counting.records)
    writing.kinds = kinds
    body = writing.body(fn.body, {})
    # A value that is stored where it is first read makes a block, most of which open into statements.
    return simplify_function(replace(fn, body=body, locals=kinds), functions)


class _Walk:
    """Walks a function in order of evaluation; ``known`` maps what is surely evaluated already to its record."""

    def __init__(self, plan: list[_Record] | None) -> None:
        self.plan = plan
        self.records: list[_Record] = []
        self.kinds: dict[str, str] = {}

    def body(self, body: Body, known: _Known) -> Body:
        out: list[Stmt] = []
        for stmt in body:
            out.append(self.stmt(stmt, known))
        return same_body(body, out)

    def stmt(self, stmt: Stmt, known: _Known) -> Stmt:
        match stmt:
            case If():
                cond = self.expr(stmt.cond, known)
                inner_then, inner_other = dict(known), dict(known)
                then = self.body(stmt.then, inner_then)
                other = self.body(stmt.other, inner_other)
                if ends(stmt.then):
                    known.update(inner_other)
                elif ends(stmt.other):
                    known.update(inner_then)
                unchanged = cond is stmt.cond and then is stmt.then and other is stmt.other
                return stmt if unchanged else If(cond, then, other, stmt.at)
            case Each() | EachPair():
                over = self.expr(stmt.over, known)
                inner = self.body(stmt.body, dict(known))
                if over is stmt.over and inner is stmt.body:
                    return stmt
                return replace(stmt, over=over, body=inner)
        return map_stmt(stmt, lambda e: self.expr(e, known), lambda b: self.body(b, known))

    def expr(self, expr: Expr, known: _Known) -> Expr:
        match expr:
            case Const() | Local():
                return expr
            case And() | Or():
                first = self.expr(expr.terms[0], known) if expr.terms else None
                if first is None:
                    return expr
                inner = dict(known)
                terms = (first, *(self.expr(t, inner) for t in expr.terms[1:]))
                if all(a is b for a, b in zip(terms, expr.terms, strict=True)):
                    return expr
                return And(terms) if isinstance(expr, And) else Or(terms)
            case Choose():
                cond = self.expr(expr.cond, known)
                then, other = self.expr(expr.then, dict(known)), self.expr(expr.other, dict(known))
                unchanged = cond is expr.cond and then is expr.then and other is expr.other
                return expr if unchanged else Choose(cond, then, other)
        key = _key(expr)
        if key is not None:
            return self.shared(expr, key, known)
        return map_children(expr, lambda e: self.expr(e, known), lambda b: self.body(b, known))

    def shared(self, expr: Expr, key: Any, known: _Known) -> Expr:
        record = known.get(key)
        if record is not None:
            record.uses += 1
            return Local(record.local) if record.local is not None else expr
        number = len(self.records)
        record = _Record() if self.plan is None else self.plan[number]
        self.records.append(record)
        inner = map_children(expr, lambda e: self.expr(e, known), lambda b: b)
        known[key] = record
        if record.local is None:
            return inner
        self.kinds[record.local] = _kind(expr)
        return Block((Set(record.local, inner),), Local(record.local))


def _kind(expr: Expr) -> str:
    if isinstance(expr, Op):
        return BY_NAME[expr.name].pushes[0]
    return INTRINSICS[expr.name].result if isinstance(expr, Invoke) else "V"


def _key(expr: Expr) -> Any:
    """A key that equal expressions share, None for one that may not be shared or is not worth it."""
    match expr:
        case Load():
            return expr.path
        case Op():
            row = BY_NAME[expr.name]
            if expr.name == "c_path":
                return (expr.name, *expr.imm[0])
            if row.effect is not Effect.PURE or expr.name in ("cell", "missing", "new_list", "new_map"):
                return None
            parts = _keys(expr.args)
            if parts is None or row.pushes == ("O",) or not expr.args:
                return None
            return (expr.name, tuple(map(canonical_key, expr.imm)), parts)
        case Invoke():
            if not INTRINSICS[expr.name].pure or not expr.args:
                return None
            parts = _keys(expr.args)
            return None if parts is None else (expr.name, parts)
    return None


def _keys(args: tuple[Expr, ...]) -> tuple[Any, ...] | None:
    found: list[Any] = []
    for arg in args:
        if isinstance(arg, Const):
            if type(arg.value) not in _SMALL:
                return None
            found.append(("const", canonical_key(arg.value)))
            continue
        key = _key(arg)
        if key is None:
            return None
        found.append(key)
    return tuple(found)
