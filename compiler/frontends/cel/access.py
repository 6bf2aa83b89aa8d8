"""Idents, selects, indexes and ``has()`` to IR: constant steps from a variable become one ``c_path``."""

from __future__ import annotations

from dataclasses import replace

from compiler.frontends.cel.ast import Call, Ident, Literal, Select
from compiler.frontends.cel.checked import Constant, LoopVar, Variable
from compiler.frontends.cel.lowered import Low, over
from compiler.frontends.cel.scope import Scope
from compiler.ir import ops as ir


def named(scope: Scope, node: Ident | Select) -> Low | None:
    """What a name stands for, None for a select that is no name."""
    match scope.checked.names.get(node.id):
        case Variable(name):
            found = scope.frame.variables.get(name)
            if found is None:
                return Low(scope.error("no_such_attribute", f"no such attribute(s): {name}"), 1)
            e = ir.Op("c_path", (), (found,)) if isinstance(found, tuple) else found
            return Low(e, 1, attribute=True, root=1)
        case LoopVar(owner, which):
            var = scope.loop_vars[owner][which]
            return Low(var.expr, 1, boolean=var.boolean, sound=var.sound, attribute=True, root=1, layers=var.layers)
        case Constant(value):
            return Low(ir.Const(value), boolean=isinstance(value, bool), sound=True)
    if isinstance(node, Ident):
        return Low(scope.error("no_such_attribute", f"no such attribute(s): {node.name}"), 1)
    return None


def select(scope: Scope, node: Select) -> Low:
    steps = [node]
    of = node.of
    while isinstance(of, Select) and not of.test and not of.optional and not scope.is_name(of):
        steps.append(of)
        of = of.of
    low = scope.value(of)
    for step in reversed(steps):
        low = one_step(scope, low, step)
    return low


def one_step(scope: Scope, low: Low, step: Select) -> Low:
    if step.test:
        return over(ir.Op("c_has", (low.expr,), (step.name,)), low, boolean=True, cost=0 if low.attribute else 2)
    if step.optional or low.optional:
        return _optional_step(low, "cel.select_optional.2", Low(ir.Const(step.name)))
    return field(low, step.name)


def _optional_step(low: Low, name: str, by: Low) -> Low:
    """A step on an optional value, or an optional one: a unit where there is something, which the intrinsic adds."""
    made = attribute(over(ir.Invoke(name, (low.expr, by.expr)), low, by, cost=-by.root), low)
    return replace(made, optional=True)


def field(low: Low, name: str) -> Low:
    """``of.name``."""
    match low.expr:
        case ir.Op("c_path", (), (path,)):
            return replace(low, expr=ir.Op("c_path", (), ((*path, name),)), cost=low.cost + 1)
    return attribute(over(ir.Op("c_select", (low.expr,), (name,)), low, cost=1), low)


def attribute(made: Low, of: Low) -> Low:
    """A step on what is no attribute yet makes one, which costs a unit."""
    return replace(made, cost=made.cost + (0 if of.attribute else 1), attribute=True, root=of.root)


def index(scope: Scope, node: Call) -> Low:
    of, at = node.args if node.target is None else (node.target, *node.args)
    low = scope.value(of)
    match at:
        case Literal(str() as key) if node.function == "_[_]" and not low.optional:
            return field(low, key)
    by = scope.value(at)
    if node.function == "_[?_]" or low.optional:
        return _optional_step(low, "cel.index_optional.2", by)
    return attribute(over(ir.Invoke("cel.index.2", (low.expr, by.expr)), low, by, cost=1 - by.root), low)
