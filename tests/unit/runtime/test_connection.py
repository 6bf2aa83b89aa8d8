"""Connections of the webhook: which requests are answered straight away, and that nobody can tell by the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from fuzz.targets.f19_connections import LIMIT, Digests
from fuzz.wire import TURNS, Wire
from runtime.config import Settings
from runtime.controllers.compilation import compile_text
from runtime.observe.metrics import Metrics
from runtime.policyset import PolicySet
from runtime.webhook import connection
from runtime.webhook.app import build_app
from runtime.webhook.connection import MOST_HEADS, split
from runtime.webhook.live import Hook, Judged, Live, Snapshot
from runtime.webhook.routing import Routes
from tests.integration.server import review

POLICY = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: require-team}
spec:
  rules:
    - name: team-label
      match: {any: [{resources: {kinds: [Pod]}}]}
      validate:
        failureAction: Enforce
        message: "the label team is required"
        pattern: {metadata: {labels: {team: "?*"}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: add-label}
spec:
  rules:
    - name: label
      match: {any: [{resources: {kinds: [Pod]}}]}
      mutate:
        patchStrategicMerge: {metadata: {labels: {"+(by)": thesmos}}}
"""


def head(length: int, path: str = "/quick", *more: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: a", f"Content-Length: {length}", "Content-Type: application/json", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def message(body: bytes, path: str = "/quick") -> bytes:
    return head(len(body), path) + body


def pod(labels: dict[str, str]) -> bytes:
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default", "labels": labels}}
    return json.dumps(review(obj)).encode()


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


async def acquainted(routes: Routes, *paths: str) -> Wire:
    """A connection whose server knows the heads of some paths, with nothing received yet."""
    wire = Wire(routes.server())
    await wire.settled()
    for path in paths or ("/quick",):
        wire.send(message(b"{}", path))
        await wire.settled()
    wire.forget()
    return wire


def webhook(live: Live, metrics: Metrics | None = None) -> Routes:
    compiled = compile_text(POLICY, "policy.yaml")
    assert compiled.bundle is not None
    live.swap(Snapshot.of(PolicySet.load(compiled.bundle)))
    return build_app(live, Settings(), metrics or Metrics())


def test_a_body_cut_at_any_byte_has_the_same_answer() -> None:
    async def test() -> None:
        digests = Digests()
        wire = await acquainted(digests.routes)
        whole = message(b'{"a": 1}')
        wire.send(whole)
        expected = wire.got
        assert expected.startswith(b"HTTP/1.1 200 OK\r\n")
        for at in range(1, len(whole)):
            wire = await acquainted(digests.routes)
            before = digests.straight
            wire.send(whole[:at])
            assert wire.got == b""
            wire.send(whole[at:])
            await wire.settled()
            assert wire.got == expected, at
            # From the end of the head on, nothing more has to be known of it.
            assert digests.straight - before == (at >= len(head(8))), at
            assert not wire.closed

    run(test())


def test_the_answer_is_there_before_anything_else_runs() -> None:
    async def test() -> None:
        digests = Digests()
        wire = await acquainted(digests.routes)
        assert digests.straight == 0, "an unknown head is for aiohttp"
        wire.send(message(b"1"))
        assert digests.straight == 1
        assert wire.got.count(b"HTTP/1.1 200 OK") == 1

    run(test())


def test_another_connection_and_another_length_know_the_head_too() -> None:
    async def test() -> None:
        digests = Digests()
        await acquainted(digests.routes)
        wire = Wire(digests.routes.server())
        await wire.settled()
        for n in range(1, 50):
            wire.send(message(b"x" * n))
        assert digests.straight == 49
        assert len(digests.routes.heads.known) == 1

    run(test())


def test_two_requests_at_once_are_for_aiohttp_and_answered_in_order() -> None:
    async def test() -> None:
        digests = Digests()
        wire = await acquainted(digests.routes)
        for body in (b"1", b"22"):
            wire.send(message(body))
        expected = wire.got
        wire.forget()
        wire.send(message(b"1") + message(b"22"))
        await wire.settled()
        assert digests.straight == 2
        assert wire.got == expected
        wire.send(message(b"1"))
        await wire.settled()
        assert wire.got.count(b"HTTP/1.1 200 OK") == 3

    run(test())


@pytest.mark.parametrize(
    "sent",
    [
        head(2, "/quick", "Expect: 100-continue") + b"{}",
        head(2, "/quick", "Content-Encoding: gzip") + b"{}",
        head(2, "/quick", "Connection: close") + b"{}",
        head(2, "/quick", "Connection: Upgrade", "Upgrade: websocket") + b"{}",
        head(2, "/quick", "Content-Length: 2") + b"{}",
        head(2, "/quick", "X: " + "x" * 5000) + b"{}",
        head(2, "/slow") + b"{}",
        head(2).replace(b": 2", b": 02") + b"{}",
        head(2).replace(b"1.1", b"1.0") + b"{}",
        head(2).replace(b"POST", b"PUT") + b"{}",
        head(2).replace(b"application/json", b"text/plain") + b"{}",
        head(2).replace(b"Content-Length: 2", b"Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n",
        b"\r\n" + head(2) + b"{}",
    ],
)
def test_what_is_not_plain_is_never_known(sent: bytes) -> None:
    async def test() -> None:
        digests, alone = Digests(), Digests(alone=True)
        chunks = [(sent, TURNS), (sent, TURNS)]
        got = await Wire(digests.routes.server()).talk(chunks)
        assert digests.routes.heads.known == {}
        assert digests.straight == 0
        assert got == await Wire(alone.routes.server()).talk(chunks)

    run(test())


def test_an_aiohttp_that_nobody_has_tried_parses_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connection.FAMILIAR
    monkeypatch.setattr(connection, "FAMILIAR", False)

    async def test() -> None:
        digests = Digests()
        wire = await acquainted(digests.routes)
        wire.send(message(b"1"))
        await wire.settled()
        assert wire.got.startswith(b"HTTP/1.1 200 OK")
        assert digests.straight == 0

    run(test())


def test_heads_are_bounded() -> None:
    async def test() -> None:
        digests = Digests()
        for n in range(MOST_HEADS + 3):
            wire = Wire(digests.routes.server())
            await wire.settled()
            wire.send(message(b"{}", f"/quick?timeout={n}s"))
        assert len(digests.routes.heads.known) == 3

    run(test())


def test_a_body_over_the_limit_is_refused_as_before() -> None:
    async def test() -> None:
        digests = Digests()
        wire = await acquainted(digests.routes)
        wire.send(message(b"x" * (LIMIT + 1)))
        await wire.settled()
        assert digests.straight == 0
        assert wire.got.startswith(b"HTTP/1.1 413 ")

    run(test())


def test_a_request_that_must_wait_is_gone_on_with_not_begun_again() -> None:
    async def test() -> None:
        digests = Digests()
        wire = await acquainted(digests.routes)
        wire.send(message(b"wait"))
        assert wire.got == b""
        await wire.settled()
        assert digests.straight == 1
        assert digests.answers == 2, "one to get acquainted, one that waited"
        assert wire.got.startswith(b"HTTP/1.1 200 OK\r\n")
        wire.send(message(b"1"))
        assert wire.got.count(b"HTTP/1.1 200 OK") == 2

    run(test())


def test_a_request_that_fails_is_a_500() -> None:
    async def test() -> None:
        wire = await acquainted(Digests().routes)
        wire.send(message(b"fail"))
        assert wire.got.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
        assert wire.got.endswith(b"internal error, see the log\n")

    run(test())


def test_a_request_on_its_way_in_outlives_the_keep_alive_time() -> None:
    async def test() -> None:
        wire = await acquainted(Digests().routes)
        wire.send(head(2) + b"{")
        wire.protocol._next_keepalive_close_time = 0.0
        wire.protocol._process_keepalive()
        await wire.settled()
        assert not wire.closed
        wire.send(b"}")
        await wire.settled()
        assert wire.got.startswith(b"HTTP/1.1 200 OK\r\n")
        assert not wire.closed

    run(test())


def test_an_idle_connection_is_closed_and_each_answer_puts_that_off() -> None:
    async def test() -> None:
        wire = await acquainted(Digests().routes)
        wire.protocol._next_keepalive_close_time = 0.0
        wire.send(message(b"1"))
        wire.protocol._process_keepalive()
        assert not wire.closed
        wire.protocol._next_keepalive_close_time = 0.0
        wire.protocol._process_keepalive()
        assert wire.closed

    run(test())


def test_who_ends_says_so_and_closes() -> None:
    async def test() -> None:
        live = Live()
        routes = webhook(live)
        wire = await acquainted(routes, "/validate")
        live.draining = True
        wire.send(message(pod({"team": "a"}), "/validate"))
        await wire.settled()
        assert b"\r\nConnection: close\r\n" in wire.got
        assert b'"allowed":true' in wire.got
        assert wire.closed

    run(test())


def test_nothing_is_answered_once_the_server_shuts_down() -> None:
    async def test() -> None:
        digests = Digests()
        server = digests.routes.server()
        wire = Wire(server)
        await wire.settled()
        wire.send(message(b"{}"))
        await wire.settled()
        wire.forget()
        server.pre_shutdown()
        await server.shutdown(1.0)
        wire.send(message(b"{}"))
        await wire.settled()
        assert wire.got == b""
        assert wire.closed

    run(test())


def test_a_client_that_does_not_read_gets_no_straight_answers() -> None:
    async def test() -> None:
        digests = Digests()
        wire = await acquainted(digests.routes)
        wire.protocol.pause_writing()
        wire.send(message(b"1"))
        await wire.settled()
        assert digests.straight == 0
        wire.protocol.resume_writing()
        wire.send(message(b"1"))
        assert digests.straight == 1

    run(test())


@pytest.mark.parametrize("path", ["/validate", "/validate/fail?timeout=10s", "/mutate", "/validate?timeout=0s"])
@pytest.mark.parametrize("body", [pod({"team": "a"}), pod({}), b"{", b"[]", b'{"kind": "Pod"}', b"[" * 3000])
def test_both_ways_give_the_same_bytes_and_numbers(path: str, body: bytes) -> None:
    async def test() -> None:
        metrics = Metrics(), Metrics()
        known, unknown = await acquainted(webhook(Live(), metrics[0]), path), None
        routes = webhook(Live(), metrics[1])
        unknown = await acquainted(routes, path)
        routes.heads.known.clear()
        for wire in (known, unknown):
            wire.send(message(body, path))
        assert known.got
        assert not unknown.got, "aiohttp answers in a task"
        await unknown.settled()
        assert known.got == unknown.got
        one, other = (
            [line for line in m.exposition().splitlines() if b"_sum" not in line and b"_bucket" not in line]
            for m in metrics
        )
        assert one == other
        assert any(line.startswith(b"kyverno_http_requests_total{") and line.endswith(b" 2.0") for line in one)

    run(test())


def test_a_cluster_is_asked_once_for_what_a_request_needs() -> None:
    async def test() -> None:
        asked = []

        async def ask(call: Any) -> Any:
            asked.append(call.payload)
            return {"metadata": {"name": call.payload}}

        live = Live(namespaces={}, ask=ask)
        wire = await acquainted(webhook(live), "/validate")
        wire.send(message(pod({"team": "a"}), "/validate"))
        assert wire.got == b""
        await wire.settled()
        assert asked == ["default"]
        assert b'"allowed":true' in wire.got
        live.namespaces = {"default": {"metadata": {"name": "default"}}}
        wire.send(message(pod({}), "/validate"))
        assert b'"allowed":false' in wire.got
        assert asked == ["default"]

    run(test())


def test_what_must_be_written_down_is_before_the_answer() -> None:
    async def test() -> None:
        seen: list[bool] = []
        wanted = True

        async def write(judged: Judged) -> None:
            await asyncio.sleep(0)
            seen.append(judged.decision.allowed)

        live = Live(hooks=[Hook(write, lambda judged: wanted)])
        wire = await acquainted(webhook(live), "/validate", "/mutate")
        wire.send(message(pod({"team": "a"}), "/validate"))
        assert (wire.got, seen) == (b"", [])
        await wire.settled()
        assert seen == [True]
        assert b'"allowed":true' in wire.got
        wire.forget()
        wire.send(message(pod({"team": "a"}), "/mutate"))
        assert wire.got, "hooks are for what validates"
        wire.forget()
        wanted = False
        wire.send(message(pod({"team": "a"}), "/validate"))
        assert wire.got
        assert seen == [True]

    run(test())


def test_split_reads_plain_numbers_only() -> None:
    data = head(12, "/quick", "X: 1")
    before, after, length, start = split(data + b"body") or (b"", b"", 0, 0)
    assert before + b"12" + after == data
    assert (length, start) == (12, len(data))
    for number in (b"", b"0", b"012", b"+1", b"1 ", b"1e1", b"-1", b"\xb2", b"1" * 10):
        assert split(data.replace(b"12", number, 1)) is None, number
    assert split(data[:-1]) is None
