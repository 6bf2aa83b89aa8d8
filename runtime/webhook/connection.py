"""One connection of the webhook: requests of a form that aiohttp has parsed before are answered in one go.

``runtime.webhook.routing`` makes a :class:`Server` of these. Callers keep connections, and send the same head again and
again but for the number of ``Content-Length``. For such a head nothing new can come of parsing it, so that body and
answer need no parser, no task, no request and no response object, which take 60 µs a request. What else comes in goes
to aiohttp as it is: an unknown head, several requests at once, a request that must wait for something, and everything
once the connection or the process is about to end. What HTTP is, is decided there alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aiohttp import HttpVersion11, web
from aiohttp.web_protocol import RequestHandler

from runtime.webhook.admission import Answer

if TYPE_CHECKING:
    from runtime.webhook.routing import Place, Routes

Later: TypeAlias = Callable[[], Awaitable[Answer]]
"""Goes on with a request that could not be answered at once."""

Quick: TypeAlias = "Callable[[bytes, Place, float], Answer | Later]"
"""Answers the body of a request that came in at a reading of ``time.monotonic``."""

MOST_HEADS: Final = 1024
"""Heads kept, without the number: callers choose their paths and headers."""
LONGEST_HEAD: Final = 4096

_LENGTH: Final = b"\r\nContent-Length: "
_SMALL: Final = b"\r\ncontent-length: "
_END: Final = b"\r\n\r\n"
_MOST_DIGITS: Final = 9
_LOST: Final = -1

_ELSEWHERE: Final = frozenset({b"transfer-encoding", b"upgrade"})
"""Headers by which a body has no length of its own, or the connection another meaning."""
_UNUSUAL: Final = frozenset({b"expect", b"content-encoding"})

_BOOKS: Final = (
    "_messages",
    "_waiter",
    "_paused",
    "_request_count",
    "_next_keepalive_close_time",
    "_process_keepalive",
)
FAMILIAR: Final = all(hasattr(RequestHandler, name) for name in _BOOKS)
"""Whether this aiohttp keeps its books as those that were tried (3.10 to 3.14). Another one parses everything."""


def split(data: bytes) -> tuple[bytes, bytes, int, int] | None:
    """What stands before and after the number of ``Content-Length``, the number, and where the body begins; None where
    there is no plain number. Whether that is a head, aiohttp says once: with another number it is one too."""
    at = data.find(_LENGTH)
    if at < 0:
        at = data.find(_SMALL)
        if at < 0:
            return None
    at += len(_LENGTH)
    end = data.find(b"\r\n", at)
    stop = data.find(_END, end)
    digits = data[at:end]
    # No zero in front, not too long: for other numbers HTTP has rules of its own.
    if end < 0 or stop < 0 or len(digits) > _MOST_DIGITS or not digits.isdigit() or digits[0] == 48:
        return None
    stop += len(_END)
    return data[:at], data[end:stop], int(digits), stop


class Heads:
    """The heads that are known, with the places that answer them."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[tuple[bytes, bytes], Place] = {}

    def learn(self, head: bytes, message: Any, place_of: Callable[[Any], Place | None]) -> int:
        """Takes note of what aiohttp has made of a head, and says how many bytes of body follow it, -1 where that is
        not certain. ``place_of`` gives the place of a message whose requests may be answered at once."""
        headers = getattr(message, "raw_headers", None)
        # A line for each header and nothing between them: head and parser begin and end at the same byte.
        if headers is None or not head.count(b"\r\n") == head.count(b"\n") == len(headers) + 2:
            return _LOST
        names = [name.lower() for name, _ in headers]
        if message.chunked or message.upgrade or not _ELSEWHERE.isdisjoint(names):
            return _LOST
        lengths = names.count(b"content-length")
        if not lengths:
            return 0
        found = split(head)
        if found is None or lengths > 1 or found[3] != len(head):
            return _LOST
        before, after, length, _ = found
        usual = message.version == HttpVersion11 and not message.should_close and not message.compression
        if usual and len(head) <= LONGEST_HEAD and _UNUSUAL.isdisjoint(names):
            place = place_of(message)
            if place is not None:
                if len(self.known) >= MOST_HEADS:
                    self.known.clear()
                self.known[before, after] = place
        return length


class Connection(RequestHandler):
    """``_owed`` are the bytes of a body that aiohttp's parser still waits for, -1 where nobody knows: then everything
    goes to it until the end. ``later`` is what a request that was handed over has come to so far, and when it began."""

    __slots__ = ("_began", "_missing", "_owed", "_parts", "_place", "_routes", "_start", "later")

    def __init__(self, manager: Server, routes: Routes, *, loop: asyncio.AbstractEventLoop, **settings: Any) -> None:
        super().__init__(manager, loop=loop, **settings)
        self._routes = routes
        self._owed = 0 if FAMILIAR else _LOST
        self._parts: list[bytes] | None = None
        self._missing = self._start = 0
        self._place: Place | None = None
        self._began = 0.0
        self.later: tuple[Later, float] | None = None

    def data_received(self, data: bytes) -> None:
        if self._parts is not None:
            self._gather(data)
            return
        waiter = self._waiter
        # Between two requests: aiohttp waits for the next one, and holds no part of it.
        if self._owed == 0 and waiter is not None and not waiter.done() and type(data) is bytes:
            found = split(data)
            if found is not None:
                before, after, length, start = found
                place = self._routes.heads.known.get((before, after))
                missing = start + length - len(data)
                if place is not None and missing >= 0 and length < self._routes.body_limit and not self._paused:
                    began = time.monotonic()
                    if not missing:
                        self._answer(data, start, place, began)
                        return
                    self._parts, self._missing, self._start = [data], missing, start
                    self._place, self._began = place, began
                    return
        self._hand_over(data)

    def close(self) -> None:
        self._release()
        super().close()

    def _process_keepalive(self) -> None:
        # A request that is on its way in keeps its connection.
        self._release()
        super()._process_keepalive()

    def _gather(self, data: bytes) -> None:
        assert self._parts is not None
        assert self._place is not None
        self._parts.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            return
        whole = b"".join(self._parts)
        self._parts = None
        if self._missing == 0:
            self._answer(whole, self._start, self._place, self._began)
        else:
            self._hand_over(whole)

    def _release(self) -> None:
        """Gives aiohttp what there is of a request."""
        if self._parts is not None:
            whole = b"".join(self._parts)
            self._parts = None
            self._hand_over(whole)

    def _answer(self, data: bytes, start: int, place: Place, began: float) -> None:
        waiter, transport = self._waiter, self.transport
        if waiter is None or waiter.done() or transport is None or self._paused or self._routes.closes():
            self._hand_over(data)
            return
        found = self._routes.answered(data[start:], place, began)
        if not isinstance(found, bytes):
            self.later = (found, began)
            self._hand_over(data)
            return
        transport.write(found)
        # As aiohttp keeps its books.
        self._request_count += 1
        if self._manager is not None:
            self._manager.requests_count += 1
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout

    def _hand_over(self, data: bytes) -> None:
        """Lets aiohttp parse data, keeping track of where messages end."""
        owed = self._owed
        if owed or not data:
            if owed > 0:
                self._owed = owed - len(data) if len(data) <= owed else _LOST
            super().data_received(data)
            return
        self._owed = _LOST
        end = data.find(_END) + len(_END)
        if end < len(_END):
            super().data_received(data)
            return
        before = len(self._messages)
        super().data_received(data[:end])
        if len(self._messages) == before + 1:
            length = self._routes.heads.learn(data[:end], self._messages[-1][0], self._routes.quick_place)
            if length >= len(data) - end:
                self._owed = length - (len(data) - end)
        if end < len(data):
            super().data_received(data[end:])


class Server(web.Server):
    """Makes such connections."""

    def __init__(self, routes: Routes, handler: Any, **settings: Any) -> None:
        super().__init__(handler, **settings)
        self._routes = routes

    def __call__(self) -> Connection:
        return Connection(self, self._routes, loop=self._loop, **self._kwargs)
