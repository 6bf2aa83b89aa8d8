"""The intrinsics of family ``loop``, read by ``vm.functions``: what ``foreach`` goes over."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic

_M: Final = "vm.intrinsics.loops:"

TABLE: Final[tuple[Intrinsic, ...]] = (
    Intrinsic(
        "loop.elements",
        ("V",),
        "L",
        _M + "elements",
        "the elements that a loop goes over: of a list its own, none of null, else the value itself",
        metered=True,
        wraps=True,
    ),
    Intrinsic("loop.without_object", ("V",), "V", _M + "without_object", "a request with null for its object"),
    Intrinsic("loop.with_object", ("V", "V"), "V", _M + "with_object", "a request with another object", wraps=True),
    Intrinsic(
        "loop.turns",
        ("V", "V"),
        "L",
        _M + "turns",
        "the elements of a loop that are not null as maps of element and index, the last first when asked so",
        metered=True,
        wraps=True,
    ),
)
