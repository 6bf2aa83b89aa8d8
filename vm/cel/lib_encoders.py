"""The table of cel-go's ``encoders`` extension."""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, function

LIBRARY: Final = Library(
    "encoders",
    1,
    (
        Function(
            "base64.encode",
            (function("bytes", to="string"),),
            "vm.cel.encoders:encode",
            "bytes as base64, with padding",
            sized=(0,),
        ),
        Function(
            "base64.decode",
            (function("string", to="bytes"),),
            "vm.cel.encoders:decode",
            "the bytes of a base64 text, with or without padding",
            sized=(0,),
        ),
    ),
    "cel-go's base64",
)
