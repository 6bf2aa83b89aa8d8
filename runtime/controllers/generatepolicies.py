"""What follows from policies with generate rules that come, change and go (semantics §18).

The leader of the background holds the rules that are live against a record of those that it has seen to, a ConfigMap:
what a rule that has gone made goes too, what a rule that has changed made is brought in step, and a rule that asks for
it is carried out for what is there already. The record is written when that is done or durably left to update requests,
so that a crash, or a policy deleted while nobody runs, is made good at the next look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from runtime.controllers.backgroundrequests import of_object
from runtime.controllers.existing import existing
from runtime.controllers.generaterules import Rule
from runtime.controllers.generatetriggers import context, leave, reference, spec_of, trigger_from
from runtime.controllers.generation import Generation
from runtime.controllers.installation import Installation
from runtime.controllers.policy import Entry
from runtime.controllers.rulerecord import RuleRecord, follow_as_leader
from runtime.engine import ERROR, PASS
from runtime.generate import LABELS
from runtime.k8s.client import Object
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import CLUSTER_POLICY, POLICY
from runtime.observe.policy_events import GENERATE

log = logging.getLogger("thesmos.background.generate")

BATCH: Final = 100
"""Triggers of one update request, as in Kyverno."""
AT_ONCE: Final = 10
WAITING: Final = 20
"""Update requests that wait while more are made for what is there already: a cluster with 10,000 triggers is gone
through at the pace at which they are done."""
LOOK_SECONDS: Final = 300.0

Record = dict[str, Any]
"""Of one policy: ``policy`` (its key) and ``rules``, of each by name ``{sync, orphan, existing, kinds, rule}``."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A rule that is not there any more, of a policy ``name``."""

    name: str
    namespace: str
    rule: str
    known: Mapping[str, Any]

    @property
    def labels(self) -> dict[str, str]:
        return {
            LABELS + "policy-name": self.name,
            LABELS + "policy-namespace": self.namespace,
            LABELS + "rule-name": self.rule,
        }


class GeneratePolicies:
    """The life of generate rules."""

    def __init__(self, installation: Installation, generation: Generation) -> None:
        self._installation = installation
        self._generation = generation
        self._wake = asyncio.Event()
        self._known: dict[str, Record] = {}
        self._record = RuleRecord(installation, "generate-rules")

    def look(self) -> None:
        """Policies have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        self._wake.set()
        what = "what follows from generate policies"
        await follow_as_leader(self._installation, self._wake, self.follow, what, LOOK_SECONDS)

    async def follow(self) -> None:
        """One look at all policies. Raises the errors of the client."""
        self._known = await self._load()
        await self._see_to_gone()
        for uid, rules in self._live().items():
            record = self._known.get(uid) or {"policy": next(iter(rules.values())).info.key, "rules": {}}
            now = {name: _record(rule) for name, rule in rules.items()}
            if record["rules"] == now:
                continue
            for gone in _gone(record, now):
                await self._remove(gone)
            for name, rule in rules.items():
                before = record["rules"].get(name)
                if before != now[name]:
                    await self._changed(rule, before, now[name])
            self._known[uid] = {**record, "rules": now}
            await self._save()

    async def _see_to_gone(self) -> None:
        """What policies made that are gone goes."""
        live = self._live()
        for uid, record in list(self._known.items()):
            if uid not in live and not await self._is_there(record["policy"], uid):
                for gone in _gone(record, {}):
                    await self._remove(gone)
                self._known.pop(uid, None)
                await self._save()

    def _live(self) -> dict[str, dict[str, Rule]]:
        """The live rules by the uid of their policy; a policy that does not compile keeps those of its last version."""
        found: dict[str, dict[str, Rule]] = {}
        for (policy, name), rule in self._generation.rules().items():
            # A policy of a bundle is no object of the cluster; its key must do as one of a ConfigMap.
            found.setdefault(self._uid(rule) or policy.replace("/", ".."), {})[name] = rule
        return found

    def _uid(self, rule: Rule) -> str:
        entry = self._entry(rule)
        return "" if entry is None else str((entry.obj.get("metadata") or {}).get("uid") or "")

    def _entry(self, rule: Rule) -> Entry | None:
        info = rule.info
        return self._installation.policies.entries.get((info.kind, info.namespace or "", info.name))

    async def _is_there(self, policy: str, uid: str) -> bool:
        """Whether a policy is in the cluster though it is not live: it may not compile, and never have done so here."""
        namespace, _, name = policy.rpartition("/")
        try:
            found = await self._installation.client.get(POLICY if namespace else CLUSTER_POLICY, name, namespace)
        except ApiProblem as problem:
            if problem.missing:
                return False
            raise
        metadata = found.get("metadata") or {}
        if metadata.get("uid") != uid:
            return False
        entry = self._installation.policies.entries.get((str(found.get("kind") or ""), namespace, name))
        # It compiles and has no generate rule any more.
        return entry is None or entry.good is None or bool(entry.error)

    async def _remove(self, gone: Gone) -> None:
        """What a rule made goes with it when it kept that in step, and is not to leave it behind."""
        if not gone.known["sync"] or gone.known["orphan"]:
            return
        since = self._since(gone)
        downstream = self._generation.downstream
        found = [
            obj
            async for obj in downstream.find(map(tuple, gone.known["kinds"]), gone.labels)
            if not since or str(obj["metadata"].get("creationTimestamp") or "") < since
        ]
        count = 0
        for at in range(0, len(found), AT_ONCE):
            count += sum(await asyncio.gather(*map(downstream.remove, found[at : at + AT_ONCE])))
        if count:
            log.info("policy %s: rule %s is gone, and %d objects that it made", gone.name, gone.rule, count)

    def _since(self, gone: Gone) -> str:
        """Since when there is a policy of the same name with such a rule: what was made from then on is of that one."""
        key = f"{gone.namespace}/{gone.name}" if gone.namespace else gone.name
        rule = self._generation.rules().get((key, gone.rule))
        if rule is None:
            return ""
        entry = self._entry(rule)
        return "" if entry is None else str((entry.obj.get("metadata") or {}).get("creationTimestamp") or "")

    async def _changed(self, rule: Rule, before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> None:
        """A rule is new, or has changed."""
        if rule.sync and (before is None or before["rule"] != now["rule"] or not before["sync"]):
            await self._bring_in_step(rule, before)
        if rule.generate["generateExisting"] is True:
            await self._existing(rule)

    async def _bring_in_step(self, rule: Rule, before: Mapping[str, Any] | None) -> None:
        """Looks again at each trigger because of which something was made, and lets go of kinds that are not made any
        more."""
        old = [tuple(kind) for kind in (before or {}).get("kinds") or ()]
        triggers: dict[str, dict[str, str]] = {}
        left: list[Object] = []
        async for obj in self._generation.downstream.find(dict.fromkeys([*rule.kinds, *old]), rule.labels):
            trigger = trigger_from(obj["metadata"].get("labels") or {})
            if trigger.get("uid"):
                triggers[trigger["uid"]] = trigger
            group, _, version = obj["apiVersion"].rpartition("/")
            if (group, version, obj["kind"]) not in rule.kinds:
                left.append(obj)
        wanted = list(triggers.values())
        for at in range(0, len(wanted), BATCH):
            await self._write(rule, wanted[at : at + BATCH])
        for obj in left:
            await self._generation.downstream.let_go(obj)

    async def _existing(self, rule: Rule) -> None:
        """Carries a rule out for what is there already."""
        count = 0
        batch: list[dict[str, str]] = []
        async for obj in existing(self._installation, rule.keys, rule.info.namespace):
            trigger = await self._sets_off(rule, obj)
            if trigger is None:
                continue
            batch.append(trigger)
            count += 1
            if len(batch) == BATCH:
                await self._write(rule, batch)
                batch = []
        if batch:
            await self._write(rule, batch)
        log.info("policy %s/%s: %d existing objects set it off", rule.info.key, rule.plan.name, count)

    async def _write(self, rule: Rule, triggers: Iterable[Mapping[str, str]]) -> None:
        while self._installation.requests.waiting > WAITING:
            await asyncio.sleep(0.2)
            if self._wake.is_set():
                # Going through a large cluster takes minutes, for which no other policy's end can wait.
                self._wake.clear()
                asyncio.get_running_loop().call_later(1.0, self._wake.set)
                await self._see_to_gone()
        contexts = [context(rule.plan.name, trigger, sync=rule.sync) for trigger in triggers]
        await leave(self._installation, spec_of(rule.info.key, contexts[0]["trigger"], contexts))

    async def _sets_off(self, rule: Rule, obj: Object) -> dict[str, str] | None:
        request = of_object(self._installation, obj)
        result = await self._generation.outcome(rule, request)
        if result is None:
            return None
        if result.status == ERROR:
            self._installation.tell.failed(rule.info, rule.plan.name, result.message, obj, GENERATE)
        return reference(obj) if result.status == PASS else None

    async def _load(self) -> dict[str, Record]:
        found: dict[str, Record] = {}
        for uid, text in (await self._record.load()).items():
            try:
                found[uid] = orjson.loads(text)
            except orjson.JSONDecodeError:
                log.warning("the record of policy %s in the ConfigMap %s cannot be read", uid, self._record.name)
        return found

    async def _save(self) -> None:
        await self._record.save({uid: orjson.dumps(record).decode() for uid, record in self._known.items()})


def _record(rule: Rule) -> dict[str, Any]:
    meta = rule.generate
    return {
        "sync": rule.sync,
        "orphan": meta["orphanDownstreamOnPolicyDelete"] is True,
        "existing": meta["generateExisting"] is True,
        "kinds": [list(kind) for kind in rule.kinds],
        "rule": rule.digest,
    }


def _gone(record: Record, now: Mapping[str, Any]) -> list[Gone]:
    namespace, _, name = record["policy"].rpartition("/")
    return [Gone(name, namespace, rule, known) for rule, known in record["rules"].items() if rule not in now]
