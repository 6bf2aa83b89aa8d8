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
)
