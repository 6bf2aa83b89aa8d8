"""Starts what is measured as a server: ``thesmos serve`` over a bundle, or a webhook that does nothing."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import measure
from runtime.webhook.tls import make_ca, make_serving

READY_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready: its process, port, and the seconds of wall and processor time that it took so far."""

    process: subprocess.Popen[bytes]
    port: int
    ready: float
    ready_cpu: float

    @property
    def pid(self) -> int:
        return self.process.pid

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.port}{path}"


@contextlib.contextmanager
def thesmos(bundle: Path, *cores: int, flags: Sequence[str] = ()) -> Iterator[Server]:
    """``thesmos serve`` over a bundle, on some cores."""
    command = ["-m", "runtime.cli.main", "serve", "--bundle", str(bundle), "--host", "127.0.0.1", *flags]
    with started(command, "/health/readiness", *cores) as server:
        yield server


@contextlib.contextmanager
def do_nothing(scratch: Path, *cores: int) -> Iterator[tuple[Server, bytes]]:
    """The webhook that does nothing, on some cores, and the CA that who calls it must trust."""
    ca = make_ca("bench")
    pair = make_serving(ca, ["127.0.0.1"]).pair
    cert = scratch / "do-nothing.pem"
    cert.touch(mode=0o600)
    cert.write_bytes(pair.cert + pair.key)
    with started(["-m", "bench.do_nothing", "--cert", str(cert)], "/health", *cores) as server:
        yield server, ca.cert


@contextlib.contextmanager
def started(arguments: Sequence[str], health: str, *cores: int) -> Iterator[Server]:
    """Runs Python with arguments and ``--port``; ready when it answers a GET of ``health`` with 200."""
    port = free_port()
    command = [*measure.pinned(*cores), measure.python(), *arguments, "--port", str(port)]
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=measure.as_installed()
    ) as process:
        try:
            _wait_ready(process, f"https://127.0.0.1:{port}{health}")
            yield Server(process, port, time.perf_counter() - start, measure.cpu_seconds(process.pid))
        finally:
            process.terminate()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _wait_ready(process: subprocess.Popen[bytes], url: str) -> None:
    context = ssl._create_unverified_context()
    deadline = time.perf_counter() + READY_SECONDS
    while time.perf_counter() < deadline:
        if process.poll() is not None:
            said = process.stderr.read().decode(errors="replace") if process.stderr else ""
            raise SystemExit(f"a server ended with code {process.returncode} before it was ready: {said[-500:]}")
        with (
            contextlib.suppress(OSError, urllib.error.URLError),
            urllib.request.urlopen(url, context=context, timeout=2) as answer,
        ):
            if answer.status == 200:
                return
        time.sleep(0.01)
    raise SystemExit(f"a server was not ready within {READY_SECONDS:.0f} s")
