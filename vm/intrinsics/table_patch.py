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
        name="patch.strategic_kyverno",
        params=("V", "V", "V"),
        result="V",
        impl="vm.patch.strategic:strategic_kyverno",
        doc="patch.strategic with the answers of the reference for anchors in lists (--quirks=kyverno)",
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
    Intrinsic(
        name="patch.apply_configuration",
        params=("V", "V", "V"),
        result="V",
        impl="vm.patch.apply_configuration:apply_configuration",
        doc="the object with an apply configuration of CEL merged in as server-side apply merges, by the shape of its "
        "kind, or Err patch",
        fuel=16,
        metered=True,
    ),
    Intrinsic(
        name="patch.cel_json",
        params=("V", "V"),
        result="V",
        impl="vm.patch.apply_configuration:json_patches",
        doc="the object after a list of JSONPatch values of CEL, or Err patch",
        fuel=16,
        metered=True,
    ),
)
