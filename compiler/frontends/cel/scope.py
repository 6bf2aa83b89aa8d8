"""What all parts of the lowering share while one expression is lowered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from compiler.frontends.cel.ast import Ident, Node, Select
from compiler.frontends.cel.checked import Checked
from compiler.frontends.cel.lowered import CelFrame, Low
from compiler.ir import ops as ir
from vm.values import Err


@dataclass(slots=True)
class Scope:
    """``value`` lowers a node. ``loop_vars`` are the variables of the loops and binds around, by the node's id."""

    checked: Checked
    frame: CelFrame
    value: Callable[[Node], Low]
    loop_vars: dict[int, tuple[Low, ...]] = field(default_factory=dict)

    def is_name(self, node: Select) -> bool:
        return node.id in self.checked.names

    def fresh(self, kind: str = "V", hint: str = "c") -> str:
        return self.frame.builder.fresh(kind, hint)

    def let(self, e: ir.Expr, body: list[ir.Stmt], hint: str = "c") -> ir.Expr:
        """A local or constant with the value of an expression."""
        if isinstance(e, (ir.Local, ir.Const)):
            return e
        name = self.fresh("V", hint)
        body.append(ir.Set(name, e))
        return ir.Local(name)

    @staticmethod
    def error(code: str, text: str) -> ir.Expr:
        return ir.Const(Err(code, text))


__all__ = ["Ident", "Scope"]
