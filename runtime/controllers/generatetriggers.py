"""The update requests of generate rules that follow from one admission request (semantics §18).

``runtime.controllers.triggers`` calls :func:`generated_rules` with what the rules say of the request, and
:func:`other_events` for a request about an object that was generated, or that others are copied from.
``runtime.controllers.generation`` does what is written here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from runtime.controllers.backgroundrequests import evaluated
from runtime.controllers.installation import Installation
from runtime.engine import ERROR, PASS, SKIP, Engine, RuleResult
from runtime.generate import CLONE_SOURCE, LABELS, MANAGED_BY
from runtime.observe.policy_events import GENERATE
from runtime.policyset import PolicyInfo, RulePlan
from runtime.request import Request

Object = Mapping[str, Any]

LONGEST_LABEL: Final = 63

_SECRET_DATA: Final = ("data", "stringData")
_FIELDS: Final = (
    "uid",
    "kind",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
)
_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion", "generateName")


async def generated_rules(
    installation: Installation, engine: Engine, request: Request, results: Sequence[RuleResult], deadline: float
) -> None:
    """An update request for each policy with a rule that passed, or that no longer does."""
    about = trigger_of(request)
    if about is None or (request.operation == "UPDATE" and _leaves_alone(request)):
        return
    wanted: dict[str, list[dict[str, Any]]] = {}
    settled = set()
    for result in results:
        settled.add((result.policy_key, result.rule))
        if result.status == PASS:
            contexts = wanted.setdefault(result.policy_key, [])
            if result.product is None and request.operation == "DELETE" and _sync(result.plan):
                # Nobody has had the time to ask it: what was made for an object that goes may go in any case.
                contexts.append(context(result.rule, about, sync=True, gone=True))
            contexts.append(context(result.rule, about, sync=_sync(result.plan)))
        elif result.status == ERROR and result.info is not None:
            installation.tell.failed(result.info, result.rule, result.message, request.resource, GENERATE)
        elif result.status == SKIP and result.plan is not None and not result.exceptions:
            settled.discard((result.policy_key, result.rule))
    for result in await lost(installation, engine, request, settled, deadline):
        wanted.setdefault(result.policy_key, []).append(context(result.rule, about, sync=True, gone=True))
    specs = [spec_of(policy, about, contexts, request) for policy, contexts in wanted.items()]
    await asyncio.gather(*(leave(installation, spec) for spec in specs))


async def leave(installation: Installation, spec: Mapping[str, Any]) -> None:
    """Writes an update request under the label by which Kyverno's are found."""
    name = str(spec["policy"]).rpartition("/")[2]
    await installation.requests.write(spec, {LABELS + "policy-name": name} if len(name) <= LONGEST_LABEL else None)


async def lost(
    installation: Installation, engine: Engine, request: Request, settled: Iterable[tuple[str, str]], deadline: float
) -> list[RuleResult]:
    """Rules that keep what they made in step, and that matched the object as it was before the request: what they made
    because of it goes. ``settled`` are those that match it as it is now, or said something else about it."""
    if request.operation not in ("UPDATE", "DELETE") or type(request.old) is not dict:
        return []
    settled = set(settled)
    found = engine.policies.candidates(
        request.group, request.version, request.kind, request.subresource, request.operation, request.namespace
    )
    rules = [
        (policy, plan)
        for policy, plans in found.background
        for plan in plans
        if plan.kind == "generate" and _sync(plan) and (policy.key, plan.name) not in settled
    ]
    if not rules:
        return []
    names = {(policy.key, plan.name) for policy, plan in rules}
    policies: dict[int, PolicyInfo] = {id(policy): policy for policy, _ in rules}
    before = await evaluated(engine, as_it_was(request), installation, deadline, policies.values())
    return [
        result
        for result in before.results
        if (result.policy_key, result.rule) in names
        and not result.exceptions
        # A deletion takes along whatever may have been made: conditions may have been met at another time.
        and (result.status == PASS or request.operation == "DELETE")
    ]


def as_it_was(request: Request) -> Request:
    """The request about the object as it was before; of a deletion the one that would have made it."""
    before = request.before()
    if request.operation == "DELETE":
        return before
    inner = {**before.root["request"], "operation": request.operation, "oldObject": request.old}
    root = {**before.root, "request": inner, "$operation": request.operation, "$old": request.old}
    return replace(before, operation=request.operation, old=request.old, root=root)


MARKS: Final = (MANAGED_BY.encode(), CLONE_SOURCE.encode())
"""One of these is in the bytes of the objects of a request of which :func:`may_have_others` holds."""


def may_have_others(request: Request) -> bool:
    """Whether :func:`other_events` may have something to do, whatever the objects of the request are."""
    if request.operation not in ("UPDATE", "DELETE") or type(request.old) is not dict:
        return False
    metadata = request.old.get("metadata")
    labels = metadata.get("labels") if type(metadata) is dict else None
    return type(labels) is dict and (MANAGED_BY in labels or CLONE_SOURCE in labels)


async def other_events(installation: Installation, engine: Engine, request: Request) -> None:
    """What follows from a change of an object that was generated, or that others are copied from: told by the labels
    that it had before."""
    old = request.old if request.operation in ("UPDATE", "DELETE") else None
    if type(old) is not dict or request.subresource:
        return
    labels = (old.get("metadata") or {}).get("labels")
    if type(labels) is not dict or (request.operation == "UPDATE" and same_object(old, request.resource)):
        return
    about = reference(old)
    if labels.get(MANAGED_BY) == "kyverno" and labels.get(LABELS + "policy-name"):
        policy = policy_of(labels)
        for info, plan in _rules(engine):
            if info.key == policy and plan.name == labels.get(LABELS + "rule-name") and _sync(plan):
                contexts = [context(plan.name, trigger_from(labels), sync=True)]
                await leave(installation, spec_of(policy, about, contexts, request, slim=True))
    if CLONE_SOURCE in labels:
        for info, plan in _rules(engine):
            if _sync(plan) and copies_kind(plan, request.group, request.kind):
                spec = spec_of(info.key, about, [], request, rule=plan.name, slim=True)
                await leave(installation, spec)


def copies_kind(plan: RulePlan, group: str, kind: str) -> bool:
    """Whether a rule may copy objects of a kind: also when variables are to say which."""
    for target in plan.meta["generate"]["targets"]:
        listed = (target.get("cloneList") or {}).get("kinds") or ()
        named = [str(k).rpartition("/")[::2] for k in listed]
        if target.get("clone"):
            named.append((str(target.get("apiVersion") or ""), str(target.get("kind") or "")))
        for version, wanted in named:
            own = version.rpartition("/")[0]
            if ("{{" in wanted or wanted == kind) and ("{{" in version or own == group):
                return True
    return False


def trigger_of(request: Request) -> dict[str, str] | None:
    """The reference to the object that a request is about; of a subresource whose object has no name of its own
    (``pods/exec``) the one that it belongs to."""
    obj = request.resource
    if type(obj) is not dict:
        return None
    found = reference(obj)
    found.setdefault("name", request.name)
    if request.namespace and not found.get("namespace") and request.kind != "Namespace":
        found["namespace"] = request.namespace
    return found


def reference(obj: Object) -> dict[str, str]:
    """API version, kind, namespace, name and uid of an object, those that it has."""
    metadata = obj.get("metadata") or {}
    found = {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
    }
    return {key: value for key, value in found.items() if type(value) is str and value}


def trigger_from(labels: Mapping[str, str]) -> dict[str, str]:
    """The reference to what set off the rule that made an object, from its labels; they do not hold its name."""
    group, version = (str(labels.get(LABELS + f"trigger-{part}") or "") for part in ("group", "version"))
    found = {
        "apiVersion": f"{group}/{version}" if group else version,
        "kind": labels.get(LABELS + "trigger-kind"),
        "namespace": labels.get(LABELS + "trigger-namespace"),
        "name": labels.get(LABELS + "trigger-name"),
        "uid": labels.get(LABELS + "trigger-uid"),
    }
    return {key: value for key, value in found.items() if value}


def policy_of(labels: Mapping[str, str]) -> str:
    """The key of the policy that made an object, from its labels."""
    name, namespace = labels.get(LABELS + "policy-name") or "", labels.get(LABELS + "policy-namespace")
    return f"{namespace}/{name}" if namespace else name


def context(rule: str, trigger: Mapping[str, str], *, sync: bool, gone: bool = False) -> dict[str, Any]:
    """A rule and what set it off; ``gone``: what it made because of it is to go."""
    return {"rule": rule, "trigger": dict(trigger), "synchronize": sync, "deleteDownstream": gone}


def spec_of(
    policy: str,
    about: Mapping[str, str],
    contexts: list[dict[str, Any]],
    request: Request | None = None,
    *,
    rule: str = "",
    slim: bool = False,
) -> dict[str, Any]:
    """The spec of an update request. ``slim``: of the objects of the request only who they are."""
    spec: dict[str, Any] = {
        "requestType": "generate",
        "policy": policy,
        "rule": rule or (contexts[0]["rule"] if contexts else ""),
        "resource": dict(about),
        "deleteDownstream": bool(contexts) and all(c["deleteDownstream"] for c in contexts),
        "synchronize": any(c["synchronize"] for c in contexts),
        "ruleContext": contexts,
        "context": {},
    }
    if request is not None:
        spec["context"] = admission_context(request, slim=slim)
    return spec


def admission_context(request: Request, *, slim: bool = False) -> dict[str, Any]:
    """What variables of rules can see of a request later on. Of a Secret that stays, the data is left out: whoever may
    read update requests need not be somebody who may read Secrets, and the object itself is read again anyway."""
    asked = request.root["$request"]
    kept = {key: asked[key] for key in _FIELDS if asked.get(key)}
    for key in ("object", "oldObject"):
        obj = asked.get(key)
        if type(obj) is dict:
            kept[key] = _slim(obj) if slim else _stored(obj, keep_data=request.operation == "DELETE")
    seen = request.root["request"]
    user = {
        "roles": list(seen.get("roles") or ()),
        "clusterRoles": list(seen.get("clusterRoles") or ()),
        "userInfo": asked.get("userInfo") or {},
    }
    info = {"admissionRequest": kept, "operation": request.operation}
    return {"userInfo": user, "admissionRequestInfo": info}


def _slim(obj: Object) -> dict[str, Any]:
    metadata = obj.get("metadata") or {}
    kept = {key: metadata[key] for key in _IDENTITY if key in metadata}
    return {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "metadata": kept}


def _stored(obj: Object, *, keep_data: bool) -> dict[str, Any]:
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
    stored = {**obj, "metadata": metadata}
    if obj.get("kind") == "Secret" and obj.get("apiVersion") == "v1" and not keep_data:
        for key in _SECRET_DATA:
            stored.pop(key, None)
    return stored


def _leaves_alone(request: Request) -> bool:
    """Whether an update changes nothing that a rule could look at, or is about an object on its way out."""
    new = request.resource
    if type(new) is not dict or (new.get("metadata") or {}).get("deletionTimestamp"):
        return True
    return same_object(request.old, new)


def same_object(old: Any, new: Any) -> bool:
    """Whether two versions of an object differ in nothing but their version and who wrote which field."""
    if type(old) is not dict or type(new) is not dict:
        return False
    left = {k: v for k, v in (old.get("metadata") or {}).items() if k not in ("managedFields", "resourceVersion")}
    right = {k: v for k, v in (new.get("metadata") or {}).items() if k not in ("managedFields", "resourceVersion")}
    return left == right and all(old.get(k) == new.get(k) for k in {*old, *new} - {"metadata"})


def _rules(engine: Engine) -> Iterable[tuple[PolicyInfo, RulePlan]]:
    return ((plan.policy, plan) for plan in engine.policies.rules if plan.kind == "generate")


def _sync(plan: RulePlan | None) -> bool:
    return plan is not None and plan.meta["generate"]["synchronize"] is True
