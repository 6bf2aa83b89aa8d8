"""What the lowering of CEL hands from node to node, the frame that a front end gives it, and how pieces that grow too
deep become functions of their own.

Bytecode nests at most 64 blocks and 18 loops, and the passes walk trees by recursion, so a piece is moved out long
before: the locals that it reads become parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from compiler.ir import ops as ir
from compiler.ir.build import FunctionBuilder
from compiler.ir.walk import iter_exprs, iter_stmts
from vm.flow import MAX_DEPTH

Path: TypeAlias = tuple[str, ...]

MAX_DEEP: Final = 24
"""Nodes around one another in one function."""
MAX_NEST: Final = 16
"""Blocks around one another in one function; conjunctions may add some when they are emitted."""
MAX_LOOPS: Final = 6
MAX_LAYERS: Final = MAX_DEPTH - 4
"""What an expression may build around its input; the verifier counts too, and has the last word."""


@dataclass(slots=True)
class CelFrame:
    """Where an expression is lowered to.

    ``variables`` go from the full name to the path of the root where the value lies, or to an expression of kind V.
    ``functions`` receives the helpers made on the way, whose names begin with ``name``.
    """

    builder: FunctionBuilder
    variables: Mapping[str, Path | ir.Expr]
    functions: list[ir.Function]
    name: str
    helpers: int = 0


@dataclass(frozen=True, slots=True)
class Low:
    """An expression of kind V, and what is known of it.

    ``cost``: units that evaluating it surely adds and that nothing has charged yet. ``boolean``: the value is a bool or
    an error; ``sound``: it is no error. ``attribute``: an ident, select, index or choice, on which a step costs no more
    than itself; ``optional``: made by an optional step, so that what follows counts only where there is something;
    ``root`` is the unit for its ident, which a choice or an index around it does not count (cel-go).
    ``deep``, ``nest``, ``loops``: how many nodes, blocks and loops it holds around one another; ``layers``: how many
    lists, maps and optional values its value may have around what the input holds.
    """

    expr: ir.Expr
    cost: int = 0
    boolean: bool = False
    sound: bool = False
    attribute: bool = False
    optional: bool = False
    root: int = 0
    deep: int = 1
    nest: int = 0
    loops: int = 0
    layers: int = 0


def over(
    expr: ir.Expr,
    *parts: Low,
    cost: int = 0,
    boolean: bool = False,
    sound: bool = False,
    deep: int = 1,
    nest: int = 0,
    loops: int = 0,
    layers: int = 0,
) -> Low:
    """The piece that holds ``parts``, whose costs come on top, and adds so many levels around them."""
    return Low(
        expr,
        cost + sum(p.cost for p in parts),
        boolean,
        sound,
        False,
        False,
        0,
        deep + max((p.deep for p in parts), default=0),
        nest + max((p.nest for p in parts), default=0),
        loops + max((p.loops for p in parts), default=0),
        layers + max((p.layers for p in parts), default=0),
    )


def block(body: Sequence[ir.Stmt], value: ir.Expr) -> ir.Expr:
    return ir.Block(tuple(body), value) if body else value


def charge(cost: int) -> tuple[ir.Stmt, ...]:
    """Adds units to the cost of the expression."""
    return (ir.Do(ir.Op("c_charge", (), (cost,))),) if cost else ()


def paid(low: Low) -> Low:
    """The piece with its cost charged where it stands: for what does not always run."""
    return replace(low, expr=block(charge(low.cost), low.expr), cost=0) if low.cost else low


def test(name: str, value: ir.Expr) -> ir.Expr:
    """A test of kind B."""
    return ir.Op(name, (value,))


def outlined(low: Low, frame: CelFrame, own: frozenset[str]) -> Low:
    """A call of a new function that computes the piece. ``own`` are the locals that only the piece uses."""
    body: tuple[ir.Stmt, ...] = (ir.Return(low.expr),)
    read: dict[str, None] = {}
    for e in iter_exprs(body):
        if isinstance(e, ir.Local):
            read.setdefault(e.name)
    for stmt in iter_stmts(body):
        match stmt:
            case ir.Set():
                read.setdefault(stmt.name)
            case ir.Each(item, index=index):
                read.setdefault(item)
                if index is not None:
                    read.setdefault(index)
            case _:
                pass
    builder = frame.builder
    params = tuple(name for name in read if name not in own)
    kinds = {name: builder.locals[name] for name in (*params, *(n for n in read if n in own))}
    for name in own:
        builder.locals.pop(name, None)
    frame.helpers += 1
    name = f"{frame.name}.h{frame.helpers}"
    frame.functions.append(ir.Function(name, params, kinds, body, "V", builder.policy, "helper"))
    call = ir.Call(name, tuple(ir.Local(p) for p in params))
    return replace(low, expr=call, deep=1, nest=0, loops=0)


def too_deep(low: Low) -> bool:
    return low.deep > MAX_DEEP or low.nest > MAX_NEST or low.loops > MAX_LOOPS
