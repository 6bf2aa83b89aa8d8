"""The intrinsics of family ``podsec`` (Pod Security Standards, semantics §14), read by ``vm.functions``."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic

TABLE: Final[tuple[Intrinsic, ...]] = (
    Intrinsic(
        "podsec.evaluate",
        ("V", "S", "S", "V", "V"),
        "V",
        "vm.intrinsics.pod_security:evaluate",
        "checks the Pod of a resource against a level and version of the Pod Security Standards, less two lists of "
        "exclusions: null, or an error that lists what is left",
        fuel=32,
        metered=True,
    ),
)
