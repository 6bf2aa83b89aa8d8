"""The intrinsics of family ``regex``, read by ``vm.functions``: RE2 expressions on texts."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic

_M: Final = "vm.intrinsics.regex:"

TABLE: Final[tuple[Intrinsic, ...]] = (
    Intrinsic(
        "jmes.regex_match", ("V", "V"), "V", _M + "match", "whether the expression is found in the text", 12, (0, 1)
    ),
    Intrinsic(
        "jmes.regex_replace_all",
        ("V", "V", "V"),
        "V",
        _M + "replace_all",
        "each match replaced; $1 stands for groups",
        16,
        (0, 1, 2),
    ),
    Intrinsic(
        "jmes.regex_replace_all_literal",
        ("V", "V", "V"),
        "V",
        _M + "replace_all_literal",
        "each match replaced by the text as it stands",
        16,
        (0, 1, 2),
    ),
)
