"""Writes what became of a policy into its status: the condition ``Ready`` with the compiler's finding, what permissions
it lacks, rule counts, the rules that autogen makes, whether a policy of the API server is made of it.

Called by ``runtime.controllers.cluster`` after each swap, so that ``Ready`` means that the policy answers requests.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from runtime.controllers.policy import Entry, Good, ObjectKey
from runtime.k8s.client import KubeClient, Object
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import CLUSTER_POLICY, POLICY

if TYPE_CHECKING:
    from compiler.schema.model import Policy

log = logging.getLogger("thesmos.status")

RESOURCES: Final = {"ClusterPolicy": CLUSTER_POLICY, "Policy": POLICY}
"""Kinds whose status is ours; the guide's exceptions have none."""

MAX_MESSAGE: Final = 1024
"""Characters of the condition's message; the API takes 32768, tables show the beginning."""


LACKING: Final = "RBACPermissionsGranted"
"""Kyverno's name of the condition that tells of permissions, on its newer kinds; here only while some are lacking."""


@dataclass(frozen=True, slots=True)
class Native:
    """Whether a ValidatingAdmissionPolicy is made of a policy, and why not."""

    generated: bool = False
    message: str = ""


NOTHING: Final = Native()


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known of policies beside the compiler's finding: the permissions that they lack, in one line, and those
    of which the API server's own are made."""

    lacking: Mapping[ObjectKey, str] = field(default_factory=dict)
    native: Mapping[ObjectKey, Native] = field(default_factory=dict)


class StatusWriter:
    """Writes a status only when it says something new; without ``writes`` never, for the status is another's."""

    def __init__(self, client: KubeClient, *, writes: bool = True) -> None:
        self._client = client
        self._writes = writes
        # By the version that they are of: each round asks, and autogen is the dearest part of the answer.
        self._made: dict[ObjectKey, tuple[Good, list[Any]]] = {}

    async def write(
        self, entries: Mapping[ObjectKey, Entry], unready: str = "", findings: Findings | None = None
    ) -> None:
        """``unready`` is why no policy is ready at all (discovery failed). Raises what the client raises, but for a
        policy that has gone or changed meanwhile, which its own event brings back."""
        findings = findings or Findings()
        self._made = {key: made for key, made in self._made.items() if key in entries}
        for key, entry in list(entries.items()) if self._writes else ():
            kind, namespace, name = key
            resource = RESOURCES.get(kind)
            if resource is None or entry.bundled:
                continue
            status = wanted(
                entry,
                unready,
                self._rules(key, entry),
                findings.lacking.get(key, ""),
                findings.native.get(key, NOTHING),
            )
            patch = changes(entry.obj.get("status"), status)
            if not patch:
                continue
            try:
                await self._client.patch(resource, name, {"status": patch}, namespace, "status")
            except ApiProblem as problem:
                if not (problem.missing or problem.conflict):
                    raise
                log.info("the status of %s %s was not written: %s", kind, name, problem)

    def _rules(self, key: ObjectKey, entry: Entry) -> list[Any]:
        good = entry.good
        if good is None or good.model is None:
            return []
        known = self._made.get(key)
        if known is None or known[0] is not good:
            known = self._made[key] = (good, autogen_rules(good.model))
        return known[1]


def autogen_rules(policy: Policy) -> list[Any]:
    """The rules that autogen adds to a policy, as JSON."""
    from compiler.autogen import expand

    return [rule.raw for rule in expand(policy) if rule.origin != "policy"]


def wanted(
    entry: Entry, unready: str = "", made: Sequence[Any] = (), lacking: str = "", native: Native = NOTHING
) -> dict[str, Any]:
    """The status that an entry should have. ``made`` are the rules of autogen."""
    error = entry.error or unready
    conditions = [_condition(entry.obj, "Ready", not error, _message(entry, error) if error else "Ready")]
    if lacking:
        conditions.append(_condition(entry.obj, LACKING, False, lacking[:MAX_MESSAGE]))
    return {
        "conditions": conditions,
        "rulecount": rule_count(entry.obj),
        "autogen": {"rules": list(made)} if made else {},
        "validatingadmissionpolicy": {"generated": native.generated, "message": native.message},
    }


def _condition(obj: Object, kind: str, holds: bool, message: str) -> dict[str, Any]:
    status = "True" if holds else "False"
    return {
        "type": kind,
        "status": status,
        "reason": "Succeeded" if holds else "Failed",
        "message": message,
        "lastTransitionTime": _transition(obj, kind, status),
    }


def _message(entry: Entry, error: str) -> str:
    text = f"{error}; the last version that compiled stays in force" if entry.error and entry.good else error
    return text[:MAX_MESSAGE]


def _transition(obj: Object, kind: str, status: str) -> str:
    """The time of the last change of ``status``: kept while it stays the same."""
    for condition in _conditions(obj.get("status")):
        if condition.get("type") == kind and condition.get("status") == status:
            kept = condition.get("lastTransitionTime")
            if kept:
                return str(kept)
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def changes(current: Any, status: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that makes a status what it should be; empty when it is."""
    known = current if isinstance(current, dict) else {}
    patch = {key: value for key, value in status.items() if key != "conditions" and known.get(key) != value}
    if _bare(_conditions(known)) != _bare(status["conditions"]):
        patch["conditions"] = status["conditions"]
    if patch.get("autogen") == {}:
        # In a merge patch an empty map leaves what is there.
        patch["autogen"] = {"rules": None}
    return patch


def _conditions(status: Any) -> list[dict[str, Any]]:
    found = status.get("conditions") if isinstance(status, dict) else None
    return [c for c in found if isinstance(c, dict)] if isinstance(found, list) else []


def _bare(conditions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: c.get(k) for k in ("type", "status", "reason", "message")} for c in conditions]


def rule_count(obj: Object) -> dict[str, int]:
    """Rules as written, by what they do; those of autogen are not counted."""
    counts = {"validate": 0, "mutate": 0, "generate": 0, "verifyimages": 0}
    rules = (obj.get("spec") or {}).get("rules")
    for rule in rules if isinstance(rules, list) else ():
        if not isinstance(rule, dict):
            continue
        for key, counted in (
            ("validate", "validate"),
            ("validation", "validate"),
            ("mutate", "mutate"),
            ("generate", "generate"),
            ("verifyImages", "verifyimages"),
        ):
            if rule.get(key):
                counts[counted] += 1
    return counts
