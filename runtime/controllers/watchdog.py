"""Sees whether the API server reaches the webhooks, and takes them away from its path when it does not.

The leader touches the Lease ``<install>-health`` every ten seconds. The API server asks ``/verifymutate`` about that,
and :func:`verifier` answers with a patch that writes the time into the Lease: a time that changes is a call that went
all the way. When it has not changed for ten beats of this process, ``reachable`` turns false: the configurations for
resources lose their webhooks, so that nothing waits for an answer that never comes, and policies are not ready
(semantics §24).
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable
from typing import Any, Final

from runtime.config import Names
from runtime.controllers.replicas import now_text
from runtime.decision import Decision
from runtime.k8s.client import KubeClient, Object
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import LEASE
from runtime.webhook.admission import Answer, parse, refusal, respond

log = logging.getLogger("thesmos.watchdog")

ANNOTATION: Final = "kyverno.io/last-request-time"
PATH: Final = "/verifymutate"
BEAT: Final = 10.0
MISSED: Final = 10
"""Beats without a call after which the webhooks count as out of reach: 100 s. Beats of this process are counted, not
seconds, since a process that stood still has not looked."""


class Watchdog:
    """``leads`` says whether this replica is the one that touches the Lease; ``changed`` is told of a turn."""

    def __init__(
        self, client: KubeClient, names: Names, leads: Callable[[], bool], changed: Callable[[], None]
    ) -> None:
        self.reachable = True
        self._client = client
        self._names = names
        self._leads = leads
        self._changed = changed
        self._last = ""
        self._missed = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(BEAT)
            try:
                await self.beat()
            except (ApiProblem, Unreachable, TimeoutError) as problem:
                log.info("the health lease could not be looked at: %s", problem)

    async def beat(self) -> None:
        """One look. Raises the errors of the client; what is not known does not count as missed."""
        lease = await self._touched()
        last = str((lease["metadata"].get("annotations") or {}).get(ANNOTATION) or "")
        self._missed = 0 if last != self._last else self._missed + 1
        self._last = last
        reachable = self._missed < MISSED
        if reachable == self.reachable:
            return
        self.reachable = reachable
        if reachable:
            log.info("the API server reaches the webhooks again")
        else:
            log.critical("the API server has not reached the webhooks for %d s: they are taken away", MISSED * BEAT)
        self._changed()

    async def _touched(self) -> Object:
        namespace, name = self._names.namespace, self._names.health_lease
        try:
            lease = await self._client.get(LEASE, name, namespace)
        except ApiProblem as problem:
            if not problem.missing:
                raise
            return await self._create()
        if not self._leads():
            return lease
        metadata = {**lease["metadata"]}
        metadata["labels"] = {**(metadata.get("labels") or {}), "app.kubernetes.io/name": "kyverno"}
        spec = {**(lease.get("spec") or {}), "renewTime": now_text()}
        try:
            return await self._client.replace(LEASE, {**lease, "metadata": metadata, "spec": spec}, namespace)
        except ApiProblem as problem:
            if not problem.conflict:
                raise
            return await self._client.get(LEASE, name, namespace)

    async def _create(self) -> Object:
        metadata = {
            "name": self._names.health_lease,
            "namespace": self._names.namespace,
            "labels": {"app.kubernetes.io/name": "kyverno"},
            "annotations": {ANNOTATION: _seconds_text()},
        }
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}
        return await self._client.create(LEASE, lease, self._names.namespace)


def verifier(names: Names) -> Callable[[bytes], Any]:
    """What answers calls of :data:`PATH`."""

    async def verify(body: bytes) -> Answer:
        review = parse(body)
        if isinstance(review, Answer):
            return review
        request = review.get("request")
        if type(request) is not dict or type(request.get("uid")) is not str:
            return refusal(400, "the review has no request with a uid")
        if (request.get("namespace"), request.get("name")) != (names.namespace, names.health_lease):
            return Answer(200, respond(request["uid"], Decision(True)), kind="Lease", allowed=True)
        obj = request.get("object")
        metadata = obj.get("metadata") if type(obj) is dict else None
        patch: list[dict[str, Any]] = []
        if type(metadata) is not dict or type(metadata.get("annotations")) is not dict:
            patch.append({"op": "add", "path": "/metadata/annotations", "value": {}})
        pointer = "/metadata/annotations/" + ANNOTATION.replace("/", "~1")
        patch.append({"op": "add", "path": pointer, "value": _seconds_text()})
        return Answer(200, respond(request["uid"], Decision(True, patch=patch)), kind="Lease", allowed=True)

    return verify


def _seconds_text() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
