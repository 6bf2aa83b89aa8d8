"""Ways of measuring: a call's time in process, a command as a whole process, a web server under load on one core."""

from __future__ import annotations

import asyncio
import os
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


def microseconds(call: Callable[[], object], *, rounds: int = 7, at_least: float = 0.05) -> float:
    """Median over ``rounds`` of the mean time of one call, each round at least ``at_least`` seconds long, in µs.

    Before that the call is made 50 times: the interpreter specialises code that has run a few times.
    """
    for _ in range(50):
        call()
    n = 1
    while True:
        start = time.perf_counter()
        for _ in range(n):
            call()
        if time.perf_counter() - start >= at_least:
            break
        n *= 2
    means = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(n):
            call()
        means.append((time.perf_counter() - start) / n)
    return statistics.median(means) * 1e6


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """One finished command: seconds of wall and processor time, peak resident memory in MB, exit code."""

    wall: float
    cpu: float
    memory: float
    code: int


def command(args: Sequence[str], rounds: int = 3) -> ProcessFigures:
    """Runs a command ``rounds`` times after one warm-up; medians."""
    runs = [_run_once(args) for _ in range(rounds + 1)][1:]
    return ProcessFigures(
        statistics.median(r.wall for r in runs),
        statistics.median(r.cpu for r in runs),
        statistics.median(r.memory for r in runs),
        runs[-1].code,
    )


def _run_once(args: Sequence[str]) -> ProcessFigures:
    start = time.perf_counter()
    process = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    return ProcessFigures(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode)


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """A server under load: answers a second, latency percentiles in ms, resident memory in MB."""

    rate: float
    p50: float
    p99: float
    memory: float


def pinned(core: int) -> list[str]:
    """Words before a command that keep it on one core, where the machine has ``taskset``."""
    return ["taskset", "-c", str(core)] if Path("/usr/bin/taskset").exists() else []


async def load(host: str, port: int, path: str, body: bytes, *, seconds: float, connections: int) -> list[float]:
    """Sends one request after another on each connection (TLS, keep-alive); the latencies of all answers in seconds."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    times: list[float] = []
    stop = time.perf_counter() + seconds

    async def one() -> None:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        while (start := time.perf_counter()) < stop:
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"the server answered {answer[:80]!r}")
            length = next(int(h[15:]) for h in answer.lower().split(b"\r\n") if h.startswith(b"content-length:"))
            await reader.readexactly(length)
            times.append(time.perf_counter() - start)
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return times


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def python() -> str:
    return sys.executable
