"""The generate rules that are live, with what their controllers need to know of each.

``runtime.controllers.generation`` makes them anew with each policy set; the life of the rules and the watches ask it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from runtime.controllers.policy import Entry
from runtime.engine import Engine
from runtime.generate import LABELS, target_kinds
from runtime.policyset import PolicyInfo, RulePlan
from vm.code import MatchKey

OF_USERS: Final = (b"request.userInfo", b"request.roles", b"request.clusterRoles", b"serviceAccountName")


@dataclass(frozen=True, slots=True)
class Rule:
    """A generate rule of the cluster with the ways to reach it; ``digest`` tells its versions apart. ``personal``: what
    it makes hangs on who asked, so that it cannot be looked at again when nobody asks."""

    info: PolicyInfo
    plan: RulePlan
    keys: tuple[MatchKey, ...]
    digest: str
    personal: bool

    @property
    def generate(self) -> Mapping[str, Any]:
        """The rule's meta: ``synchronize``, ``targets``, …"""
        found: Mapping[str, Any] = self.plan.meta["generate"]
        return found

    @property
    def sync(self) -> bool:
        return self.generate["synchronize"] is True

    @property
    def kinds(self) -> list[tuple[str, str, str]]:
        return target_kinds(self.generate["targets"])

    @property
    def labels(self) -> dict[str, str]:
        """The labels of all that it made."""
        return {
            LABELS + "policy-name": self.info.name,
            LABELS + "policy-namespace": self.info.namespace or "",
            LABELS + "rule-name": self.plan.name,
        }

    @property
    def follows_deletion(self) -> bool:
        """Whether what it made goes with its trigger: not where its match says which operations it is about, and
        leaves deletions out, and not where it makes things on deletion."""
        return any(not key.operations for key in self.keys)


def rules_of(engine: Engine, entries: Iterable[Entry]) -> dict[tuple[str, str], Rule]:
    """The generate rules of an engine, by the keys of their policies and their names; ``entries`` have their texts."""
    keys = {
        (policy.name, policy.namespace, rule.name): rule.keys
        for module in engine.policies.modules
        for policy in module.policies
        for rule in policy.rules
    }
    texts = {
        (entry.good.model.key, rule.name): orjson.dumps(rule.raw, option=orjson.OPT_SORT_KEYS)
        for entry in entries
        if entry.good is not None and entry.good.model is not None
        for rule in entry.good.model.rules
        if rule.generate is not None
    }
    found = {}
    for plan in engine.policies.rules:
        if plan.kind == "generate":
            text = texts.get((plan.policy.key, plan.name), b"")
            found[plan.policy.key, plan.name] = Rule(
                plan.policy,
                plan,
                keys[plan.policy.name, plan.policy.namespace, plan.name],
                hashlib.sha256(text).hexdigest()[:16],
                any(word in text for word in OF_USERS),
            )
    return found
