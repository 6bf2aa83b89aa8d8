"""Which kinds of objects a background scan looks at, and what of them its rules may depend on.

``runtime.controllers.scan`` asks once for each policy set, and again when the cluster serves other kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import orjson

from runtime.controllers.reports import digest, is_disabled
from runtime.k8s.client import Resource
from runtime.k8s.discovery import Discovery
from runtime.policyset import PolicySet, RulePlan, is_scan_key, is_scanned
from vm.code import MatchKey, Module
from vm.intrinsics.wildcard import match as wildcard

REPORT_GROUPS: Final = frozenset({"wgpolicyk8s.io", "reports.kyverno.io", "openreports.io"})
OWN_KINDS: Final = frozenset({"ClusterPolicy", "Policy", "UpdateRequest"})
SCHEME: Final = "1"
"""Part of every mark: another one makes all objects be looked at again after an upgrade."""

Place = tuple[str, str]
"""Group and plural name: a collection, whatever version it is read in."""


@dataclass(frozen=True, slots=True)
class ScannedKind:
    """A collection to be scanned. ``others`` are further versions that rules name. ``rules`` is a hash of the rules
    that may reach it, with their exceptions; ``labels``: they may look at the labels of namespaces, ``status``: at the
    status of objects, which else changes far more often than anything that a rule asks about."""

    resource: Resource
    others: tuple[Resource, ...]
    rules: str
    labels: bool
    status: bool


@dataclass(frozen=True, slots=True)
class _Rule:
    keys: tuple[MatchKey, ...]
    digest: str
    labels: bool
    status: bool


class ScannedRules:
    """The rules of policy sets that scans can reach. Rules whose policies have ``background: false`` are to be left
    out of the set before."""

    def __init__(self, *policies: PolicySet) -> None:
        self._rules = tuple(rule for one in policies for rule in _rules(one))
        self._named = {(key.kind.group, key.kind.kind) for rule in self._rules for key in rule.keys if is_scan_key(key)}

    def may_reach(self, kind: str) -> bool:
        """Whether some rule is about a kind (``group/Kind``), be it served at the moment or not."""
        group, _, name = kind.rpartition("/")
        return any(wildcard(wanted, name) and wildcard(groups, group) for groups, wanted in self._named)

    def kinds(self, discovery: Discovery) -> dict[Place, ScannedKind]:
        """By collection what the rules look at."""
        return _kinds(self._rules, discovery)


def _kinds(rules: Iterable[_Rule], discovery: Discovery) -> dict[Place, ScannedKind]:
    found: dict[Place, list[tuple[_Rule, Resource, bool]]] = {}
    order: dict[Place, list[str]] = {}
    for entry in discovery.entries:
        if not entry.subresource:
            order.setdefault((entry.resource.group, entry.resource.plural), []).append(entry.resource.version)
    for rule in rules:
        for key in rule.keys:
            for resource in _resources(key, discovery):
                place = (resource.group, resource.plural)
                found.setdefault(place, []).append((rule, resource, "*" not in key.kind.version))
    return {place: _kind(reached, order[place]) for place, reached in found.items()}


def _kind(reached: list[tuple[_Rule, Resource, bool]], order: list[str]) -> ScannedKind:
    """Rules that take any version are content with one; each version that a rule names is read."""
    by_version = {resource.version: resource for _, resource, _ in reached}
    named = {resource.version for _, resource, by_name in reached if by_name}
    versions = sorted(named or by_version, key=order.index)
    first, *others = versions if named else versions[:1]
    rules = {id(rule): rule for rule, _, _ in reached}.values()
    return ScannedKind(
        by_version[first],
        tuple(by_version[version] for version in others),
        digest([SCHEME, first, *sorted(rule.digest for rule in rules)]),
        any(rule.labels for rule in rules),
        any(rule.status for rule in rules),
    )


def _resources(key: MatchKey, discovery: Discovery) -> Iterator[Resource]:
    kind = key.kind
    if not is_scan_key(key):
        return
    by_name = "*" not in kind.kind and "?" not in kind.kind
    for entry in discovery.find(kind.group, kind.version, kind.kind):
        if {"list", "watch"} <= entry.verbs and _is_reportable(entry.resource, by_name):
            yield entry.resource


def _is_reportable(resource: Resource, by_name: bool) -> bool:
    """Events cannot own reports (Kyverno quirk), and reports on reports would never end. A rule for every kind does not
    mean leases, which change every few seconds, nor the policies and requests of the engine itself."""
    group, kind = resource.group, resource.kind
    if group in REPORT_GROUPS or (kind == "Event" and group in ("", "events.k8s.io")):
        return False
    if group == "kyverno.io" and kind == "UpdateRequest":
        return False
    return by_name or not (
        (group == "kyverno.io" and kind in OWN_KINDS) or (group == "coordination.k8s.io" and kind == "Lease")
    )


def _rules(policies: PolicySet) -> Iterator[_Rule]:
    plans: Iterator[RulePlan] = iter(policies.rules)
    exceptions = {
        f"{e.namespace}/{e.name}" if e.namespace else e.name: hashed.hex()
        for module, hashed in zip(policies.modules, policies.digests, strict=True)
        for e in module.exemptions
    }
    for module, hashed in zip(policies.modules, policies.digests, strict=True):
        mentioned = _mentioned(module)
        status = b'"status"' in mentioned or b".status" in mentioned
        labels = b"$namespaceObject" in mentioned
        for policy in module.policies:
            for rule in policy.rules:
                plan = next(plans)
                if not is_scanned(rule) or is_disabled(policy.meta):
                    continue
                exempted = sorted(exceptions[e.key] for e in plan.exemptions)
                yield _Rule(
                    rule.keys,
                    digest([hashed.hex(), rule.name, *exempted]),
                    labels or rule.meta.get("namespaceLabels") is True,
                    status,
                )


def _mentioned(module: Module) -> bytes:
    """The texts that the code of a module holds: what it may look at."""
    return orjson.dumps([module.paths, module.constants], default=str)
