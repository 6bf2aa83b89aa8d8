"""Comprehension macros to IR: real loops that end when the answer is known.

cel-go folds ``&&`` or ``||`` over the elements for ``all`` and ``exists``, so an error waits for an element that
decides; the others keep an error. Of several, the first error of what is made of an element is the result, or the last
error of a predicate behind it. Costs are those of cel-go's fold.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.frontends.cel.ast import Loop
from compiler.frontends.cel.lowered import Low, block, charge, over, test
from compiler.frontends.cel.scope import Scope
from compiler.ir import ops as ir
from compiler.ir.build import negate

_ROUND = {"all": 3, "exists": 4}
"""What a round costs beside its predicate."""
_DECIDED = {"all": 2, "exists": 3}
"""What it costs to find out before a further round that none is needed."""
NULL = ir.Const(None)


@dataclass(frozen=True, slots=True)
class _Round:
    """A loop under way: over what, how a round begins, its variables."""

    over: Low
    source: ir.Local
    head: tuple[ir.Stmt, ...]
    item: str
    index: str | None
    key: ir.Expr


def loop(scope: Scope, node: Loop) -> Low:
    before: list[ir.Stmt] = []
    around = _start(scope, node, before)
    where = None if node.where is None else scope.value(node.where)
    then = None if node.then is None else scope.value(node.then)
    match node.kind:
        case "all" | "exists":
            assert where is not None
            setup, each, result, cost = _quantifier(scope, node.kind, around, where)
        case "exists_one":
            assert where is not None
            setup, each, result, cost = _exists_one(scope, where)
        case _:
            setup, each, result, cost = _collection(scope, node, around, where, then)
    name = scope.fresh("V", "r")
    rounds = ir.Each(around.item, ir.Op("as_list", (around.source,)), (*around.head, *each), around.index)
    arm = (*setup, rounds, ir.Set(name, result))
    before.append(ir.If(test("is_list", around.source), arm, (ir.Set(name, around.source),)))
    parts = [x for x in (where, then) if x is not None]
    answers = node.kind in ("all", "exists", "exists_one")
    inner = over(ir.Local(name), *parts, deep=3, nest=4, loops=1, layers=1)
    return Low(
        block(before, inner.expr),
        around.over.cost + cost,
        boolean=answers,
        deep=max(inner.deep, around.over.deep + 2),
        nest=max(inner.nest, around.over.nest),
        loops=max(inner.loops, around.over.loops),
        layers=0 if answers else max(inner.layers, around.over.layers),
    )


def _start(scope: Scope, node: Loop, before: list[ir.Stmt]) -> _Round:
    low = scope.value(node.over)
    source = scope.fresh("V", "over")
    ranged = "cel.build.range.1" if node.var2 is None else "cel.build.pairs.1"
    before.append(ir.Set(source, ir.Invoke(ranged, (low.expr,))))
    item = scope.fresh("V", "x")
    head: tuple[ir.Stmt, ...] = ()
    key: ir.Expr = ir.Local(item)
    inside = max(low.layers - 1, 0)
    if node.var2 is None:
        scope.loop_vars[node.id] = (Low(key, sound=True, layers=inside),)
    else:
        first, second = scope.fresh("V", "k"), scope.fresh("V", "v")
        head = (
            ir.Set(first, ir.Op("index", (ir.Local(item), ir.Const(0)))),
            ir.Set(second, ir.Op("index", (ir.Local(item), ir.Const(1)))),
        )
        key = ir.Local(first)
        scope.loop_vars[node.id] = (
            Low(key, sound=True),
            Low(ir.Local(second), sound=True, layers=inside),
        )
    index = scope.fresh("I", "i") if node.kind in _DECIDED else None
    return _Round(low, ir.Local(source), head, item, index, key)


def _limit(cost: int) -> tuple[ir.Stmt, ...]:
    """Charges a round, and ends the loop when the expression has cost too much."""
    return (ir.If(ir.Op("c_charge", (), (cost,)), (ir.Break(),)),) if cost else ()


def _quantifier(
    scope: Scope, kind: str, around: _Round, where: Low
) -> tuple[tuple[ir.Stmt, ...], tuple[ir.Stmt, ...], ir.Expr, int]:
    holds, decides, join = ("is_true", "is_false", "c_and") if kind == "all" else ("is_false", "is_true", "c_or")
    name = scope.fresh("V", "all" if kind == "all" else "any")
    result = ir.Local(name)
    body: list[ir.Stmt] = [*_limit(where.cost + _ROUND[kind])]
    c = scope.let(where.expr, body)
    assert around.index is not None
    more = ir.Op("c_more", (around.source, ir.Local(around.index)))
    end = (ir.Set(name, ir.Const(kind != "all")), ir.If(more, charge(_DECIDED[kind])), ir.Break())
    wrong = (ir.Set(name, ir.Op(join, (result, c))),)
    if where.boolean and where.sound:
        body.append(ir.If(test(decides, c), end))
    else:
        body.append(ir.If(negate(test(holds, c)), (ir.If(test(decides, c), end, wrong),)))
    return (ir.Set(name, ir.Const(kind == "all")),), tuple(body), result, 1


def _exists_one(scope: Scope, where: Low) -> tuple[tuple[ir.Stmt, ...], tuple[ir.Stmt, ...], ir.Expr, int]:
    """``found`` counts to two: null, true, false."""
    name, fault = scope.fresh("V", "one"), scope.fresh("V", "e")
    found = ir.Local(name)
    body: list[ir.Stmt] = [*_limit(where.cost)]
    c = scope.let(where.expr, body)
    count = (*charge(2), ir.Set(name, ir.Op("is_null", (found,))))
    body.append(_predicate(where, c, fault, count))
    one = test("is_true", found)
    result = ir.Choose(test("is_null", ir.Local(fault)), one, ir.Local(fault))
    return (ir.Set(name, NULL), ir.Set(fault, NULL)), tuple(body), result, 2


def _predicate(where: Low, c: ir.Expr, fault: str, then: tuple[ir.Stmt, ...]) -> ir.Stmt:
    """``then`` where the predicate holds; what is no bool is the error of the loop."""
    wrong: tuple[ir.Stmt, ...] = ()
    if not (where.boolean and where.sound):
        wrong = (ir.If(test("is_false", c), (), (ir.Set(fault, ir.Op("c_cond", (c,))),)),)
    return ir.If(test("is_true", c), then, wrong)


def _collection(
    scope: Scope, node: Loop, around: _Round, where: Low | None, then: Low | None
) -> tuple[tuple[ir.Stmt, ...], tuple[ir.Stmt, ...], ir.Expr, int]:
    """``map``, ``filter`` and the transforms."""
    fault = scope.fresh("V", "e")
    body: list[ir.Stmt] = []
    if node.kind in ("map", "filter", "transform_list"):
        out, made, own = scope.fresh("L", "out"), ir.Op("new_list"), 12
    else:
        out, made, own = scope.fresh("V", "out"), ir.Op("new_map"), 2 + (node.kind == "transform_map")
    keep: list[ir.Stmt] = []
    if then is None:
        keep += charge(own + 1)
        keep.append(ir.Do(ir.Op("append", (ir.Local(out), around.key))))
    else:
        keep += _limit(own + then.cost)
        v = scope.let(then.expr, keep)
        keep += _kept(node, out, fault, around.key, v, then)
    if where is None:
        body += keep
    else:
        body += _limit(where.cost)
        c = scope.let(where.expr, body)
        body.append(_predicate(where, c, fault, tuple(keep)))
    result = ir.Choose(test("is_null", ir.Local(fault)), ir.Local(out), ir.Local(fault))
    return (ir.Set(out, made), ir.Set(fault, NULL)), tuple(body), result, 1


def _kept(node: Loop, out: str, fault: str, key: ir.Expr, v: ir.Expr, then: Low) -> list[ir.Stmt]:
    """Adds what was made of an element, unless it is an error."""
    add: tuple[ir.Stmt, ...]
    box = ir.Local(out)
    if node.kind in ("map", "transform_list"):
        add = (ir.Do(ir.Op("append", (box, v))),)
        if then.sound:
            return list(add)
        return [ir.If(test("is_err", v), _first(fault, v), add)]
    # An error takes the place of the map, and what is put into it later leaves it.
    if node.kind == "transform_map":
        return [ir.Set(out, ir.Invoke("cel.build.map.put.3", (box, key, v)))]
    return [ir.Set(out, ir.Invoke("cel.build.map.put_all.2", (box, v)))]


def _first(fault: str, v: ir.Expr) -> tuple[ir.Stmt, ...]:
    return (ir.If(test("is_null", ir.Local(fault)), (ir.Set(fault, v),)),)
