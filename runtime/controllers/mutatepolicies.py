"""Carries rules that change existing objects out for the triggers that are there already, when their policy comes or
changes and asks for it (``mutateExistingOnPolicyUpdate``, semantics §17).

The leader of the background keeps in a ConfigMap which version of a rule it has seen to: a restart does not begin anew,
and a crash in the middle does.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from typing import Final

import orjson

from runtime.controllers.backgroundrequests import evaluated, of_object
from runtime.controllers.existing import existing
from runtime.controllers.generatetriggers import reference
from runtime.controllers.installation import Installation
from runtime.controllers.mutation import KIND, SECONDS, Mutation, labels_of, spec_of
from runtime.controllers.policy import Entry
from runtime.controllers.rulerecord import RuleRecord, follow_as_leader
from runtime.engine import ERROR, PASS
from runtime.observe.policy_events import MUTATE
from vm.code import MatchKey

log = logging.getLogger("thesmos.background.mutate")

WAITING: Final = 20
"""Update requests that wait while more are made for what is there already."""


class MutatePart:
    """The part of an installation that changes existing objects: registers with the queue of update requests."""

    name = "mutate existing"

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._mutation = Mutation(installation)
        self._wake = asyncio.Event()
        self._record = RuleRecord(installation, "mutate-rules")

    def policies_changed(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        what = "existing objects for rules that change them"
        await follow_as_leader(self._installation, self._wake, self.follow, what)

    async def follow(self) -> None:
        """One look at all policies. Raises the errors of the client."""
        wanted = self._wanted()
        seen = await self._record.load() if wanted or self._known() else {}
        for key, (entry, rule, digest, keys) in wanted.items():
            if seen.get(key) != digest:
                await self._carry_out(entry, rule, keys)
                seen = {**seen, key: digest}
                await self._record.save(seen)
        kept = {key: digest for key, digest in seen.items() if key in wanted}
        if kept != seen:
            await self._record.save(kept)

    def _known(self) -> bool:
        """Whether there is any policy whose record may have to go."""
        return any(e.good is not None for e in self._installation.policies.entries.values())

    def _wanted(self) -> dict[str, tuple[Entry, str, str, tuple[MatchKey, ...]]]:
        """The rules that ask for it, by the uid of their policy and a digest of their name, which may hold what the key
        of a ConfigMap may not."""
        found = {}
        for entry in self._installation.policies.entries.values():
            if entry.good is None or entry.good.model is None:
                continue
            uid = str((entry.obj.get("metadata") or {}).get("uid") or "")
            texts = {
                rule.name: hashlib.sha256(orjson.dumps(rule.raw, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
                for rule in entry.good.model.rules
                if rule.mutate is not None and rule.mutate.targets
            }
            for policy in entry.good.module.policies:
                for rule in policy.rules:
                    # As compiled: a rule that does not say takes what its policy says, in the older form.
                    if rule.kind == KIND and rule.meta.get("onPolicyUpdate") is True and rule.name in texts:
                        name = hashlib.sha256(rule.name.encode()).hexdigest()[:16]
                        found[f"{uid}.{name}"] = entry, rule.name, texts[rule.name], rule.keys
        return found

    async def _carry_out(self, entry: Entry, rule: str, keys: tuple[MatchKey, ...]) -> None:
        model = entry.good.model if entry.good is not None else None
        if model is None:
            return
        namespace = model.namespace if model.kind == "Policy" else None
        count = 0
        async for obj in existing(self._installation, keys, namespace):
            request = of_object(self._installation, obj)
            engine = self._mutation.engine()
            infos = [p.policy for p in engine.policies.rules if p.policy.key == model.key][:1]
            response = await evaluated(engine, request, self._installation, time.monotonic() + SECONDS, infos)
            for result in response.results:
                if result.rule != rule or result.kind != KIND:
                    continue
                if result.status == PASS:
                    count += 1
                    while self._installation.requests.waiting > WAITING:
                        await asyncio.sleep(0.2)
                    about = reference(obj)
                    await self._installation.requests.write(spec_of(result, about, {}), labels_of(result, about))
                elif result.status == ERROR and result.info is not None:
                    self._installation.tell.failed(result.info, result.rule, result.message, obj, MUTATE)
        log.info("policy %s/%s: %d existing objects set it off", model.key, rule, count)
