"""The table of cel-go's ``strings`` extension: version 4, and version 2 as Kubernetes has it.

A position behind the end of the text, given to ``indexOf`` or ``lastIndexOf``, is an error by the tests of the CEL
specification; cel-go 0.26, and so Kubernetes, answers -1."""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, Overload, function, method, released

_S: Final = "vm.cel.strings:"
_F: Final = "vm.cel.format:"


def _row(
    name: str,
    overload: Overload,
    body: str,
    doc: str,
    *,
    sized: tuple[int, ...] = (),
    metered: bool = False,
    symbol: str = "",
    since: int = 0,
    until: int = 0,
    cost: str = "one",
) -> Function:
    return Function(name, (overload,), body, doc, symbol, 3, sized, metered, cost, since=since, until=until)


_ROWS: Final = (
    _row(
        "charAt",
        method("string", "int", to="string"),
        _S + "char_at",
        "the character at a position, the empty text right behind the last",
    ),
    _row(
        "indexOf",
        method("string", "string", to="int"),
        _S + "index_of",
        "the position of the first occurrence, -1 without one",
        sized=(0, 1),
        metered=True,
        cost="traversal",
    ),
    _row(
        "lastIndexOf",
        method("string", "string", to="int"),
        _S + "last_index_of",
        "the position of the last occurrence, -1 without one",
        sized=(0, 1),
        metered=True,
        cost="traversal",
    ),
    _row(
        "lowerAscii",
        method("string", to="string"),
        _S + "lower_ascii",
        "A to Z as small letters, all else as it is",
        sized=(0,),
        cost="parse",
    ),
    _row(
        "upperAscii",
        method("string", to="string"),
        _S + "upper_ascii",
        "a to z as capital letters, all else as it is",
        sized=(0,),
        cost="parse",
    ),
    _row(
        "replace",
        method("string", "string", "string", to="string"),
        _S + "replace",
        "each occurrence of a text replaced by another",
        sized=(0, 1, 2),
        metered=True,
        cost="parse_twice",
    ),
    _row(
        "replace",
        method("string", "string", "string", "int", to="string"),
        _S + "replace_first",
        "the first n occurrences replaced, all when n is negative",
        sized=(0, 1, 2),
        metered=True,
        cost="parse_twice",
    ),
    _row(
        "split",
        method("string", "string", to="list(string)"),
        _S + "split",
        "the parts between a separator, the characters when it is empty",
        sized=(0, 1),
        metered=True,
        cost="parse_twice",
    ),
    _row(
        "split",
        method("string", "string", "int", to="list(string)"),
        _S + "split_most",
        "at most n parts, the last with what is left; all when n is negative",
        sized=(0, 1),
        metered=True,
        cost="parse_twice",
    ),
    _row(
        "substring",
        method("string", "int", to="string"),
        _S + "substring",
        "the text from a position on",
        sized=(0,),
        cost="parse",
    ),
    _row(
        "substring",
        method("string", "int", "int", to="string"),
        _S + "substring_to",
        "the text from a position to another, which is not included",
        sized=(0,),
        cost="parse",
    ),
    _row(
        "trim", method("string", to="string"), _S + "trim", "without white space at both ends", sized=(0,), cost="parse"
    ),
    _row(
        "format",
        method("string", "list(dyn)", to="string"),
        _F + "format_kubernetes",
        "%s %d %f %e %b %o %x %X filled in, numbers as in English, lists and maps as CEL writes them",
        sized=(0,),
        metered=True,
        symbol="format.old",
        since=1,
        until=4,
        cost="parse",
    ),
    _row(
        "format",
        method("string", "list(dyn)", to="string"),
        _F + "format_text",
        "%s %d %f %e %b %o %x %X filled in with the elements of a list",
        sized=(0,),
        metered=True,
        since=4,
        cost="parse",
    ),
    _row(
        "strings.quote",
        function("string", to="string"),
        _S + "quote",
        "the text between double quotes, special characters as escapes",
        sized=(0,),
        since=1,
        cost="parse",
    ),
    _row(
        "join",
        method("list(string)", to="string"),
        _S + "join",
        "the texts of a list as one",
        sized=(0,),
        metered=True,
        cost="join",
    ),
    _row(
        "join",
        method("list(string)", "string", to="string"),
        _S + "join_with",
        "the texts of a list as one, with a separator between them",
        sized=(0,),
        metered=True,
        cost="join",
    ),
    _row(
        "reverse",
        method("string", to="string"),
        _S + "reverse",
        "the characters in reverse order",
        sized=(0,),
        since=3,
    ),
)

_FROM: Final = method("string", "string", "int", to="int")
_KIND: Final = (
    _row(
        "indexOf",
        _FROM,
        _S + "index_of_from",
        "the position of the first occurrence at or behind a position, -1 without one",
        sized=(0, 1),
        cost="traversal",
    ),
    _row(
        "lastIndexOf",
        _FROM,
        _S + "last_index_of_from",
        "the position of the last occurrence at or before a position, -1 without one",
        sized=(0, 1),
        cost="traversal",
    ),
)
_STRICT: Final = (
    _row(
        "indexOf",
        _FROM,
        _S + "index_of_within",
        "the position of the first occurrence at or behind a position of the text, -1 without one",
        sized=(0, 1),
        symbol="indexOf.strict",
        cost="traversal",
    ),
    _row(
        "lastIndexOf",
        _FROM,
        _S + "last_index_of_within",
        "the position of the last occurrence at or before a position of the text, -1 without one",
        sized=(0, 1),
        symbol="lastIndexOf.strict",
        cost="traversal",
    ),
)

LIBRARY: Final = Library("strings", 4, released(_ROWS, 4) + _STRICT, "cel-go's functions on texts")
KUBERNETES: Final = Library(
    "strings.kubernetes",
    2,
    released(_ROWS, 2) + _KIND,
    "cel-go's functions on texts, in the version that Kubernetes has since 1.29",
)
