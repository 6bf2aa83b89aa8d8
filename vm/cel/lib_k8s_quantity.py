"""The table of the API server's ``quantity`` library (Kubernetes 1.28)."""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, function, method

_Q: Final = "kubernetes.Quantity"
_B: Final = "vm.cel.k8s_quantity:"
_C: Final = "vm.cel.k8s_compare:"

LIBRARY: Final = Library(
    "kubernetes.quantity",
    1,
    (
        Function(
            "quantity",
            (function("string", to=_Q),),
            _B + "quantity",
            "the quantity that a text denotes (`500m`, `1.5Gi`), an error for none",
            sized=(0,),
            cost="parse",
        ),
        Function(
            "isQuantity",
            (function("string", to="bool"),),
            _B + "is_quantity",
            "whether a text denotes a quantity",
            sized=(0,),
            cost="parse",
        ),
        Function("sign", (function(_Q, to="int"),), _B + "sign", "-1, 0 or 1"),
        Function(
            "isInteger",
            (method(_Q, to="bool"),),
            _B + "is_integer",
            "whether Kubernetes keeps the quantity as a whole number of 64 bits (not `1.0`)",
        ),
        Function(
            "asInteger",
            (method(_Q, to="int"),),
            _B + "as_integer",
            "the whole number, an error where `isInteger` is false",
        ),
        Function(
            "asApproximateFloat",
            (method(_Q, to="double"),),
            _B + "as_approximate_float",
            "the quantity as a double, not always the nearest one",
        ),
        Function(
            "add",
            (method(_Q, _Q, to=_Q), method(_Q, "int", to=_Q)),
            _B + "add",
            "the exact sum of a quantity and a quantity or an int",
            "quantity.add",
        ),
        Function(
            "sub",
            (method(_Q, _Q, to=_Q), method(_Q, "int", to=_Q)),
            _B + "sub",
            "the exact difference of a quantity and a quantity or an int",
            "quantity.sub",
        ),
        Function("isGreaterThan", (method(_Q, _Q, to="bool"),), _C + "is_greater_than", "whether it is the greater"),
        Function("isLessThan", (method(_Q, _Q, to="bool"),), _C + "is_less_than", "whether it is the smaller"),
        Function("compareTo", (method(_Q, _Q, to="int"),), _C + "compare_to", "-1, 0 or 1"),
    ),
    "quantities of resources, exactly; in Kubernetes since 1.28",
)
