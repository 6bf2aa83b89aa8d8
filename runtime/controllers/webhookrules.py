"""From the kinds and operations of policies to the rules of a webhook (semantics §24): resolved through discovery, what
another asks for anyway left out, grouped and sorted as Kyverno does.

Called by ``runtime.controllers.webhookconfig`` for each webhook.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from runtime.k8s.discovery import Discovery
from vm.code import MatchKey

Verb = Literal["validate", "mutate"]

OPERATIONS: Final = ("CONNECT", "CREATE", "DELETE", "UPDATE")
DEFAULT_OPERATIONS: Final[dict[Verb, tuple[str, ...]]] = {"validate": OPERATIONS, "mutate": ("CREATE", "UPDATE")}
"""Operations of a rule that names none."""

EVERYWHERE: Final = "*"
NAMESPACED: Final = "Namespaced"


@dataclass(frozen=True, slots=True)
class WatchedRule:
    """One computed rule: what it does, the ways to reach it, and the operations that its exclude takes away from all of
    them."""

    verb: Verb
    keys: tuple[MatchKey, ...]
    without: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Asked:
    """One thing that a webhook asks for: an operation on a resource (``pods``) or a part of one (``pods/exec``)."""

    group: str
    version: str
    resource: str
    part: str
    scope: str
    operation: str

    def wider(self) -> Iterable[Asked]:
        """Everything that would ask for this too, and for more: ``*`` names objects of all resources without their
        parts, ``pods/*`` the parts without the object, ``*/*`` all of it."""
        if self.part:
            places = {(self.resource, self.part), (self.resource, "*"), ("*", self.part), ("*", "*")}
        else:
            places = {(self.resource, ""), ("*", ""), ("*", "*")}
        for group in {self.group, "*"}:
            for version in {self.version, "*"}:
                for scope in {self.scope, EVERYWHERE}:
                    for resource, part in places:
                        found = Asked(group, version, resource, part, scope, self.operation)
                        if found != self:
                            yield found


def asked_by(
    rules: Iterable[WatchedRule], namespaced: bool, verb: Verb, discovery: Discovery, unknown: set[str]
) -> Iterable[Asked]:
    """What rules of one policy ask for. Kind selectors that no resource meets are put into ``unknown``."""
    for rule in rules:
        if rule.verb != verb:
            continue
        for key in rule.keys:
            operations = set(key.operations or DEFAULT_OPERATIONS[verb]) - rule.without
            if not operations:
                continue
            targets = list(_targets(key, namespaced, discovery))
            if not targets:
                unknown.add(_selector_text(key))
            for group, version, resource, part, scope in targets:
                for operation in operations:
                    yield Asked(group, version, resource, part, scope, operation)


def webhook_rules(asked: Iterable[Asked]) -> list[dict[str, Any]]:
    """The rules of a webhook: one for each group, version, scope and set of operations, resources joined."""
    everything = set(asked)
    operations: dict[tuple[str, str, str], dict[str, set[str]]] = {}
    for one in everything:
        if everything.isdisjoint(one.wider()):
            resource = f"{one.resource}/{one.part}" if one.part else one.resource
            place = operations.setdefault((one.group, one.version, one.scope), {})
            place.setdefault(resource, set()).add(one.operation)
    grouped: dict[tuple[str, str, str, tuple[str, ...]], set[str]] = {}
    for (group, version, scope), resources in operations.items():
        for resource, wanted in resources.items():
            grouped.setdefault((group, version, scope, tuple(sorted(wanted))), set()).add(resource)
    rules = []
    for (group, version, scope, wanted_operations), names in grouped.items():
        if group in ("", "*") and version in ("v1", "*") and not names.isdisjoint(("pods", "*")):
            # Rules on Pods speak for containers that are added to a running Pod too.
            names.add("pods/ephemeralcontainers")
        rules.append(
            {
                "apiGroups": [group],
                "apiVersions": [version],
                "operations": list(wanted_operations),
                "resources": sorted(names),
                "scope": scope,
            }
        )
    return sorted(rules, key=_order)


def _order(rule: dict[str, Any]) -> list[Any]:
    return [rule[key] for key in ("apiGroups", "apiVersions", "resources", "operations", "scope")]


def _targets(key: MatchKey, namespaced: bool, discovery: Discovery) -> Iterable[tuple[str, str, str, str, str]]:
    selector = key.kind
    if selector.kind == "*":
        scope = NAMESPACED if namespaced else EVERYWHERE
        yield selector.group, selector.version, "*", selector.subresource, scope
        return
    for entry in discovery.find(selector.group, selector.version, selector.kind, selector.subresource):
        resource = entry.resource
        if namespaced and not resource.namespaced:
            continue
        scope = NAMESPACED if resource.namespaced else EVERYWHERE
        yield resource.group, resource.version, resource.plural, entry.subresource, scope


def _selector_text(key: MatchKey) -> str:
    kind = key.kind
    parts = [p for p in (kind.group, kind.version) if p not in ("", "*")] + [kind.kind, kind.subresource]
    return "/".join(p for p in parts if p)
