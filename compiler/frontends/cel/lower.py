"""Lowers a checked CEL expression to IR: one expression of kind V, errors as values.

Called by :mod:`compiler.frontends.cel.expression`. Functions become the intrinsics of their rows, constants stay
constants, the rest is structure: see ``access``, ``logic`` and ``loops``. What an expression costs in the API server's
units is charged segment by segment.
"""

from __future__ import annotations

from compiler.emit import EmitError
from compiler.frontends.cel import access, binds, calls, construct, logic, loops
from compiler.frontends.cel.ast import Bind, Call, Ident, ListLit, Literal, Loop, MapLit, Node, Opt, Select, StructLit
from compiler.frontends.cel.checked import Checked
from compiler.frontends.cel.lowered import MAX_LAYERS, CelFrame, Low, block, charge, outlined, over, test, too_deep
from compiler.frontends.cel.scope import Scope
from compiler.frontends.cel.types import DYN
from compiler.ir import ops as ir
from vm.cel.lib_k8s_authz import CHECK, DECISION
from vm.host import HOST_CALLS

_LOGIC = {
    "_&&_": logic.joined,
    "_||_": logic.joined,
    "_?_:_": logic.choice,
    "_[_]": access.index,
    "_[?_]": access.index,
}


def lower(checked: Checked, frame: CelFrame) -> ir.Expr:
    """The value of an expression, or ``Err``: also ``Err cost`` when it cost more than its limit."""
    low = _Lowering(checked, frame).value(checked.root)
    if isinstance(low.expr, ir.Const):
        return low.expr
    outer = frame.builder.fresh("I", "cost")
    opened = ir.Set(outer, ir.Op("c_open"))
    return ir.Block((opened, *charge(low.cost)), ir.Op("c_close", (low.expr, ir.Local(outer))))


class _Lowering:
    def __init__(self, checked: Checked, frame: CelFrame) -> None:
        self.frame = frame
        self.scope = Scope(checked, frame, self.value)

    def value(self, node: Node) -> Low:
        known = len(self.frame.builder.locals)
        low = self.piece(node)
        if low.layers > MAX_LAYERS:
            text = f"lists and maps are built more than {MAX_LAYERS} deep"
            raise EmitError(self.frame.builder.name, text, policy=self.frame.builder.policy)
        if too_deep(low):
            own = frozenset(list(self.frame.builder.locals)[known:])
            return outlined(low, self.frame, own)
        return low

    def piece(self, node: Node) -> Low:
        scope = self.scope
        match node:
            case Literal(value):
                return Low(ir.Const(value), boolean=isinstance(value, bool), sound=True)
            case Ident() | Select():
                found = access.named(scope, node) if not isinstance(node, Select) or not node.test else None
                if found is None:
                    assert isinstance(node, Select)
                    found = access.select(scope, node)
                return found
            case Call(function) if function in _LOGIC:
                return _LOGIC[function](scope, node)
            case Call():
                return self.call(node)
            case ListLit():
                return construct.list_literal(scope, node)
            case MapLit():
                return construct.map_literal(scope, node)
            case StructLit():
                return construct.message(scope, node)
            case Loop():
                return loops.loop(scope, node)
            case Bind():
                return binds.bind(scope, node)
            case Opt():
                return binds.optional_map(scope, node)

    def call(self, node: Call) -> Low:
        lows = [self.value(x) for x in self.operands(node)]
        if node.function == "!_":
            return over(ir.Op("c_not", (lows[0].expr,)), lows[0], cost=1, boolean=True, sound=lows[0].sound)
        row = self.scope.checked.calls.get(node.id)
        if row is None:
            text = f"no such overload: {node.function}"
            return Low(self.scope.error("overload", text))
        if row.intrinsic == CHECK:
            return self.asked(lows)
        if row.intrinsic in ("cel.or.2", "cel.orValue.2"):
            return binds.alternative(self.scope, lows[0], lows[1], row.intrinsic)
        types = self.scope.checked.types
        return calls.applied(row, lows, [types.get(x.id, DYN) for x in self.operands(node)])

    def asked(self, lows: list[Low]) -> Low:
        """``check`` of an authorizer: the question, the host's reply, the decision that it makes."""
        body: list[ir.Stmt] = []
        question = self.scope.let(ir.Invoke(CHECK, tuple(x.expr for x in lows)), body)
        reply = ir.Op("await", (question,), (HOST_CALLS.index("authorize"),))
        e = ir.Choose(test("is_err", question), question, ir.Invoke(DECISION, (reply,)))
        return over(block(body, e), *lows, nest=1)

    def operands(self, node: Call) -> tuple[Node, ...]:
        if node.target is None or node.id in self.scope.checked.namespaced:
            return node.args
        return (node.target, *node.args)
