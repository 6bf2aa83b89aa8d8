"""What CEL expressions of admission rules may name, as the API server declares it: the request, the namespace, the
authorizer, and the object with its schema.

Called by the front ends of ``validate.cel`` and of admission policies, which add variables and parameters.
"""

from __future__ import annotations

from typing import Final

from compiler.frontends.cel.declarations import KUBERNETES_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    ListOf,
    MapOf,
    Object,
    Prim,
    Soft,
    Type,
)
from compiler.schema.kinds import Schemas
from compiler.schema.model import MatchBlock, Params

AUTHORIZER: Final = Prim("kubernetes.authorization.Authorizer")
RESOURCE_CHECK: Final = Prim("kubernetes.authorization.ResourceCheck")

_TEXTS: Final = ListOf(STRING)
_TEXT_MAP: Final = MapOf(STRING, STRING)
_KIND: Final = Object("kubernetes.GroupVersionKind", {"group": STRING, "version": STRING, "kind": STRING})
_RESOURCE: Final = Object("kubernetes.GroupVersionResource", {"group": STRING, "version": STRING, "resource": STRING})
_USER: Final = Object(
    "kubernetes.UserInfo",
    {"username": STRING, "uid": STRING, "groups": _TEXTS, "extra": MapOf(STRING, _TEXTS)},
)
REQUEST: Final = Object(
    "kubernetes.AdmissionRequest",
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
)
"""``request``: of the AdmissionRequest all but the objects, the uid and what it says of itself."""

_CONDITION: Final = Object(
    "kubernetes.NamespaceCondition",
    {"status": STRING, "type": STRING, "lastTransitionTime": TIMESTAMP, "message": STRING, "reason": STRING},
)
NAMESPACE: Final = Object(
    "kubernetes.Namespace",
    {
        "metadata": Object(
            "kubernetes.NamespaceMetadata",
            {
                "name": STRING,
                "generateName": STRING,
                "namespace": STRING,
                "labels": _TEXT_MAP,
                "annotations": _TEXT_MAP,
                "UID": STRING,
                "creationTimestamp": TIMESTAMP,
                "deletionGracePeriodSeconds": INT,
                "deletionTimestamp": TIMESTAMP,
                "generation": INT,
                "resourceVersion": STRING,
                "finalizers": _TEXTS,
            },
        ),
        "spec": Object("kubernetes.NamespaceSpec", {"finalizers": _TEXTS}),
        "status": Object("kubernetes.NamespaceStatus", {"conditions": ListOf(_CONDITION), "phase": STRING}),
    },
)
"""``namespaceObject``."""

_KEPT: Final = frozenset({BOOL, BYTES, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, UINT})


def admission_env(
    of: Type, schemas: Schemas, *, params: Params | None = None, authorizer: bool = True, strict: bool = False
) -> Env:
    """The environment for objects of a type: what :func:`object_type` finds, or dyn."""
    variables: dict[str, Type] = {"object": of, "oldObject": of, "request": REQUEST, "namespaceObject": NAMESPACE}
    if params is not None:
        variables["params"] = params_type(params, schemas)
    if authorizer:
        variables |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    return Env(variables, KUBERNETES_LIBRARIES, provider=schemas, strict=strict, kubernetes=True)


def object_type(block: MatchBlock, schemas: Schemas) -> Type:
    """What the schema says of the objects that a match names; dyn where it knows nothing of some of them."""
    found: list[Object] = []
    filters = block.filters
    if block.mode == "all":
        # Every filter holds: one that names kinds says all there is to say.
        filters = tuple(f for f in filters if f.kinds)[:1]
    for f in filters:
        for kind in f.kinds:
            known = schemas.select(kind)
            if known is None:
                return DYN
            found += known
        if not f.kinds:
            return DYN
    common = schemas.common(found)
    return DYN if common is None else Soft(common)


def params_type(params: Params, schemas: Schemas) -> Type:
    """What the schema says of parameters; dyn for a kind that is not known."""
    group, slash, version = params.api_version.partition("/")
    if not slash:
        group, version = "", group
    known = None if params.listed else schemas.kind(group, version, params.kind)
    return DYN if known is None else Soft(known)


def declared(t: Type) -> Type:
    """The type of a variable of the policy, as the API server declares it after what its expression gives: lists, maps
    and the types of JSON stay, all others are dyn."""
    match t:
        case Soft():
            return t
        case ListOf(item):
            return ListOf(declared(item))
        case MapOf(key, value):
            return MapOf(declared(key), declared(value))
    return t if t in _KEPT else DYN
