"""Routes and answers over aiohttp's low-level server: the handler that a request reaches, the bytes that answer it.

``runtime.webhook.app`` makes :class:`Routes` of its handlers. Routing by regular expressions, two middlewares and an
``aiohttp.web.Response`` took 60 of 150 µs for a request that no rule looks at: here paths that were seen are looked up,
and an answer is one write of its head and body.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from aiohttp import HttpVersion11, web
from aiohttp.helpers import rfc822_formatted_time
from yarl import URL

from runtime.webhook.admission import Answer, is_json
from runtime.webhook.connection import Connection, Heads, Later, Quick, Server

if TYPE_CHECKING:
    from runtime.observe.requests import Requests

log = logging.getLogger("thesmos.webhook")

MOST_KNOWN: Final = 1024
"""Paths kept; callers choose them."""
UNKNOWN: Final = "unknown"

_STARTS: Final = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\nContent-Type: " for s in HTTPStatus}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request came in: the ``pattern`` of its route (never the path itself, which callers choose), the texts
    that stand for the route's names, and the query's ``timeout``, None when there is none. ``webhook`` is what metrics
    name the webhook, empty for anything else. ``quick`` answers a body as ``handler`` does, where nothing but the body
    matters."""

    pattern: str
    webhook: str
    names: tuple[str, ...]
    timeout: str | None
    handler: Handler
    quick: Quick | None = None


Handler: TypeAlias = Callable[[web.BaseRequest, Place], Awaitable[Answer]]


class Written(web.StreamResponse):
    """An answer whose head and body are written as one: a connection's buffers are filled, and its TLS record made,
    once."""

    def __init__(self, answer: Answer, keep_alive: bool) -> None:
        super().__init__(status=answer.status)
        self._keep_alive = self._keeps = keep_alive
        self._answer = answer

    async def prepare(self, request: web.BaseRequest) -> None:
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        transport.write(written(self._answer, self._keeps))

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to write."""


def written(answer: Answer, keep_alive: bool) -> bytes:
    """An answer as it is sent, head and body."""
    head = (
        f"{_STARTS[answer.status]}{answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n"
        f"Date: {rfc822_formatted_time()}\r\n{'' if keep_alive else _CLOSE}\r\n"
    )
    return head.encode("ascii") + answer.body


_CLOSE: Final = "Connection: close\r\n"


class Route(NamedTuple):
    """A row of the table: the segments of a path, how it is shown, what metrics call its webhook, who answers."""

    segments: tuple[str, ...]
    shown: str
    webhook: str
    handler: Handler
    quick: Quick | None


class Routes:
    """A table of routes, and the handler of aiohttp's server that goes by it.

    ``requests`` counts what was answered. ``closes`` says whether connections are to be given up: this process ends.
    ``around`` goes round every handler (tracing).
    """

    def __init__(
        self,
        *,
        body_limit: int,
        requests: Requests | None = None,
        closes: Callable[[], bool] = lambda: False,
        around: Callable[[Handler], Handler] | None = None,
    ) -> None:
        self.body_limit = body_limit
        self.closes = closes
        self.heads = Heads()
        self._requests = requests
        self._around = around
        self._routes: dict[str, list[Route]] = {}
        self._known: dict[tuple[str, str], Place] = {}

    def add(
        self, method: str, pattern: str, handler: Handler, *, webhook: str = "", quick: Quick | None = None
    ) -> None:
        """A route. Of a pattern's segments ``{name}`` stands for any text, ``{name:one|other}`` for some. ``quick``
        does what ``handler`` does for a JSON body that has come in whole."""
        shown = "/".join(s.partition(":")[0] + "}" if ":" in s else s for s in pattern.split("/"))
        if self._around is not None:
            handler, quick = self._around(handler), None
        for one in (method, "HEAD") if method == "GET" else (method,):
            route = Route(tuple(pattern.split("/")), shown, webhook, handler, quick)
            self._routes.setdefault(one, []).append(route)

    def runner(self, *, shutdown_timeout: float = 60.0, keepalive_timeout: float = 120.0) -> web.ServerRunner:
        """What sites are made over. No access log: it costs more than a route."""
        return web.ServerRunner(self.server(keepalive_timeout), shutdown_timeout=shutdown_timeout)

    def server(self, keepalive_timeout: float = 120.0) -> Server:
        """What makes a connection's protocol, in the running loop."""
        return Server(
            self, self._handle, request_factory=self._request, access_log=None, keepalive_timeout=keepalive_timeout
        )

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        return web.BaseRequest(
            message, payload, protocol, writer, task, task.get_loop(), client_max_size=self.body_limit
        )

    def quick_place(self, message: Any) -> Place | None:
        """The place of a message whose requests a connection may answer at once."""
        place = self._place(message.method, message.path, message.url)
        return place if place.quick is not None and is_json(message.headers.get("Content-Type")) else None

    def answered(self, body: bytes, place: Place, began: float) -> bytes | Later:
        """The whole answer to a body, or who goes on with it."""
        assert place.quick is not None
        answer = _FAILED
        try:
            found = place.quick(body, place, began)
            if not isinstance(found, Answer):
                return found
            answer = found
        except Exception:
            log.exception("the request to %s could not be answered", place.pattern)
        self._note(answer, place, "POST", began)
        return written(answer, keep_alive=True)

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        method = http.method
        place = self._place(method, http.raw_path, http.rel_url)
        connection = http.protocol
        assert isinstance(connection, Connection)
        answer = _FAILED
        handed, connection.later = connection.later, None
        began = time.monotonic() if handed is None else handed[1]
        try:
            answer = await (place.handler(http, place) if handed is None else handed[0]())
        except Exception:
            log.exception("the request to %s could not be answered", place.pattern)
        finally:
            self._note(answer, place, method, began)
        # The API server keeps connections: one that is told goes elsewhere, and is never cut in a request.
        keep_alive = http.keep_alive and not self.closes()
        if http.version == HttpVersion11 and method != "HEAD":
            return Written(answer, keep_alive)
        response = web.Response(status=answer.status, body=answer.body, headers={"Content-Type": answer.content_type})
        if not keep_alive:
            response.force_close()
        return response

    def _note(self, answer: Answer, place: Place, method: str, began: float) -> None:
        if self._requests is not None:
            self._requests.note(
                time.monotonic() - began,
                method,
                place.pattern,
                place.webhook if answer.status == 200 else "",
                answer.kind,
                answer.namespace,
                answer.operation,
                answer.allowed,
            )

    def _place(self, method: str, path: str, url: URL) -> Place:
        known = self._known.get((method, path))
        if known is not None:
            return known
        try:
            place = self._match(method, url.path.split("/"), url)
        except ValueError:
            return Place(UNKNOWN, "", (), None, _nowhere)
        if place.handler is not _nowhere:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[method, path] = place
        return place

    def _match(self, method: str, path: list[str], url: URL) -> Place:
        for route in self._routes.get(method, ()):
            names = _names(route.segments, path)
            if names is not None:
                timeout = url.query.get("timeout")
                return Place(route.shown, route.webhook, names, timeout, route.handler, route.quick)
        for routes in self._routes.values():
            for route in routes:
                if _names(route.segments, path) is not None:
                    return Place(route.shown, "", (), None, _wrong_method)
        return Place(UNKNOWN, "", (), None, _nowhere)


def _names(segments: Sequence[str], path: Sequence[str]) -> tuple[str, ...] | None:
    """The texts of a path that a pattern's names stand for; None where they are not of one form."""
    if len(segments) != len(path):
        return None
    found: list[str] = []
    for segment, text in zip(segments, path, strict=True):
        if not segment.startswith("{"):
            if segment != text:
                return None
            continue
        _, colon, choices = segment[1:-1].partition(":")
        if not text or (colon and text not in choices.split("|")):
            return None
        found.append(text)
    return tuple(found)


_FAILED: Final = Answer(500, b"internal error, see the log\n", "text/plain; charset=utf-8")


async def _nowhere(http: web.BaseRequest, place: Place) -> Answer:
    return Answer(404, b"there is nothing here\n", "text/plain; charset=utf-8")


async def _wrong_method(http: web.BaseRequest, place: Place) -> Answer:
    return Answer(405, b"this path takes another method\n", "text/plain; charset=utf-8")
