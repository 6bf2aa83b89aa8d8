"""The one client by which policies call services (``apiCall.service``): HTTP with limits on where, how long, how much.

Names are resolved here, every address is held against :class:`runtime.context.egress.Egress`, and the connection goes
to the very address that was held against it. Proxies of the environment are not used, and none of our credentials
are sent.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from runtime.context.egress import Egress, literal_address
from vm.values import Err, Value

SECONDS: Final = 30.0
MAX_BYTES: Final = 2_000_000
"""Kyverno's limits on a call (``--apiCallTimeout``, ``--maxAPICallResponseLength``)."""
_REDIRECTS: Final = 10
_SHOWN: Final = 300


class Blocked(OSError):
    """A name that resolves to an address which may not be called."""


class _Resolver(AbstractResolver):
    """Resolves by the system and refuses a name of which any address may not be reached."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        results: list[ResolveResult] = []
        for kind, _, proto, _, address in found:
            text = str(address[0])
            literal = literal_address(text)
            if literal is None or self._egress.blocked(literal):
                # The address is not told: a denial would else say what any name resolves to from here.
                raise Blocked(f"{host} resolves into a network that may not be called")
            results.append(
                ResolveResult(
                    hostname=host, host=text, port=port, family=kind, proto=proto, flags=socket.AI_NUMERICHOST
                )
            )
        return results

    async def close(self) -> None:
        """Nothing is kept open."""


class Services:
    """Calls services. One for a process; connections are not kept, since policies call rarely."""

    def __init__(self, egress: Egress, *, seconds: float = SECONDS, max_bytes: int = MAX_BYTES) -> None:
        self._egress = egress
        self._seconds = seconds
        self._max_bytes = max_bytes

    async def call(self, payload: Mapping[str, Any], entry: str) -> Value:
        """The decoded answer to a call, or an ``Err`` of code ``host``."""
        service = payload.get("service")
        url = service.get("url") if type(service) is dict else None
        if type(service) is not dict or type(url) is not str:
            return Err("host", f"missing service for APICall {entry}")
        try:
            context = _trust(service.get("caBundle"))
        except (ssl.SSLError, ValueError):
            return Err("host", f"failed to parse PEM CA bundle for APICall {entry}")
        headers = {str(h.get("key")): str(h.get("value")) for h in service.get("headers") or () if type(h) is dict}
        method = payload.get("method") or "GET"
        try:
            async with asyncio.timeout(self._seconds):
                return await self._send(method, url, headers, payload.get("data") or {}, context, entry)
        except TimeoutError:
            return _failed(entry, f'{method} "{url}": no answer within {self._seconds:g} seconds')
        except (aiohttp.ClientError, OSError, ValueError) as error:
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            said = str(cause).partition("\n")[0] or "the connection failed"
            return _failed(entry, f'{method} "{url}": {said}')

    async def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        data: Any,
        context: ssl.SSLContext | None,
        entry: str,
    ) -> Value:
        body = orjson.dumps(data) if method == "POST" else None
        if body is not None and not any(key.lower() == "content-type" for key in headers):
            headers = {**headers, "Content-Type": "application/json"}
        connector = aiohttp.TCPConnector(resolver=_Resolver(self._egress), use_dns_cache=False, force_close=True)
        async with aiohttp.ClientSession(connector=connector, trust_env=False, max_field_size=16384) as session:
            for _ in range(_REDIRECTS):
                # Held against the lists as it is sent: full-width digits of hosts have become plain ones there.
                sent = URL(url)
                refusal = self._egress.refusal(urlsplit(str(sent)))
                if refusal is not None:
                    return Err("host", f'failed to validate URL for APICall {entry}: URL "{url}" is refused: {refusal}')
                async with session.request(
                    method, sent, headers=headers, data=body, allow_redirects=False, ssl=context or True
                ) as response:
                    target = response.headers.get("Location")
                    if response.status in (301, 302, 303, 307, 308) and target:
                        there = urljoin(url, target)
                        if urlsplit(there).netloc != urlsplit(url).netloc:
                            headers = {k: v for k, v in headers.items() if k.lower() not in ("authorization", "cookie")}
                        if method == "POST" and response.status in (301, 302, 303):
                            method, body = "GET", None
                        url = there
                        continue
                    return await self._read(response)
        return _failed(entry, f'{method} "{url}": stopped after {_REDIRECTS} redirects')

    async def _read(self, response: aiohttp.ClientResponse) -> Value:
        held = bytearray()
        async for chunk in response.content.iter_any():
            held += chunk
            if len(held) > self._max_bytes:
                return Err(
                    "host", f"response length must be less than max allowed response length of {self._max_bytes}"
                )
        if not 200 <= response.status < 300:
            shown = bytes(held[:_SHOWN]).decode(errors="replace")
            return Err("host", f"HTTP {response.status} {response.reason or ''}".rstrip() + f": {shown}")
        try:
            return orjson.loads(bytes(held))
        except orjson.JSONDecodeError:
            return Err("host", "the answer is no JSON")


def _failed(entry: str, said: str) -> Err:
    return Err("host", f"failed to execute HTTP request for APICall {entry}: {said}")


def _trust(bundle: Any) -> ssl.SSLContext | None:
    """What to trust beside the method of the system, None for that alone. Raises ``ssl.SSLError`` for a bad bundle."""
    if not bundle:
        return None
    context = ssl.create_default_context(cadata=str(bundle))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
