"""What the lowering of literals, macros and messages calls: no expression names these functions.

Read by ``vm.functions``. Functions that change the value they are given are not pure: equal calls must not
share a result.
"""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, Overload, function


def _row(name: str, body: str, doc: str, overload: Overload, *, pure: bool, fuel: int = 1) -> Function:
    return Function(
        f"@{name.replace('.', '_')}",
        (overload,),
        body,
        doc,
        f"build.{name}",
        fuel=fuel,
        sized=(0,) if name in _OVER_ALL else (),
        pure=pure,
        changes=not pure,
    )


_OVER_ALL: Final = frozenset({"keys", "range", "pairs"})
_BODY: Final = "vm.cel.containers"

LIBRARY: Final = Library(
    "construction",
    1,
    (
        _row(
            "map.put",
            f"{_BODY}:put",
            "the map with one entry more; an error for a key that it has or that can be none",
            function("map(A, B)", "A", "B", to="map(A, B)"),
            pure=False,
        ),
        _row(
            "map.put_optional",
            f"{_BODY}:put_optional",
            "the map with the entry that an optional value gives",
            function("map(A, B)", "A", "optional_type(B)", to="map(A, B)"),
            pure=False,
        ),
        Function(
            "@map_put_all",
            (function("map(A, B)", "map(A, B)", to="map(A, B)"),),
            f"{_BODY}:put_all",
            "the map with all entries of another; an error for a key that both have",
            "build.map.put_all",
            sized=(1,),
            pure=False,
            changes=True,
        ),
        _row(
            "list.add",
            f"{_BODY}:append",
            "the list with one element more",
            function("list(A)", "A", to="list(A)"),
            pure=False,
        ),
        _row(
            "list.add_optional",
            f"{_BODY}:append_optional",
            "the list with the element that an optional value gives",
            function("list(A)", "optional_type(A)", to="list(A)"),
            pure=False,
        ),
        _row("keys", f"{_BODY}:keys", "the keys of a map", function("map(A, B)", to="list(A)"), pure=True),
        _row(
            "range",
            f"{_BODY}:iterated",
            "what a macro goes over: the elements of a list, the keys of a map",
            function("A", to="list(B)"),
            pure=True,
        ),
        Function(
            "@pairs",
            (function("A", to="list(B)"),),
            f"{_BODY}:paired",
            "what a macro with two variables goes over: [index, element] of a list, [key, value] of a map",
            "build.pairs",
            sized=(0,),
            wraps=True,
        ),
        Function(
            "@message",
            (function("string", "map(string, A)", to="dyn"),),
            "vm.cel.messages:build",
            "the value of a well-known message, by its name and the fields that are set",
            "build.message",
            fuel=8,
            metered=True,
            pure=True,
        ),
    ),
    "Building of lists, maps and messages.",
)
