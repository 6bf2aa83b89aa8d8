"""The intrinsics of family ``cel_rule`` (texts of rules with CEL expressions), read by ``vm.functions``."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic

_BODY: Final = "vm.intrinsics.cel_rule:"

TABLE: Final[tuple[Intrinsic, ...]] = (
    Intrinsic(
        "cel_rule.error",
        ("V", "S"),
        "S",
        _BODY + "error",
        "the text of an expression that gave an error: the value, the expression",
        sized=(1,),
    ),
    Intrinsic(
        "cel_rule.errors", ("L",), "S", _BODY + "errors", "several such texts as one, in brackets when they differ"
    ),
    Intrinsic(
        "cel_rule.message",
        ("V",),
        "S",
        _BODY + "message",
        "a computed message without white space around it; empty when it is no text of one line and 5 KiB",
        sized=(0,),
    ),
    Intrinsic(
        "cel_rule.variable",
        ("V", "S"),
        "V",
        _BODY + "variable",
        "the value of a variable, an error with the variable's name",
        fuel=1,
    ),
)
