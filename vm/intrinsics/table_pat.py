"""The intrinsics of family ``pat``, read by ``vm.functions``."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic

TABLE: Final[tuple[Intrinsic, ...]] = ()
