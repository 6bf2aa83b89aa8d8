"""Products of generate rules to objects: data laid into a body, sources fetched and copied, labels put on
(semantics §18).

The engine's phase ``background`` answers a generate rule with a list of targets. Offline commands and the controllers
of a cluster go on here. A source is asked of the request's host by a ``sources`` call, whose payload is
``{apiVersion, kind, name?, namespace?, selector?}`` and whose answer a list of maps with ``object``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from runtime.engine import ERROR, SKIP, RuleResult
from runtime.host import SOURCES, ask
from runtime.request import Request, split_api_version
from vm.host import HostCall
from vm.intrinsics.text import json_text
from vm.values import Err, Value

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABELS: Final = "generate.kyverno.io/"
CLONE_SOURCE: Final = LABELS + "clone-source"
"""The label that a source carries, empty."""
OWN_TARGET: Final = "the target is the object that sets the rule off"

_DROPPED: Final = ("uid", "selfLink", "creationTimestamp", "managedFields", "resourceVersion")


@dataclass(frozen=True, slots=True)
class Made:
    """An object to be there because of a rule. ``source`` is what it was copied from, None for one made of data."""

    object: dict[str, Any]
    source: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """What a rule comes to: its result, an error when something could not be made, and the objects that can."""

    result: RuleResult
    made: tuple[Made, ...] = ()


class _CannotMake(Exception):
    """Why a target cannot be made."""


def generate(result: RuleResult, request: Request) -> Generation:
    """The objects of a generate rule that has passed; any other result is handed back.

    A target that cannot be made makes the result an error and leaves the others standing; one that is the object that
    sets the rule off is passed over, and where there is no other the rule is skipped. A namespaced policy makes and
    reads objects of its own namespace and no others. May raise what the request's host raises
    (``runtime.host.Pending``).
    """
    if type(result.product) is not list:
        return Generation(result)
    made: list[Made] = []
    problems: list[str] = []
    own = 0
    for target in result.product:
        if type(target) is not dict or "error" in target:
            problems.append(str(target["error"]) if type(target) is dict else "the target is no map")
            continue
        try:
            _check(target, result.namespace)
            if _is_trigger(target, request.resource):
                own += 1
                continue
            found = _copies(target, request, result.namespace) if _copied(target) else iter([Made(_of_data(target))])
            made += [replace(m, object=_labelled(m, result, request)) for m in found]
        except _CannotMake as problem:
            problems.append(str(problem))
    if problems:
        result = replace(result, status=ERROR, message="; ".join(problems))
    elif own and not made:
        result = replace(result, status=SKIP, message=OWN_TARGET)
    return Generation(result, tuple(made))


def source_labels(source: Mapping[str, Any]) -> dict[str, str]:
    """What a copy carries of the object it was copied from, by which a copy finds its own source again."""
    group, version = split_api_version(str(source.get("apiVersion") or ""))
    metadata = source.get("metadata") or {}
    return {
        LABELS + "source-group": group,
        LABELS + "source-version": version,
        LABELS + "source-kind": str(source.get("kind") or ""),
        LABELS + "source-namespace": str(metadata.get("namespace") or ""),
        LABELS + "source-uid": str(metadata.get("uid") or ""),
    }


def target_kinds(targets: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Group, version and kind of what the targets of a rule make (``generate.targets`` of its meta), each once; kinds
    that variables name are left out."""
    found: dict[tuple[str, str, str], None] = {}
    for target in targets:
        listed = (target.get("cloneList") or {}).get("kinds")
        texts = map(str, listed) if listed else [f"{target.get('apiVersion') or ''}/{target.get('kind') or ''}"]
        for text in texts:
            version, _, kind = text.rpartition("/")
            if kind and "{{" not in text:
                found[(*split_api_version(version), kind)] = None
    return list(found)


def is_copy_of(obj: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
    """Whether an object was copied from this source: when a source goes its own copies go, and no others."""
    metadata, labels = obj.get("metadata") or {}, (obj.get("metadata") or {}).get("labels") or {}
    wanted = source_labels(source)
    if any(labels.get(key) != value for key, value in wanted.items() if value):
        return False
    uid = wanted[LABELS + "source-uid"]
    # Without a uid (an object that is in no cluster) names decide: copies keep those of their sources.
    return bool(uid) or metadata.get("name") == (source.get("metadata") or {}).get("name")


def _check(target: Mapping[str, Any], scope: str | None) -> None:
    for key in ("apiVersion", "kind", "name", "namespace"):
        if type(target.get(key, "")) is not str:
            raise _CannotMake(f"the {key} of a target is no text")
    if not target.get("cloneList"):
        for key in ("apiVersion", "kind", "name"):
            if not target.get(key):
                raise _CannotMake(f"the target has no {key}")
    if scope is None:
        return
    places = [("makes", target), *(("reads", target[key]) for key in ("clone", "cloneList") if target.get(key))]
    for verb, holder in places:
        if type(holder) is dict and holder.get("namespace") != scope:
            raise _CannotMake(f"a policy of the namespace {scope} {verb} nothing elsewhere")


def _copied(target: Mapping[str, Any]) -> bool:
    return bool(target.get("clone") or target.get("cloneList"))


def _is_trigger(target: Mapping[str, Any], trigger: Any) -> bool:
    if type(trigger) is not dict or target.get("cloneList"):
        return False
    metadata = trigger.get("metadata") or {}
    return (
        (target.get("apiVersion"), target.get("kind"), target.get("name")),
        target.get("namespace") or "",
    ) == ((trigger.get("apiVersion"), trigger.get("kind"), metadata.get("name")), metadata.get("namespace") or "")


def _of_data(target: Mapping[str, Any]) -> dict[str, Any]:
    data = target.get("data")
    if data is not None and type(data) is not dict:
        raise _CannotMake("the data of a target is no map")
    body: dict[str, Any] = copy.deepcopy(data) if data else {}
    return _placed({**body, "apiVersion": target["apiVersion"], "kind": target["kind"]}, target["name"], target)


def _placed(body: dict[str, Any], name: str, target: Mapping[str, Any]) -> dict[str, Any]:
    metadata = body.get("metadata")
    if metadata is not None and type(metadata) is not dict:
        raise _CannotMake("the metadata of a target is no map")
    kept = {k: v for k, v in (metadata or {}).items() if k not in ("name", "namespace")}
    place = {"namespace": target["namespace"]} if target.get("namespace") else {}
    return {**body, "metadata": {"name": name, **place, **kept}}


def _copies(target: Mapping[str, Any], request: Request, scope: str | None) -> Iterator[Made]:
    for name, query in _queries(target):
        found = ask(request.root, HostCall(SOURCES, query, scope))
        if type(found) is Err or type(found) is not list:
            raise _CannotMake(found.text if type(found) is Err else "the sources are no list")
        if query.get("name") and not found:
            where = "/".join(p for p in (query.get("namespace"), query["name"]) if p)
            raise _CannotMake(f"source resource {query['apiVersion']}/{query['kind']}/{where} not found")
        for one in found:
            source = one["object"]
            metadata = source.get("metadata") or {}
            wanted = name or str(metadata.get("name") or "")
            here, there = metadata.get("namespace") or "", target.get("namespace") or ""
            if not here:
                there = ""
            if here == there and (target.get("cloneList") or metadata.get("name") == wanted):
                continue
            kept = {k: copy.deepcopy(v) for k, v in metadata.items() if k not in _DROPPED}
            if here != there:
                kept.pop("ownerReferences", None)
            body = {k: copy.deepcopy(v) for k, v in source.items() if k != "metadata"}
            place = {"namespace": there} if there else {}
            yield Made(_placed({**body, "metadata": kept}, wanted, place), source)


def _queries(target: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What to ask for, each with the name of the copy; without one copies keep the names of their sources."""
    if target.get("cloneList"):
        listed = _map(target["cloneList"], "cloneList")
        for selector in listed.get("kinds") or ():
            version, _, kind = str(selector).rpartition("/")
            query: dict[str, Any] = {"apiVersion": version, "kind": kind}
            if listed.get("namespace"):
                query["namespace"] = listed["namespace"]
            if listed.get("selector"):
                query["selector"] = listed["selector"]
            yield "", query
        return
    clone = _map(target["clone"], "clone")
    query = {"apiVersion": target["apiVersion"], "kind": target["kind"], "name": clone.get("name")}
    if clone.get("namespace"):
        query["namespace"] = clone["namespace"]
    if any(type(query.get(key, "")) is not str or "*" in query.get(key, "") for key in ("name", "namespace")):
        raise _CannotMake("the name and the namespace of a source are texts without wildcards")
    if not query["name"]:
        raise _CannotMake("the source has no name")
    yield target["name"], query


def _map(value: Value, name: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise _CannotMake(f"{name} is no map")
    return value


def _labelled(made: Made, result: RuleResult, request: Request) -> dict[str, Any]:
    trigger = request.resource if type(request.resource) is dict else {}
    group, version = split_api_version(str(trigger.get("apiVersion") or ""))
    about = trigger.get("metadata") or {}
    metadata = made.object["metadata"]
    labels = metadata.get("labels")
    if labels is not None and type(labels) is not dict:
        raise _CannotMake("the labels of a target are no map")
    put = {
        MANAGED_BY: "kyverno",
        LABELS + "policy-name": result.policy,
        LABELS + "policy-namespace": result.namespace or "",
        LABELS + "rule-name": result.rule,
        LABELS + "trigger-group": group,
        LABELS + "trigger-version": version,
        LABELS + "trigger-kind": str(trigger.get("kind") or ""),
        # The object of a subresource (pods/exec) need not say where it is.
        LABELS + "trigger-namespace": str(about.get("namespace") or (request.namespace if request.subresource else "")),
        LABELS + "trigger-uid": str(about.get("uid") or ""),
    }
    kept = {k: v for k, v in _texts(labels or {}).items() if k != CLONE_SOURCE}
    if made.source is not None:
        put |= source_labels(made.source)
    metadata = {**metadata, "labels": {**kept, **put}}
    if type(metadata.get("annotations")) is dict:
        metadata["annotations"] = _texts(metadata["annotations"])
    return {**made.object, "metadata": metadata}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Labels or annotations as the API server takes them: a variable may have put a number there (``elementIndex``)."""
    return {
        key: value if type(value) is str else json_text(value) for key, value in values.items() if value is not None
    }
