"""The one client of services: where it may go, and what it makes of answers."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from runtime.context.egress import Egress, EgressError
from runtime.context.services import Services
from vm.values import Err, Value


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.9.1", "0.0.0.0", "169.254.169.254", "169.254.0.1", "100.100.100.200", "224.0.0.1", "::1",
        "::", "fe80::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
        "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a9fe:a9fe::1",
        "2001:0:4136:e378:8000:63bf:5601:5601", "fd12::5efe:7f00:1",
    ],
)  # fmt: skip
def test_addresses_that_nobody_reaches(address: str) -> None:
    assert Egress.of().blocked(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["10.0.0.1", "93.184.216.34", "2606:2800:220:1::1", "::ffff:10.0.0.1", "fd12::1"])
def test_addresses_that_policies_may_reach(address: str) -> None:
    assert not Egress.of().blocked(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("https://api.example.com/v1/x", True),
        ("https://API.example.com./v1", True),
        ("https://api.example.com:443/v1/", True),
        ("https://api.example.com/v1x", False),
        ("https://api.example.com/v1/../admin", False),
        ("https://api.example.com/v1/%2e%2e/admin", False),
        ("http://api.example.com/v1", False),
        ("https://api.example.com:8443/v1", False),
        ("https://api.example.com.evil.org/v1", False),
        ("https://user@api.example.com/v1", False),
        ("https://api.example.com@evil.org/v1", False),
        ("https://api.example.com:bad/v1", False),
        ("ftp://api.example.com/v1", False),
        ("/v1", False),
    ],
)
def test_the_allow_list(url: str, good: bool) -> None:
    assert (Egress.of(["https://api.example.com/v1"]).refusal(urlsplit(url)) is None) is good


def test_the_block_list() -> None:
    egress = Egress.of(block=["evil.org, 10.0.0.0/8"])
    assert egress.refusal(urlsplit("https://EVIL.org./x")) is not None
    assert egress.refusal(urlsplit("https://10.1.2.3/x")) is not None
    assert egress.refusal(urlsplit("https://[::ffff:10.1.2.3]/x")) is not None
    assert egress.refusal(urlsplit("https://127.0.0.1/")) is not None
    assert egress.refusal(urlsplit("https://good.org/")) is None
    assert egress.blocked(ipaddress.ip_address("10.1.2.3"))
    single = Egress.of(block=["192.0.2.7", "2001:db8::7"])
    for address in ("192.0.2.7", "::ffff:192.0.2.7", "2001:db8::7"):
        assert single.blocked(ipaddress.ip_address(address))
    assert not single.blocked(ipaddress.ip_address("192.0.2.8"))
    for allow, block in ((["api.example.com"], []), ([], ["10.0.0.0/99"])):
        with pytest.raises(EgressError):
            Egress.of(allow, block)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def called(handler: Handler, egress: Egress, host: str = "127.0.0.1", **more: Any) -> Value:
    """The answer to a call of a service on this machine."""

    async def run() -> Value:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            await web.SockSite(runner, sock).start()
            url = f"http://{host}:{sock.getsockname()[1]}/check"
            service = {"url": url, **more.pop("service", {})}
            limits = {key: more.pop(key) for key in ("seconds", "max_bytes") if key in more}
            try:
                return await Services(egress, **limits).call({"service": service, **more}, "x")
            finally:
                await runner.cleanup()

    return asyncio.run(run())


LOCAL = Egress.of(local=True)


async def echo(request: web.Request) -> web.StreamResponse:
    body = await request.json() if request.can_read_body else None
    return web.json_response({"method": request.method, "body": body, "token": request.headers.get("X-Token")})


def test_a_call() -> None:
    service = {"headers": [{"key": "X-Token", "value": "t"}]}
    assert called(echo, LOCAL, service=service) == {"method": "GET", "body": None, "token": "t"}
    found = called(echo, LOCAL, method="POST", data={"a": [1]})
    assert found == {"method": "POST", "body": {"a": [1]}, "token": None}


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f.1",
        "\uff11\uff12\uff17.\uff10.\uff10.\uff11",
        "127\u30020\u30020\u30021",
    ],
)
def test_this_machine_is_not_reached_by_any_name(host: str) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        raise AssertionError("it was reached")

    found = called(handler, Egress.of(), host)
    assert type(found) is Err
    assert any(words in found.text for words in ("may not be called", "is not a canonical", "Name or service"))


def test_redirects_are_held_against_the_lists() -> None:
    async def away(request: web.Request) -> web.StreamResponse:
        if request.path == "/there":
            return web.json_response({"there": True})
        if request.query.get("again"):
            raise web.HTTPFound("/check?again=1")
        raise web.HTTPFound("http://169.254.169.254/latest")

    # Loopback is open here and metadata is not.
    networks = tuple(
        n for n in Egress.of().networks if n.version != 4 or not n.overlaps(ipaddress.ip_network("127.0.0.0/8"))
    )
    found = called(away, Egress(networks=networks))
    assert type(found) is Err
    assert 'URL "http://169.254.169.254/latest" is refused' in found.text

    async def near(request: web.Request) -> web.StreamResponse:
        if request.path == "/there":
            return web.json_response({"there": request.method})
        raise web.HTTPSeeOther("/there")

    assert called(near, LOCAL, method="POST", data={}) == {"there": "GET"}

    async def round_and_round(request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/check")

    assert "stopped after 10 redirects" in called(round_and_round, LOCAL).text


async def large(request: web.Request) -> web.StreamResponse:
    return web.json_response("x" * 5000)


async def slow(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(5)
    return web.json_response(1)


async def broken(request: web.Request) -> web.StreamResponse:
    return web.Response(status=503, text="not now")


async def no_json(request: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>")


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (large, "response length must be less than max allowed response length of 1000"),
        (slow, "no answer within 0.2 seconds"),
        (broken, "HTTP 503 Service Unavailable: not now"),
        (no_json, "the answer is no JSON"),
    ],
)
def test_answers_that_are_none(handler: Handler, text: str) -> None:
    found = called(handler, LOCAL, seconds=0.2, max_bytes=1000)
    assert type(found) is Err
    assert text in found.text


def test_bad_services() -> None:
    bad_header = {"headers": [{"key": "X", "value": "a\r\nb: c"}]}
    assert type(called(echo, LOCAL, service=bad_header)) is Err
    assert called(echo, LOCAL, service={"caBundle": "nonsense"}).text == "failed to parse PEM CA bundle for APICall x"
    found = asyncio.run(Services(LOCAL).call({}, "x"))
    assert found == Err("host", "missing service for APICall x")
