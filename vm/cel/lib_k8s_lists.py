"""The tables of the API server's ``lists``, ``regex`` and ``jsonpatch`` libraries."""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, function, method

_L: Final = "vm.cel.k8s_lists:"
_S: Final = "vm.cel.strings:"
_R: Final = "vm.cel.k8s_regex:"
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_DURATION: Final = "google.protobuf.Duration"
_ORDERED: Final = ("int", "uint", "double", "bool", _DURATION, _TIMESTAMP, "string", "bytes")


def _sum(of: str, body: str) -> Function:
    """A row for each type: what an empty list adds up to is known by the type alone."""
    short = body.removeprefix("sum_of_")
    return Function(
        "sum",
        (method(f"list({of})", to=of),),
        _L + body,
        "the sum of the elements",
        f"list.sum.{short}",
        metered=True,
        cost="traversal",
    )


LISTS: Final = Library(
    "kubernetes.lists",
    1,
    (
        Function(
            "isSorted",
            tuple(method(f"list({t})", to="bool") for t in _ORDERED),
            _L + "is_sorted",
            "whether no element is smaller than the one before it",
            metered=True,
            cost="traversal",
        ),
        _sum("int", "sum_of_int"),
        _sum("uint", "sum_of_uint"),
        _sum("double", "sum_of_double"),
        _sum(_DURATION, "sum_of_duration"),
        Function(
            "min",
            tuple(method(f"list({t})", to=t) for t in _ORDERED),
            _L + "smallest",
            "the smallest element, an error for an empty list",
            "list.min",
            metered=True,
            cost="traversal",
            wraps=True,
        ),
        Function(
            "max",
            tuple(method(f"list({t})", to=t) for t in _ORDERED),
            _L + "largest",
            "the largest element, an error for an empty list",
            "list.max",
            metered=True,
            cost="traversal",
            wraps=True,
        ),
        Function(
            "indexOf",
            (method("list(A)", "A", to="int"),),
            _S + "index_of",
            "the position of the first element that is equal, -1 without one",
            fuel=3,
            sized=(0, 1),
            metered=True,
            cost="traversal",
        ),
        Function(
            "lastIndexOf",
            (method("list(A)", "A", to="int"),),
            _S + "last_index_of",
            "the position of the last element that is equal, -1 without one",
            fuel=3,
            sized=(0, 1),
            metered=True,
            cost="traversal",
        ),
    ),
    "functions on lists; in Kubernetes since 1.25",
)

REGEX: Final = Library(
    "kubernetes.regex",
    1,
    (
        Function(
            "find",
            (method("string", "string", to="string"),),
            _R + "find",
            "the first match of an RE2 expression, empty without one",
            fuel=12,
            sized=(0, 1),
            cost="regex",
        ),
        Function(
            "findAll",
            (method("string", "string", to="list(string)"),),
            _R + "find_all",
            "all matches of an RE2 expression",
            fuel=12,
            sized=(0, 1),
            metered=True,
            cost="regex",
        ),
        Function(
            "findAll",
            (method("string", "string", "int", to="list(string)"),),
            _R + "find_first",
            "the first n matches of an RE2 expression, all when n is negative",
            fuel=12,
            sized=(0, 1),
            metered=True,
            cost="regex",
        ),
    ),
    "what RE2 expressions find; in Kubernetes since 1.25",
)

JSON_PATCH: Final = Library(
    "jsonpatch",
    1,
    (
        Function(
            "jsonpatch.escapeKey",
            (function("string", to="string"),),
            "vm.cel.k8s_jsonpatch:escape_key",
            "a text as a part of a JSON pointer: ~ as ~0, / as ~1",
            sized=(0,),
            cost="parse",
        ),
    ),
    "parts of JSON patches; in the mutations of Kubernetes 1.32 alone",
)
