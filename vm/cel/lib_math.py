"""The table of cel-go's ``math`` extension. The macros ``math.least`` and ``math.greatest`` call ``math.@min`` and
``math.@max`` with their one or two operands, or with a list of more."""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, Overload, function

_M: Final = "vm.cel.math:"
_NUMBERS: Final = ("double", "int", "uint")


def _row(
    name: str, overloads: tuple[Overload, ...], body: str, doc: str, since: int = 1, *, metered: bool = False
) -> Function:
    symbol = name.replace("@", "")
    return Function(name, overloads, _M + body, doc, symbol if symbol != name else "", metered=metered, since=since)


_EXTREME: Final = tuple(function(t, to=t) for t in _NUMBERS) + tuple(function(f"list({t})", to=t) for t in _NUMBERS)
_OF_TWO: Final = tuple(function(t, t, to=t) for t in _NUMBERS) + tuple(
    function(a, b, to="dyn") for a in _NUMBERS for b in _NUMBERS if a != b
)
_OF_DOUBLE: Final = (function("double", to="double"),)
_IS_DOUBLE: Final = (function("double", to="bool"),)
_OF_NUMBER: Final = tuple(function(t, to=t) for t in _NUMBERS)
_BITS: Final = (function("int", "int", to="int"), function("uint", "uint", to="uint"))
_SHIFT: Final = (function("int", "int", to="int"), function("uint", "int", to="uint"))

LIBRARY: Final = Library(
    "math",
    2,
    (
        _row("math.@min", _EXTREME, "least", "the least number of a list, or the number itself", 0, metered=True),
        _row("math.@min", _OF_TWO, "least_of", "the lesser of two numbers, the first when they are equal", 0),
        _row("math.@max", _EXTREME, "greatest", "the greatest number of a list, or the number itself", 0, metered=True),
        _row("math.@max", _OF_TWO, "greatest_of", "the greater of two numbers, the first when they are equal", 0),
        _row("math.ceil", _OF_DOUBLE, "ceil", "the least whole number that is not below"),
        _row("math.floor", _OF_DOUBLE, "floor", "the greatest whole number that is not above"),
        _row("math.round", _OF_DOUBLE, "round_", "the nearest whole number, away from zero in the middle"),
        _row("math.trunc", _OF_DOUBLE, "trunc", "without the fraction"),
        _row("math.isInf", _IS_DOUBLE, "is_inf", "whether it is infinite, of either sign"),
        _row("math.isNaN", _IS_DOUBLE, "is_nan", "whether it is no number"),
        _row("math.isFinite", _IS_DOUBLE, "is_finite", "whether it is a number and finite"),
        _row("math.abs", _OF_NUMBER, "abs_", "the absolute value"),
        _row("math.sign", _OF_NUMBER, "sign", "-1, 0 or 1"),
        _row("math.bitAnd", _BITS, "bit_and", "the bits that both have"),
        _row("math.bitOr", _BITS, "bit_or", "the bits that one has"),
        _row("math.bitXor", _BITS, "bit_xor", "the bits that exactly one has"),
        _row("math.bitNot", (function("int", to="int"), function("uint", to="uint")), "bit_not", "the other bits"),
        _row("math.bitShiftLeft", _SHIFT, "shift_left", "the bits moved up; those beyond 64 are lost"),
        _row("math.bitShiftRight", _SHIFT, "shift_right", "the bits moved down, with zeros from above"),
        _row(
            "math.sqrt", tuple(function(t, to="double") for t in _NUMBERS), "sqrt", "the square root, NaN below zero", 2
        ),
    ),
    "cel-go's functions on numbers",
)
