"""The intrinsics of family ``images`` (semantics §28), read by ``vm.functions``."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic

TABLE: Final[tuple[Intrinsic, ...]] = (
    Intrinsic(
        "images.extract",
        ("V", "V", "V"),
        "V",
        "vm.intrinsics.images:extract",
        "the images of a resource by the extractors of its kind, with a default registry (null: the usual one)",
        fuel=16,
        metered=True,
        dynamic=True,
    ),
)
