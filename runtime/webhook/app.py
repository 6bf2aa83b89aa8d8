"""The HTTP side of the admission webhook: the routes over a :class:`~runtime.webhook.live.Live`.

``runtime.webhook.serve`` runs them, tests and the demo too. Meaning is elsewhere: ``admission`` turns bytes into bytes,
``live`` decides, ``routing`` finds handlers; here are the handlers, limits and content types.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Final, TypeAlias

import orjson
from aiohttp import web

from runtime.config import Settings
from runtime.decision import Decision
from runtime.engine import What
from runtime.host import Pending, Table, settle, within
from runtime.observe.decisions import Decisions
from runtime.observe.metrics import Metrics
from runtime.observe.otel import Tracing
from runtime.observe.policy_events import PolicyEvents
from runtime.observe.requests import Requests
from runtime.request import Request
from runtime.webhook import admission
from runtime.webhook.admission import Answer, Verdict
from runtime.webhook.connection import Later, Quick
from runtime.webhook.envelope import Envelopes
from runtime.webhook.live import ALL, Judged, Live
from runtime.webhook.routing import Handler, Place, Routes

PolicyCheck: TypeAlias = Callable[[bytes], Awaitable[Answer]]
"""Answers the admission of one of our own objects (``runtime.controllers.policyadmission``)."""

_SCOPE: Final = "/{scope:fail|ignore}"
_ADMITTED: Final = Decision(True)
_PLAIN: Final = "text/plain; charset=utf-8"


def build_app(
    live: Live,
    settings: Settings,
    metrics: Metrics,
    events: PolicyEvents | None = None,
    checks: Mapping[str, PolicyCheck] | None = None,
    tracing: Tracing | None = None,
) -> Routes:
    """All routes. ``checks`` answer other paths than those of resources, and ``events`` is who tells of decisions: both
    only a cluster needs. ``tracing`` makes spans, where it is on."""
    if tracing is not None:
        live.observers.append(tracing.decided)
    routes = Routes(
        body_limit=settings.body_limit,
        requests=Requests(metrics),
        closes=lambda: live.draining,
        around=None if tracing is None else tracing.around,
    )
    live.observers.append(Decisions(metrics, events, payload=settings.dump_payload, patches=settings.dump_patches))
    whats: tuple[What, ...] = ("validate", "mutate")
    for what in whats:
        handler, quick = _admission_handlers(live, what, settings)
        for rest in ("", _SCOPE, _SCOPE + "/finegrained/{policy}", _SCOPE + "/finegrained/{namespace}/{policy}"):
            routes.add("POST", f"/{what}{rest}", handler, webhook=what, quick=quick)
    for path, check in (checks or {}).items():
        routes.add("POST", path, _policy_handler(check, settings), webhook=path.strip("/"))
    metrics.before_reading.append(lambda: tell_mismatches(live, metrics))
    add_service_routes(routes, live, metrics)
    return routes


def tell_mismatches(live: Live, metrics: Metrics) -> None:
    """How often the tiers have differed on the policies that are loaded now."""
    if live.snapshot is not None:
        live.snapshot.policies.mismatches.tell(metrics)


def add_service_routes(routes: Routes, live: Live, metrics: Metrics) -> None:
    """Health and metrics; the metrics port serves them without TLS too."""

    async def liveness(http: web.BaseRequest, place: Place) -> Answer:
        return _OK

    async def readiness(http: web.BaseRequest, place: Place) -> Answer:
        if live.draining:
            return Answer(503, b"this replica is about to end\n", _PLAIN)
        return _OK if live.ready else Answer(503, b"no policies are loaded yet\n", _PLAIN)

    async def exposition(http: web.BaseRequest, place: Place) -> Answer:
        return Answer(200, await metrics.exposition_aside(), "text/plain; version=0.0.4; charset=utf-8")

    routes.add("GET", "/health/liveness", liveness)
    routes.add("GET", "/health/readiness", readiness)
    routes.add("GET", "/metrics", exposition)


_OK: Final = Answer(200, b"ok\n", _PLAIN)


def _admission_handlers(live: Live, what: What, settings: Settings) -> tuple[Handler, Quick]:
    """The handler of a request, and what it comes to once the body is there: an answer, unless the cluster must be
    asked, or something must be written down before the answer goes out."""
    shadow, validates = settings.shadow, what == "validate"
    envelopes = Envelopes()

    def quick(body: bytes, place: Place, began: float) -> Answer | Later:
        seconds = admission.timeout_seconds(place.timeout)
        if seconds is None:
            return admission.refusal(400, "the query parameter timeout is no duration such as 10s")
        if live.snapshot is None:
            # Not a 4xx: the request is right and a second try may be answered.
            return admission.refusal(503, "no policies are loaded yet")
        deadline = began + seconds * (1 - admission.MARGIN)
        scope = _scope(place.names)
        judged: Judged | None = None
        # Where whole requests go to the log, all of them is looked at.
        read = orjson.loads if settings.dump_payload else partial(envelopes.opened, partial(live.looks, what, scope))

        def evaluate(request: Request) -> Verdict:
            nonlocal judged
            decided = live.entry.decide(request)
            if decided is not None:
                return decided
            judged = live.judge(request, what, scope, deadline)
            # What would have been is in the log, the metrics and the audit annotations.
            return (
                replace(_ADMITTED, audit_annotations=judged.decision.audit_annotations) if shadow else judged.decision
            )

        def attempt(table: Table) -> Answer:
            return admission.answer(body, partial(live.decode, host=table), evaluate, read)

        ask = live.ask
        if ask is None:
            answer = admission.answer(body, live.decode, evaluate, read)
        else:
            table = Table()
            try:
                answer = attempt(table)
            except Pending as pending:
                calls = pending.calls

                async def later() -> Answer:
                    answer = await settle(attempt, within(ask, deadline), table, calls)
                    if validates and judged is not None and answer.status == 200:
                        await live.told(judged)
                    return answer

                return later
        if validates and judged is not None and answer.status == 200 and live.is_followed(judged):
            return partial(_told, live, judged, answer)
        return answer

    async def handle(http: web.BaseRequest, place: Place) -> Answer:
        began = time.monotonic()
        body = await _body(http, settings)
        if isinstance(body, Answer):
            return body
        found = quick(body, place, began)
        return found if isinstance(found, Answer) else await found()

    return handle, quick


async def _told(live: Live, judged: Judged, answer: Answer) -> Answer:
    await live.told(judged)
    return answer


def _policy_handler(check: PolicyCheck, settings: Settings) -> Handler:
    async def handle(http: web.BaseRequest, place: Place) -> Answer:
        body = await _body(http, settings)
        return body if isinstance(body, Answer) else await check(body)

    return handle


async def _body(http: web.BaseRequest, settings: Settings) -> bytes | Answer:
    headers = http.headers
    if not admission.is_json(headers.get("Content-Type")):
        return admission.refusal(415, "the content type is not application/json")
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        # aiohttp would inflate it here, past the limit for what was sent.
        return admission.refusal(415, "the body is compressed, send it as it is")
    limit = settings.body_limit
    too_large = f"the body is larger than {limit} bytes"
    length = http.content_length
    if length is not None and length > limit:
        return admission.refusal(413, too_large)
    content = http.content
    if length is not None and content.is_eof():
        # All of it came with the head, or soon after: nothing to wait for.
        return content.read_nowait()
    try:
        return await http.read()
    except web.HTTPRequestEntityTooLarge:
        return admission.refusal(413, too_large)


@lru_cache(256)
def _scope(names: tuple[str, ...]) -> str:
    match names:
        case ():
            return ALL
        case (scope,):
            return scope
        case (_, *policy):
            return "/".join(("finegrained", *policy))
    return ALL
