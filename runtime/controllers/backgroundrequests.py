"""Requests that rules of the background are evaluated on: made again from what an update request keeps, or of an object
of the cluster that nobody has just asked about.

``runtime.controllers.generation`` and ``runtime.controllers.mutation`` call these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runtime.controllers.installation import Installation
from runtime.engine import Engine, EngineResponse
from runtime.host import KEY as HOST
from runtime.host import SERVICES, Table, settle, within
from runtime.k8s.client import KubeClient, Object, Resource
from runtime.k8s.errors import ApiProblem
from runtime.policyset import PolicyInfo
from runtime.request import Request
from runtime.webhook.admission import API_VERSION


@dataclass(frozen=True, slots=True)
class Persisted:
    """What became of an admission request after it was answered: whether it was ``stored``, and the object as it is
    now (None: it has gone). ``waits``: it may still be on its way. ``other``: an object of the same name is there that
    is not the one of the request."""

    stored: bool
    live: Object | None = None
    waits: bool = False
    other: bool = False


async def persisted(client: KubeClient, asked: Mapping[str, Any]) -> Persisted:
    """What became of a request, from the object that it was about. Raises the errors of the client.

    Validating webhooks are asked before anything is stored, and others may refuse what this one admitted.
    """
    operation = asked.get("operation")
    if asked.get("subResource") or operation == "CONNECT":
        return Persisted(True, asked.get("object"))
    before: Mapping[str, Any] = (asked.get("oldObject") or {}).get("metadata") or {}
    after: Mapping[str, Any] = (asked.get("object") or {}).get("metadata") or {}
    uid = str(before.get("uid") or after.get("uid") or "")
    live = await _get(client, asked, str(before.get("name") or after.get("name") or asked.get("name") or ""))
    if live is not None and uid and (live.get("metadata") or {}).get("uid") != uid:
        if operation == "CREATE":
            return Persisted(False, waits=True, other=True)
        live = None
    if operation == "CREATE":
        return Persisted(live is not None, live, waits=live is None)
    if live is None:
        return Persisted(True)
    metadata = live.get("metadata") or {}
    if operation == "DELETE":
        stored = bool(metadata.get("deletionTimestamp"))
        return Persisted(stored, live, waits=not stored)
    stored = metadata.get("resourceVersion") != before.get("resourceVersion")
    return Persisted(stored, live, waits=not stored)


async def _get(client: KubeClient, asked: Mapping[str, Any], name: str) -> Object | None:
    named, kind, namespace = asked.get("resource") or {}, asked.get("kind") or {}, str(asked.get("namespace") or "")
    if kind.get("kind") == "Namespace" and not kind.get("group"):
        namespace = ""  # a Namespace is in itself, as the API server has it
    resource = Resource(
        str(named.get("group") or ""),
        str(named.get("version") or ""),
        str(named.get("resource") or ""),
        str(kind.get("kind") or ""),
        bool(namespace),
    )
    if not name or not resource.plural:
        return None
    try:
        live = await client.get(resource, name, namespace)
    except ApiProblem as problem:
        if problem.missing:
            return None
        raise
    return {"apiVersion": resource.api_version, "kind": resource.kind, **live}


def of_admission(installation: Installation, spec: Mapping[str, Any], obj: Object | None) -> Request:
    """The admission request that an update request keeps, about the object as it is now: of a deletion as it was."""
    context = spec.get("context") or {}
    asked = dict((context.get("admissionRequestInfo") or {}).get("admissionRequest") or {})
    asked["uid"] = asked.get("uid") or "update-request"
    if asked.get("operation") == "DELETE":
        asked["oldObject"] = obj
        asked.pop("object", None)
    else:
        asked["object"] = obj
        if not asked.get("oldObject"):
            asked.pop("oldObject", None)
    user = context.get("userInfo") or {}
    namespace, labels = _namespace(installation, str(asked.get("namespace") or ""))
    request = Request.from_review(
        {"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": asked},
        namespace_labels=labels,
        namespace_object=namespace,
        roles=user.get("roles") or (),
        cluster_roles=user.get("clusterRoles") or (),
        kind_of=installation.live.kind_of,
    )
    return _served(installation, request)


def of_object(installation: Installation, obj: Object, operation: str = "CREATE") -> Request:
    """A request that nobody made: rules about users do not match it."""
    namespace, labels = _namespace(installation, str((obj.get("metadata") or {}).get("namespace") or ""))
    request = Request.from_resource(obj, operation, namespace_labels=labels, namespace_object=namespace)
    return _served(installation, request)


async def evaluated(
    engine: Engine,
    request: Request,
    installation: Installation,
    deadline: float,
    only: Iterable[PolicyInfo] | None = None,
) -> EngineResponse:
    """The rules of the background over a request, with answers to what they ask of the cluster."""
    wanted = None if only is None else tuple(only)

    def attempt(table: Table) -> EngineResponse:
        own = replace(request, root={**request.root, HOST: table})
        response = engine.evaluate(own, "background", only=wanted)
        table.complete()
        return response

    return await settle(attempt, within(installation.ask, deadline))


def _namespace(installation: Installation, name: str) -> tuple[Mapping[str, Any] | None, Mapping[str, str] | None]:
    found = installation.namespaces.get(name) if name else None
    return found, None if found is None else (found.get("metadata") or {}).get("labels") or {}


def _served(installation: Installation, request: Request) -> Request:
    if installation.live.services:
        request.root[SERVICES] = True
    return request
