"""The standard library of CEL: operators, ``size``, ``type``, conversions, functions of texts, timestamps and
durations, with the overloads that cel-go declares (CEL spec § Standard Definitions).

Read by the checker, ``vm.functions`` and the documentation. ``&&``, ``||``, ``?:``, field selection and macros are
structure of the program and no functions.
"""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, Overload, function, method

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_DURATION: Final = "google.protobuf.Duration"
_NUMBERS: Final = ("int", "uint", "double")


def _same(*types: str) -> tuple[Overload, ...]:
    """``(t, t) -> t`` of each type."""
    return tuple(function(t, t, to=t) for t in types)


def _ordered() -> tuple[Overload, ...]:
    """The comparisons: values of one type, and numbers of any two."""
    alone = ("bool", "string", "bytes", _TIMESTAMP, _DURATION)
    return (
        *(function(t, t, to="bool") for t in alone),
        *(function(a, b, to="bool") for a in _NUMBERS for b in _NUMBERS),
    )


def _conversion(to: str, body: str, doc: str, *sources: str, cost: str = "one") -> Function:
    name = {_TIMESTAMP: "timestamp", _DURATION: "duration"}.get(to, to)
    overloads = tuple(function(s, to=to) for s in sources)
    return Function(name, overloads, f"vm.cel.convert:{body}", doc, sized=(0,), cost=cost)


def _of_text(name: str, body: str, doc: str, *, static: bool = False, fuel: int = 2, cost: str = "parse") -> Function:
    overloads: tuple[Overload, ...] = (method("string", "string", to="bool"),)
    if static:
        overloads = (function("string", "string", to="bool"), *overloads)
    return Function(name, overloads, f"vm.cel.text:{body}", doc, sized=(0, 1), fuel=fuel, cost=cost)


def _field(name: str, body: str, what: str, *, of_durations: bool = False) -> tuple[Function, Function]:
    """A field of a timestamp, in UTC and in a zone; some are functions of durations too."""
    utc: tuple[Overload, ...] = (method(_TIMESTAMP, to="int"),)
    if of_durations:
        utc = (*utc, method(_DURATION, to="int"))
    return (
        Function(name, utc, f"vm.cel.time:{body}", f"{what}, in UTC"),
        Function(
            name,
            (method(_TIMESTAMP, "string", to="int"),),
            f"vm.cel.time:{body}_in",
            f"{what}, in a time zone: a name of the IANA data base or hours and minutes as in `-05:30`",
            fuel=8,
        ),
    )


_ADDED: Final = (
    *_same("int", "uint", "double", "string", "bytes", "list(A)", _DURATION),
    function(_DURATION, _TIMESTAMP, to=_TIMESTAMP),
    function(_TIMESTAMP, _DURATION, to=_TIMESTAMP),
)
_SUBTRACTED: Final = (
    *_same("int", "uint", "double", _DURATION),
    function(_TIMESTAMP, _DURATION, to=_TIMESTAMP),
    function(_TIMESTAMP, _TIMESTAMP, to=_DURATION),
)

_OPERATORS: Final = (
    Function(
        "_+_",
        _ADDED,
        "vm.cel.arith:add",
        "the sum, or two texts, bytes or lists joined",
        "add",
        metered=True,
        cost="added",
    ),
    Function("_-_", _SUBTRACTED, "vm.cel.arith:sub", "the difference", "sub"),
    Function("_*_", _same(*_NUMBERS), "vm.cel.arith:mul", "the product", "mul"),
    Function("_/_", _same(*_NUMBERS), "vm.cel.arith:div", "the quotient, of integers cut towards zero", "div"),
    Function("_%_", _same("int", "uint"), "vm.cel.arith:mod", "the remainder, with the sign of the first", "mod"),
    Function("-_", (function("int", to="int"), function("double", to="double")), "vm.cel.arith:neg", "minus", "neg"),
    Function("!_", (function("bool", to="bool"),), "vm.cel.arith:not_", "the opposite", "not"),
    Function(
        "_==_",
        (function("A", "A", to="bool"),),
        "vm.cel.equality:eq",
        "whether equal",
        "eq",
        metered=True,
        cost="equals",
    ),
    Function(
        "_!=_",
        (function("A", "A", to="bool"),),
        "vm.cel.equality:ne",
        "whether unequal",
        "ne",
        metered=True,
        cost="equals",
    ),
    Function("_<_", _ordered(), "vm.cel.equality:lt", "whether less", "lt", cost="ordered"),
    Function("_<=_", _ordered(), "vm.cel.equality:le", "whether less or equal", "le", cost="ordered"),
    Function("_>_", _ordered(), "vm.cel.equality:gt", "whether greater", "gt", cost="ordered"),
    Function("_>=_", _ordered(), "vm.cel.equality:ge", "whether greater or equal", "ge", cost="ordered"),
    Function(
        "@in",
        (function("A", "list(A)", to="bool"), function("A", "map(A, B)", to="bool")),
        "vm.cel.containers:contains",
        "whether a list holds a value, or a map a key",
        "in",
        metered=True,
        cost="within",
    ),
    Function(
        "_[_]",
        (function("list(A)", "int", to="A"), function("map(A, B)", "A", to="B")),
        "vm.cel.containers:index",
        "the element of a list at an index, or of a map at a key",
        "index",
    ),
)

_SIZED: Final = ("string", "bytes", "list(A)", "map(A, B)")

_CONVERSIONS: Final = (
    Function(
        "size",
        (*(function(t, to="int") for t in _SIZED), *(method(t, to="int") for t in _SIZED)),
        "vm.cel.containers:size",
        "the number of characters, bytes, elements or entries",
    ),
    Function("type", (function("A", to="type(A)"),), "vm.cel.convert:to_type", "the type of a value"),
    Function("dyn", (function("A", to="dyn"),), "vm.cel.convert:to_dyn", "the value, its type unknown to the checker"),
    _conversion("bool", "to_bool", "a bool, or the text of one", "bool", "string"),
    _conversion("bytes", "to_bytes", "bytes, or the UTF-8 of a text", "bytes", "string", cost="encoded"),
    _conversion("double", "to_double", "a number as a double", "double", "int", "string", "uint"),
    _conversion(_DURATION, "to_duration", "a duration, or a text as in `1h30m`", _DURATION, "int", "string"),
    _conversion(
        "int",
        "to_int",
        "a number cut towards zero, the seconds of a timestamp, the nanoseconds of a duration",
        *("int", "double", _DURATION, "string", _TIMESTAMP, "uint"),
    ),
    _conversion(
        "string",
        "to_string",
        "the text of a value; of bytes that are UTF-8",
        *("string", "bool", "bytes", "double", _DURATION, "int", _TIMESTAMP, "uint"),
        cost="converted",
    ),
    _conversion(_TIMESTAMP, "to_timestamp", "a time in RFC 3339, or seconds since 1970", _TIMESTAMP, "int", "string"),
    _conversion(
        "uint", "to_uint", "a number that is not negative, cut towards zero", "uint", "double", "int", "string"
    ),
)

_TEXTS: Final = (
    _of_text("contains", "contains", "whether a text holds another", cost="contains"),
    _of_text("endsWith", "ends_with", "whether a text ends with another"),
    _of_text("startsWith", "starts_with", "whether a text starts with another"),
    _of_text(
        "matches", "matches", "whether an expression (RE2) is found in a text", static=True, fuel=16, cost="matches"
    ),
)

_TIMES: Final = (
    *_field("getFullYear", "full_year", "the year"),
    *_field("getMonth", "month", "the month, from 0"),
    *_field("getDayOfYear", "day_of_year", "the day of the year, from 0"),
    *_field("getDayOfMonth", "day_of_month", "the day of the month, from 0"),
    *_field("getDate", "date", "the day of the month, from 1"),
    *_field("getDayOfWeek", "day_of_week", "the day of the week, from 0 for Sunday"),
    *_field("getHours", "hours", "the hour, or the whole hours of a duration", of_durations=True),
    *_field("getMinutes", "minutes", "the minute, or the whole minutes of a duration", of_durations=True),
    *_field("getSeconds", "seconds", "the second, or the whole seconds of a duration", of_durations=True),
    *_field(
        "getMilliseconds",
        "milliseconds",
        "the milliseconds of the second, or the whole milliseconds of a duration",
        of_durations=True,
    ),
)

LIBRARY: Final = Library(
    "standard",
    1,
    (*_OPERATORS, *_CONVERSIONS, *_TEXTS, *_TIMES),
    "Operators, conversions and the functions that every CEL has.",
    types=("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"),
)
