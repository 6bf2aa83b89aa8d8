"""F19: a connection that knows the heads of requests answers as it would with aiohttp's parser alone.

What is sent are requests as callers send them and bent ones, one after the other or several at once, cut anywhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import re
import time
from typing import Final

from aiohttp import web

from fuzz.wire import TURNS, Wire
from runtime.webhook.admission import Answer
from runtime.webhook.connection import Later
from runtime.webhook.routing import Place, Routes

NAME: Final = "f19_connections"
PROPERTY: Final = "answers(known heads, bytes, cuts) = answers(aiohttp alone, bytes, cuts), and both close or neither"

LIMIT: Final = 3000

_METHODS: Final = (b"POST",) * 5 + (b"GET", b"PUT", b"HEAD", b"post", b"")
_TARGETS: Final = (b"/quick",) * 6 + (b"/quick?timeout=1s", b"/slow", b"/nowhere", b"*", b"http://a/quick", b"/qui ck")
_VERSIONS: Final = (b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.1 ")
_NAMES: Final = (b"content-length: ", b"CONTENT-LENGTH: ", b"Content-Length:", b"X: ", b" Content-Length: ")
_OTHERS: Final = (b"Accept: application/json", b"User-Agent: kube-apiserver-admission", b"Accept-Encoding: gzip")
_ODD: Final = (
    b"Expect: 100-continue",
    b"Connection: close",
    b"Connection: keep-alive",
    b"Connection: Upgrade\r\nUpgrade: websocket",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: identity",
    b"Content-Encoding: gzip",
    b"Content-Length: 7",
    b"Content-Length : 7",
    b" folded: 1",
    b"X: a\r\n b",
    b"X: a\nY: b",
    b"X: a\rb",
    b"X:\x00",
    b"X: \r\ncontent-length: 3",
    b"nothing",
    b"",
)
_BODIES: Final = (b"{}", b'{"a": 1}', b"wait", b"fail", b"x" * 100, b"x" * LIMIT, b"x" * (LIMIT + 1), b"\r\n\r\n", b"")

_WHY: Final = re.compile(rb"( 400 Bad Request\r\n).*", re.DOTALL)
"""The last answer where something is no HTTP: its text shows what the parser was given at once."""


def run(seconds: float, seed: int) -> int:
    """Asks for a time; gives the number of connections. Raises ``AssertionError`` with what was sent."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # aiohttp tells of every request that is none
    try:
        return asyncio.run(_run(seconds, random.Random(seed)))
    finally:
        logging.disable(before)


async def _run(seconds: float, rng: random.Random) -> int:
    knowing, alone = Digests(), Digests(alone=True)
    ends = time.monotonic() + seconds
    count = 0
    while time.monotonic() < ends or count < 20:
        chunks = conversation(rng)
        wanted = await talk(alone, chunks)
        # The second time all heads are known that ever will be.
        for _ in range(2):
            got = await talk(knowing, chunks)
            assert got == wanted, f"sent {chunks!r:.4000}\nanswers {got!r}\naiohttp {wanted!r}"
        count += 1
    assert knowing.straight, "no request was answered straight away"
    assert not alone.straight, "aiohttp was not asked"
    return count


async def talk(digests: Digests, chunks: list[tuple[bytes, int]]) -> tuple[bytes, bool]:
    got, closed = await Wire(digests.routes.server()).talk(chunks)
    return _WHY.sub(rb"\1", got), closed


class Digests:
    """Routes that answer with a digest of the body. ``answers`` counts them, ``straight`` those that aiohttp has not
    parsed the request of."""

    def __init__(self, *, alone: bool = False) -> None:
        self.straight = self.answers = 0
        self.routes = Routes(body_limit=LIMIT, around=(lambda handler: handler) if alone else None)
        self.routes.add("POST", "/quick", self._handle, quick=self._quick)
        self.routes.add("POST", "/slow", self._handle)

    def _quick(self, body: bytes, place: Place, began: float) -> Answer | Later:
        self.straight += 1
        return self._answer(body)

    async def _handle(self, http: web.BaseRequest, place: Place) -> Answer:
        try:
            found = self._answer(await http.read())
        except web.HTTPRequestEntityTooLarge:
            return Answer(413, b"too large")
        return found if isinstance(found, Answer) else await found()

    def _answer(self, body: bytes) -> Answer | Later:
        self.answers += 1
        answer = Answer(200, hashlib.sha256(body).hexdigest().encode())
        if body == b"wait":

            async def later() -> Answer:
                await asyncio.sleep(0)
                return answer

            return later
        if body == b"fail":
            raise ValueError("so it was asked")
        return answer


def conversation(rng: random.Random) -> list[tuple[bytes, int]]:
    """What is sent on one connection, in pieces, each with the turns of the loop until the next."""
    usual = _request(rng, rng.choice(_BODIES), bent=rng.random() < 0.3)
    messages = []
    for _ in range(rng.randrange(1, 8)):
        roll = rng.random()
        if roll < 0.3:
            messages.append(usual)
        else:
            messages.append(_request(rng, rng.choice(_BODIES), bent=roll > 0.8))
    chunks: list[tuple[bytes, int]] = []
    held = b""
    for message in messages:
        roll = rng.random()
        # Some end too soon, some come in with the one after.
        held += message[: rng.randrange(len(message))] if roll < 0.1 else message
        if 0.1 < roll < 0.3:
            continue
        chunks += _cut(rng, held)
        held = b""
    return chunks + (_cut(rng, held) if held else [])


def _cut(rng: random.Random, data: bytes) -> list[tuple[bytes, int]]:
    places = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 0, 1, 1, 3))))
    pieces = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    return [(piece, rng.choice((0, 1, TURNS))) for piece in pieces[:-1]] + [(pieces[-1], rng.choice((1, TURNS, TURNS)))]


def _request(rng: random.Random, body: bytes, *, bent: bool) -> bytes:
    """A request for ``/quick``; a bent one is unusual in one or two places."""
    number = str(len(body)).encode()
    start = [b"POST", b"/quick", b"HTTP/1.1"]
    lines = [b"Host: a", b"Content-Type: application/json", b"Content-Length: " + number, *rng.sample(_OTHERS, 2)]
    for _ in range(rng.randrange(1, 3) if bent else 0):
        match rng.randrange(6):
            case 0:
                start = [rng.choice(_METHODS), rng.choice(_TARGETS), rng.choice(_VERSIONS)]
            case 1:
                wrong = rng.choice((b"0" + number, b"+" + number, b"1" * 30, b"", b"5 ", b"3", number + b"0"))
                lines = [line.replace(b": " + number, b": " + wrong) for line in lines]
            case 2:
                lines = [line.replace(b"Content-Length: ", rng.choice(_NAMES)) for line in lines]
            case 3:
                lines.remove(rng.choice(lines))
            case _:
                lines.insert(rng.randrange(len(lines) + 1), rng.choice(_ODD))
    return b"\r\n".join([b" ".join(start), *lines, b"", body])
