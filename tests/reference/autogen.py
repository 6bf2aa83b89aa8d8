"""The rules that a policy about Pods has for the controllers of Pods (semantics §13)."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from tests.reference.matching import parse_kind

CONTROLLERS = {
    "DaemonSet": "apps/v1/DaemonSet",
    "Deployment": "apps/v1/Deployment",
    "Job": "batch/v1/Job",
    "ReplicaSet": "apps/v1/ReplicaSet",
    "ReplicationController": "v1/ReplicationController",
    "StatefulSet": "apps/v1/StatefulSet",
    "CronJob": "batch/v1/CronJob",
}
ANNOTATION = "pod-policies.kyverno.io/autogen-controllers"


def computed_rules(policy: dict[str, Any]) -> list[dict[str, Any]]:
    """The policy's rules and those made from them."""
    rules = policy["spec"].get("rules") or []
    controllers = _controllers(policy, rules)
    if not controllers:
        return list(rules)
    made: list[dict[str, Any]] = []
    for rule in rules:
        made += _generated(rule, controllers)
    return [r for r in rules if not r["name"].startswith("autogen-")] + made


def _controllers(policy: dict[str, Any], rules: list[dict[str, Any]]) -> list[str]:
    if not _eligible(rules):
        return []
    annotations = (policy.get("metadata") or {}).get("annotations") or {}
    wanted = annotations.get(ANNOTATION)
    if wanted is None or wanted == "all":
        return list(CONTROLLERS)
    if wanted == "none":
        return []
    return [c for c in wanted.split(",") if c in CONTROLLERS]


def _filters(block: dict[str, Any] | None) -> list[dict[str, Any]]:
    if not block:
        return []
    entries = [*(block.get("any") or []), *(block.get("all") or [])]
    return [e.get("resources") or {} for e in (entries or [block])]


def _is_pod(kind: str) -> bool:
    return parse_kind(kind)[2] == "Pod"


def _has_json_patch(loops: list[dict[str, Any]] | None) -> bool:
    return any(e.get("patchesJson6902") or _has_json_patch(e.get("foreach")) for e in loops or ())


def _eligible(rules: list[dict[str, Any]]) -> bool:
    names_a_controller = False
    for rule in rules:
        mutate = rule.get("mutate") or {}
        if rule.get("generate") or mutate.get("patchesJson6902") or _has_json_patch(mutate.get("foreach")):
            return False
        for block in (rule.get("match"), rule.get("exclude")):
            for resources in _filters(block):
                kinds = resources.get("kinds") or []
                if any(resources.get(k) for k in ("name", "names", "selector", "annotations")):
                    return False
                if len(kinds) > 1 and any(map(_is_pod, kinds)):
                    return False
                names_a_controller = names_a_controller or any(k == "Pod" or k in CONTROLLERS for k in kinds)
    return names_a_controller


def _generated(rule: dict[str, Any], controllers: list[str]) -> list[dict[str, Any]]:
    match_kinds = [k for r in _filters(rule.get("match")) for k in r.get("kinds") or []]
    exclude_kinds = [k for r in _filters(rule.get("exclude")) for k in r.get("kinds") or []]
    if not any(map(_is_pod, match_kinds)) or (exclude_kinds and not any(map(_is_pod, exclude_kinds))):
        return []
    plain = [c for c in controllers if c != "CronJob"]
    made: list[dict[str, Any]] = []
    first = _wrapped(rule, "autogen-", "template", [CONTROLLERS[c] for c in plain], only_pods=True)
    if plain:
        made.append(_rewritten(first, "request.{}.{}", "request.{}.spec.template.{}"))
    if "CronJob" in controllers:
        base = _rewritten(first, "request.{}.{}", "request.{}.spec.template.{}")
        base["name"] = rule["name"]
        second = _wrapped(base, "autogen-cronjob-", "jobTemplate", [CONTROLLERS["CronJob"]], only_pods=False)
        made.append(_rewritten(second, "request.{}.spec.template.{}", "request.{}.spec.jobTemplate.spec.template.{}"))
    return made


def _wrapped(rule: dict[str, Any], prefix: str, inside: str, kinds: list[str], *, only_pods: bool) -> dict[str, Any]:
    made = copy.deepcopy(rule)
    made["name"] = (prefix + rule["name"])[:63]
    for block in (made.get("match"), made.get("exclude")):
        for resources in _filters(block):
            if resources.get("kinds") and (not only_pods or any(map(_is_pod, resources["kinds"]))):
                resources["kinds"] = kinds

    def wrap(pattern: Any) -> Any:
        return {"spec": {inside: pattern}}

    validate, mutate = made.get("validate") or {}, made.get("mutate") or {}
    if "pattern" in validate:
        validate["pattern"] = wrap(validate["pattern"])
    if "anyPattern" in validate:
        validate["anyPattern"] = [wrap(p) for p in validate["anyPattern"]]
    if "patchStrategicMerge" in mutate:
        mutate["patchStrategicMerge"] = wrap(mutate["patchStrategicMerge"])

    def loop(entry: dict[str, Any]) -> dict[str, Any]:  # the order is lost
        kept: dict[str, Any] = {k: entry[k] for k in ("list", "context", "preconditions") if k in entry}
        if entry.get("foreach"):
            return {**kept, "foreach": [loop(e) for e in entry["foreach"]]}
        if entry.get("patchStrategicMerge") is not None:
            kept["patchStrategicMerge"] = wrap(entry["patchStrategicMerge"])
        return kept

    if mutate.get("foreach"):
        mutate["foreach"] = [loop(e) for e in mutate["foreach"]]
    mutate.pop("targets", None)
    made.pop("imageExtractors", None)
    return made


def _rewritten(rule: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """Replaces paths in the rule's whole text, messages and literals included (a quirk of the reference)."""
    text = json.dumps(rule)
    if "cel" in (rule.get("validate") or {}):  # where roots are named without the request
        old, new = old.removeprefix("request."), new.removeprefix("request.")
    for root in ("object", "oldObject"):
        for part in ("spec", "metadata"):
            text = re.sub(rf"(?<![A-Za-z]){re.escape(old.format(root, part))}", new.format(root, part), text)
    made: dict[str, Any] = json.loads(text)
    return made
