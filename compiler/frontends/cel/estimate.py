"""What an expression may cost in the API server's units, found without running it.

Walks a checked tree as cel-go's checker does: a name or a step is one unit, a call what its row's rule says for
operands of such sizes, a loop its rounds times what a round costs. :mod:`compiler.frontends.cost` refuses what may cost
more than the API server grants; ``thesmos cel --cost`` shows the range beside what the run did cost.

Two things differ from cel-go. A list or text that nothing bounds has an assumed size, where cel-go takes 2⁶⁴ - 1; and
a step on a dyn value is a unit, as it is when it runs, where cel-go's estimate leaves it out. Like cel-go's, the lower
end does not know that constant parts are computed beforehand: what runs may cost less. Questions to the authorizer are
counted once for lists of an assumed size: two are all that an expression can afford, so such lists are short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from compiler.frontends.cel.ast import (
    Bind,
    Call,
    Ident,
    ListLit,
    Literal,
    Loop,
    MapLit,
    Node,
    Opt,
    Select,
    Span,
    StructLit,
    children,
)
from compiler.frontends.cel.call_sizes import price, result
from compiler.frontends.cel.checked import Checked, Constant, LoopVar, Variable
from compiler.frontends.cel.sizes import (
    SCALAR,
    Bounds,
    Shape,
    bare,
    both,
    either,
    of_field,
    of_type,
    plus,
    sized,
    times,
    widest,
)
from compiler.frontends.cel.types import DYN, STRING, ListOf, MapOf, Object, Type
from vm.cel.costs import LIST, STRUCT, UNBOUNDED, Range
from vm.cel.values import UInt

_MAP: Final = 30
_ONE: Final[Range] = (1, 1)


@dataclass(frozen=True, slots=True)
class Culprit:
    """A loop that makes an expression dear: over what (``path``, empty where it is computed; ``at`` its place in the
    text), at most how often it goes round, and whether that is assumed."""

    path: str
    at: Span
    rounds: int
    guessed: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """The least and the greatest cost, saturated at 2⁶⁴ - 1. ``culprits``: the dearest loop, the dearest inside it, and
    so on. ``shape`` is what is known of the value."""

    low: int
    high: int
    culprits: tuple[Culprit, ...]
    shape: Shape


def estimate(checked: Checked, bounds: Bounds) -> Estimate:
    """The estimate of an expression that has no errors."""
    part = _Estimator(checked, bounds).part(checked.root)
    return Estimate(*part.cost, part.loops, part.shape)


@dataclass(frozen=True, slots=True)
class _Part:
    """A node's cost and value; ``dearest`` is what the first of its ``loops`` may cost."""

    cost: Range
    shape: Shape = SCALAR
    loops: tuple[Culprit, ...] = ()
    dearest: int = 0


def _part(cost: Range, shape: Shape, *parts: _Part) -> _Part:
    """The node over ``parts``, at a cost that holds theirs."""
    dearest = max(parts, key=lambda p: p.dearest, default=None)
    return _Part(cost, shape, *((dearest.loops, dearest.dearest) if dearest is not None else ((), 0)))


class _Estimator:
    def __init__(self, checked: Checked, bounds: Bounds) -> None:
        self.checked = checked
        self.bounds = bounds
        self.vars: dict[tuple[int, int], Shape] = {}
        self.assumed = 1
        """How often the loops around go round together, of those whose rounds are assumed."""

    def type(self, node: Node) -> Type:
        return self.checked.types.get(node.id, DYN)

    def part(self, node: Node) -> _Part:
        match node:
            case Literal(value):
                shape = sized((len(value),) * 2) if isinstance(value, str | bytes) else SCALAR
                if isinstance(value, int | UInt) and not isinstance(value, bool):
                    shape = replace(shape, value=int(value))
                return _Part((0, 0), shape)
            case Ident() | Select() if node.id in self.checked.names and not (isinstance(node, Select) and node.test):
                return self.named(node)
            case Ident():
                return _Part(_ONE, of_type(self.type(node)))
            case Select():
                return self.select(node)
            case Call():
                return self.call(node)
            case ListLit(items):
                parts = [self.part(x) for x in items]
                item = None
                for p in parts:
                    item = both(item, p.shape)
                return _part(plus((LIST, LIST), *(p.cost for p in parts)), sized((len(items),) * 2, item=item), *parts)
            case MapLit():
                return self.map_literal(node)
            case StructLit(_, fields):
                parts = [self.part(f.value) for f in fields]
                return _part(plus((STRUCT, STRUCT), *(p.cost for p in parts)), of_type(self.type(node)), *parts)
            case Loop():
                return self.loop(node)
            case Bind(_, value, body):
                bound = self.part(value)
                self.vars[node.id, 0] = bound.shape
                inner = self.part(body)
                # The macro is a loop over an empty list.
                return _part(plus(bound.cost, inner.cost, (LIST, LIST)), inner.shape, bound, inner)
            case Opt():
                return self.optional_map(node)

    def named(self, node: Ident | Select) -> _Part:
        match self.checked.names[node.id]:
            case Variable(name):
                found = self.bounds.variables.get(name)
                return _Part((name.count(".") + 1,) * 2, found or of_type(self.type(node), name))
            case LoopVar(owner, which):
                shape = self.vars.get((owner, which))
                return _Part(_ONE, shape or of_type(self.type(node)))
            case Constant():
                return _Part(_ONE, of_type(self.type(node)))

    def select(self, node: Select) -> _Part:
        of = self.part(node.of)
        if node.test:
            return _part(of.cost, SCALAR, of)
        shape = self.field(node, of.shape, node.of, node.name)
        return _part(plus(of.cost, _ONE), shape, of)

    def field(self, node: Node, of: Shape, parent: Node, name: str) -> Shape:
        t = self.type(parent)
        path = f"{of.path}.{name}" if of.path else ""
        if of.item is not None and not isinstance(bare(t), Object):
            return replace(of.item, path=path if of.item.guessed else "")
        return of_field(t, name, self.type(node), path, self.bounds.provider)

    def map_literal(self, node: MapLit) -> _Part:
        parts: list[_Part] = []
        item: Shape | None = None
        key: Range | None = None
        for e in node.entries:
            k, v = self.part(e.key), self.part(e.value)
            parts += (k, v)
            item = both(item, v.shape)
            key = widest(key, k.shape.text) if key is not None else k.shape.text
        shape = sized((len(node.entries),) * 2, item=item, key=key)
        return _part(plus((_MAP, _MAP), *(p.cost for p in parts)), shape, *parts)

    def optional_map(self, node: Opt) -> _Part:
        """``of.hasValue() ? optional.of(then) : optional.none()``, with ``of.value()`` bound around ``then``."""
        of = self.part(node.of)
        self.vars[node.id, 0] = of.shape
        then = self.part(node.then)
        some = plus(of.cost, then.cost, (LIST + 1 + (not node.flat),) * 2)
        return _part(plus(of.cost, _ONE, widest(some, _ONE)), then.shape, of, then)

    def call(self, node: Call) -> _Part:
        namespaced = node.target is None or node.id in self.checked.namespaced
        operands = node.args if namespaced or node.target is None else (node.target, *node.args)
        parts = [self.part(x) for x in operands]
        shapes = [p.shape for p in parts]
        cost = plus(*(p.cost for p in parts))
        match node.function:
            case "_&&_" | "_||_":
                return _part((parts[0].cost[0], cost[1]), SCALAR, *parts)
            case "_?_:_":
                cond, then, other = parts
                chosen = either(then.shape, other.shape)
                return _part(plus(cond.cost, widest(then.cost, other.cost)), chosen, *parts)
            case "_[_]" | "_[?_]" | "_?._":
                return _part(plus(cost, _ONE), self.step(node, operands, shapes), *parts)
        row = self.checked.calls.get(node.id)
        if row is None:
            return _part(plus(cost, _ONE), of_type(self.type(node)), *parts)
        types = [bare(self.type(x)) for x in operands]
        own = price(row, types, shapes)
        if row.cost == "check":
            own = own[0], -(-own[1] // self.assumed)
        return _part(plus(cost, own), result(row, shapes, self.type(node)), *parts)

    def step(self, node: Call, operands: Sequence[Node], shapes: list[Shape]) -> Shape:
        match operands[1]:
            case Literal(str() as name):
                return self.field(node, shapes[0], operands[0], name)
        path = f"{shapes[0].path}[]" if shapes[0].path else ""
        return shapes[0].item or of_type(self.type(node), path)

    def loop(self, node: Loop) -> _Part:
        over = self.part(node.over)
        rounds = over.shape.count
        self.bind_loop(node, over.shape)
        outside = self.assumed
        if over.shape.guessed:
            self.assumed = min(outside * max(rounds[1], 1), UNBOUNDED)
        where = self.part(node.where) if node.where is not None else None
        then = self.part(node.then) if node.then is not None else None
        self.assumed = outside
        test = where.cost if where is not None else (0, 0)
        made = then.cost if then is not None else _ONE
        start, shape = LIST, SCALAR
        match node.kind:
            case "all":
                start, each, end = 0, (3, 3 + test[1]), 1
            case "exists":
                start, each, end = 0, (4, 4 + test[1]), 1
            case "exists_one":
                start, each, end = 0, plus(test, (1, 2)), 2
            case "map" | "filter" | "transform_list":
                each, end = _kept(test, plus(made, (12, 12)), where), 1
                item = then.shape if then is not None else self.vars.get((node.id, 0))
                shape = replace(over.shape, text=rounds, item=item, key=None, value=None)
            case "transform_map" | "transform_map_entry":
                start, each, end = _MAP, _kept(test, plus(made, (2 + (node.kind == "transform_map"),) * 2), where), 1
                item = then.shape if then is not None else None
                if node.kind == "transform_map_entry":
                    item = item.item if item is not None else None
                shape = replace(over.shape, text=rounds, item=item, value=None)
        if node.kind in ("filter", "map", "transform_list") and node.then is not None:
            shape = replace(shape, path="")
        turning = times(rounds, each)
        cost = plus(over.cost, (start + end,) * 2, turning)
        inner = _part(cost, shape, *(p for p in (where, then) if p is not None))
        if over.dearest > turning[1]:
            return replace(inner, loops=over.loops, dearest=over.dearest)
        this = Culprit(over.shape.path, extent(node.over), rounds[1], over.shape.guessed)
        return replace(inner, loops=(this, *inner.loops), dearest=turning[1])

    def bind_loop(self, node: Loop, over: Shape) -> None:
        t = bare(self.type(node.over))
        item = over.item
        if item is None and not isinstance(t, MapOf):
            item = of_type(t.item if isinstance(t, ListOf) else DYN, f"{over.path}[]" if over.path else "")
        key = sized(over.key) if over.key is not None else of_type(STRING)
        if isinstance(t, MapOf | Object):
            self.vars[node.id, 0] = key
        elif node.var2 is not None:
            self.vars[node.id, 0] = replace(SCALAR if isinstance(t, ListOf) else key, value=over.count[1])
        elif item is not None:
            self.vars[node.id, 0] = item
        if item is not None:
            self.vars[node.id, 1] = item


def _kept(test: Range, made: Range, where: _Part | None) -> Range:
    """A round that may leave the element out."""
    return made if where is None else plus(test, widest(made, _ONE))


def extent(node: Node) -> Span:
    """From the first to the last character of a node with what is below it."""
    spans = [node.at, *(extent(x) for x in children(node))]
    return min(s[0] for s in spans), max(s[1] for s in spans)
