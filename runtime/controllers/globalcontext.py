"""Keeps the data of every GlobalContextEntry of the cluster, tells in its status whether it is there, and answers
policies that read it.

Each replica keeps the data, since each answers requests; the leader of admission writes the status.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from runtime.context.global_live import ENTRIES
from runtime.controllers.globaldata import Data, Objects, Polled
from runtime.controllers.installation import Installation
from runtime.k8s.client import Object, Resource
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.watch import Change, Watcher, key_of
from vm.host import HostCall
from vm.values import MISSING, Err, Value

log = logging.getLogger("thesmos.globalcontext")

PART: Final = "admission"
UNKNOWN_SECONDS: Final = 15.0
"""How often a resource is looked for that the cluster does not serve."""
LOADING_SECONDS: Final = 5.0
"""How long a reader waits for data that is being loaded for the first time."""
REFRESH_SECONDS: Final = 15.0
"""The time of the last refresh is written no more often than this."""
RETRY: Final = 2.0
READY: Final = "Ready"


@dataclass(slots=True)
class Kept:
    """An entry and its data. ``problem`` is None until it was loaded once; ``refreshed`` is when, ``written`` when the
    status told of it (seconds of the epoch)."""

    obj: Object
    data: Data | None = None
    task: asyncio.Task[None] | None = None
    problem: str | None = None
    refreshed: float = 0.0
    written: float = 0.0
    held: bool = field(default=False)


class GlobalContextEntries:
    """A part of every installation."""

    name = "global context"

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._entries: dict[str, Kept] = {}
        self._watcher = Watcher(installation.client, ENTRIES, self._note)
        self._tell = asyncio.Event()
        if installation.lookups is not None:
            installation.lookups.entries = self.read

    def policies_changed(self) -> None:
        """Entries are kept whether a policy reads them or not."""

    async def run(self) -> None:
        """Until cancelled."""
        self._installation.shards.listen(self._tell.set)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watcher.run())
                group.create_task(self._write_all())
        finally:
            for kept in self._entries.values():
                _stop(kept)

    async def read(self, reference: str) -> Value:
        """The data behind ``name`` or ``name.projection``; MISSING for an entry that is not known here."""
        name, _, projection = reference.partition(".")
        kept = self._entries.get(name)
        if kept is None:
            return MISSING
        if kept.held:
            return Err("host", f"global context entry {name}: {kept.problem}")
        if kept.data is None:
            return MISSING
        if not kept.data.loaded.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOADING_SECONDS):
                    await kept.data.loaded.wait()
        if not kept.data.loaded.is_set():
            return Err("host", f"global context entry {name}: no data available")
        return await kept.data.read(projection)

    # -- entries

    def _note(self, change: Change, obj: Object) -> None:
        name = key_of(obj)[1]
        known = self._entries.get(name)
        if change == "deleted":
            if known is not None:
                _stop(known)
                del self._entries[name]
            self._admit_held()
            return
        if known is not None and known.obj.get("spec") == obj.get("spec"):
            known.obj = obj
            return
        if known is not None:
            _stop(known)
        self._entries[name] = kept = Kept(obj)
        limit = self._installation.settings.global_entries
        if limit and sum(not k.held for k in self._entries.values()) > limit:
            kept.held = True
            self._told(kept, f"more entries than {limit}, the limit of --maxGlobalContextEntries")
        else:
            self._start(name, kept)

    def _admit_held(self) -> None:
        """Loads an entry that the limit kept out, once there is room."""
        limit = self._installation.settings.global_entries
        for name, kept in self._entries.items():
            if kept.held and sum(not k.held for k in self._entries.values()) < limit:
                kept.held, kept.problem = False, None
                self._start(name, kept)

    def _start(self, name: str, kept: Kept) -> None:
        kept.task = asyncio.create_task(self._keep(name, kept), name=f"global context entry {name}")

    async def _keep(self, name: str, kept: Kept) -> None:
        spec = kept.obj.get("spec") or {}
        wanted: Mapping[str, Any] = spec.get("kubernetesResource") or {}
        while True:
            try:
                data = await self._data(name, kept, spec, wanted)
                if data is not None:
                    kept.data = data
                    await data.run()
                self._told(kept, f"the cluster has no {_shown(wanted)}")
                await asyncio.sleep(UNKNOWN_SECONDS)
            except (ApiProblem, Unreachable, TimeoutError) as problem:
                self._told(kept, str(problem) or "no answer in time")
                await asyncio.sleep(RETRY)
            except Exception as problem:
                log.exception("global context entry %s could not be loaded", name)
                self._told(kept, f"it could not be loaded: {problem}")
                await asyncio.sleep(UNKNOWN_SECONDS)

    async def _data(self, name: str, kept: Kept, spec: Mapping[str, Any], wanted: Mapping[str, Any]) -> Data | None:
        def told(problem: str) -> None:
            self._told(kept, problem)

        if not wanted:
            return Polled(self._call, spec, name, told)
        resource = await self._resource(wanted)
        if resource is None:
            return None
        return Objects(self._installation.client, resource, str(wanted.get("namespace") or ""), spec, told)

    async def _resource(self, wanted: Mapping[str, Any]) -> Resource | None:
        names = tuple(str(wanted.get(key) or "") for key in ("group", "version", "resource"))
        for fresh in (False, True):
            for entry in (await self._installation.discovery(fresh)).entries:
                r = entry.resource
                if not entry.subresource and (r.group, r.version, r.plural) == names:
                    return r
        return None

    async def _call(self, payload: Mapping[str, Any], name: str) -> Value:
        return await self._installation.ask(HostCall("apicall", {**payload, "for": {"entry": name}}))

    # -- status

    def _told(self, kept: Kept, problem: str) -> None:
        name = key_of(kept.obj)[1]
        if problem != kept.problem:
            if problem:
                log.warning("global context entry %s is not ready: %s", name, problem)
                reason = "FailedToCallAPI" if (kept.obj.get("spec") or {}).get("apiCall") else "FailedToList"
                self._installation.events.emit(
                    reason, "Retrying", problem, kept.obj, reporter="globalcontext-controller", type="Warning"
                )
            else:
                log.info("global context entry %s is ready", name)
        kept.problem = problem
        if not problem:
            kept.refreshed = time.time()
        self._tell.set()

    async def _write_all(self) -> None:
        while True:
            await self._tell.wait()
            self._tell.clear()
            wait = None
            if self._installation.shards.leads(PART):
                for name, kept in list(self._entries.items()):
                    try:
                        await self._write(name, kept)
                    except (ApiProblem, Unreachable, TimeoutError) as problem:
                        log.warning("global context entry %s: its status is not written: %s", name, problem)
                        wait = RETRY
            if wait is not None:
                asyncio.get_running_loop().call_later(wait, self._tell.set)
            # A burst of news is one write.
            await asyncio.sleep(0.1)

    async def _write(self, name: str, kept: Kept) -> None:
        if kept.problem is None:
            return
        current = kept.obj.get("status") or {}
        wanted = _condition(kept.problem, current)
        same = any(_bare(c) == _bare(wanted) for c in current.get("conditions") or ())
        if same and (kept.refreshed <= kept.written or time.time() - kept.written < REFRESH_SECONDS):
            return
        status: Object = {"conditions": [wanted]}
        if kept.refreshed:
            status["lastRefreshTime"] = _stamp(kept.refreshed)
        kept.written = max(kept.refreshed, time.time())
        try:
            kept.obj = await self._installation.client.patch(ENTRIES, name, {"status": status}, "", "status")
        except ApiProblem as problem:
            if not problem.missing:
                kept.written = 0.0
                raise


def _stop(kept: Kept) -> None:
    if kept.task is not None:
        kept.task.cancel()


def _condition(problem: str, current: Mapping[str, Any]) -> Object:
    ready = "False" if problem else "True"
    since = next(
        (
            c["lastTransitionTime"]
            for c in current.get("conditions") or ()
            if c.get("type") == READY and c.get("status") == ready and c.get("lastTransitionTime")
        ),
        _stamp(time.time()),
    )
    return {
        "type": READY,
        "status": ready,
        "reason": "Failed" if problem else "Succeeded",
        "message": problem[:1024] or READY,
        "lastTransitionTime": since,
    }


def _bare(condition: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(condition.get(key) for key in ("type", "status", "reason", "message"))


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _shown(wanted: Mapping[str, Any]) -> str:
    group, version = wanted.get("group"), wanted.get("version")
    return f"{wanted.get('resource')} of {f'{group}/{version}' if group else version}"
