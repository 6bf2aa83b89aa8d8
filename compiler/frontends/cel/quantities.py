"""Where the operands of a call are quantities by the schema: which function of quantities the call means.

In plain CEL ``c.resources.limits.cpu <= '4000m'`` compares texts and ``2 * c.resources.requests.memory`` has no
overload; the fields are quantities, so a comparison with a text that is one, with a number or another quantity, and the
arithmetic of them, are done as quantities, exactly. ``Env.strict`` leaves them as plain CEL has them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from compiler.frontends.cel.ast import Call, Literal, Node
from compiler.frontends.cel.soft import schema
from compiler.frontends.cel.types import (
    BOOL,
    DOUBLE,
    INT,
    QUANTITY_TEXT,
    UINT,
    ListOf,
    Prim,
    Soft,
    Type,
)

QUANTITY: Final = Prim("kubernetes.Quantity")
LIBRARY: Final = "thesmos.quantities"

_COMPARE: Final = {"_<_": "lt", "_<=_": "le", "_>_": "gt", "_>=_": "ge", "_==_": "eq", "_!=_": "ne"}
_TOLD: Final = {
    **dict.fromkeys(_COMPARE.values(), "compared as quantities, not as text"),
    "min": "the smallest quantity is taken, not the first text",
    "max": "the largest quantity is taken, not the last text",
}
_ARITHMETIC: Final = {"_+_": "add", "_-_": "sub", "_*_": "mul"}
_OF_LIST: Final = {"sum": "sum", "min": "min", "max": "max", "math.@min": "min", "math.@max": "max"}
_TEXT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE])?")


def is_quantity(t: Type) -> bool:
    """Whether a schema says that the value is a quantity, or it was computed of such."""
    return isinstance(t, Soft) and schema(t) in (QUANTITY_TEXT, QUANTITY)


def meant(node: Call, operands: Sequence[Type], member: bool) -> tuple[str, Type] | None:
    """The function of the quantities' library that a call means, with the type of its result; None where it is plain
    CEL. ``operands`` are the types of the receiver, if any, and the arguments."""
    name = node.function
    if name in _OF_LIST and len(operands) == 1:
        if _is_list_of_quantities(operands[0]):
            return f"thesmos.quantity.{_OF_LIST[name]}", Soft(QUANTITY)
        return None
    if member or not any(map(is_quantity, operands)):
        return None
    if name == "-_":
        return "thesmos.quantity.neg", Soft(QUANTITY)
    if len(operands) != 2:
        return None
    if name in _COMPARE:
        if all(is_quantity(t) or _comparable(x, t) for x, t in zip(node.args, operands, strict=True)):
            return f"thesmos.quantity.{_COMPARE[name]}", BOOL
    elif name in _ARITHMETIC and all(is_quantity(t) or _number(t) or schema(t) == QUANTITY for t in operands):
        return f"thesmos.quantity.{_ARITHMETIC[name]}", Soft(QUANTITY)
    return None


def told(function: str) -> str:
    """The sentence of the note about a place where ``function`` is meant."""
    return _TOLD.get(function.rpartition(".")[2], "computed as quantities, exactly")


def _is_list_of_quantities(t: Type) -> bool:
    said = schema(t)
    if not isinstance(said, ListOf) or said.item not in (QUANTITY_TEXT, QUANTITY):
        return False
    return isinstance(t, Soft) or (isinstance(t, ListOf) and isinstance(t.item, Soft))


def _comparable(node: Node, t: Type) -> bool:
    if isinstance(node, Literal) and isinstance(node.value, str):
        return _TEXT.fullmatch(node.value) is not None
    return _number(t) or schema(t) == QUANTITY


def _number(t: Type) -> bool:
    return schema(t) in (INT, UINT, DOUBLE)
