"""Which objects are to go: cleanup policies, the guide's rules with ``cleanup`` (decision 5), and the label for a time
to live (semantics §25).

Offline commands ask for each object that they were given; the controllers of a cluster list the kinds and ask likewise.
Nothing is deleted here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from runtime.engine import ERROR, PASS, Engine, RuleResult
from runtime.policyset import CLEANUP_POLICIES, RulePlan
from runtime.request import Request
from vm.host import Outcome, Status
from vm.intrinsics.kinds import matches_any
from vm.intrinsics.labels import selects
from vm.intrinsics.wildcard import match as wildcard

TTL_LABEL: Final = "cleanup.kyverno.io/ttl"
PROPAGATION: Final = "cleanup.kyverno.io/propagation-policy"
POLICIES: Final = ("Foreground", "Background", "Orphan")

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w)")
_STAMPS: Final = ("%Y-%m-%dT%H%M%SZ", "%Y-%m-%d")


@dataclass(frozen=True, slots=True)
class Removal:
    """An object that a rule removes, or cannot judge (the result is then an error). ``propagation`` is empty where the
    kind's own default holds."""

    plan: RulePlan
    object: dict[str, Any]
    result: RuleResult
    propagation: str = ""


def removal(engine: Engine, plan: RulePlan, request: Request) -> Removal | None:
    """Whether a rule of kind ``cleanup`` removes the object of a request, which is one that stands for the object as it
    is (operation CREATE)."""
    obj = request.resource
    if type(obj) is not dict:
        return None
    scope, metadata = plan.policy.namespace, obj.get("metadata") or {}
    if scope is not None and metadata.get("namespace") != scope:
        return None
    meta: Mapping[str, Any] = plan.meta.get("cleanup") or {}
    kind = [request.group, request.version, request.kind, request.subresource]
    if plan.policy.kind not in CLEANUP_POLICIES:
        if not any(_chosen(entry, kind, metadata) for entry in meta.get("removals") or ()) or not _completed(kind, obj):
            return None
        if not matches_any(kind, list(meta.get("kinds") or ())):
            return _removal(plan, obj, Outcome(Status.PASS), meta)
    if not engine.policies.removes(plan, kind, request.operation, request.namespace):
        return None
    found = _outcome(engine, plan, request, obj)
    return None if found is None else _removal(plan, obj, found, meta)


def sets_off(engine: Engine, plan: RulePlan, request: Request) -> bool:
    """Whether the object of a request, which stands for it as it is, sets a rule of the guide off: its match selects
    it. What cannot be judged sets nothing off."""
    obj, scope = request.resource, plan.policy.namespace
    if type(obj) is not dict or (scope is not None and request.namespace != scope):
        return False
    kind = [request.group, request.version, request.kind, request.subresource]
    if not engine.policies.removes(plan, kind, request.operation, request.namespace):
        return False
    found = _outcome(engine, plan, request, obj)
    return found is not None and found.status is Status.PASS


def _outcome(engine: Engine, plan: RulePlan, request: Request, obj: dict[str, Any]) -> Outcome | None:
    """What the code of a rule says of an object: that it goes, or an error; None for one that stays."""
    engine.add_images(request)
    root = {**request.root_of(plan.name), "target": obj}
    outcome: Outcome = plan.run(plan.entry, root, engine.meter())
    if outcome.status not in (Status.PASS, Status.ERROR):
        return None
    if engine.exceptions.holding(plan, request.namespace, root, engine.meter):
        return None
    return outcome


def _chosen(entry: Mapping[str, Any], kind: list[str], metadata: Mapping[str, Any]) -> bool:
    if not matches_any(kind, [list(entry["kind"])]):
        return False
    for field, key in (("names", "name"), ("namespaces", "namespace")):
        wanted = entry.get(field)
        if wanted and not any(wildcard(pattern, str(metadata.get(key) or "")) for pattern in wanted):
            return False
    selector = entry.get("selector")
    return selector is None or selects(dict(selector), dict(metadata.get("labels") or {}))


def _completed(kind: list[str], obj: Mapping[str, Any]) -> bool:
    """Of Jobs only those that are done go: a running one never (decision 5)."""
    if kind[0] != "batch" or kind[2] != "Job":
        return True
    conditions: Iterable[Any] = (obj.get("status") or {}).get("conditions") or ()
    return any(type(c) is dict and (c.get("type"), c.get("status")) == ("Complete", "True") for c in conditions)


def _removal(plan: RulePlan, obj: dict[str, Any], outcome: Outcome, meta: Mapping[str, Any]) -> Removal:
    failed = outcome.status is Status.ERROR
    result = RuleResult(
        plan.policy.name,
        plan.policy.namespace,
        plan.name,
        plan.kind,
        ERROR if failed else PASS,
        (outcome.message or "") if failed else f"{label(obj)} would be deleted",
        "Audit",
        info=plan.policy,
    )
    return Removal(plan, obj, replace(result, plan=plan), str(meta.get("propagation") or ""))


def label(obj: Mapping[str, Any]) -> str:
    """``apiVersion/kind/namespace/name`` without the parts that are not there."""
    metadata = obj.get("metadata") or {}
    parts = (obj.get("apiVersion"), obj.get("kind"), metadata.get("namespace"), metadata.get("name"))
    return "/".join(str(part) for part in parts if part)


def next_run(schedule: str, after: datetime) -> datetime:
    """When a schedule is next due, in the time zone of ``after``."""
    from cronsim import CronSim

    return next(CronSim(schedule, after))


class BadTtl(Exception):
    """A time to live that cannot be read."""


def expires(obj: Mapping[str, Any]) -> datetime | None:
    """When an object's time to live is over, None for an object without one. Only the label counts, as an annotation it
    says nothing. Raises :class:`BadTtl`."""
    metadata = obj.get("metadata") or {}
    text = (metadata.get("labels") or {}).get(TTL_LABEL)
    if type(text) is not str:
        return None
    for stamp in _STAMPS:
        try:
            return datetime.strptime(text, stamp).replace(tzinfo=UTC)
        except ValueError:
            continue
    seconds = _seconds(text)
    try:
        born = datetime.fromisoformat(str(metadata.get("creationTimestamp") or "").replace("Z", "+00:00"))
    except ValueError:
        raise BadTtl("the object does not say when it was created") from None
    try:
        return born + timedelta(seconds=seconds)
    except OverflowError:
        raise BadTtl(f"{text} is too long a time") from None


def ttl_problem(obj: Mapping[str, Any]) -> str:
    """What to warn of when an object with a time to live is written, empty for nothing."""
    metadata = _map(obj, "metadata")
    labels, annotations = _map(metadata, "labels"), _map(metadata, "annotations")
    text = labels.get(TTL_LABEL)
    if text is None:
        return f"{TTL_LABEL} is a label, as an annotation it has no effect" if TTL_LABEL in annotations else ""
    try:
        expires({"metadata": {"creationTimestamp": "2024-01-01T00:00:00Z", "labels": {TTL_LABEL: text}}})
    except BadTtl as problem:
        return str(problem)
    return ""


def _map(obj: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A part of an object that is not checked yet, empty where it is no map."""
    found = obj.get(key)
    return found if type(found) is dict else {}


def _seconds(text: str) -> float:
    total, at = 0.0, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            break
        total += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    if at < len(text) or not text:
        raise BadTtl(f"{text!r} is no duration and no time".replace("'", '"'))
    return total
