"""Writes what became of a policy into its status: the condition ``Ready`` with the compiler's finding, the rule counts.

Called by ``runtime.controllers.cluster`` after each swap, so that ``Ready`` means that the policy answers requests.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping
from typing import Any, Final

from runtime.controllers.policy import Entry, ObjectKey
from runtime.k8s.client import KubeClient, Object
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import CLUSTER_POLICY, POLICY

log = logging.getLogger("thesmos.status")

RESOURCES: Final = {"ClusterPolicy": CLUSTER_POLICY, "Policy": POLICY}
"""Kinds whose status is ours; the guide's exceptions have none."""

MAX_MESSAGE: Final = 1024
"""Characters of the condition's message; the API takes 32768, tables show the beginning."""


class StatusWriter:
    """Writes a status only when it says something new; without ``writes`` never, for the status is another's."""

    def __init__(self, client: KubeClient, *, writes: bool = True) -> None:
        self._client = client
        self._writes = writes

    async def write(self, entries: Mapping[ObjectKey, Entry], unready: str = "") -> None:
        """``unready`` is why no policy is ready at all (discovery failed). Raises what the client raises, but for a
        policy that has gone or changed meanwhile, which its own event brings back."""
        for (kind, namespace, name), entry in list(entries.items()) if self._writes else ():
            resource = RESOURCES.get(kind)
            if resource is None or entry.bundled:
                continue
            status = wanted(entry, unready)
            if not differs(entry.obj.get("status"), status):
                continue
            try:
                await self._client.patch(resource, name, {"status": status}, namespace, "status")
            except ApiProblem as problem:
                if not (problem.missing or problem.conflict):
                    raise
                log.info("the status of %s %s was not written: %s", kind, name, problem)


def wanted(entry: Entry, unready: str = "") -> dict[str, Any]:
    """The status that an entry should have."""
    error = entry.error or unready
    condition = {
        "type": "Ready",
        "status": "False" if error else "True",
        "reason": "Failed" if error else "Succeeded",
        "message": _message(entry, error) if error else "Ready",
        "lastTransitionTime": _transition(entry.obj, "False" if error else "True"),
    }
    return {"conditions": [condition], "rulecount": rule_count(entry.obj)}


def _message(entry: Entry, error: str) -> str:
    text = f"{error}; the last version that compiled stays in force" if entry.error and entry.good else error
    return text[:MAX_MESSAGE]


def _transition(obj: Object, status: str) -> str:
    """The time of the last change of ``status``: kept while it stays the same."""
    for condition in _conditions(obj.get("status")):
        if condition.get("type") == "Ready" and condition.get("status") == status:
            kept = condition.get("lastTransitionTime")
            if kept:
                return str(kept)
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def differs(current: Any, status: Mapping[str, Any]) -> bool:
    if not isinstance(current, dict):
        return True
    return _bare(_conditions(current)) != _bare(status["conditions"]) or current.get("rulecount") != status["rulecount"]


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
