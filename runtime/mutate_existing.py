"""Carries out rules with ``mutate.targets``: finds the objects that a rule changes because of a request, and runs the
rule on each (semantics §17).

The engine's phase ``background`` answers such a rule with the specs of its targets as product. Offline commands and the
controllers of a cluster go on here: both put ``targets`` calls to the host of the request. The payload is a spec, the
answer a list of maps: ``object``, and ``subresource`` where the kind names one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from runtime.engine import PASS, WORDS, RuleResult
from runtime.host import TARGETS, ask
from runtime.request import Request, split_api_version
from vm.host import HostCall, Meter, Status
from vm.intrinsics.labels import selects
from vm.intrinsics.wildcard import match as wildcard
from vm.values import Err, Value

_SUBRESOURCE: Final = re.compile(r"[/.]")


@dataclass(frozen=True, slots=True)
class Changed:
    """What a rule did to one of its targets. ``target`` is the object as it was, None where the targets could not be
    found; ``result.patched`` is the new one where it changed. ``subresource`` is what to update of it; ``resource`` is
    what a cluster said it is called (``group``, ``version``, ``plural``, ``kind``)."""

    target: dict[str, Any] | None
    result: RuleResult
    subresource: str = ""
    resource: Mapping[str, str] | None = None


def mutate_existing(result: RuleResult, request: Request, meter: Callable[[], Meter]) -> tuple[Changed, ...]:
    """The targets of a rule that has passed, each with its own result; targets that cannot be found are one error.

    ``meter`` makes one for each target (``Engine.meter``). A namespaced policy changes objects of its own namespace and
    no others, whatever its targets say. May raise what the request's host raises (``runtime.host.Pending``).
    """
    if result.plan is None or type(result.product) is not list:
        return ()
    found: list[Changed] = []
    for number, spec in enumerate(result.product):
        answer = _objects(spec, request, result)
        if type(answer) is Err:
            found.append(Changed(None, replace(result, status=WORDS[Status.ERROR], message=answer.text, product=None)))
            continue
        found += [_changed(result, request, number, one, meter()) for one in answer]
    return tuple(found)


def _objects(spec: Value, request: Request, result: RuleResult) -> Value:
    if type(spec) is not dict or "error" in spec:
        return Err("host", str(spec["error"]) if type(spec) is dict else "the target is no map")
    for key in ("apiVersion", "kind", "name", "namespace", "uid"):
        if type(spec.get(key, "")) is not str:
            return Err("host", f"the {key} of a target is no text")
    if type(spec.get("selector", {})) is not dict:
        return Err("host", "the selector of a target is no map")
    scope = result.namespace
    payload = spec if scope is None else {**spec, "namespace": scope}
    answer = ask(request.root, HostCall(TARGETS, payload, scope))
    return answer if type(answer) in (list, Err) else Err("host", "the targets are no list")


def _changed(result: RuleResult, request: Request, number: int, found: Mapping[str, Any], meter: Meter) -> Changed:
    plan, target = result.plan, found["object"]
    if plan is None:
        raise ValueError("a result without its rule")
    subresource = str(found.get("subresource") or "")
    group, version = split_api_version(str(target.get("apiVersion") or ""))
    root = {
        **request.root_of(plan.name),
        "$target": number,
        "$targetKind": [group, version, str(target.get("kind") or ""), subresource],
        "target": target,
    }
    outcome = plan.run(plan.entry, root, meter)
    status = WORDS.get(outcome.status, PASS)
    made = replace(result, status=status, message=outcome.message or "", patched=outcome.patched, product=None)
    return Changed(target, made, subresource, found.get("resource"))


def selected(spec: Mapping[str, Any], objects: Iterable[Mapping[str, Any]]) -> Value:
    """The answer to a ``targets`` call from given objects, in their order.

    Wildcards count in the API version, the kind, the name and the namespace. ``Deployment/scale`` is the Scale of each
    Deployment, another subresource the object itself.
    """
    kind, *rest = _SUBRESOURCE.split(str(spec.get("kind") or ""), maxsplit=1)
    subresource = rest[0] if rest else ""
    found = []
    for obj in objects:
        if _meant(spec, kind, obj):
            shown = _scale(obj) if subresource == "scale" else dict(obj)
            found.append({"object": shown, "subresource": subresource})
    return found


def _meant(spec: Mapping[str, Any], kind: str, obj: Mapping[str, Any]) -> bool:
    metadata = obj.get("metadata") or {}
    if not wildcard(kind, str(obj.get("kind") or "")):
        return False
    wanted, own = split_api_version(spec.get("apiVersion") or "*"), split_api_version(str(obj.get("apiVersion") or ""))
    if spec.get("apiVersion") not in (None, "", "*") and not all(map(wildcard, wanted, own)):
        return False
    for key in ("name", "namespace"):
        pattern = spec.get(key)
        if pattern and not wildcard(pattern, str(metadata.get(key) or "")):
            return False
    if spec.get("uid") and spec["uid"] != metadata.get("uid"):
        return False
    selector = spec.get("selector")
    return not selector or selects(dict(selector), dict(metadata.get("labels") or {}))


def _scale(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The Scale of a workload, as the API server shows it."""
    metadata, spec, status = (obj.get(key) or {} for key in ("metadata", "spec", "status"))
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {"replicas": status.get("replicas", 0)},
    }
