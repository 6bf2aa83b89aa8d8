"""The intrinsics of family ``patch``, read by ``vm.functions``."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic

TABLE: Final[tuple[Intrinsic, ...]] = (
    Intrinsic(
        name="patch.strategic",
        params=("V", "V", "V"),
        result="V",
        impl="vm.patch.strategic:strategic",
        doc="lays a strategic merge patch over a resource of a kind (group, version, kind, subresource): the new "
        "resource, the same one when nothing changes, Err conditional or global when an anchor stops it",
        fuel=16,
        metered=True,
        dynamic=True,
    ),
    Intrinsic(
        name="patch.json6902",
        params=("V", "V"),
        result="V",
        impl="vm.patch.intrinsics:json6902",
        doc="the document after the operations of a JSON patch, or Err patch",
        fuel=8,
        metered=True,
    ),
    Intrinsic(
        name="patch.diff",
        params=("V", "V"),
        result="V",
        impl="vm.patch.intrinsics:diff",
        doc="the JSON patch that turns the first document into the second",
        fuel=8,
        metered=True,
    ),
)
