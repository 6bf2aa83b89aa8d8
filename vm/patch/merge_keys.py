"""Which lists of the built-in kinds merge by element, and by what key: the part of the Kubernetes schema that a
strategic merge needs. Read by :mod:`vm.patch.strategic`.

A list that a type does not name is atomic: a patch replaces it whole. Kinds of groups that Kubernetes does not own
have no schema here; for them :data:`UNKNOWN` says that keys are found by looking at the elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


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
_SET: Final = ListOf((), PLAIN)


def _by(*keys: str, item: MapOf = PLAIN) -> ListOf:
    return ListOf(keys, item)


_META: Final = MapOf({"finalizers": _SET, "ownerReferences": _by("uid")})

_CONTAINER: Final = MapOf(
    {
        "env": _by("name"),
        "ports": _by("containerPort", "protocol"),
        "volumeMounts": _by("mountPath"),
        "volumeDevices": _by("devicePath"),
        "resources": MapOf({"claims": _by("name")}),
    }
)

_POD_SPEC: Final = MapOf(
    {
        "containers": _by("name", item=_CONTAINER),
        "initContainers": _by("name", item=_CONTAINER),
        "ephemeralContainers": _by("name", item=_CONTAINER),
        "volumes": _by("name"),
        "imagePullSecrets": _by("name"),
        "hostAliases": _by("ip"),
        "topologySpreadConstraints": _by("topologyKey", "whenUnsatisfiable"),
        "resourceClaims": _by("name"),
        "schedulingGates": _by("name"),
    }
)

_TEMPLATE: Final = MapOf({"metadata": _META, "spec": _POD_SPEC})
_STATUS: Final = MapOf({"conditions": _by("type")})
_WORKLOAD: Final = MapOf({"metadata": _META, "spec": MapOf({"template": _TEMPLATE}), "status": _STATUS})
_WEBHOOKS: Final = MapOf(
    {"metadata": _META, "webhooks": _by("name", item=MapOf({"matchConditions": _by("name")}))},
)
_ADMISSION_POLICY: Final = MapOf(
    {"metadata": _META, "spec": MapOf({"matchConditions": _by("name"), "variables": _by("name")}), "status": _STATUS},
)

OBJECT: Final = MapOf({"metadata": _META, "status": _STATUS})
"""A built-in kind about which nothing more is to be said."""

UNKNOWN: Final = MapOf({"metadata": _META}, infer=True)
"""A kind without a schema; its metadata is known all the same."""

_KINDS: Final[Mapping[tuple[str, str], MapOf]] = {
    ("", "Pod"): MapOf(
        {
            "metadata": _META,
            "spec": _POD_SPEC,
            "status": MapOf({"conditions": _by("type"), "podIPs": _by("ip"), "hostIPs": _by("ip")}),
        }
    ),
    ("", "PodTemplate"): MapOf({"metadata": _META, "template": _TEMPLATE}),
    ("", "ReplicationController"): _WORKLOAD,
    ("apps", "Deployment"): _WORKLOAD,
    ("apps", "ReplicaSet"): _WORKLOAD,
    ("apps", "DaemonSet"): _WORKLOAD,
    ("apps", "StatefulSet"): _WORKLOAD,
    ("batch", "Job"): _WORKLOAD,
    ("batch", "CronJob"): MapOf(
        {
            "metadata": _META,
            "spec": MapOf({"jobTemplate": MapOf({"metadata": _META, "spec": MapOf({"template": _TEMPLATE})})}),
        }
    ),
    ("", "Service"): MapOf({"metadata": _META, "spec": MapOf({"ports": _by("port", "protocol")}), "status": _STATUS}),
    ("", "ServiceAccount"): MapOf({"metadata": _META, "secrets": _by("name")}),
    ("", "Node"): MapOf(
        {
            "metadata": _META,
            "spec": MapOf({"podCIDRs": _SET}),
            "status": MapOf({"conditions": _by("type"), "addresses": _by("type")}),
        }
    ),
    ("storage.k8s.io", "CSINode"): MapOf({"metadata": _META, "spec": MapOf({"drivers": _by("name")})}),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _ADMISSION_POLICY,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _ADMISSION_POLICY,
}

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
    return _KINDS.get((group, kind), OBJECT)
