"""Lowers the tree of a query to IR: one expression of kind V, errors as values (semantics §7).

Called by the template front end for every variable. The reference swallows a missing key nearly everywhere
(arguments, comparisons, ``||``, projections, multiselects, pipes) but not at the end of a plain chain, so each
lowered piece carries whether it may be ``Err not_found`` (``missing``) or any other error (``failing``); what
cannot fail needs no test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from compiler.frontends.jmes.ast import (
    And,
    Call,
    Compare,
    Current,
    Each,
    Field,
    Filter,
    Flatten,
    Index,
    Literal,
    MultiHash,
    MultiList,
    Node,
    Not,
    Or,
    Pipe,
    Projection,
    Reference,
    Slice,
    Values,
)
from compiler.frontends.jmes.functions import FUNCTIONS, STANDARD_SUM, Function
from compiler.ir import ops as ir
from compiler.ir.build import FunctionBuilder

NULL: Final = ir.Const(None)
_ORDER: Final = {"<": "jmes.less", "<=": "jmes.less_equal", ">": "jmes.greater", ">=": "jmes.greater_equal"}
_SAFE: Final = frozenset({"type", "to_array", "not_null", "to_string", "to_number"})
"""Functions that take anything and cannot fail."""


class Surroundings(Protocol):
    """What the lowering reads of a template's scope."""

    builder: FunctionBuilder
    base: tuple[str, ...]
    standard: bool

    @property
    def bound(self) -> Mapping[str, ir.Expr]: ...


@dataclass(frozen=True, slots=True)
class Low:
    """An expression of kind V, and what kinds of errors it may answer."""

    expr: ir.Expr
    missing: bool = False
    failing: bool = False


def lower(node: Node, scope: Surroundings) -> Low:
    """The value of a checked query applied to the scope's document. A plain chain answers ``Err not_found`` for a
    missing key (null in standard JMESPath); see :func:`found` for the value that has null there."""
    return _Lowering(scope).value(node, None)


def lower_on(node: Node, scope: Surroundings, value: ir.Local | ir.Const) -> Low:
    """The same applied to a value; names bound in the scope are not known there."""
    return _Lowering(scope).value(node, value)


def error(code: str, text: str) -> ir.Expr:
    """An expression that answers an error."""
    return ir.Invoke("jmes.error", (ir.Const(code), ir.Const(text)))


def found(low: Low) -> ir.Expr:
    """The value with null in place of a missing key.

    Reading by plain ``path`` and ``get`` gives the same as the JMESPath steps once missing keys count as null, and is
    what other code of the rule reads too.
    """
    if not low.missing:
        return low.expr
    plain = None if low.failing else _plain(low.expr)
    return ir.Op("j_found", (low.expr,)) if plain is None else ir.Op("absent_null", (plain,))


def truth(low: Low) -> ir.Expr:
    """Kind B: JMESPath truth of a value that cannot fail but by a missing key."""
    match low.expr:
        case ir.Const(value):
            empty = isinstance(value, (str, list, dict)) and not value
            return ir.Const(value is not None and value is not False and not empty)
        case ir.Op(name) as op if name in ("equal", "not", "j_truthy", "is_null"):
            return op
    return ir.Op("j_truthy", ((_plain(low.expr) if low.missing else None) or found(low),))


def _plain(expr: ir.Expr) -> ir.Expr | None:
    """A chain of JMESPath field steps as plain reads, None for anything else."""
    match expr:
        case ir.Op("j_path", (), (path,)):
            return ir.Load(path)
        case ir.Op("j_field", (inner,), (key,)):
            below = inner if isinstance(inner, ir.Local) else _plain(inner)
            return None if below is None else ir.Op("get", (below,), (key,))
    return None


def _cut_at_last_dot(node: Node) -> tuple[Node, Node] | None:
    """``a.b.c[0]`` as ``a.b`` and ``c[0]``; None when no dot is in it, or none outside parentheses."""
    match node:
        case Field(grouped=True) | Index(grouped=True):
            return None
        case Field(of) if not isinstance(of, Current):
            return of, replace(node, of=Current())
        case Index(of) if (cut := _cut_at_last_dot(of)) is not None:
            return cut[0], replace(node, of=cut[1])
    return None


def _is_err(e: ir.Expr) -> ir.Expr:
    return ir.Op("is_err", (e,))


class _Lowering:
    """``cur`` is the current value: a local or constant, or None for the document itself."""

    def __init__(self, scope: Surroundings) -> None:
        self._scope = scope

    def value(self, node: Node, cur: ir.Expr | None) -> Low:
        match node:
            case Current():
                return Low(self._whole() if cur is None else cur)
            case Literal(value):
                return Low(ir.Const(value))
            case Field():
                low = self._field(node, cur)
                return Low(found(low), False, low.failing) if self._scope.standard else low
            case Index(of, position):
                left = self.value(of, cur)
                return Low(ir.Op("j_index", (left.expr, ir.Const(position))), left.missing, left.failing)
            case Slice() | Each() if not self._scope.standard and (cut := _cut_at_last_dot(node.of)) is not None:
                # Brackets belong to the name before them alone: a key missing further to the left is not swallowed.
                before, own = cut
                return self._after(before, cur, lambda c: self._projection(replace(node, of=own), c), nullable=False)
            case Slice() | Each() | Values() | Flatten() | Filter():
                return self._projection(node, cur)
            case MultiList(of, items):
                return self._after(of, cur, lambda c: self._list(items, c), nullable=True)
            case MultiHash(of, pairs):
                return self._after(of, cur, lambda c: self._hash(pairs, c), nullable=True)
            case Call(of, name, args):
                return self._after(of, cur, lambda c: self._call(name, args, c), nullable=False)
            case Compare(op, left_node, right_node):
                return self._compare(op, self.value(left_node, cur), self.value(right_node, cur))
            case Not(of):
                return self._not(self.value(of, cur))
            case Or(terms):
                return self._or(terms, cur)
            case And(terms):
                return self._and(terms, cur)
            case Pipe(stages):
                return self._pipe(stages, cur)
            case Reference():
                raise AssertionError("the checker lets an expression stand only where a function takes one")

    # Reading

    def _whole(self) -> ir.Expr:
        """The document as a value of its own: engine keys of the root left out."""
        if self._scope.base:
            return ir.Op("absent_null", (ir.Load(self._scope.base),))
        return ir.Invoke("jmes.root", (ir.Op("j_root"),))

    def _field(self, node: Field, cur: ir.Expr | None) -> Low:
        names = [node.name]
        of = node.of
        while isinstance(of, Field):
            names.append(of.name)
            of = of.of
        names.reverse()
        if isinstance(of, Current) and cur is None:
            return self._from_root(names)
        left = self.value(of, cur)
        return Low(_steps(left.expr, names), True, left.failing)

    def _from_root(self, names: list[str]) -> Low:
        bound = self._scope.bound.get(names[0])
        if bound is not None:
            return Low(_steps(bound, names[1:]), True)
        if not self._scope.base and names[0].startswith("$"):
            return Low(error("not_found", f'Unknown key "{names[0]}" in path'), True)
        return Low(ir.Op("j_path", (), ((*self._scope.base, *names),)), True)

    # Structure

    def _let(self, e: ir.Expr, body: list[ir.Stmt], kind: str = "V", hint: str = "j") -> ir.Expr:
        """A local or constant with the value of an expression."""
        if isinstance(e, (ir.Local, ir.Const)):
            return e
        name = self._scope.builder.fresh(kind, hint)
        body.append(ir.Set(name, e))
        return ir.Local(name)

    def _after(self, of: Node, cur: ir.Expr | None, then: Callable[[ir.Expr | None], Low], *, nullable: bool) -> Low:
        """``of.then``: an error on the left is the result, and null too when ``nullable``."""
        body: list[ir.Stmt] = []
        left = Low(ir.Const(None)) if isinstance(of, Current) else self.value(of, cur)
        t = cur if isinstance(of, Current) else self._let(left.expr, body)
        if t is None and self._scope.base and nullable:  # the root is a map, a document may be null
            t = self._let(self._whole(), body)
        low = then(t)
        value = low.expr
        if nullable and t is not None:
            value = ir.Choose(ir.Op("is_null", (t,)), NULL, value)
        if t is not None and (left.missing or left.failing):
            value = ir.Choose(_is_err(t), t, value)
        return Low(_block(body, value), left.missing or low.missing, left.failing or low.failing)

    def _all(self, lows: Sequence[Low], build: Callable[[Sequence[ir.Expr]], ir.Expr], *, failing: bool) -> Low:
        """``build`` of several values, missing keys as null; the first of the errors otherwise."""
        body: list[ir.Stmt] = []
        exprs: list[ir.Expr] = []
        checks: list[ir.Expr] = []
        several = any(low.failing for low in lows)
        for low in lows:
            e = found(low)
            if several:
                e = self._let(e, body)
                if low.failing:
                    checks.append(e)
            exprs.append(e)
        value = build(exprs)
        if len(checks) == 1:
            value = ir.Choose(_is_err(checks[0]), checks[0], value)
        elif checks:
            e_name = self._scope.builder.fresh("V", "e")
            body.append(ir.Set(e_name, NULL))
            body.extend(ir.If(_is_err(c), (ir.Set(e_name, c),)) for c in reversed(checks))
            value = ir.Choose(_is_err(ir.Local(e_name)), ir.Local(e_name), value)
        return Low(_block(body, value), False, failing or bool(checks))

    def _list(self, items: tuple[Node, ...], cur: ir.Expr | None) -> Low:
        return self._all([self.value(x, cur) for x in items], _made_list, failing=False)

    def _hash(self, pairs: tuple[tuple[str, Node], ...], cur: ir.Expr | None) -> Low:
        def build(values: Sequence[ir.Expr]) -> ir.Expr:
            out: ir.Expr = ir.Op("new_map")
            for (key, _), v in zip(pairs, values, strict=True):
                out = ir.Op("put", (out, v), (key,))
            return out

        return self._all([self.value(x, cur) for _, x in pairs], build, failing=False)

    # Operators

    def _compare(self, op: str, left: Low, right: Low) -> Low:
        a, b = found(left), found(right)
        if op in _ORDER:
            return Low(ir.Invoke(_ORDER[op], (a, b)), False, left.failing or right.failing)
        if left.failing or right.failing:
            return Low(ir.Invoke("jmes.equal" if op == "==" else "jmes.not_equal", (a, b)), False, True)
        same: ir.Expr = ir.Op("equal", (a, b))
        return Low(same if op == "==" else ir.Op("not", (same,)))

    def _not(self, low: Low) -> Low:
        if not low.failing:
            return Low(ir.Op("not", (truth(low),)))
        body: list[ir.Stmt] = []
        t = self._let(found(low), body)
        value = ir.Choose(_is_err(t), t, ir.Op("not", (ir.Op("j_truthy", (t,)),)))
        return Low(_block(body, value), False, True)

    def _or(self, terms: tuple[Node, ...], cur: ir.Expr | None) -> Low:
        # An error counts as true, so that it is the result by itself.
        lows = [self.value(t, cur) for t in terms]
        failing = any(low.failing for low in lows)
        body: list[ir.Stmt] = []
        if len(lows) == 2:
            t = self._let(found(lows[0]), body)
            return Low(_block(body, ir.Choose(ir.Op("j_truthy", (t,)), t, found(lows[1]))), False, failing)
        name = self._scope.builder.fresh("V", "j")
        body.append(ir.Set(name, found(lows[0])))
        for low in lows[1:]:
            body.append(ir.If(ir.Op("j_truthy", (ir.Local(name),)), (), (ir.Set(name, found(low)),)))
        return Low(_block(body, ir.Local(name)), False, failing)

    def _and(self, terms: tuple[Node, ...], cur: ir.Expr | None) -> Low:
        # The right side is the one place in a chain of "&&" where a missing key is not swallowed.
        lows = [self.value(t, cur) for t in terms]
        name = self._scope.builder.fresh("V", "j")
        t = ir.Local(name)
        body: list[ir.Stmt] = [ir.Set(name, found(lows[0]))]
        failing = lows[0].failing
        for i, low in enumerate(lows[1:], 1):
            step: ir.Stmt = ir.Set(name, low.expr if i == len(lows) - 1 else found(low))
            go_on: ir.Expr = ir.Op("j_truthy", (t,))
            if failing:
                go_on = ir.And((ir.Op("not", (_is_err(t),)), go_on))
            body.append(ir.If(go_on, (step,)))
            failing = failing or low.failing
        return Low(_block(body, t), lows[-1].missing, failing)

    def _pipe(self, stages: tuple[Node, ...], cur: ir.Expr | None) -> Low:
        body: list[ir.Stmt] = []
        low = self.value(stages[0], cur)
        failing = low.failing
        e = found(low)
        for stage in stages[1:]:
            t = self._let(e, body)
            low = self.value(stage, t)
            e = found(low)
            if failing:
                e = ir.Choose(_is_err(t), t, e)
            failing = failing or low.failing
        return Low(_block(body, e), False, failing)

    # Projections

    def _projection(self, node: Projection, cur: ir.Expr | None) -> Low:
        body: list[ir.Stmt] = []
        source = self.value(node.of, cur)
        left = found(source)
        failing = source.failing
        match node:
            case Slice(start=start, stop=stop, step=step):
                limits = (ir.Const(start), ir.Const(stop), ir.Const(step))
                left = ir.Invoke("jmes.slice", (left, *limits))
                failing = failing or step == 0
            case Flatten():
                left = ir.Invoke("jmes.flatten", (left,))
                failing = False  # any error on the left gives null here, and below for filters and values
            case Filter() | Values():
                failing = False
        if isinstance(node.then, Current) and not isinstance(node, (Filter, Values)):
            return Low(ir.Invoke("jmes.compact", (left,)), False, failing)
        t = self._let(left, body)
        b = self._scope.builder
        result, out = b.fresh("V", "r"), b.fresh("L", "out")
        item = ir.Local(b.fresh("V", "x"))
        where = self.value(node.where, item) if isinstance(node, Filter) else None
        then = self.value(node.then, item)
        can_fail = then.failing or (where is not None and where.failing)
        fault = b.fresh("V", "e") if can_fail else ""
        inner = self._collect(then, out, fault)
        if where is not None:
            inner = self._where(where, inner, fault)
        loop: ir.Stmt
        if isinstance(node, Values):
            key = b.fresh("S", "k")
            loop = ir.EachPair(key, item.name, ir.Op("as_map", (t,)), tuple(inner))
        else:
            loop = ir.Each(item.name, ir.Op("as_list", (t,)), tuple(inner))
        arm: list[ir.Stmt] = [ir.Set(out, ir.Op("new_list"))]
        if can_fail:
            arm.append(ir.Set(fault, NULL))
        arm.append(loop)
        value: ir.Expr = ir.Local(out)
        if can_fail:
            value = ir.Choose(_is_err(ir.Local(fault)), ir.Local(fault), value)
        arm.append(ir.Set(result, value))
        test = ir.Op("is_map" if isinstance(node, Values) else "is_list", (t,))
        otherwise: ir.Expr = ir.Choose(_is_err(t), t, NULL) if failing else NULL
        body.append(ir.If(test, tuple(arm), (ir.Set(result, otherwise),)))
        return Low(_block(body, ir.Local(result)), False, failing or can_fail)

    def _where(self, low: Low, then: list[ir.Stmt], fault: str) -> list[ir.Stmt]:
        """``then`` for an element on which the condition of a filter holds; an error of the condition ends the loop."""
        if not low.failing:
            return [ir.If(truth(low), tuple(then))]
        body: list[ir.Stmt] = []
        c = self._let(found(low), body, hint="c")
        body.append(ir.If(_is_err(c), (ir.Set(fault, c), ir.Break())))
        return [*body, ir.If(ir.Op("j_truthy", (c,)), tuple(then))]

    def _collect(self, then: Low, out: str, fault: str) -> list[ir.Stmt]:
        """Adds the value made of an element to the list, unless it is null; an error ends the loop."""
        body: list[ir.Stmt] = []
        c = self._let(found(then), body, hint="c")
        if then.failing:
            body.append(ir.If(_is_err(c), (ir.Set(fault, c), ir.Break())))
        add = ir.Do(ir.Op("append", (ir.Local(out), c)))
        body.append(ir.If(ir.Op("is_null", (c,)), (), (add,)))
        return body

    # Calls

    def _call(self, name: str, args: tuple[Node, ...], cur: ir.Expr | None) -> Low:
        f = STANDARD_SUM if self._scope.standard and name == "sum" else FUNCTIONS[name]
        if f.reference is not None:
            return self._by_key(f, args, cur)
        lows = [self.value(a, cur) for a in args]
        # The intrinsics answer with an error among their arguments themselves.
        failing = name not in _SAFE or any(low.failing for low in lows)
        values: tuple[ir.Expr, ...] = tuple(found(low) for low in lows)
        if f.high is None:  # intrinsics take a fixed number of operands
            values = (_made_list(values),)
        return Low(ir.Invoke(f.intrinsic, values), False, failing)

    def _by_key(self, f: Function, args: tuple[Node, ...], cur: ir.Expr | None) -> Low:
        at = f.reference or 0
        reference, source = args[at], args[1 - at]
        assert isinstance(reference, Reference)
        body: list[ir.Stmt] = []
        b = self._scope.builder
        t = self._let(found(self.value(source, cur)), body)
        keys = b.fresh("L", "keys")
        item = ir.Local(b.fresh("V", "x"))
        low = self.value(reference.body, item)
        fault = b.fresh("V", "e") if low.failing else ""
        inner: list[ir.Stmt] = []
        key = self._let(found(low), inner, hint="c")
        if low.failing:
            inner.append(ir.If(_is_err(key), (ir.Set(fault, key), ir.Break())))
        inner.append(ir.Do(ir.Op("append", (ir.Local(keys), key))))
        body.append(ir.Set(keys, ir.Op("new_list")))
        if low.failing:
            body.append(ir.Set(fault, NULL))
        body.append(ir.Each(item.name, ir.Op("as_list", (t,)), tuple(inner)))
        value: ir.Expr = ir.Invoke(f.intrinsic, (t, ir.Local(keys)))
        if low.failing:
            value = ir.Choose(_is_err(ir.Local(fault)), ir.Local(fault), value)
        return Low(_block(body, value), False, True)


def _steps(e: ir.Expr, names: Sequence[str]) -> ir.Expr:
    for name in names:
        e = ir.Op("j_field", (e,), (name,))
    return e


def _made_list(values: Sequence[ir.Expr]) -> ir.Expr:
    out: ir.Expr = ir.Op("new_list")
    for v in values:
        out = ir.Op("append", (out, v))
    return out


def _block(body: list[ir.Stmt], value: ir.Expr) -> ir.Expr:
    return ir.Block(tuple(body), value) if body else value
