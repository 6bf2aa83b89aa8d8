"""``&&``, ``||`` and ``?:`` to IR (CEL spec § Logical Operators).

Terms are evaluated in order; one that decides ends it at once, whatever came before. Without one the first error, or
``no such overload`` for the first value that is no bool, is the result.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.frontends.cel.ast import Call
from compiler.frontends.cel.lowered import Low, block, over, paid, test
from compiler.frontends.cel.scope import Scope
from compiler.ir import ops as ir


def joined(scope: Scope, node: Call) -> Low:
    """``a && b && …`` or ``a || b || …``."""
    conjunction = node.function == "_&&_"
    first, *others = [scope.value(x) for x in node.args]
    rest = [paid(x) for x in others]
    nest = 1
    if all(x.boolean and x.sound for x in (first, *rest)):
        tests = tuple(test("is_true", x.expr) for x in (first, *rest))
        e = ir.And(tests) if conjunction else ir.Or(tests)
        return over(e, first, *rest, boolean=True, sound=True, nest=min(len(tests), 8))
    join, decides = ("c_and", "is_false") if conjunction else ("c_or", "is_true")
    name = scope.fresh("V", "b")
    result = ir.Local(name)
    body: list[ir.Stmt] = [ir.Set(name, first.expr)]
    for x in rest:
        more = ir.Set(name, ir.Op(join, (result, x.expr)))
        body.append(ir.If(ir.Op("not", (test(decides, result),)), (more,)))
    return replace(over(block(body, result), first, *rest, boolean=True, nest=nest), layers=0)


def choice(scope: Scope, node: Call) -> Low:
    """``cond ? then : other``."""
    cond, then, other = (scope.value(x) for x in node.args)
    arms = [paid(replace(x, cost=x.cost - x.root)) for x in (then, other)]
    both_bool = then.boolean and other.boolean
    if cond.boolean and cond.sound:
        e = ir.Choose(test("is_true", cond.expr), arms[0].expr, arms[1].expr)
        made = over(e, cond, *arms, boolean=both_bool, sound=then.sound and other.sound, nest=1)
        return replace(made, attribute=True)
    body: list[ir.Stmt] = []
    c = scope.let(cond.expr, body)
    wrong = ir.Op("c_cond", (c,))
    e = ir.Choose(test("is_true", c), arms[0].expr, ir.Choose(test("is_false", c), arms[1].expr, wrong))
    return replace(over(block(body, e), cond, *arms, boolean=both_bool, nest=2), attribute=True)
