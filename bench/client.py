"""A client for HTTP/1.1 over TLS on kept connections, in one thread: as fast as it can, or at a pace.

At a pace it is *open*: a request goes out when its time has come, whatever the answers before it do, on another
connection when all are busy; its latency counts from that time, so that a stall of the server shows in every request
that fell into it. As a process of its own (``python -m bench.client``) it takes a :class:`Job` as JSON on standard
input and answers with the latencies; ``bench.webhook`` and ``bench.through`` start it, on another core than the server.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final
from urllib.parse import urlsplit

from bench import measure

MOST: Final = 128
"""Connections at a pace at most: what would need more waits, and its latency says so."""
READY: Final = 32
"""Connections that are open when a run at a pace begins. One that must be made takes longer than the time between two
requests, so that with few of them one pause of the system became a third of a second of handshakes."""
EARLY: Final = 100e-6
"""Seconds before its time at which a request is waited for without sleeping: the system wakes up late by half that."""
PATIENCE: Final = 10.0
"""Seconds without any answer after which the run has failed."""


class ClientProblem(Exception):
    """The server did not answer as it should; the text says how."""


@dataclass(frozen=True, slots=True)
class Job:
    """POSTs the bodies of a file (one a line), in turn, again and again for ``seconds``: on ``connections``
    connections, one request after the other each, or ``rate`` a second where that is not 0. What does not hold
    ``expect`` is a wrong answer."""

    url: str
    bodies: str
    seconds: float
    connections: int = 1
    rate: float = 0.0
    expect: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class _Connection:
    """One kept connection, at most one request on it."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        self._socket = context.wrap_socket(socket.create_connection((host, port), timeout=PATIENCE))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._got = bytearray()
        self.since = 0.0

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, request: bytes, since: float) -> None:
        self.since = since
        self._got.clear()
        # A request is smaller than the buffer of a socket that nothing waits in.
        if self._socket.send(request) != len(request):
            raise ClientProblem("a request did not fit into the socket")

    def answer(self) -> bytes | None:
        """The answer when it is there as a whole."""
        try:
            while True:
                data = self._socket.recv(65536)
                if not data:
                    raise ClientProblem("the server closed the connection")
                self._got += data
                if not self._socket.pending():
                    break
        except ssl.SSLWantReadError:
            pass
        return bytes(self._got) if _whole(self._got) else None

    def close(self) -> None:
        self._socket.close()


def _whole(got: bytearray) -> bool:
    end = got.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = bytes(got[:end]).lower()
    place = head.find(b"\r\ncontent-length:")
    if place >= 0:
        return len(got) >= end + 4 + int(head[place + 17 :].split(b"\r\n", 1)[0])
    # JSON writes a line break as two letters, so this cannot stand inside the body.
    return got.endswith(b"\r\n0\r\n\r\n")


class Client:
    """``requests`` are whole messages, sent in turn."""

    def __init__(self, job: Job, requests: Sequence[bytes]) -> None:
        parts = urlsplit(job.url)
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        self._address = parts.hostname or "", parts.port or 443
        self._requests = requests
        self._next = 0
        self._expect = job.expect.encode()
        self.latencies: list[float] = []
        self.most = 0
        """Connections that were busy at a time, at most."""

    def full(self, seconds: float, connections: int) -> None:
        """Each connection sends its next request when it has the answer to the one before."""
        all_of = [self._connect() for _ in range(connections)]
        now = time.perf_counter()
        stop = now + seconds
        for connection in all_of:
            connection.send(self._request(), now)
        busy = list(all_of)
        while busy:
            for connection in self._answered(busy, PATIENCE, True):
                now = time.perf_counter()
                if now < stop:
                    connection.send(self._request(), now)
                else:
                    busy.remove(connection)
        for connection in all_of:
            connection.close()

    def paced(self, seconds: float, rate: float) -> None:
        """Request ``n`` goes out at ``n / rate``."""
        idle = [self._connect() for _ in range(READY)]
        busy: list[_Connection] = []
        start = time.perf_counter() + 0.01
        sent, total = 0, int(seconds * rate)
        while sent < total or busy:
            due = start + sent / rate if sent < total else start + seconds + PATIENCE
            gap = due - time.perf_counter()
            if gap <= 0 and sent < total and (idle or len(busy) < MOST):
                connection = idle.pop() if idle else self._connect()
                connection.send(self._request(), due)
                busy.append(connection)
                self.most = max(self.most, len(busy))
                sent += 1
                continue
            for connection in self._answered(busy, max(0.0, gap - EARLY), sent == total):
                busy.remove(connection)
                idle.append(connection)
        for connection in idle:
            connection.close()

    def _answered(self, busy: list[_Connection], wait: float, must: bool) -> list[_Connection]:
        """Those that have their answer after at most ``wait`` seconds; ``must``: silence is a failure."""
        ready = select.select(busy, (), (), wait)[0]
        if must and not ready:
            raise ClientProblem(f"the server did not answer for {wait:.0f} s")
        found = []
        for connection in ready:
            answer = connection.answer()
            if answer is not None:
                self.latencies.append(time.perf_counter() - connection.since)
                if not answer.startswith(b"HTTP/1.1 20") or self._expect not in answer:
                    raise ClientProblem(f"the server answered {answer[:20]!r} … {answer[-300:]!r}")
                found.append(connection)
        return found

    def _connect(self) -> _Connection:
        return _Connection(*self._address, self._context)

    def _request(self) -> bytes:
        self._next = (self._next + 1) % len(self._requests)
        return self._requests[self._next]


@dataclass(frozen=True, slots=True)
class Answered:
    """What a run came to: latencies in seconds, sorted; seconds it lasted; connections that were busy at most."""

    latencies: list[float]
    seconds: float
    connections: int

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    def milliseconds(self, share: float) -> float:
        return measure.percentile(self.latencies, share) * 1e3


def ask(job: Job, *cores: int) -> Answered:
    """Runs a job in a process of its own on some cores. Raises :class:`ClientProblem`."""
    command = [*measure.pinned(*cores), measure.python(), "-m", "bench.client"]
    done = subprocess.run(command, input=json.dumps(asdict(job)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClientProblem(done.stderr.strip().rpartition("\n")[2])
    return Answered(**json.loads(done.stdout))


def whole_requests(job: Job) -> list[bytes]:
    """The messages of a job."""
    parts = urlsplit(job.url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"POST {target} HTTP/1.1", f"host: {parts.netloc}", "content-type: application/json"]
    head = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in job.headers.items())])
    with open(job.bodies, "rb") as file:
        bodies = file.read().splitlines()
    return [f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body for body in bodies]


def main() -> int:
    job = Job(**json.load(sys.stdin))
    client = Client(job, whole_requests(job))
    start = time.perf_counter()
    run: Callable[[], None] = (
        (lambda: client.paced(job.seconds, job.rate))
        if job.rate
        else (lambda: client.full(job.seconds, job.connections))
    )
    try:
        run()
    except (ClientProblem, OSError) as problem:
        print(problem, file=sys.stderr)
        return 1
    seconds = time.perf_counter() - start
    json.dump(asdict(Answered(sorted(client.latencies), seconds, client.most or job.connections)), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
