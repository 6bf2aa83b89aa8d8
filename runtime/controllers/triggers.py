"""What an admitted request sets off: rules of the background that match it, objects that were generated, sources.

A hook of the validating webhook (``runtime.webhook.live``): what follows from a request is written as update requests
before it is answered, so that nothing is lost when this process ends a moment later. What the rules say is asked once;
:data:`HANDLERS` has, for each kind of rule, who goes on from there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from runtime.controllers.backgroundrequests import evaluated
from runtime.controllers.generatetriggers import MARKS, generated_rules, may_have_others, other_events
from runtime.controllers.installation import Installation
from runtime.controllers.mutation import KIND as MUTATE_EXISTING
from runtime.controllers.mutation import mutating_rules
from runtime.engine import PASS, Engine, RuleResult
from runtime.observe.decisions import count_result
from runtime.policyset import Candidates
from runtime.request import Request
from runtime.webhook.live import Hook, Judged

log = logging.getLogger("thesmos.background.triggers")

Handler: TypeAlias = Callable[[Installation, Engine, Request, Sequence[RuleResult], float], Awaitable[None]]
"""Called with the request, the results of the rules of one kind (those that do not match it left out), and until when
there is time (a reading of ``time.monotonic``)."""

EVALUATION: Final = 2.0
MARGIN: Final = 1.0
"""Seconds that rules of the background may take over a request, and that must be left to write down what follows."""

HANDLERS: Final[dict[str, Handler]] = {"generate": generated_rules, MUTATE_EXISTING: mutating_rules}


class Triggers:
    """The hook, as a part of admission. What fails is logged: the verdict stands."""

    name = "triggers"

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        installation.live.hooks.append(Hook(self.hook, self.wanted, looks))

    async def run(self) -> None:
        """Until cancelled: all is done in the hook."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._installation.requests.flush(2.0)

    def policies_changed(self) -> None:
        """The hook asks the snapshot that is live."""

    def wanted(self, judged: Judged) -> bool:
        """Whether there may be something that follows: most requests set off nothing, and need not wait."""
        request, snapshot = judged.request, self._installation.live.snapshot
        if not judged.decision.allowed or request.dry_run or snapshot is None:
            return False
        policies = snapshot.engine(judged.scope).policies
        found = policies.candidates(
            request.group, request.version, request.kind, request.subresource, request.operation, request.namespace
        )
        return bool(found.background) or may_have_others(request)

    async def hook(self, judged: Judged) -> None:
        """What follows from one judged request; nothing from one that is refused or a dry run."""
        request, snapshot = judged.request, self._installation.live.snapshot
        if not judged.decision.allowed or request.dry_run or snapshot is None:
            return
        engine = snapshot.engine(judged.scope)
        found = engine.policies.candidates(
            request.group, request.version, request.kind, request.subresource, request.operation, request.namespace
        )
        work = []
        if found.background:
            began = time.perf_counter()
            results = await self._results(engine, request, found, judged.deadline)
            share = (time.perf_counter() - began) / max(1, len(results))
            for result in results:
                count_result(self._installation.metrics, request, result, share)
            for kind, handler in HANDLERS.items():
                of_kind = [r for r in results if r.kind == kind]
                work.append(handler(self._installation, engine, request, of_kind, judged.deadline))
        if request.username != engine.own_user:
            work.append(other_events(self._installation, engine, request))
        await asyncio.gather(*work)

    async def _results(
        self, engine: Engine, request: Request, found: Candidates, deadline: float
    ) -> Sequence[RuleResult]:
        """What the rules say, or all of them as if they had passed when that takes too long (a service that does not
        answer): whoever carries them out asks them again, and has the time."""
        soon = min(deadline - MARGIN, time.monotonic() + EVALUATION)
        try:
            async with asyncio.timeout(max(0.0, soon - time.monotonic())):
                return (await evaluated(engine, request, self._installation, deadline)).results
        except TimeoutError:
            log.info("rules of the background took too long over %s %s", request.kind, request.name)
        own = request.username == engine.own_user
        return [
            RuleResult(info.name, info.namespace, plan.name, plan.kind, PASS, "", "Audit", info=info, plan=plan)
            for info, plans in found.background
            for plan in plans
            if not own or plan.meta.get("skipBackgroundRequests") is False
        ]


def looks(found: Candidates, raw: bytes) -> bool:
    """Whether something may follow from what the objects of a request hold, by the rules that it reaches and by the
    bytes of the objects."""
    return bool(found.background) or any(mark in raw for mark in MARKS)
