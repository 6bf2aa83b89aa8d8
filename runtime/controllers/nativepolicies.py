"""The API server's own ValidatingAdmissionPolicies, compiled for the background scan: those with the label
``reports.kyverno.io/enabled: "true"`` are reported on like other policies (semantics §26).

The API server decides with them; what was there before them, only a scan finds. ``runtime.controllers.audittrail`` runs
this where the flag ``--validatingAdmissionPolicyReports`` asks for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from runtime.bundles import load_module, make_imports
from runtime.config import Settings
from runtime.controllers.compilation import compile_text, object_text, origin_of
from runtime.k8s.client import KubeClient, Object, Resource
from runtime.k8s.watch import Change, Watcher, key_of
from runtime.mismatches import Mismatches
from runtime.policyset import PolicySet, Run

if TYPE_CHECKING:
    from vm.code import Module

log = logging.getLogger("thesmos.background.scan")

GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = Resource(GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
BINDINGS: Final = Resource(
    GROUP, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
)
ENABLED: Final = "reports.kyverno.io/enabled"
BINDING: Final = "binding"
"""Where the meta of a compiled policy names its binding."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A policy with one of its bindings."""

    text: str
    module: Module
    digest: bytes
    run: Run


class NativePolicies:
    """``changed`` is called after a change of :attr:`policies`; ``ready`` is set once those of the start are there."""

    def __init__(self, client: KubeClient, settings: Settings, changed: Callable[[], None]) -> None:
        self.policies = PolicySet.empty()
        self.ready = asyncio.Event()
        self._settings = settings
        self._changed = changed
        self._wake = asyncio.Event()
        self._compiled: dict[tuple[str, str], Compiled | None] = {}
        self._mismatches = Mismatches()
        self._watchers = [Watcher(client, resource, self._note) for resource in (POLICIES, BINDINGS)]

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watcher in self._watchers:
                group.create_task(watcher.run(), name=f"watch of {watcher.resource.plural}")
            for watcher in self._watchers:
                await watcher.synced.wait()
            while True:
                self._wake.clear()
                if await self._compile():
                    self._changed()
                self.ready.set()
                await self._wake.wait()

    def _note(self, change: Change, obj: Object) -> None:
        self._wake.set()

    async def _compile(self) -> bool:
        """Compiles what is new; whether anything is other than before."""
        wanted = dict(_bound(*(watcher.objects.values() for watcher in self._watchers)))
        before, self._compiled = self._compiled, {}
        for key, documents in wanted.items():
            text = "\n---\n".join([await asyncio.to_thread(object_text, document) for document in documents])
            known = before.get(key)
            if known is None or known.text != text:
                known = await asyncio.to_thread(self._load, documents[0], key[1], text)
            self._compiled[key] = known
        if self._compiled == before:
            return False
        live = [compiled for _, compiled in sorted(self._compiled.items()) if compiled is not None]
        tier: Any = self._settings.tier
        parts = [(c.module, c.run) for c in live]
        self.policies = PolicySet(parts, tier=tier, mismatches=self._mismatches, digests=[c.digest for c in live])
        return True

    def _load(self, policy: Object, binding: str, text: str) -> Compiled | None:
        """Runs in a worker thread. None for a policy that we cannot evaluate, which the log tells."""
        origin = origin_of(policy)
        compiled = compile_text(text, origin, cel_strict=self._settings.cel_strict, quirks=self._settings.quirks)
        if compiled.bundle is None:
            log.warning("%s is not reported on: %s", origin, compiled.summary)
            return None
        tier: Any = self._settings.tier
        module, digest, run = load_module(compiled.bundle, tier, None, make_imports(), self._mismatches, at_once=True)
        named = tuple(replace(policy, meta={**policy.meta, BINDING: binding}) for policy in module.policies)
        return Compiled(text, replace(module, policies=named), digest, run)


def _bound(
    policies: Iterable[Object], bindings: Iterable[Object]
) -> Iterator[tuple[tuple[str, str], tuple[Object, ...]]]:
    """Policies that are to be reported on with each of their bindings, by both names. One without any is taken for one
    that holds for everything, as offline."""
    by_policy: dict[str, list[Object]] = {}
    for binding in bindings:
        by_policy.setdefault(str((binding.get("spec") or {}).get("policyName")), []).append(binding)
    for policy in policies:
        name = key_of(policy)[1]
        if _labels(policy).get(ENABLED) != "true":
            continue
        for binding in by_policy.get(name, ()):
            yield (name, key_of(binding)[1]), (policy, binding)
        if name not in by_policy:
            yield (name, ""), (policy,)


def _labels(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return (obj.get("metadata") or {}).get("labels") or {}
