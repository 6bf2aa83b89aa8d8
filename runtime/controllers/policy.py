"""From policy objects of the cluster to the live policy set: compile on change, swap as a whole, tell in the status.

Watchers call :meth:`PolicyController.note`; :meth:`run` compiles what changed in a worker thread, keeps the last good
version of a policy that does not compile, swaps the snapshot of the webhook, and then lets the webhook configurations
and the status follow.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from runtime.bundles import load_module
from runtime.config import Settings
from runtime.controllers.bundlecache import BundleCache, key_of
from runtime.controllers.compilation import Compiled, compile_text, kind_of_crd, models_of, object_text, origin_of
from runtime.controllers.webhookconfig import WatchedPolicy, WatchedRule
from runtime.engine import Engine
from runtime.exceptions import ExceptionScope
from runtime.generate import target_kinds
from runtime.k8s.client import Object
from runtime.k8s.watch import Change
from runtime.mismatches import Mismatches
from runtime.observe.decisions import rule_type
from runtime.observe.metrics import Metrics
from runtime.policyset import CLEANUP_POLICIES, PolicySet, Run
from runtime.webhook.live import ALL, Live, Snapshot
from vm.bundle import BundleError
from vm.code import KindKey, MatchKey, Rule
from vm.structure import VerifyError

if TYPE_CHECKING:
    from compiler.schema.model import Policy
    from compiler.schema.model import Rule as ModelRule
    from runtime.controllers.status import Native
    from vm.code import Module
    from vm.host import Imports

log = logging.getLogger("thesmos.policies")

ObjectKey = tuple[str, str, str]
"""Kind, namespace, name."""

SETTLE: Final = 0.02
"""Seconds to wait for more changes: ``kubectl apply -f folder`` is one swap, not one a file."""

BUDGET: Final = 0.5
"""Seconds of compiling after which what is done is made live, before the rest: one of many changes waits no longer."""


@dataclass(frozen=True, slots=True)
class Good:
    """A version of a policy that compiles and is loaded."""

    text: str
    module: Module
    digest: bytes
    run: Run
    model: Policy | None


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one policy object: its latest form, the last good version, what is wrong with the latest.
    ``bundled``: it comes from a bundle, and the cluster has no such object."""

    obj: Object
    text: str
    good: Good | None
    error: str = ""
    seen: float = 0.0
    bundled: bool = False


class PolicyController:
    """Owns the entries; the snapshot in ``live`` is always made of all good versions."""

    def __init__(
        self,
        live: Live,
        settings: Settings,
        metrics: Metrics,
        imports: Imports,
        changed: Callable[[], None],
    ) -> None:
        """``changed`` is called after each round: webhook configurations and status follow there."""
        self.entries: dict[ObjectKey, Entry] = {}
        self._live = live
        self._settings = settings
        self._metrics = metrics
        self._imports = imports
        self._changed = changed
        self._pending: dict[ObjectKey, Object | None] = {}
        self._crds: dict[str, Object] = {}
        self._stale: set[ObjectKey] = set()
        self._wake = asyncio.Event()
        self._generation = 0
        self._instead: Mapping[ObjectKey, Entry] | None = None
        self.native: dict[ObjectKey, Native] = {}
        """Policies of which one of the API server's own is made, or might have been (``admissionpolicies``)."""
        self.handed: frozenset[str] = frozenset()
        self._cache = None if settings.bundle_cache is None else BundleCache(settings.bundle_cache)
        self._registry = settings.registry
        self._context_bytes = settings.context_bytes
        self._configured = False
        self.mismatches = Mismatches()
        self.trace: Callable[[Module, Run], Run] | None = None
        """Puts the rules of what is compiled from now on into spans (``runtime.observe.otel``)."""

    def note(self, change: Change, obj: Object) -> None:
        """A change that a watcher saw; the newest form of an object wins."""
        metadata = obj.get("metadata") or {}
        key = (str(obj.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name")))
        self._pending[key] = None if change == "deleted" else obj
        self._wake.set()

    def take(self, entries: Mapping[ObjectKey, Entry]) -> None:
        """Policies of bundles, all loaded: with the next round they are all there is."""
        self._instead = entries
        self._wake.set()

    def note_crd(self, change: Change, obj: Object) -> None:
        """A definition of a custom resource has come, changed or gone: what policies that name its kind may be told of
        its fields changes with it."""
        name = str((obj.get("metadata") or {}).get("name"))
        known = self._crds.get(name)
        if change == "deleted":
            self._crds.pop(name, None)
        elif known is not None and known.get("spec") == obj.get("spec"):
            return
        else:
            self._crds[name] = obj
        kind = kind_of_crd(obj)
        for key, entry in self.entries.items():
            if kind in entry.text and not entry.bundled:
                self._stale.add(key)
                self._pending.setdefault(key, entry.obj)
                self._wake.set()

    def configure(self, registry: str | None, context_bytes: int | None) -> None:
        """Settings of the ConfigMap that engines carry; None leaves one to the flags."""
        wanted = (
            self._settings.registry if registry is None else registry,
            self._settings.context_bytes if context_bytes is None else context_bytes,
        )
        if wanted != (self._registry, self._context_bytes):
            self._registry, self._context_bytes = wanted
            self._configured = True
            self._wake.set()

    def hand_over(self, names: frozenset[str]) -> None:
        """ClusterPolicies whose own rules the API server judges by itself: the webhook leaves them out from now on, but
        for what autogen makes of them."""
        if names != self.handed:
            self.handed = names
            self._configured = True
            self._wake.set()

    def asked(self) -> list[Entry]:
        """The entries as admission sees them: without what is handed over."""
        return [
            entry if entry.good is None else replace(entry, good=self._admitting(entry.good))
            for entry in self.entries.values()
        ]

    def _admitting(self, good: Good) -> Good:
        if good.model is None or good.model.kind != "ClusterPolicy" or good.model.name not in self.handed:
            return good
        own = {rule.name for rule in good.model.rules}
        policies = tuple(
            replace(policy, rules=tuple(rule for rule in policy.rules if rule.name not in own))
            for policy in good.module.policies
        )
        return replace(good, module=replace(good.module, policies=policies))

    def definitions(self) -> list[Object]:
        """The custom kinds of the cluster."""
        return list(self._crds.values())

    async def run(self) -> None:
        """Until cancelled. The first round runs even without policies, so that the webhook becomes ready."""
        self._wake.set()
        while True:
            await self._wake.wait()
            if None not in self._pending.values():
                # A policy that has gone must not answer once more; for others a moment is no loss.
                await asyncio.sleep(SETTLE)
            self._wake.clear()
            try:
                await self.round()
            except Exception:
                # One bad round (a bug, or no memory) must not end the watching of policies.
                log.exception("a change of policies could not be applied")
                self._metrics.count("kyverno_controller_requeue_total", "policy", "1")

    async def round(self) -> None:
        """Takes in pending changes, as many as the budget allows, and makes them live."""
        started = time.perf_counter()
        compiled = self._take_over()
        # Before the first swap all of them: a webhook that is ready must not answer from half the policies.
        ends = started + BUDGET if self._live.ready else math.inf
        while self._pending and time.perf_counter() < ends:
            key = next(iter(self._pending))
            obj = self._pending.pop(key)
            if obj is None:
                gone = self.entries.pop(key, None)
                if gone is not None:
                    compiled.append(key[2])
                    self._count_change(gone, "deleted")
                continue
            known = self.entries.get(key)
            text = await asyncio.to_thread(object_text, obj)
            if known is not None and known.text == text and key not in self._stale:
                # Only the status or something else that the compiler does not read.
                self.entries[key] = replace(known, obj=obj)
                continue
            self._stale.discard(key)
            entry = await asyncio.to_thread(self._compile, obj, text, known)
            self.entries[key] = entry
            compiled.append(key[2])
            self._count_change(entry, "created" if known is None else "updated")
        if self._pending:
            self._wake.set()
        if compiled or self._configured or not self._live.ready:
            self._configured = False
            self._live.swap(await asyncio.to_thread(self._snapshot))
            seconds = time.perf_counter() - started
            for name in compiled:
                self._metrics.observe("kyverno_policy_apply_duration_seconds", seconds, name)
            log.info("%d changed, %d live after %.0f ms", len(compiled), self._live_count(), seconds * 1e3)
            self._rule_info()
        self._metrics.count("kyverno_controller_reconcile_total", "policy")
        self._changed()

    def _take_over(self) -> list[str]:
        """Puts the policies of bundles in the place of all others; gives the names of those that are other ones."""
        instead, self._instead = self._instead, None
        if instead is None:
            return []
        changed = []
        for key in [*self.entries.keys() - instead.keys(), *instead]:
            before, after = self.entries.get(key), instead.get(key)
            if (before and before.good and before.good.digest) == (after and after.good and after.good.digest):
                continue
            changed.append(key[2])
            entry = after or before
            assert entry is not None
            self._count_change(entry, "created" if before is None else "deleted" if after is None else "updated")
        # In place and at once: others hold on to this dict.
        self.entries.clear()
        self.entries.update(instead)
        return changed

    def _live_count(self) -> int:
        return sum(e.good is not None for e in self.entries.values())

    def _compile(self, obj: Object, text: str, known: Entry | None) -> Entry:
        """Runs in a worker thread."""
        origin = origin_of(obj)
        now = time.time()
        good = known.good if known is not None else None
        settings, crds = self._settings, list(self._crds.values())
        key = ""
        if self._cache is not None:
            key = key_of(text, origin, cel_strict=settings.cel_strict, quirks=settings.quirks, crds=crds)
            stored = self._cache.get(key)
            if stored is not None:
                try:
                    kept = Compiled(stored, models_of(text, origin), "", "")
                    return Entry(obj, text, self._load(text, kept), "", now)
                except (BundleError, VerifyError) as error:
                    log.warning("%s: the stored bundle is not used: %s", origin, error)
        try:
            compiled = compile_text(text, origin, cel_strict=settings.cel_strict, quirks=settings.quirks, crds=crds)
        except Exception as error:
            # A bug of the compiler, told where people look for it; the other policies go on.
            log.exception("%s: the compiler failed", origin)
            return Entry(obj, text, good, f"the compiler failed: {error}", now)
        if compiled.bundle is None:
            log.warning(
                "%s does not compile%s:\n%s", origin, ", its last version stays" if good else "", compiled.report
            )
            return Entry(obj, text, good, compiled.summary, now)
        try:
            loaded = Entry(obj, text, self._load(text, compiled), "", now)
            if self._cache is not None:
                self._cache.put(key, compiled.bundle)
            return loaded
        except Exception as error:
            # What our own compiler wrote does not verify: a bug, and no reason to drop the version that works.
            log.exception("%s: the compiled policy cannot be loaded", origin)
            return Entry(obj, text, good, f"the compiled policy cannot be loaded: {error}", now)

    def _load(self, text: str, compiled: Compiled) -> Good:
        assert compiled.bundle is not None
        tier: Any = self._settings.tier
        module, digest, run = load_module(compiled.bundle, tier, None, self._imports, self.mismatches, at_once=True)
        if self.trace is not None:
            run = self.trace(module, run)
        return Good(text, module, digest, run, compiled.policies[0] if compiled.policies else None)

    def _snapshot(self) -> Snapshot:
        good = [e.good for _, e in sorted(self.entries.items()) if e.good is not None]
        admitting = [self._admitting(g) for g in good if g.model is None or g.model.admission]
        # A policy with match conditions has a webhook of its own, and the shared ones leave it out. Where webhooks are
        # not made for policies there are only the shared ones, and it is asked of everything.
        conditional = [g for g in admitting if g.model is not None and g.model.match_conditions]
        own = conditional if self._settings.auto_update_webhooks else []
        shared = [g for g in admitting if g not in own]
        engines = {
            ALL: self._engine(admitting),
            "fail": self._engine(g for g in shared if g.model is None or self._failure(g.model) == "Fail"),
            "ignore": self._engine(g for g in shared if g.model is None or self._failure(g.model) == "Ignore"),
        }
        exceptions = [g for g in admitting if g.model is None]
        engines |= {f"finegrained/{g.model.key}": self._engine([g, *exceptions]) for g in own if g.model}
        self._generation += 1
        return Snapshot(self._generation, engines, self._settings.force_failure_policy_ignore)

    def engine_of(self, wanted: Callable[[Policy], bool], *, scan: bool = False) -> Engine:
        """An engine of the policies that are wanted, for controllers; all exceptions go with them. ``scan``: exceptions
        with ``background: false`` do not count."""
        # A copy, since this may run in a thread of its own.
        good = [e.good for _, e in sorted(dict(self.entries).items()) if e.good is not None]
        return self._engine((g for g in good if g.model is None or wanted(g.model)), scan=scan)

    def _failure(self, policy: Policy) -> str:
        return "Ignore" if self._settings.force_failure_policy_ignore else policy.failure_policy

    def _engine(self, good: Iterable[Good], *, scan: bool = False) -> Engine:
        good = tuple(good)
        policies = PolicySet(
            [(g.module, g.run) for g in good],
            tier=self._settings.tier,  # type: ignore[arg-type]
            mismatches=self.mismatches,
            digests=[g.digest for g in good],
        )
        named = self._settings.exception_namespaces
        scope = ExceptionScope(everywhere=False, namespaces=named, background=scan)
        return Engine(
            policies,
            exceptions=scope,
            registry=self._registry,
            own_user=self._settings.names.user,
            context_limit=self._context_bytes,
        )

    def _count_change(self, entry: Entry, change: str) -> None:
        if entry.good is not None and entry.good.model is not None:
            labels = _labels(entry.good.model)
            self._metrics.count("kyverno_policy_changes_total", *labels, change)
            if change == "deleted":
                # Nobody would take them away: a cluster where policies come and go would have them all for ever.
                for name in ("kyverno_policy_results_total", "kyverno_policy_execution_duration_seconds"):
                    self._metrics.forget(name, policy_namespace=labels[3], policy_name=labels[4])

    def _rule_info(self) -> None:
        self._metrics.clear("kyverno_policy_rule_info_total")
        for entry in self.entries.values():
            if entry.good is None or entry.good.model is None or entry.good.model.kind in CLEANUP_POLICIES:
                continue
            ready = str(not entry.error).lower()
            for policy in entry.good.module.policies:
                for rule in policy.rules:
                    labels = (*_labels(entry.good.model), rule.name, rule_type(rule.kind), ready)
                    self._metrics.set("kyverno_policy_rule_info_total", 1, *labels)


def watched(entries: Iterable[Entry]) -> list[WatchedPolicy]:
    """What the webhook configurations need of the live policies: those that take part in admission."""
    found = []
    for entry in entries:
        good = entry.good
        if good is None or good.model is None or not good.model.admission:
            continue
        model = good.model
        without = {rule.name: _excluded_operations(rule) for rule in _computed_rules(model)}
        rules = tuple(
            WatchedRule("mutate" if rule.kind == "mutate" else "validate", keys, without.get(rule.name, frozenset()))
            for policy in good.module.policies
            for rule in policy.rules
            for keys in (rule.keys, _target_keys(rule))
            # What a rule removes is found by watching: a webhook for it would block requests for nothing.
            if keys and rule.kind != "cleanup"
        )
        found.append(
            WatchedPolicy(
                model.key,
                model.kind == "Policy",
                model.failure_policy,
                model.webhook_timeout,
                rules,
                tuple({"name": c.name, "expression": c.expression} for c in model.match_conditions),
            )
        )
    return found


def _target_keys(rule: Rule) -> tuple[MatchKey, ...]:
    """Requests about objects of the kinds that a rule makes and keeps in step; kinds that variables name are left to
    the watches (``runtime.controllers.drift``)."""
    generate = rule.meta.get("generate") or {}
    if not generate.get("synchronize"):
        return ()
    kinds = target_kinds(generate["targets"])
    return tuple(MatchKey(KindKey(*kind, ""), ("CREATE", "UPDATE", "DELETE")) for kind in kinds)


def _computed_rules(policy: Policy) -> tuple[ModelRule, ...]:
    from compiler.autogen import expand

    return expand(policy)


def _excluded_operations(rule: ModelRule) -> frozenset[str]:
    """Operations that ``exclude.any`` takes away whatever the object: filters that hold nothing else."""
    if rule.exclude is None or rule.exclude.mode != "any":
        return frozenset()
    return frozenset(
        operation
        for f in rule.exclude.filters
        if f.operations and replace(f, operations=()).empty
        for operation in f.operations
    )


def _labels(policy: Policy) -> tuple[str, str, str, str, str]:
    enforcing = policy.failure_action == "Enforce" or any(
        r.validate is not None and r.validate.failure_action == "Enforce" for r in policy.rules
    )
    return (
        "enforce" if enforcing else "audit",
        "namespaced" if policy.kind == "Policy" else "cluster",
        str(policy.background).lower(),
        policy.namespace if policy.kind == "Policy" else "-",
        policy.name,
    )
