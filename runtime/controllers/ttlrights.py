"""Kinds that one account for all parts may delete, though only because rules generate objects of them.

Where each controller has its own account, that of the cleanup decides what a time to live removes. An account that they
share may delete ConfigMaps, Roles and NetworkPolicies because the background does, and a label would lend this to
everyone who may change such an object and not delete it. So what only the roles of the background give is left out:
``runtime.controllers.ttl`` asks here once a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runtime.config import Names
from runtime.k8s.client import KubeClient, Resource
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import CLUSTER_ROLE

_SELECTORS: Final = (
    "rbac.kyverno.io/aggregate-to-{part}-controller=true",
    # The labels that roles for an older Kyverno have.
    "app.kubernetes.io/component={part}-controller,app.kubernetes.io/part-of=kyverno",
)

Rules = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Borrowed:
    """The rules of the roles of the background, and of those of the cleanup."""

    background: Rules = ()
    cleanup: Rules = ()

    def holds(self, resource: Resource) -> bool:
        """Whether the right to delete a kind is the background's and not the cleanup's."""
        return _gives(self.background, resource) and not _gives(self.cleanup, resource)


async def borrowed(client: KubeClient, names: Names) -> Borrowed:
    """What the roles of the cluster say now; nothing is borrowed where each controller has its own account, and where
    the roles may not be read. Raises the errors of the client."""
    if names.separate:
        return Borrowed()
    try:
        return Borrowed(await _rules(client, names, "background"), await _rules(client, names, "cleanup"))
    except ApiProblem as problem:
        if problem.code == 403:
            return Borrowed()
        raise


async def _rules(client: KubeClient, names: Names, part: str) -> Rules:
    roles = []
    for selector in _SELECTORS:
        roles += (await client.list(CLUSTER_ROLE, "", {"labelSelector": selector.format(part=part)}))["items"]
    try:
        roles.append(await client.get(CLUSTER_ROLE, f"{names.install}:{part}"))
    except ApiProblem as problem:
        if not problem.missing:
            raise
    return tuple(rule for role in roles for rule in role.get("rules") or ())


def _gives(rules: Iterable[Mapping[str, Any]], resource: Resource) -> bool:
    return any(
        _names(rule, "verbs", "delete")
        and _names(rule, "apiGroups", resource.group)
        and _names(rule, "resources", resource.plural)
        and not rule.get("resourceNames")
        for rule in rules
    )


def _names(rule: Mapping[str, Any], part: str, wanted: str) -> bool:
    found = rule.get(part) or ()
    return wanted in found or "*" in found
