"""Every function library, found by name; ``vm.functions`` makes intrinsics of their rows, the compiler's environment
declarations."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic
from vm.cel import lib_build, lib_standard
from vm.cel.library import Library

LIBRARIES: Final[dict[str, Library]] = {
    "standard": lib_standard.LIBRARY,
    "construction": lib_build.LIBRARY,
}


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
            cost="" if f.cost == "one" else f.cost,
            changes=f.changes,
            wraps=f.wraps,
        )
        for f in rows()
    )
