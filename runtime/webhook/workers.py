"""Several processes that answer on one port (``thesmos serve --workers``), forked from one that has loaded everything.

``runtime.webhook.serve`` calls :func:`run_workers` with what a worker does. Policies and generated code are loaded
once, and workers share those pages. The kernel divides connections (``SO_REUSEPORT``); the first process answers none:
it starts workers again that end, and ends them all when it is told to, or is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from runtime.observe.metrics import Metrics

log = logging.getLogger("thesmos.workers")

STEADY_SECONDS: Final = 10.0
"""A worker that has run for this long is started again at once when it ends, any other after a while."""
LONGEST_WAIT: Final = 10.0
CANNOT_START: Final = 2
"""The exit code of a worker that never will: all end then, with this code."""
ANSWER_SECONDS: Final = 1.0
"""How long a worker may take to tell another its numbers."""


def reserve_port(host: str, port: int) -> socket.socket:
    """Holds a port for workers to come without listening on it; 0: any that is free. Raises ``OSError``."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    held = socket.socket(family, socket.SOCK_STREAM)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind((host, port))
    except OSError:
        held.close()
        raise
    return held


class Sibling:
    """One worker as the others see it. ``folder`` holds a socket for each of ``count`` workers; ``parent`` can be read
    once the first process is gone."""

    def __init__(self, number: int, count: int, folder: Path, parent: int) -> None:
        self.number = number
        self.parent = parent
        self._others = [_address(folder, n) for n in range(count) if n != number]
        self._own = _address(folder, number)

    @contextlib.asynccontextmanager
    async def telling(self, metrics: Metrics) -> AsyncIterator[None]:
        """While the block runs, ``/metrics`` of this worker has the numbers of all, and others can ask for its own."""
        self._own.unlink(missing_ok=True)  # of the one before
        server = await asyncio.start_unix_server(lambda reader, writer: _tell(metrics, writer), self._own)
        metrics.others = self.ask
        try:
            yield
        finally:
            metrics.others = None
            server.close()

    async def ask(self) -> list[bytes]:
        """The numbers of the other workers; of one that does not answer (it is being started) there are none."""
        answers = await asyncio.gather(*map(_asked, self._others))
        return [answer for answer in answers if answer]


def _address(folder: Path, number: int) -> Path:
    return folder / f"{number}.sock"


async def _tell(metrics: Metrics, writer: asyncio.StreamWriter) -> None:
    writer.write(metrics.packed())
    await writer.drain()
    writer.close()


async def _asked(address: Path) -> bytes:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(address)
            try:
                return await reader.read(-1)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return b""


class Supervisor:
    """Starts ``count`` workers and keeps them running. ``work`` is what one does, in a process of its own: its result
    is the exit code."""

    def __init__(self, count: int, work: Callable[[Sibling], int], folder: Path) -> None:
        self._count = count
        self._work = work
        self._folder = folder
        self._running: dict[int, tuple[int, float]] = {}
        self._ending = False
        self._failed = 0
        self._alive, self._held = os.pipe()

    def run(self) -> int:
        """Until SIGTERM or SIGINT, and all workers have ended; the highest of their exit codes."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._end())
        for worker in range(self._count):
            self._start(worker)
        worst = 0
        while self._running:
            pid, status = os.wait()
            worker, started = self._running.pop(pid, (-1, 0.0))
            if worker < 0:
                continue
            code = os.waitstatus_to_exitcode(status)
            if self._ending or code == CANNOT_START:
                worst = max(worst, code)
                self._end()
                continue
            log.error("worker %d ended with %d, it is started again", worker, code)
            self._wait(time.monotonic() - started)
            self._start(worker)
        return worst

    def _start(self, worker: int) -> None:
        if self._ending:
            return
        pid = os.fork()
        if pid:
            self._running[pid] = (worker, time.monotonic())
            if self._ending:
                self._end()  # told so before it was known
            return
        code = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            os.close(self._held)
            code = self._work(Sibling(worker, self._count, self._folder, self._alive))
        except BaseException:
            log.critical("worker %d cannot go on", worker, exc_info=True)
        finally:
            # Not by raising: what the first process would do on its way out is not for a worker.
            os._exit(code)

    def _wait(self, ran: float) -> None:
        self._failed = 0 if ran >= STEADY_SECONDS else self._failed + 1
        ends = time.monotonic() + (0.0 if not self._failed else min(0.1 * 2**self._failed, LONGEST_WAIT))
        while not self._ending and time.monotonic() < ends:
            time.sleep(0.05)

    def _end(self) -> None:
        self._ending = True
        for pid in list(self._running):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def run_workers(count: int, work: Callable[[Sibling], int]) -> int:
    """Runs ``count`` workers until this process is told to end; the exit code."""
    with TemporaryDirectory(prefix="thesmos-workers-") as folder:
        return Supervisor(count, work, Path(folder)).run()
