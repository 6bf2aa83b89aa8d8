"""The table of optional values, version 2 of cel-go. Kubernetes has it since 1.28.

``a.?b`` of a number or text, which has no fields, is none, as Kubernetes has it; the tests of the CEL specification
want an error there, which cel-go gives only with ``EnableErrorOnBadPresenceTest``."""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, Overload, function, method

_O: Final = "vm.cel.optional:"
_INDEX: Final = (
    function("list(V)", "int", to="optional_type(V)"),
    function("optional_type(list(V))", "int", to="optional_type(V)"),
    function("map(K, V)", "K", to="optional_type(V)"),
    function("optional_type(map(K, V))", "K", to="optional_type(V)"),
)


def _row(
    name: str, overload: Overload, body: str, doc: str, *, wraps: bool = False, metered: bool = False, since: int = 0
) -> Function:
    return Function(name, (overload,), _O + body, doc, metered=metered, wraps=wraps, since=since)


_ROWS: Final = (
    _row(
        "optional.of", function("V", to="optional_type(V)"), "of", "an optional value that holds this one", wraps=True
    ),
    _row(
        "optional.ofNonZeroValue",
        function("V", to="optional_type(V)"),
        "of_non_zero",
        "an optional value that holds this one, none for null, false, 0 and what is empty",
        wraps=True,
    ),
    _row("optional.none", function(to="optional_type(V)"), "none", "the optional value that holds nothing"),
    _row("value", method("optional_type(V)", to="V"), "value", "what it holds, an error for none"),
    _row("hasValue", method("optional_type(V)", to="bool"), "has_value", "whether it holds something"),
    _row(
        "or",
        method("optional_type(V)", "optional_type(V)", to="optional_type(V)"),
        "or_",
        "the first when it holds something, else the second, whose errors count only then",
    ),
    _row(
        "orValue",
        method("optional_type(V)", "V", to="V"),
        "or_value",
        "what it holds, else the second operand, whose errors count only then",
    ),
    _row("first", method("list(V)", to="optional_type(V)"), "first", "the first element, if any", since=2),
    _row("last", method("list(V)", to="optional_type(V)"), "last", "the last element, if any", since=2),
    _row(
        "optional.unwrap",
        function("list(optional_type(V))", to="list(V)"),
        "unwrap",
        "what the optional values of a list hold, without those that hold nothing",
        metered=True,
        since=2,
    ),
    _row(
        "unwrapOpt",
        method("list(optional_type(V))", to="list(V)"),
        "unwrap_opt",
        "what the optional values of a list hold, without those that hold nothing",
        metered=True,
        since=2,
    ),
    Function(
        "_?._",
        (function("dyn", "string", to="optional_type(V)"),),
        _O + "select",
        "the field if it is there, none of a value without fields",
        "select_optional",
        cost="present",
    ),
    Function(
        "_[?_]",
        _INDEX,
        _O + "select",
        "the element if it is there, none of a value without elements",
        "index_optional",
        cost="present",
    ),
)

LIBRARY: Final = Library("optional", 2, _ROWS, "optional values", types=("optional_type",))
