"""Watches what generate rules keep in step: what was made, and what it was copied from (semantics §18).

Webhooks tell of changes first, but may be missed: a namespace that they leave out, a replica that was away, a request
that was stored after we had looked. Of each kind that rules make the metadata of the objects with their labels is
followed; one in a version that nobody has looked at is brought in step a moment later. All are looked at once after a
start, since nobody knows what has happened before.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from runtime.controllers.downstream import CannotGenerate, Place, place_of
from runtime.controllers.generaterules import Rule
from runtime.controllers.generatetriggers import copies_kind, policy_of, trigger_from
from runtime.controllers.generation import Generation
from runtime.controllers.installation import Installation
from runtime.controllers.updaterequests import PART
from runtime.generate import CLONE_SOURCE, LABELS, MANAGED_BY
from runtime.k8s.client import Object, Resource
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.stream import Listener, Stream

log = logging.getLogger("thesmos.background.generate")

SETTLE: Final = 1.0
"""Seconds to wait after a change: the update request of the webhook has mostly seen to it by then."""
FIRST_RETRY: Final = 5.0
LONGEST_RETRY: Final = 600.0
TOGETHER: Final = 100
PACE: Final = 0.5
"""Seconds between hundreds: after a start all is looked at, while requests come in."""

MADE: Final = f"{MANAGED_BY}=kyverno,{LABELS}policy-name"


@dataclass(slots=True)
class _Due:
    """A piece of work: a rule and a trigger, or a rule and a source."""

    rule: tuple[str, str]
    trigger: Mapping[str, str]
    source: Object | None
    place: Place
    version: str
    at: float
    tries: int = 0
    gone: bool = False


class Drift:
    """Streams of the kinds in use, and what they have told of."""

    def __init__(self, installation: Installation, generation: Generation) -> None:
        self._installation = installation
        self._generation = generation
        self._streams: dict[tuple[Resource, str], asyncio.Task[None]] = {}
        self._due: dict[tuple[tuple[str, str], str], _Due] = {}
        self._sources: dict[str, str] = {}
        self._wake = asyncio.Event()
        self._again = asyncio.Event()

    def look(self) -> None:
        """Policies have changed: other kinds may be in use."""
        self._again.set()
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        self._installation.shards.listen(self._taken_over)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow_kinds())
                group.create_task(self._work())
        finally:
            for task in self._streams.values():
                task.cancel()

    def _taken_over(self) -> None:
        """What another replica has looked at nobody here knows: all is listed again."""
        for task in self._streams.values():
            task.cancel()
        self._streams.clear()
        self.look()

    async def _follow_kinds(self) -> None:
        while True:
            self._again.clear()
            try:
                wanted = await self._wanted()
            except (ApiProblem, Unreachable, TimeoutError) as problem:
                log.info("the kinds of generated objects: %s", problem)
                await asyncio.sleep(2.0)
                continue
            for key in [key for key in self._streams if key not in wanted]:
                self._streams.pop(key).cancel()
            for key in wanted:
                if key not in self._streams:
                    self._streams[key] = asyncio.create_task(
                        self._stream(*key).run(), name=f"generated {key[0].plural}"
                    )
            await self._again.wait()

    async def _wanted(self) -> set[tuple[Resource, str]]:
        found: set[tuple[Resource, str]] = set()
        for rule in self._generation.rules().values():
            if not rule.sync:
                continue
            for group, version, kind in rule.kinds:
                try:
                    resource = await self._generation.downstream.resource(
                        f"{group}/{version}" if group else version, kind
                    )
                except CannotGenerate:
                    continue
                found.add((resource, MADE))
                if copies_kind(rule.plan, group, kind):
                    found.add((resource, CLONE_SOURCE))
        return found

    def _stream(self, resource: Resource, selector: str) -> Stream:
        made = selector == MADE

        async def each(obj: Object, listed: bool) -> None:
            if made:
                self._note_made(obj)
            else:
                self._note_source(obj, listed)

        def gone(obj: Object) -> None:
            # Metadata alone comes as a kind of its own.
            obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
            if made:
                self._note_made(obj, gone=True)
            else:
                self._note_source(obj, listed=False, gone=True)

        listener = Listener(lambda: None, each, lambda: None, gone)
        return Stream(self._installation.client, resource, listener, query={"labelSelector": selector}, metadata=True)

    def _note_made(self, obj: Object, *, gone: bool = False) -> None:
        metadata = obj["metadata"]
        place, version = place_of(obj), str(metadata.get("resourceVersion") or "")
        if metadata.get("deletionTimestamp") or (not gone and self._generation.downstream.is_in_step(place, version)):
            return
        labels = metadata.get("labels") or {}
        trigger = trigger_from(labels)
        rule = (policy_of(labels), str(labels.get(LABELS + "rule-name") or ""))
        if trigger.get("uid") and self._mine(rule, trigger["uid"]):
            self._put(_Due(rule, trigger, None, place, "" if gone else version, time.monotonic() + SETTLE))

    def _note_source(self, obj: Object, listed: bool, *, gone: bool = False) -> None:
        metadata = obj["metadata"]
        uid, version = str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or "")
        known = self._sources.get(uid)
        if gone:
            self._sources.pop(uid, None)
        else:
            self._sources[uid] = version
        # Copies are all looked at after a start; a source that comes later was read when it was marked.
        if listed or known is None or known == version:
            return
        group = obj["apiVersion"].rpartition("/")[0]
        for key, rule in self._generation.rules().items():
            if rule.sync and copies_kind(rule.plan, group, obj["kind"]) and self._mine(key, uid):
                due = _Due(key, {"uid": uid}, obj, place_of(obj), version, time.monotonic() + SETTLE, gone=gone)
                self._put(due)

    def _mine(self, rule: tuple[str, str], uid: str) -> bool:
        found = self._generation.rules().get(rule)
        return found is not None and found.sync and self._installation.shards.holds(PART, uid)

    def _put(self, due: _Due) -> None:
        known = self._due.get((due.rule, due.trigger["uid"]))
        if known is not None:
            due.at, due.tries = min(due.at, known.at), known.tries
        self._due[due.rule, due.trigger["uid"]] = due
        self._wake.set()

    async def _work(self) -> None:
        while True:
            now = time.monotonic()
            ready = [key for key, due in self._due.items() if due.at <= now]
            by_rule: dict[tuple[str, str], list[_Due]] = {}
            for key in ready[:TOGETHER]:
                due = self._due.pop(key)
                if (
                    due.source is None
                    and due.version
                    and self._generation.downstream.is_in_step(due.place, due.version)
                ):
                    continue
                by_rule.setdefault(due.rule, []).append(due)
            for rule, dues in by_rule.items():
                await self._mend(rule, dues)
            if len(ready) > TOGETHER:
                await asyncio.sleep(PACE)
            if len(ready) > TOGETHER or by_rule:
                continue
            soonest = min((due.at for due in self._due.values()), default=now + 60.0)
            self._wake.clear()
            try:
                async with asyncio.timeout(max(0.05, soonest - now)):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _mend(self, key: tuple[str, str], dues: Iterable[_Due]) -> None:
        dues = list(dues)
        rule = self._generation.rules().get(key)
        if rule is None:
            return
        try:
            problems = await self._carry_out(rule, dues)
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            problems = [str(problem)]
        except Exception:
            log.exception("what policy %s/%s made could not be looked at", *key)
            problems = ["see the log"]
        if not problems:
            return
        for due in dues:
            due.tries += 1
            wait = min(LONGEST_RETRY, FIRST_RETRY * 2.0**due.tries)
            due.at = time.monotonic() + wait
            self._due.setdefault((due.rule, due.trigger["uid"]), due)
        log.warning("policy %s/%s: what it made is not in step: %s", *key, "; ".join(dict.fromkeys(problems)))

    async def _carry_out(self, rule: Rule, dues: list[_Due]) -> list[str]:
        triggers = [due.trigger for due in dues if due.source is None]
        problems = await self._generation.mend(rule, triggers) if triggers else []
        for due in dues:
            if due.source is not None and (due.tries or not self._generation.is_seen_to(rule, due.source)):
                problems += await self._generation.mend_copies(rule, due.source, gone=due.gone)
        return problems
