"""Generate rules to the objects they make (semantics §18 and the guide's forms), and cleanup policies to the objects
that would go (§25)."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.reference.conditions import ConditionError, holds
from tests.reference.context import Context
from tests.reference.matching import Subject, block_matches, parse_kind, selector_matches
from tests.reference.query import QueryError
from tests.reference.validation import element_context, elements
from tests.reference.variables import SubstitutionError, substitute
from tests.reference.world import World

LABEL = "generate.kyverno.io/"
_WIDE = ("Namespace", "ClusterRole", "ClusterRoleBinding", "PersistentVolume", "StorageClass", "PriorityClass", "Node")
_VERSIONS = {
    **dict.fromkeys(("ConfigMap", "Secret", "Namespace", "ResourceQuota", "LimitRange", "ServiceAccount"), "v1"),
    "NetworkPolicy": "networking.k8s.io/v1",
    **dict.fromkeys(("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"), "rbac.authorization.k8s.io/v1"),
}
"""Of the kinds that the guide generates without saying their version."""
_BODY = ("apiVersion", "kind", "metadata", "spec", "data", "binaryData", "stringData", "type")


class GenerationError(Exception):
    """A rule whose objects cannot be made."""


class OwnTarget(Exception):
    """The target is the object that sets the rule off: nothing to do."""


def generated(rule: dict[str, Any], context: Context) -> list[dict[str, Any]]:
    """The objects of a rule, without the labels that say where they come from."""
    body = rule["generate"]
    if body.get("foreach") is None:
        return _target({**body}, context)
    made: list[dict[str, Any]] = []
    own = False
    problems: list[str] = []
    for entry in body["foreach"]:
        try:
            found = elements(entry.get("list") or "", context)
        except QueryError as error:
            problems.append(f"failed to evaluate list {entry.get('list')}: {error}")
            continue
        for index, element in enumerate(found):
            if element is None:
                continue
            inside = element_context(entry, context, element, index, 0, {})
            try:
                if holds(entry.get("preconditions"), inside)[0]:
                    made += _target(entry, inside)
            except OwnTarget:
                own = True
            except (GenerationError, ConditionError) as error:
                problems.append(str(error))
    if problems:
        raise GenerationError("; ".join(problems))
    if own and not made:
        raise OwnTarget
    return made


def _target(spec: dict[str, Any], context: Context) -> list[dict[str, Any]]:
    fields = ("apiVersion", "kind", "name", "namespace", "data", "clone", "cloneList")
    try:
        asked = substitute({k: spec[k] for k in fields if spec.get(k) is not None}, context)
    except SubstitutionError as error:
        raise GenerationError(str(error)) from None
    if context.namespace is not None and (asked.get("namespace") or "") != context.namespace:
        raise GenerationError(f"a policy of namespace {context.namespace} may not make objects elsewhere")
    asked = _standard(asked, spec.get("data"))
    for key in ("apiVersion", "kind", "name", "namespace"):
        if not isinstance(asked.get(key, ""), str):
            raise GenerationError(f"the {key} of a target is no text")
    if asked.get("kind") in _WIDE:
        asked.pop("namespace", None)
    if "cloneList" in asked:
        return _clones(asked, context)
    if not (asked.get("apiVersion") and asked.get("kind") and asked.get("name")):
        raise GenerationError("a target without apiVersion, kind or name")
    if _is_trigger(asked, context["request"]):
        raise OwnTarget
    if "clone" in asked:
        return _clone(asked, context)
    return [_from_data(asked)]


def _is_trigger(asked: dict[str, Any], request: dict[str, Any]) -> bool:
    trigger = request.get("object") or request.get("oldObject") or {}
    metadata = trigger.get("metadata") or {}
    own = (trigger.get("apiVersion"), trigger.get("kind"), metadata.get("name"), metadata.get("namespace") or "")
    return own == (asked["apiVersion"], asked["kind"], asked["name"], asked.get("namespace") or "")


def _from_data(asked: dict[str, Any]) -> dict[str, Any]:
    data = asked.get("data")
    made = copy.deepcopy(data) if isinstance(data, dict) else {}
    if data is not None and not isinstance(data, dict):
        raise GenerationError("data must be a map")
    made["apiVersion"], made["kind"] = asked["apiVersion"], asked["kind"]
    return _placed(made, asked)


def _standard(asked: dict[str, Any], written: Any) -> dict[str, Any]:
    """The guide's forms in the standard one (decision 5): data that is bare, kind and version that stand in it or are
    found from the kind. ``written`` is the data before variables were put in."""
    data = asked.get("data")
    bare = isinstance(data, dict) and (isinstance(written, str) or not any(key in data for key in _BODY))
    if bare and data and asked.get("kind") in ("ConfigMap", "Secret"):
        asked = {**asked, "data": {"data": data}}
    inside = data if isinstance(data, dict) else {}
    kind = asked.get("kind") or inside.get("kind")
    version = asked.get("apiVersion") or inside.get("apiVersion") or _VERSIONS.get(str(kind))
    return {**asked, "apiVersion": version or "", "kind": kind or ""}


def _placed(made: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    metadata = dict(made.get("metadata") or {})
    if asked.get("name"):
        metadata["name"] = asked["name"]
    metadata.pop("namespace", None)
    if asked.get("namespace") and made["kind"] not in _WIDE:
        metadata["namespace"] = asked["namespace"]
    for key in ("labels", "annotations"):
        if isinstance(metadata.get(key), dict):
            metadata[key] = _texts(metadata[key])
    return {**made, "metadata": metadata}


def _texts(values: dict[str, Any]) -> dict[str, str]:
    """Labels and annotations as the API server takes them: texts; what is null is not there."""
    written = {key: value for key, value in values.items() if value is not None}
    return {
        key: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        for key, value in written.items()
    }


def _copied(source: dict[str, Any], namespace: str) -> dict[str, Any]:
    made = copy.deepcopy(source)
    metadata = made.get("metadata") or {}
    for name in ("uid", "selfLink", "creationTimestamp", "managedFields", "resourceVersion"):
        metadata.pop(name, None)
    if (metadata.get("namespace") or "") != namespace:
        metadata.pop("ownerReferences", None)
    metadata.pop("namespace", None)
    if namespace:
        metadata["namespace"] = namespace
    made["metadata"] = metadata
    return made


def _clone(asked: dict[str, Any], context: Context) -> list[dict[str, Any]]:
    source_name, source_namespace = asked["clone"].get("name"), asked["clone"].get("namespace") or ""
    if (asked.get("name"), asked.get("namespace") or "") == (source_name, source_namespace):
        return []
    for one in (*context.world.sources, *context.world.objects):
        metadata = one.get("metadata") or {}
        same = (metadata.get("name"), metadata.get("namespace") or "") == (source_name, source_namespace)
        if same and (one.get("apiVersion"), one.get("kind")) == (asked.get("apiVersion"), asked.get("kind")):
            made = _copied(one, asked.get("namespace") or "")
            made["metadata"]["name"] = asked.get("name")
            return [made]
    raise GenerationError(f"source {source_namespace}/{source_name} is not there")


def _clones(asked: dict[str, Any], context: Context) -> list[dict[str, Any]]:
    spec = asked["cloneList"]
    namespace, source_namespace = asked.get("namespace") or "", spec.get("namespace") or ""
    if namespace == source_namespace:
        return []
    found: list[dict[str, Any]] = []
    for kind in spec.get("kinds") or ():
        group_version, _, name = kind.rpartition("/")
        for one in (*context.world.sources, *context.world.objects):
            metadata = one.get("metadata") or {}
            if (one.get("apiVersion"), one.get("kind")) != (group_version, name):
                continue
            if (metadata.get("namespace") or "") != source_namespace:
                continue
            if spec.get("selector") and not selector_matches(spec["selector"], metadata.get("labels") or {}):
                continue
            found.append(_copied(one, namespace))
    return found


# --- cleanup policies, §25 -----------------------------------------------------------------------------------------


def removed(policy: dict[str, Any], objects: list[dict[str, Any]], world: World) -> list[dict[str, Any]]:
    """The objects that a CleanupPolicy or ClusterCleanupPolicy would delete now. Raises :class:`ConditionError`."""
    metadata, spec = policy["metadata"], policy["spec"]
    namespace = (metadata.get("namespace") or "default") if policy["kind"] == "CleanupPolicy" else None
    gone = []
    for one in objects:
        subject = Subject(one, "", None, _labels_of(one, objects))
        if namespace is not None and subject.namespace != namespace:
            continue
        if not block_matches(spec.get("match") or {}, subject, in_match=True):
            continue
        if spec.get("exclude") and block_matches(spec["exclude"], subject, in_match=False):
            continue
        context = Context({"target": one}, world, namespace).declare(spec.get("context"))
        # Unlike in a rule, an empty list of conditions asks for nothing (§25).
        asked = {key: block for key, block in (spec.get("conditions") or {}).items() if block}
        if holds(asked or None, context)[0]:
            gone.append(one)
    return gone


def _labels_of(one: dict[str, Any], objects: list[dict[str, Any]]) -> dict[str, str]:
    name = (one.get("metadata") or {}).get("namespace")
    for other in objects:
        if other.get("kind") == "Namespace" and (other.get("metadata") or {}).get("name") == name:
            return other["metadata"].get("labels") or {}
    return {}


def swept(rule: dict[str, Any], objects: list[dict[str, Any]], namespace: str | None) -> list[dict[str, Any]]:
    """What the guide's ``cleanup.removeResources`` of a rule takes away: decision 5."""
    gone = []
    match = rule.get("match") or {}
    named = {parse_kind(k)[2] for k in _kinds(match)}
    for one in objects:
        subject = Subject(one, "", None, _labels_of(one, objects))
        if namespace is not None and subject.namespace != namespace:
            continue
        if not any(_selected(spec, subject) for spec in (rule.get("cleanup") or {}).get("removeResources") or ()):
            continue
        if subject.gvk[2] in named:
            if not block_matches(match, subject, in_match=True):
                continue
            if rule.get("exclude") and block_matches(rule["exclude"], subject, in_match=False):
                continue
        if subject.gvk[2] == "Job" and not _complete(one):
            continue
        gone.append(one)
    return gone


def _kinds(match: dict[str, Any]) -> list[str]:
    blocks = [*(match.get("any") or ()), *(match.get("all") or ())] or [match]
    return [k for b in blocks for k in (b.get("resources") or {}).get("kinds") or ()]


def _selected(spec: dict[str, Any], subject: Subject) -> bool:
    wanted = {"kinds": [spec["kind"]], **{k: spec[k] for k in ("selector", "namespaces", "names") if spec.get(k)}}
    return block_matches({"resources": wanted}, subject, in_match=True)


def _complete(job: dict[str, Any]) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Complete" and c.get("status") == "True" for c in conditions)
