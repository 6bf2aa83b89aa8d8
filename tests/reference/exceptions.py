"""PolicyExceptions of kyverno.io: which hold for a rule and an object (semantics §15.1), and those of the guide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.reference.conditions import ConditionError, holds
from tests.reference.context import Context
from tests.reference.matching import Subject, block_matches
from tests.reference.scalars import wildcard


@dataclass(frozen=True)
class Excepted:
    """An exception that holds; ``pod_security`` is its list of exclusions, None where it excepts the rule whole."""

    key: str
    pod_security: list[dict[str, Any]] | None


def exceptions_for(
    exceptions: list[dict[str, Any]], policy: dict[str, Any], rule: str, subject: Subject, context: Context
) -> list[Excepted]:
    """Every exception that holds, in the order given."""
    found = []
    for exception in exceptions:
        spec = exception.get("spec") or {}
        named = _names_guide(spec, policy, rule) if spec.get("rules") else _names(spec, policy, rule)
        if not named or not _matches(spec.get("match") or {}, subject):
            continue
        if not _conditions_hold(spec.get("conditions"), context):
            continue
        metadata = exception["metadata"]
        key = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
        found.append(Excepted(key, spec.get("podSecurity") or None))
    return found


def _policy_names(policy: dict[str, Any]) -> set[str]:
    metadata = policy["metadata"]
    if policy["kind"] == "Policy":
        return {f"{metadata.get('namespace') or 'default'}/{metadata['name']}"}
    return {metadata["name"]}


def _names(spec: dict[str, Any], policy: dict[str, Any], rule: str) -> bool:
    return any(
        entry.get("policyName") in _policy_names(policy)
        and any(wildcard(name, rule) for name in entry.get("ruleNames") or ())
        for entry in spec.get("exceptions") or ()
    )


def _names_guide(spec: dict[str, Any], policy: dict[str, Any], rule: str) -> bool:
    """The guide's form names a rule, and means those made from it too."""
    metadata = policy["metadata"]
    return any(
        entry.get("policy") in (None, metadata["name"])
        and any(
            wildcard(n, rule) for n in (entry["name"], f"autogen-{entry['name']}", f"autogen-cronjob-{entry['name']}")
        )
        for entry in spec["rules"]
    )


def _matches(match: dict[str, Any], subject: Subject) -> bool:
    """As a rule's match does, but operations are not looked at, and nothing matches everything."""
    if not match.get("any") and not match.get("all") and not match.get("resources"):
        return True
    return block_matches(_without_operations(match), subject, in_match=True)


def _without_operations(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_operations(v) for v in node]
    if not isinstance(node, dict):
        return node
    kept = {k: v for k, v in node.items() if k != "operations"}
    return {k: _without_operations(v) if k in ("any", "all", "resources") else v for k, v in kept.items()}


def _conditions_hold(block: Any, context: Context) -> bool:
    try:
        return holds(block, context)[0]
    except ConditionError:
        return False
