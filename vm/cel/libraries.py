"""Every function library, found by name; ``vm.functions`` makes intrinsics of their rows, the compiler's environment
declarations."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic
from vm.cel.library import Library

LIBRARIES: Final[dict[str, Library]] = {}


def intrinsics() -> tuple[Intrinsic, ...]:
    """The rows of all libraries as intrinsics: every operand and result is of kind V, errors among them."""
    return tuple(
        Intrinsic(
            f.intrinsic,
            ("V",) * f.operands,
            "V",
            f.body,
            f.doc,
            f.fuel,
            f.sized,
            metered=f.metered,
            pure=f.pure,
        )
        for library in LIBRARIES.values()
        for f in library.functions
    )
