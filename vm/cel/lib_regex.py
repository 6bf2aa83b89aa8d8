"""The table of cel-go's ``regex`` extension. (``matches`` is a standard function, ``find`` one of Kubernetes.)"""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, function

_R: Final = "vm.cel.regex:"

LIBRARY: Final = Library(
    "regex",
    1,
    (
        Function(
            "regex.replace",
            (function("string", "string", "string", to="string"),),
            _R + "replace",
            r"each match of an RE2 expression replaced; \1 stands for a group, \0 for the match",
            fuel=16,
            sized=(0, 1, 2),
            metered=True,
        ),
        Function(
            "regex.replace",
            (function("string", "string", "string", "int", to="string"),),
            _R + "replace_first",
            "the first n matches of an RE2 expression replaced, all when n is negative",
            fuel=16,
            sized=(0, 1, 2),
            metered=True,
        ),
        Function(
            "regex.extract",
            (function("string", "string", to="optional_type(string)"),),
            _R + "extract",
            "the first match of an RE2 expression, or its one group",
            fuel=12,
            sized=(0, 1),
            metered=True,
        ),
        Function(
            "regex.extractAll",
            (function("string", "string", to="list(string)"),),
            _R + "extract_all",
            "all matches of an RE2 expression, or its one group in each",
            fuel=12,
            sized=(0, 1),
            metered=True,
        ),
    ),
    "cel-go's functions on regular expressions",
)
