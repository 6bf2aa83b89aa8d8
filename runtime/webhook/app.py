"""The HTTP side of the admission webhook: an aiohttp application over a :class:`~runtime.webhook.live.Live`.

``runtime.webhook.serve`` runs it, tests and the demo too. Meaning is elsewhere: ``admission`` turns bytes into bytes,
``live`` decides; here are routes, limits, content types and counting.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from aiohttp import web
from aiohttp.typedefs import Middleware

from runtime.config import Settings
from runtime.decision import Decision
from runtime.engine import What
from runtime.host import Host, settle, within
from runtime.observe.decisions import Decisions
from runtime.observe.metrics import Metrics
from runtime.observe.otel import Tracing
from runtime.observe.policy_events import PolicyEvents
from runtime.request import Request
from runtime.webhook import admission
from runtime.webhook.admission import Answer, Verdict
from runtime.webhook.live import ALL, Judged, Live

log = logging.getLogger("thesmos.webhook")

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
PolicyCheck: TypeAlias = Callable[[bytes], Awaitable[Answer]]
"""Answers the admission of one of our own objects (``runtime.controllers.policyadmission``)."""

SCOPES: Final = ("fail", "ignore")
VALIDATING: Final = "ValidatingWebhookConfiguration"
MUTATING: Final = "MutatingWebhookConfiguration"
_ADMITTED: Final = Decision(True)


def build_app(
    live: Live,
    settings: Settings,
    metrics: Metrics,
    events: PolicyEvents | None = None,
    checks: Mapping[str, PolicyCheck] | None = None,
    tracing: Tracing | None = None,
) -> web.Application:
    """The application. ``checks`` answer other paths than those of resources, and ``events`` is who tells of decisions:
    both only a cluster needs. ``tracing`` makes spans, where it is on."""
    middlewares = [_counting(metrics), _closing(live)]
    if tracing is not None:
        middlewares.insert(0, tracing.middleware())
        live.observers.append(tracing.decided)
    app = web.Application(client_max_size=settings.body_limit, middlewares=middlewares)
    live.observers.append(Decisions(metrics, events, payload=settings.dump_payload, patches=settings.dump_patches))
    validate = _admission_handler(live, "validate", settings, metrics)
    mutate = _admission_handler(live, "mutate", settings, metrics)
    for path, handler in (("/validate", validate), ("/mutate", mutate)):
        app.router.add_post(path, handler)
        app.router.add_post(path + "/{scope:fail|ignore}", handler)
        app.router.add_post(path + "/{scope:fail|ignore}/finegrained/{policy}", handler)
        app.router.add_post(path + "/{scope:fail|ignore}/finegrained/{namespace}/{policy}", handler)
    for path, check in (checks or {}).items():
        app.router.add_post(path, _policy_handler(check, settings, metrics, path.strip("/")))
    add_service_routes(app, live, metrics)
    return app


def add_service_routes(app: web.Application, live: Live, metrics: Metrics) -> None:
    """Health and metrics; the metrics port serves them without TLS too."""

    async def liveness(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readiness(request: web.Request) -> web.Response:
        if live.draining:
            return web.Response(status=503, text="this replica is about to end\n")
        if live.ready:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="no policies are loaded yet\n")

    async def exposition(request: web.Request) -> web.Response:
        return web.Response(
            body=await metrics.exposition_aside(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    app.router.add_get("/health/liveness", liveness)
    app.router.add_get("/health/readiness", readiness)
    app.router.add_get("/metrics", exposition)


def _admission_handler(live: Live, what: What, settings: Settings, metrics: Metrics) -> Handler:
    shadow = settings.shadow

    async def handle(http: web.Request) -> web.StreamResponse:
        started = time.monotonic()
        seconds = admission.timeout_seconds(http.query.get("timeout"))
        if seconds is None:
            return _send(admission.refusal(400, "the query parameter timeout is no duration such as 10s"))
        deadline = started + seconds * (1 - admission.MARGIN)
        body = await _body(http, settings)
        if isinstance(body, Answer):
            return _send(body)
        if not live.ready:
            # Not a 4xx: the request is right and a second try may be answered.
            return _send(admission.refusal(503, "no policies are loaded yet"))
        scope = _scope(http)
        judged: Judged | None = None

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

        def attempt(host: Host | None) -> Answer:
            return admission.answer(body, lambda review: live.decode(review, host), evaluate)

        answer = attempt(None) if live.ask is None else await settle(attempt, within(live.ask, deadline))
        if judged is not None and what == "validate" and answer.status == 200:
            await live.told(judged)
        _count_admission(metrics, what, answer, time.monotonic() - started)
        return _send(answer)

    return handle


def _policy_handler(check: PolicyCheck, settings: Settings, metrics: Metrics, webhook: str) -> Handler:
    async def handle(http: web.Request) -> web.StreamResponse:
        started = time.monotonic()
        body = await _body(http, settings)
        if isinstance(body, Answer):
            return _send(body)
        answer = await check(body)
        _count_admission(metrics, webhook, answer, time.monotonic() - started)
        return _send(answer)

    return handle


async def _body(http: web.Request, settings: Settings) -> bytes | Answer:
    if not admission.is_json(http.headers.get("Content-Type")):
        return admission.refusal(415, "the content type is not application/json")
    if http.headers.get("Content-Encoding", "identity").lower() != "identity":
        # aiohttp would inflate it here, past the limit for what was sent.
        return admission.refusal(415, "the body is compressed, send it as it is")
    too_large = f"the body is larger than {settings.body_limit} bytes"
    if http.content_length is not None and http.content_length > settings.body_limit:
        return admission.refusal(413, too_large)
    try:
        return await http.read()
    except web.HTTPRequestEntityTooLarge:
        return admission.refusal(413, too_large)


def _scope(http: web.Request) -> str:
    match = http.match_info
    policy = match.get("policy")
    if policy is None:
        return match.get("scope", ALL)
    namespace = match.get("namespace")
    return f"finegrained/{policy}" if namespace is None else f"finegrained/{namespace}/{policy}"


def _send(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, content_type=answer.content_type)


def _counting(metrics: Metrics) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.perf_counter()
        # The route's pattern, not the path: a label value that callers choose would grow without bound.
        resource = request.match_info.route.resource
        url = resource.canonical if resource is not None else "unknown"
        try:
            return await handler(request)
        except web.HTTPException:
            raise
        except Exception:
            log.exception("the request to %s could not be answered", url)
            return web.Response(status=500, text="internal error, see the log\n")
        finally:
            metrics.count("kyverno_http_requests_total", request.method, url)
            metrics.observe(
                "kyverno_http_requests_duration_seconds", time.perf_counter() - started, request.method, url
            )

    return middleware


def _closing(live: Live) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        if live.draining:
            # The API server keeps connections: one that is told goes elsewhere, and is never cut in a request.
            response.force_close()
        return response

    return middleware


def _count_admission(metrics: Metrics, webhook: str, answer: Answer, seconds: float) -> None:
    if answer.status != 200:
        return
    # The names that Kyverno gives its webhooks here; the guide's metrics tell them apart by path.
    kyverno = MUTATING if "mutate" in webhook else VALIDATING
    labels = (answer.kind, answer.namespace, answer.operation.lower(), str(answer.allowed).lower(), kyverno)
    metrics.count("kyverno_admission_requests_total", *labels)
    metrics.observe("kyverno_admission_review_duration_seconds", seconds, *labels)
    metrics.count("kyverno_webhooks_processed_total", webhook)
    metrics.observe("kyverno_webhook_duration_seconds", seconds, webhook)
