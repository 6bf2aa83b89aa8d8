"""The table of cel-go's ``lists`` extension, version 3, which Kubernetes has since 1.34."""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, Overload, function, method

_L: Final = "vm.cel.lists:"
_SORTABLE: Final = (
    "int",
    "uint",
    "double",
    "bool",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "string",
    "bytes",
)


def _row(
    name: str,
    overloads: tuple[Overload, ...],
    body: str,
    doc: str,
    *,
    sized: tuple[int, ...] = (),
    metered: bool = True,
    symbol: str = "",
    since: int = 0,
    cost: str = "one",
) -> Function:
    return Function(name, overloads, body, doc, symbol, 3, sized, metered, cost, since=since)


_ROWS: Final = (
    _row(
        "slice",
        (method("list(T)", "int", "int", to="list(T)"),),
        _L + "slice_",
        "the elements from a position to another, which is not included",
        sized=(0,),
        metered=False,
        cost="list_made",
    ),
    _row(
        "flatten",
        (method("list(list(T))", to="list(T)"),),
        _L + "flatten",
        "the elements of the lists in a list, one level deep",
        cost="flatten",
        since=1,
    ),
    _row(
        "flatten",
        (method("list(dyn)", "int", to="list(dyn)"),),
        _L + "flatten_deep",
        "the elements of the lists in a list, n levels deep",
        cost="flatten",
        since=1,
    ),
    _row(
        "sort",
        tuple(method(f"list({t})", to=f"list({t})") for t in _SORTABLE),
        _L + "sort",
        "the elements in order",
        since=2,
    ),
    _row(
        "@sortByAssociatedKeys",
        tuple(method("list(T)", f"list({t})", to="list(T)") for t in _SORTABLE),
        _L + "sort_by_keys",
        "the elements in the order of their keys; the macro list.sortBy(x, key) calls it with list.map(x, key)",
        symbol="sortByAssociatedKeys",
        since=2,
    ),
    _row(
        "lists.range",
        (function("int", to="list(int)"),),
        _L + "range_",
        "the numbers from 0 to n - 1",
        since=2,
        cost="list_made",
    ),
    _row(
        "distinct",
        (method("list(T)", to="list(T)"),),
        _L + "distinct",
        "the elements without those that equal one before",
        cost="distinct",
        since=2,
    ),
)
_REVERSE: Final = (method("list(T)", to="list(T)"),)
_REVERSED: Final = "the elements in reverse order"

LIBRARY: Final = Library(
    "lists",
    3,
    (
        *_ROWS,
        _row("reverse", _REVERSE, "vm.cel.strings:reverse", _REVERSED, sized=(0,), metered=False, cost="one", since=2),
    ),
    "cel-go's functions on lists",
)
KUBERNETES: Final = Library(
    "lists.kubernetes",
    3,
    (
        *_ROWS,
        _row(
            "reverse",
            _REVERSE,
            _L + "reverse",
            _REVERSED,
            sized=(0,),
            metered=False,
            symbol="reverse.list",
            since=2,
            cost="list_made",
        ),
    ),
    "cel-go's functions on lists, beside texts that cannot be reversed",
)
