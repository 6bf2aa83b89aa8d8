"""A small TCP relay: one address before several replicas, as a Service is: ``python -m tests.cluster.relay PORT PORT``.

New connections go in turn to replicas that say they are ready, looked at five times a second; one that cannot be
connected to is passed over at once. Open connections are left alone, whatever the replica says of itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import ssl
import sys
from typing import Final

LOOK_SECONDS: Final = 0.2


class Relay:
    """``ports`` are those of the replicas on this machine."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self._ready: list[int] = []
        self._turn = itertools.count()
        self._open: set[asyncio.Task[None]] = set()

    async def run(self, port: int) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        async with server:
            while True:
                found = await asyncio.gather(*(asyncio.to_thread(is_ready, one) for one in self._ports))
                self._ready = [one for one, ready in zip(self._ports, found, strict=True) if ready]
                await asyncio.sleep(LOOK_SECONDS)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turn = next(self._turn)
        # Where nobody is ready, whoever listens is asked: it says itself that it cannot answer.
        candidates = self._ready or self._ports
        for offset in range(len(candidates)):
            chosen = candidates[(turn + offset) % len(candidates)]
            with contextlib.suppress(OSError):
                there, back = await asyncio.open_connection("127.0.0.1", chosen)
                await asyncio.gather(_pump(reader, back), _pump(there, writer))
                return
        writer.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
        sink.write_eof()
    except OSError:
        sink.transport.abort()
    finally:
        sink.close()


def is_ready(port: int) -> bool:
    """Whether a replica says that it is ready."""
    # Who it is does not matter here: the API server looks at that.
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=1.0, context=ssl._create_unverified_context())
    try:
        connection.request("GET", "/health/readiness")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def main() -> None:
    port, *replicas = (int(word) for word in sys.argv[1:])
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(Relay(replicas).run(port))


if __name__ == "__main__":
    main()
