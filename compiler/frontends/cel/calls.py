"""Calls of functions to IR: which intrinsic runs a row, and what a call costs that the code can know beforehand.

The API server counts by the overload that the checker found. Where that takes operands whose size counts, the
intrinsic adds the cost when it runs; where it does not, or where several could be meant, a call is one unit
(cel-go). Conversions of a constant and ``in`` of a constant list are done before the run there, and cost nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from compiler.frontends.cel.lowered import Low, over
from compiler.frontends.cel.types import BYTES, STRING, ListOf, Prim, Type
from compiler.ir import ops as ir
from vm.cel.libraries import BY_TYPES
from vm.cel.library import Function

_ATOMS: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes"})
"""Results that hold no operand."""
_SIZELESS: Final = frozenset({"bool", "int", "uint", "double", "null_type"})
_CONVERSIONS: Final = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint"})
_SHORT: Final = 10
"""Characters that one unit reads."""


def applied(row: Function, lows: list[Low], types: list[Type]) -> Low:
    """The call of a row. ``types`` are those that the checker found of the operands."""
    if row.name == "dyn":
        constant = isinstance(lows[0].expr, ir.Const)
        return replace(lows[0], cost=lows[0].cost + (not constant), attribute=False, root=0)
    if row.name in ("_==_", "_!=_"):
        short = _short_text(lows)
        if short is not None:
            return _is_text(lows, short, negated=row.name == "_!=_")
    name, cost = _priced(row, lows, types)
    made = over(
        ir.Invoke(name, tuple(x.expr for x in lows)),
        *lows,
        cost=cost,
        boolean=all(o.result == "bool" for o in row.overloads),
        sound=row.name in ("_==_", "_!=_") and all(x.sound for x in lows),
        layers=row.wraps,
    )
    return replace(made, layers=0) if _ATOMS.issuperset(o.result for o in row.overloads) else made


def _short_text(lows: list[Low]) -> int | None:
    """Which of two operands is a constant text that one unit reads."""
    for n, low in enumerate(lows):
        match low.expr:
            case ir.Const(str() as text) if 0 < len(text) <= _SHORT and text.isascii():
                return n
    return None


def _is_text(lows: list[Low], constant: int, *, negated: bool) -> Low:
    of, key = lows[1 - constant], lows[constant].expr
    assert isinstance(key, ir.Const)
    e: ir.Expr = ir.Op("c_is_text", (of.expr,), (key.value,))
    if negated:
        e = ir.Op("c_not", (e,))
    return replace(over(e, of, cost=1, boolean=True, sound=of.sound), layers=0)


def _priced(row: Function, lows: list[Low], types: list[Type]) -> tuple[str, int]:
    """The intrinsic, and what the code charges for it."""
    constant = len(lows) == 1 and isinstance(lows[0].expr, ir.Const)
    if row.cost not in BY_TYPES:
        return row.intrinsic, int(row.cost == "one" and not (constant and row.name in _CONVERSIONS))
    plain = f"{row.intrinsic}.plain"
    match row.cost:
        case "within":
            if isinstance(lows[1].expr, ir.Const):
                return plain, int(not isinstance(lows[1].expr.value, list))
            return (row.intrinsic, 0) if isinstance(types[1], ListOf) else (plain, 1)
        case "equals":
            return (plain, 1) if any(map(_sizeless, types)) else (row.intrinsic, 0)
        case "converted" | "encoded" if constant:
            return plain, 0
    return (row.intrinsic, 0) if any(t in (STRING, BYTES) for t in types) else (plain, 1)


def _sizeless(t: Type) -> bool:
    return isinstance(t, Prim) and t.name in _SIZELESS
