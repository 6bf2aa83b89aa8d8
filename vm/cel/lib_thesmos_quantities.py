"""The table of the functions that stand for operators where a schema says that an operand is a quantity.

The checker takes them by name (``thesmos.quantity.le``); no policy has to name them.
"""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, Overload, function, method

_B: Final = "vm.cel.thesmos_quantities:"
_Q: Final = "kubernetes.Quantity"


def _two(name: str, doc: str, to: str) -> Function:
    return Function(
        f"thesmos.quantity.{name}",
        (function("dyn", "dyn", to=to),),
        f"{_B}{name}",
        doc,
        fuel=6,
        sized=(0, 1),
    )


def _of_list(name: str, body: str, doc: str) -> Function:
    overloads: tuple[Overload, ...] = (function("list(dyn)", to=_Q), method("list(dyn)", to=_Q))
    return Function(
        f"thesmos.quantity.{name}",
        overloads,
        f"{_B}{body}",
        doc,
        fuel=4,
        sized=(0,),
        metered=True,
        cost="traversal",
    )


LIBRARY: Final = Library(
    "thesmos.quantities",
    1,
    (
        _two("lt", "whether a quantity is smaller", "bool"),
        _two("le", "whether a quantity is smaller or equal", "bool"),
        _two("gt", "whether a quantity is greater", "bool"),
        _two("ge", "whether a quantity is greater or equal", "bool"),
        _two("eq", "whether two quantities are equal, however they are written", "bool"),
        _two("ne", "whether two quantities differ", "bool"),
        _two("add", "the exact sum", _Q),
        _two("sub", "the exact difference", _Q),
        _two("mul", "the exact product of a quantity and a number", _Q),
        Function(
            "thesmos.quantity.neg",
            (function("dyn", to=_Q),),
            f"{_B}neg",
            "the negative quantity",
            fuel=4,
            sized=(0,),
        ),
        _of_list("sum", "total", "the exact sum of a list, 0 for an empty one"),
        _of_list("min", "smallest", "the smallest quantity of a list"),
        _of_list("max", "largest", "the largest quantity of a list"),
    ),
    "exact arithmetic on the quantities of a schema, in the place of operators on texts",
)
