"""Where the objects are that a rule with ``cleanup`` may remove: resources of the cluster, namespaces, and what the API
server can select by itself. Called by ``runtime.controllers.cleaning`` before each run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runtime.controllers.selectors import selector_text
from runtime.k8s.client import Resource
from runtime.k8s.discovery import Discovery
from runtime.policyset import RulePlan
from vm.code import MatchKey

REMOVABLE: Final = frozenset(["list", "delete"])
NAMESPACES_EACH: Final = 5
"""More named namespaces than these are read with all others in one list."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look for objects of a rule: a resource, a namespace ("" for all), URL parameters that narrow it."""

    resource: Resource
    namespace: str
    query: Mapping[str, str]


def places_of(discovery: Discovery, plan: RulePlan, keys: Iterable[MatchKey]) -> list[Place]:
    """Where the objects are that a rule may remove. A kind with several versions is looked at in the first."""
    found: dict[tuple[str, str, str, str], Place] = {}
    scope = plan.policy.namespace
    removals = (plan.meta.get("cleanup") or {}).get("removals")
    wanted: list[tuple[list[str], Mapping[str, Any]]]
    if removals:
        wanted = [(entry["kind"], entry) for entry in removals]
    else:
        wanted = [([k.kind.group, k.kind.version, k.kind.kind, k.kind.subresource], {}) for k in keys]
    for kind, entry in wanted:
        query = {"labelSelector": selector_text(entry["selector"])} if _sent(entry.get("selector")) else {}
        for resource in listed(discovery, kind):
            if scope is not None and not resource.namespaced:
                continue
            for namespace in [scope] if scope is not None else _namespaces(entry, resource):
                place = Place(resource, namespace, query)
                found.setdefault((resource.group, resource.plural, namespace, str(query)), place)
    return list(found.values())


def listed(discovery: Discovery, kind: list[str], verbs: frozenset[str] = REMOVABLE) -> list[Resource]:
    """The resources that a kind selector names and that know the verbs, each in one version."""
    group, version, name, sub = kind
    if sub:
        return []
    found: dict[tuple[str, str], Resource] = {}
    for entry in discovery.find(group, version, name):
        if verbs <= entry.verbs:
            found.setdefault((entry.resource.group, entry.resource.plural), entry.resource)
    return list(found.values())


def _namespaces(entry: Mapping[str, Any], resource: Resource) -> list[str]:
    """The namespaces that a removal names, one by one where it names few and plainly; else all."""
    named = list(entry.get("namespaces") or ())
    plain = not any(c in text for text in named for c in "*?")
    return named if plain and resource.namespaced and 0 < len(named) <= NAMESPACES_EACH else [""]


def _sent(selector: Any) -> bool:
    """Whether the API server can select by a selector: it knows no wildcards."""
    if not isinstance(selector, dict) or not selector:
        return False
    texts = [t for pair in (selector.get("matchLabels") or {}).items() for t in pair]
    for expression in selector.get("matchExpressions") or ():
        texts += [expression.get("key"), *(expression.get("values") or ())]
    return all(isinstance(text, str) and not any(c in text for c in "*?") for text in texts)
