"""The intrinsics of family ``report``, read by ``vm.functions``."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic

TABLE: Final[tuple[Intrinsic, ...]] = (
    Intrinsic(
        "report.note",
        ("S", "V"),
        "B",
        "vm.intrinsics.report:note",
        "keeps the report properties of the rule with this name for whoever makes a result of it; true",
        sized=(1,),
        metered=True,
        pure=False,
    ),
)
