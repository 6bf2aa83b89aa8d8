"""The intrinsics of family ``pat`` (patterns), read by ``vm.functions``."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic

_BODY: Final = "vm.intrinsics.pattern_walk:"
_MESSAGE: Final = "vm.intrinsics.message:"

TABLE: Final[tuple[Intrinsic, ...]] = (
    Intrinsic(
        "pat.walk",
        ("V", "V"),
        "V",
        _BODY + "walk",
        "walks a pattern over a resource: null, or an error with the code, text and path of the first mismatch",
        fuel=4,
        metered=True,
        dynamic=True,
    ),
    Intrinsic(
        "pat.walk_kyverno",
        ("V", "V"),
        "V",
        "vm.intrinsics.pattern_kyverno:walk",
        "pat.walk with the answers of the reference where it differs (--quirks=kyverno)",
        fuel=4,
        metered=True,
        dynamic=True,
    ),
    Intrinsic(
        "pat.document",
        ("S",),
        "V",
        _MESSAGE + "document",
        "the value of a YAML or JSON text",
        fuel=8,
        sized=(0,),
        dynamic=True,
    ),
    Intrinsic("pat.text", ("V",), "S", _MESSAGE + "error_text", "the text of an error value, else empty"),
    Intrinsic("pat.path", ("V",), "S", _MESSAGE + "error_path", "the path of an error value, else empty"),
    Intrinsic("pat.sentence", ("S",), "S", _MESSAGE + "sentence", "a text with a full stop at its end", sized=(0,)),
    Intrinsic(
        "pat.join",
        ("L", "S"),
        "S",
        _MESSAGE + "join_texts",
        "the texts of a list that are not empty, with a separator between them",
        metered=True,
    ),
)
