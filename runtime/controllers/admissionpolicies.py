"""Makes ValidatingAdmissionPolicies of the ClusterPolicies that ask for one (``validate.cel.generate: true``), keeps
them as they should be, and takes their rules out of the webhook once the API server judges by itself (semantics §21).

A part of admission. The leader writes; every replica sees by watching which are there, and hands their rules over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from runtime.controllers.admissionforms import Freed, Ineligible, asks, binding_name, policy_name, translate
from runtime.controllers.installation import Installation
from runtime.controllers.nativepolicies import BINDINGS, POLICIES
from runtime.controllers.permissions import Need, Rights, summary
from runtime.controllers.status import Native
from runtime.k8s.client import Object, Resource
from runtime.k8s.discovery import Discovery
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.watch import Backoff, Change, Watcher, key_of
from vm.intrinsics.wildcard import match as wildcard

if TYPE_CHECKING:
    from compiler.schema.model import ExceptionPolicy
    from runtime.controllers.policy import Entry, ObjectKey

log = logging.getLogger("thesmos.admissionpolicies")

TRUSTED_SECONDS: Final = 5.0
"""After this the API server judges by a policy that it has stored: its own watch and compilation come in between, and
until then nobody but the webhook would."""

HANDED_BACK_SECONDS: Final = 3.0
"""How long one that is no longer wanted stays, until the webhook has its rules again."""

LABEL: Final = {"labelSelector": "app.kubernetes.io/managed-by=kyverno"}
VERBS: Final = ("create", "update", "list", "watch", "delete")

Wanted = dict[str, tuple[Object, Object]]
"""Policy and binding by the name of the ClusterPolicy."""


class AdmissionPolicies:
    """See the module. Without ``--generateValidatingAdmissionPolicy`` it removes what it made before."""

    name = "admission-policies"

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._client = installation.client
        self._policies = installation.policies
        self._rights = Rights(installation.client, installation.settings.names)
        self._wake = asyncio.Event()
        self._stored: dict[tuple[str, str], tuple[Object, float]] = {}
        self._unwanted: dict[str, float] = {}
        self._models: dict[ObjectKey, tuple[str, ExceptionPolicy | None]] = {}
        self._quantities: dict[str, bool] = {}
        self._refused: dict[str, str] = {}

    def policies_changed(self) -> None:
        """Looks at all policies again, soon."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        backoff = Backoff()
        while not await self._served():
            await asyncio.sleep(backoff.next())
        watchers = [Watcher(self._client, r, self._note, keep=_kept, query=LABEL) for r in (POLICIES, BINDINGS)]
        async with asyncio.TaskGroup() as group:
            for watcher in watchers:
                group.create_task(watcher.run(), name=watcher.resource.plural)
            for watcher in watchers:
                await watcher.synced.wait()
            await self._loop()

    async def _served(self) -> bool:
        try:
            discovery = await self._installation.discovery(False)
        except (ApiProblem, Unreachable, TimeoutError):
            return False
        return bool(discovery.find(POLICIES.group, POLICIES.version, POLICIES.kind))

    async def _loop(self) -> None:
        backoff = Backoff()
        self._wake.set()
        again: float | None = None
        while True:
            try:
                async with asyncio.timeout(again):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                again = await self._round()
                backoff.reset()
            except (ApiProblem, Unreachable, TimeoutError) as problem:
                again = backoff.next()
                log.warning("%s, trying again in %.1f s", problem, again)

    def _note(self, change: Change, obj: Object) -> None:
        key = str(obj.get("kind")), key_of(obj)[1]
        known = self._stored.pop(key, None)
        if change != "deleted":
            since = time.monotonic() if known is None or known[0]["spec"] != obj["spec"] else known[1]
            self._stored[key] = obj, since
        self._wake.set()

    async def _round(self) -> float | None:
        """Writes what is missing and hands over what is there; gives the seconds after which to look again."""
        wanted, native, held = await self._wanted()
        if wanted and (lacking := await self._lacking()):
            native |= {("ClusterPolicy", "", name): Native(False, lacking) for name in wanted}
            wanted = {}
        waits = await self._write(wanted, held) if self._installation.shards.leads("admission") else []
        now = time.monotonic()
        standing = {name: now - self._since(pair) for name, pair in wanted.items() if all(map(self._same, pair))}
        native |= {("ClusterPolicy", "", name): Native(True) for name in standing}
        if native != self._policies.native:
            self._policies.native = native
            self._installation.follow()
        trusted = {name for name, age in standing.items() if age >= TRUSTED_SECONDS}
        self._policies.hand_over(frozenset(trusted | (self._policies.handed & held)))
        waits += [TRUSTED_SECONDS - age for age in standing.values() if age < TRUSTED_SECONDS]
        return max(0.1, min(waits)) if waits else None

    async def _wanted(self) -> tuple[Wanted, dict[ObjectKey, Native], set[str]]:
        """What should be there, why other policies have none, and those of which the last good version stays in force
        with all that was made of it."""
        wanted: Wanted = {}
        native: dict[ObjectKey, Native] = {}
        held: set[str] = set()
        if not self._installation.settings.generate_native:
            return wanted, native, held
        entries = dict(self._policies.entries)
        discovery = await self._installation.discovery(False)
        for key, entry in entries.items():
            model = entry.good.model if entry.good is not None else None
            if model is None or entry.bundled or not asks(model):
                continue
            if entry.error:
                held.add(key[2])
                continue
            try:
                wanted[key[2]] = await asyncio.to_thread(self._made, entry, entries, discovery)
            except Ineligible as why:
                native[key] = Native(False, str(why))
        return wanted, native, held

    def _made(self, entry: Entry, entries: Mapping[ObjectKey, Entry], discovery: Discovery) -> tuple[Object, Object]:
        assert entry.good is not None
        assert entry.good.model is not None
        settings, model = self._installation.settings, entry.good.model
        freed = list(self._freed(model.name, model.rules[0].name, entries))
        pair = translate(entry.obj, model, freed, discovery, ignore=settings.force_failure_policy_ignore)
        if not settings.cel_strict and self._has_quantities(entry.text):
            raise Ineligible("quantities, which the API server compares as texts, are not applicable.")
        return pair

    def _freed(self, policy: str, rule: str, entries: Mapping[ObjectKey, Entry]) -> Iterator[Freed]:
        """The exceptions that free from a rule of a ClusterPolicy."""
        settings = self._installation.settings
        for key, entry in entries.items():
            if key[0] != "PolicyException" or entry.good is None:
                continue
            model = self._exception(key, entry.text)
            if model is None:
                continue
            named = [r for r in model.rules if r.policy in (None, policy)]
            if any(wildcard(r.rule, rule) for r in named):
                everywhere = any(wildcard(pattern, key[1]) for pattern in settings.exception_namespaces)
                yield Freed(model.match, everywhere, model.conditions is not None, len(named) > 1)

    def _exception(self, key: ObjectKey, text: str) -> ExceptionPolicy | None:
        from compiler.diagnostics import Reporter
        from compiler.schema import read_policies
        from compiler.source import load_documents

        known = self._models.get(key)
        if known is None or known[0] != text:
            reporter = Reporter()
            _, found = read_policies(load_documents(text, "", reporter), reporter)
            known = self._models[key] = text, found[0] if found else None
        return known[1]

    def _has_quantities(self, text: str) -> bool:
        """Whether the compiler takes something in the expressions for a quantity (decision 6, T1219)."""
        from compiler import Options, compile_policies
        from compiler.diagnostics import Reporter
        from compiler.source import load_documents

        if text not in self._quantities:
            if len(self._quantities) > 256:
                self._quantities.clear()
            result = compile_policies(load_documents(text, "", Reporter()), options=Options())
            self._quantities[text] = any(d.code == "T1219" for d in result.diagnostics)
        return self._quantities[text]

    async def _lacking(self) -> str:
        needs = [Need("", r.group, r.plural, r.kind, VERBS, part="admission") for r in (POLICIES, BINDINGS)]
        lacks = await self._rights.lacking(needs)
        return f"insufficient permissions to generate ValidatingAdmissionPolicies: {summary(lacks)}" if lacks else ""

    def _since(self, pair: tuple[Object, Object]) -> float:
        return max(self._stored[obj["kind"], obj["metadata"]["name"]][1] for obj in pair)

    def _same(self, wanted: Object) -> bool:
        known = self._stored.get((wanted["kind"], wanted["metadata"]["name"]))
        return known is not None and same(known[0], wanted)

    async def _write(self, wanted: Wanted, held: set[str]) -> list[float]:
        """Brings the cluster to what is wanted; gives the seconds until something that waits may go."""
        for name, pair in wanted.items():
            for resource, obj in zip((POLICIES, BINDINGS), pair, strict=True):
                if not self._same(obj) and not await self._accepted(name, resource, obj):
                    break
        named = {obj["metadata"]["name"] for pair in wanted.values() for obj in pair}
        named |= {made(name) for name in held for made in (policy_name, binding_name)}
        waits = []
        now = time.monotonic()
        stale = {key for key, (obj, _) in self._stored.items() if key[1] not in named and _ours(obj)}
        self._unwanted = {name: at for name, at in self._unwanted.items() if any(name == key[1] for key in stale)}
        # The binding goes first: without it the policy does nothing.
        for kind, name in sorted(stale, key=lambda key: key[0] != BINDINGS.kind):
            since = self._unwanted.setdefault(name, now)
            if now - since < HANDED_BACK_SECONDS:
                waits.append(HANDED_BACK_SECONDS - (now - since))
                continue
            await self._client.delete(BINDINGS if kind == BINDINGS.kind else POLICIES, name)
            log.info("removed %s %s: nothing asks for it any more", kind, name)
        return waits

    async def _accepted(self, name: str, resource: Resource, wanted: Object) -> bool:
        """Writes one object; false when the API server takes it for wrong, which is told as an event of the policy."""
        try:
            await self._bring(resource, wanted)
        except ApiProblem as problem:
            if problem.code not in (400, 403, 422):
                raise
            message = f"no {resource.kind} can be made: {problem}"
            if self._refused.get(name) != message:
                self._refused[name] = message
                log.warning("ClusterPolicy %s: %s", name, message)
                entry = self._policies.entries.get(("ClusterPolicy", "", name))
                if entry is not None:
                    self._installation.events.emit("PolicyError", "None", message, entry.obj, type="Warning")
            return False
        self._refused.pop(name, None)
        return True

    async def _bring(self, resource: Resource, wanted: Object) -> None:
        name = wanted["metadata"]["name"]
        try:
            current = await self._client.get(resource, name)
        except ApiProblem as problem:
            if not problem.missing:
                raise
            await self._client.create(resource, wanted)
            log.info("made %s %s", resource.kind, name)
            return
        if not _ours(current):
            log.warning("%s %s is there already, and not ours: it is left alone", resource.kind, name)
            return
        if same(current, wanted):
            return
        version = current["metadata"]["resourceVersion"]
        try:
            await self._client.replace(
                resource, {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
            )
            log.info("updated %s %s", resource.kind, name)
        except ApiProblem as problem:
            # Somebody else wrote at the same time: the watch brings us back.
            if not problem.conflict:
                raise


def same(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a stored object says what is wanted, our label and owner included; what is empty counts as absent."""
    metadata, asked = current.get("metadata") or {}, wanted["metadata"]
    labels = metadata.get("labels") or {}
    owners = [{k: o.get(k) for k in ("kind", "name", "uid")} for o in metadata.get("ownerReferences") or ()]
    return (
        _pruned(current.get("spec")) == _pruned(wanted["spec"])
        and all(labels.get(key) == value for key, value in asked["labels"].items())
        and owners == [{k: o.get(k) for k in ("kind", "name", "uid")} for o in asked["ownerReferences"]]
    )


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        found = {key: _pruned(item) for key, item in value.items()}
        return {key: item for key, item in found.items() if item not in ({}, [], None, "")}
    return [_pruned(item) for item in value] if isinstance(value, list) else value


def _ours(obj: Mapping[str, Any]) -> bool:
    """Made of a ClusterPolicy, and named as such: others make policies under the same label."""
    metadata = obj.get("metadata") or {}
    owner: Mapping[str, Any] = next(iter(metadata.get("ownerReferences") or ()), {})
    name = str(owner.get("name"))
    known = metadata.get("name") in (policy_name(name), binding_name(name))
    return owner.get("kind") == "ClusterPolicy" and str(owner.get("apiVersion")).startswith("kyverno.io/") and known


def _kept(obj: Object) -> Object:
    metadata = obj.get("metadata") or {}
    kept = {k: metadata[k] for k in ("name", "labels", "ownerReferences", "resourceVersion") if k in metadata}
    return {"kind": obj.get("kind"), "metadata": kept, "spec": obj.get("spec") or {}}
