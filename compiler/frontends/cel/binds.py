"""``cel.bind``, ``optMap`` and ``or`` of optional values to IR: what is computed at most once, or only when needed."""

from __future__ import annotations

from compiler.frontends.cel.ast import Bind, Call, Ident, ListLit, Literal, Loop, MapLit, Node, Opt, Select, StructLit
from compiler.frontends.cel.checked import LoopVar
from compiler.frontends.cel.lowered import Low, block, charge, outlined, over, paid, test
from compiler.frontends.cel.scope import Scope
from compiler.ir import ops as ir
from vm.values import MISSING


def bind(scope: Scope, node: Bind) -> Low:
    """At once where the body surely needs the value, else when it first does."""
    known = len(scope.frame.builder.locals)
    value = scope.value(node.value)
    if reads_first(scope, node.body, node.id):
        name = scope.fresh("V", "let")
        scope.loop_vars[node.id] = (_variable(ir.Local(name), value),)
        body = scope.value(node.body)
        e = block([ir.Set(name, value.expr)], body.expr)
        return over(e, value, body, boolean=body.boolean, sound=body.sound)
    own = frozenset(list(scope.frame.builder.locals)[known:])
    value = outlined(paid(value), scope.frame, own)
    name = scope.fresh("V", "let")
    found = ir.Local(name)
    needed = ir.Block((ir.If(test("is_missing", found), (ir.Set(name, value.expr),)),), found)
    scope.loop_vars[node.id] = (_variable(needed, value),)
    body = scope.value(node.body)
    e = block([ir.Set(name, ir.Const(MISSING))], body.expr)
    return over(e, body, boolean=body.boolean, sound=body.sound)


def _variable(e: ir.Expr, value: Low) -> Low:
    return Low(e, boolean=value.boolean, sound=value.sound, layers=value.layers)


def reads_first(scope: Scope, node: Node, owner: int) -> bool:
    """Whether evaluating a node surely reads the variable of a bind."""
    match node:
        case Literal():
            return False
        case Ident():
            return scope.checked.names.get(node.id) == LoopVar(owner)
        case Select():
            return reads_first(scope, node.of, owner)
        case Call("_&&_" | "_||_" | "_?_:_" | "or" | "orValue"):
            return reads_first(scope, node.target or node.args[0], owner)
        case Call():
            operands = node.args if node.target is None else (node.target, *node.args)
            return any(reads_first(scope, x, owner) for x in operands)
        case ListLit(items):
            return any(reads_first(scope, x, owner) for x in items)
        case MapLit(entries):
            return any(reads_first(scope, x, owner) for e in entries for x in (e.key, e.value))
        case StructLit(_, fields):
            return any(reads_first(scope, f.value, owner) for f in fields)
        case Loop():
            return reads_first(scope, node.over, owner)
        case Opt():
            return reads_first(scope, node.of, owner)
        case Bind():
            return reads_first(scope, node.body, owner)


def alternative(scope: Scope, of: Low, other: Low, name: str) -> Low:
    """``of.or(other)`` and ``of.orValue(other)``: the second operand counts only where the first holds nothing."""
    if not other.cost:
        return over(ir.Invoke(name, (of.expr, other.expr)), of, other)
    before: list[ir.Stmt] = []
    o = scope.let(of.expr, before)
    arm = paid(other)
    held = o if name == "cel.or.2" else ir.Invoke("cel.value.1", (o,))
    e = ir.Choose(test("is_true", ir.Invoke("cel.hasValue.1", (o,))), held, ir.Invoke(name, (o, arm.expr)))
    return over(block(before, e), of, arm, nest=1)


def optional_map(scope: Scope, node: Opt) -> Low:
    """``of.hasValue() ? optional.of(then) : optional.none()`` with the value bound; ``optFlatMap`` takes ``then`` as it
    is."""
    low = scope.value(node.of)
    name = scope.fresh("V", "some")
    scope.loop_vars[node.id] = (Low(ir.Local(name), sound=True, layers=low.layers),)
    then = scope.value(node.then)
    before: list[ir.Stmt] = []
    o = scope.let(low.expr, before)
    has = scope.let(ir.Invoke("cel.hasValue.1", (o,)), before)
    some = then.expr if node.flat else ir.Invoke("cel.optional.of.1", (then.expr,))
    cost = then.cost + low.cost + (1 if node.flat else 2)  # the macro writes its target twice
    some = block([*charge(cost), ir.Set(name, ir.Invoke("cel.value.1", (o,)))], some)
    none = block(charge(1), ir.Invoke("cel.optional.none.0", ()))
    e = ir.Choose(test("is_true", has), some, ir.Choose(test("is_false", has), none, ir.Op("c_cond", (has,))))
    made = over(block(before, e), low, then, nest=2, layers=1)
    return Low(made.expr, low.cost + 1, deep=made.deep, nest=made.nest, loops=made.loops, layers=made.layers)
