"""Every function library, found by name; ``vm.functions`` makes intrinsics of their rows, the compiler's environment
declarations."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic
from vm.cel import (
    lib_build,
    lib_encoders,
    lib_k8s_addresses,
    lib_k8s_authz,
    lib_k8s_format,
    lib_k8s_lists,
    lib_k8s_quantity,
    lib_k8s_semver,
    lib_k8s_url,
    lib_lists,
    lib_math,
    lib_network,
    lib_optional,
    lib_regex,
    lib_sets,
    lib_standard,
    lib_strings,
    lib_thesmos_quantities,
)
from vm.cel.library import Function, Library

LIBRARIES: Final[dict[str, Library]] = {
    "standard": lib_standard.LIBRARY,
    "construction": lib_build.LIBRARY,
    "strings": lib_strings.LIBRARY,
    "strings.kubernetes": lib_strings.KUBERNETES,
    "math": lib_math.LIBRARY,
    "lists": lib_lists.LIBRARY,
    "lists.kubernetes": lib_lists.KUBERNETES,
    "sets": lib_sets.LIBRARY,
    "encoders": lib_encoders.LIBRARY,
    "regex": lib_regex.LIBRARY,
    "optional": lib_optional.LIBRARY,
    "network": lib_network.LIBRARY,
    "kubernetes.lists": lib_k8s_lists.LISTS,
    "kubernetes.regex": lib_k8s_lists.REGEX,
    "kubernetes.url": lib_k8s_url.LIBRARY,
    "kubernetes.authz": lib_k8s_authz.LIBRARY,
    "kubernetes.quantity": lib_k8s_quantity.LIBRARY,
    "kubernetes.ip": lib_k8s_addresses.IP,
    "kubernetes.cidr": lib_k8s_addresses.CIDR,
    "kubernetes.format": lib_k8s_format.LIBRARY,
    "kubernetes.semver": lib_k8s_semver.LIBRARY,
    "jsonpatch": lib_k8s_lists.JSON_PATCH,
    "thesmos.quantities": lib_thesmos_quantities.LIBRARY,
}


def rows() -> tuple[Function, ...]:
    """The rows of all libraries, those that two share (one name, one body) once."""
    found: dict[tuple[str, str], Function] = {}
    for library in LIBRARIES.values():
        for f in library.functions:
            found.setdefault((f.intrinsic, f.body), f)
    return tuple(found.values())


def intrinsics() -> tuple[Intrinsic, ...]:
    """The rows of all libraries as intrinsics: every operand and result is of kind V, errors among them. Rows whose
    cost the code may know by the types of the operands come once more as ``….plain``, which adds nothing to it."""
    found: list[Intrinsic] = []
    for f in rows():
        costs = f.cost not in ("one", "none")
        found.append(_intrinsic(f, f.intrinsic, f.cost if costs else ""))
        if f.cost in BY_TYPES:
            found.append(_intrinsic(f, f"{f.intrinsic}.plain", ""))
    return tuple(found)


BY_TYPES: Final = frozenset({"equals", "ordered", "added", "within", "converted", "encoded"})
"""Rules of ``vm.cel.costs`` by which only texts, bytes and collections cost other than one unit."""


def _intrinsic(f: Function, name: str, cost: str) -> Intrinsic:
    return Intrinsic(
        name,
        ("V",) * f.operands,
        "V",
        f.body,
        f.doc,
        f.fuel,
        f.sized,
        metered=f.metered,
        pure=f.pure,
        cost=cost,
        changes=f.changes,
        wraps=f.wraps,
    )
