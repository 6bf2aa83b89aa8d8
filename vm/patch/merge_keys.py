"""Which lists of the built-in kinds merge by element, and by what key: the part of the Kubernetes schema that a
strategic merge needs. Read by :mod:`vm.patch.strategic`; made of :mod:`vm.patch.merge_table` when a kind is asked for.

A list that a type does not name is atomic: a patch replaces it whole. Kinds of groups that Kubernetes does not own
have no schema here; for them :data:`UNKNOWN` says that keys are found by looking at the elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from vm.patch.merge_table import KINDS, TYPES


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list whose elements merge by ``keys`` (the first identifies, the others tell apart), or, without keys, a set
    of scalars.
    """

    keys: tuple[str, ...]
    item: MapOf


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map: the fields that hold merging lists or lead to them. ``infer`` marks a document without a schema."""

    fields: Mapping[str, MapOf | ListOf] = field(default_factory=dict)
    infer: bool = False


PLAIN: Final = MapOf()


def _made(name: str, made: dict[str, MapOf]) -> MapOf:
    """The shape of a type; one that holds itself is the same shape again."""
    if name not in TYPES:
        return PLAIN
    if name not in made:
        fields: dict[str, MapOf | ListOf] = {}
        made[name] = MapOf(fields)
        for field_name, part in TYPES[name].items():
            fields[field_name] = _made(part, made) if isinstance(part, str) else ListOf(part[0], _made(part[1], made))
    return made[name]


_MADE: Final[dict[str, MapOf]] = {}
_META: Final = _made("meta.v1.ObjectMeta", _MADE)

OBJECT: Final = MapOf({"metadata": _META, "status": MapOf({"conditions": ListOf(("type",), PLAIN)})})
"""A built-in kind about which nothing more is to be said."""

UNKNOWN: Final = MapOf({"metadata": _META}, infer=True)
"""A kind without a schema; its metadata is known all the same."""

_GROUPS: Final = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "extensions",
        "flowcontrol.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    }
)

ASSOCIATIVE_KEYS: Final = ("mountPath", "devicePath", "ip", "type", "topologyKey", "name", "containerPort")
"""Keys by which lists of a kind without a schema may merge, in the order in which they are tried."""

KEY_DEFAULTS: Final[Mapping[str, str]] = {"protocol": "TCP"}
"""What the API server fills in for a key that an element leaves out."""


def schema_of(group: str, kind: str) -> MapOf:
    """The merge schema of a kind; :data:`UNKNOWN` for a group that is not Kubernetes' own."""
    if group not in _GROUPS:
        return UNKNOWN
    if group == "extensions":
        group = "apps"
    name = KINDS.get(group, {}).get(kind)
    return OBJECT if name is None else _made(name, _MADE)
