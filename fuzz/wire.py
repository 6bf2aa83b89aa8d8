"""A connection to the webhook's routes without a network: what a client sends in which pieces, and what comes back.

``fuzz/targets/f19_connections.py`` and the tests of connections talk through it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any, Final

from runtime.webhook.connection import Connection, Server

TURNS: Final = 40
"""Turns of the loop after which nothing more happens without new data."""
_DATE: Final = re.compile(rb"\r\nDate: [^\r]*")


class Wire(asyncio.Transport):
    """One connection. ``got`` is what the server has sent, without dates; ``closed``: it has ended the connection."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._sent: list[bytes] = []
        self.closed = False
        self.protocol: Connection = server()
        self.protocol.connection_made(self)

    @property
    def got(self) -> bytes:
        return _DATE.sub(b"", b"".join(self._sent))

    def forget(self) -> None:
        """What was received up to now is of no interest."""
        self._sent.clear()

    def write(self, data: Any) -> None:
        if not self.closed:
            self._sent.append(bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        """What comes in then waits for nobody here: it would in the network."""

    def resume_reading(self) -> None:
        """Nothing was held up."""

    def send(self, data: bytes) -> None:
        """Data as it comes in in one piece."""
        if data and not self.closed:
            self.protocol.data_received(data)

    async def settled(self) -> None:
        """Lets the server do all it can."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def talk(self, chunks: Iterable[tuple[bytes, int]]) -> tuple[bytes, bool]:
        """Sends pieces, each with the turns of the loop after it, and hangs up in the end. What came back, and whether
        the server has closed the connection before."""
        await self.settled()
        for data, turns in chunks:
            self.send(data)
            for _ in range(turns):
                await asyncio.sleep(0)
        await self.settled()
        ended = self.closed
        self.close()
        await self.settled()
        return self.got, ended
