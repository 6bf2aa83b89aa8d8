"""``thesmos serve --workers``: one port, numbers of all workers together, and nobody left behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.cli.main import main
from runtime.observe.metrics import Metrics

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
COUNTED = "kyverno_http_requests_total"


@contextmanager
def workers(count: int = 2) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The first process and the URL, once all workers answer."""
    command = [sys.executable, "-m", "runtime.cli.main", "serve", "--policies", str(EXAMPLES / "policies")]
    command += ["--host", "127.0.0.1", "--port", "0", "--workers", str(count)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=EXAMPLES.parent
    ) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        try:
            assert line.startswith("serving 4 policies on https://127.0.0.1:"), line
            assert server.stderr is not None
            for _ in range(count):
                assert "listening" in server.stderr.readline()
            yield server, "https://127.0.0.1:" + line.rsplit(":", 1)[1].strip()
        finally:
            if server.poll() is None:
                server.terminate()
            server.wait(30)


def get(url: str) -> str:
    """Over a connection of its own, so that the kernel chooses a worker."""
    with urllib.request.urlopen(url, context=ssl._create_unverified_context(), timeout=10) as answer:
        return str(answer.read().decode())


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


def children(pid: int) -> set[int]:
    return {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_metrics_are_those_of_all_workers() -> None:
    with workers() as (server, url):
        for _ in range(20):
            get(url + "/health/liveness")
        text = get(url + "/metrics")
    found = re.search(COUNTED + r'\{http_method="GET",http_url="/health/liveness"\} (\d+)', text)
    assert found is not None
    assert found[1] == "20"
    assert server.returncode == 0


def test_a_worker_that_ends_is_started_again() -> None:
    with workers() as (server, url):
        before = children(server.pid)
        assert len(before) == 2
        killed = min(before)
        os.kill(killed, signal.SIGKILL)
        until(lambda: len(children(server.pid) - {killed}) == 2)
        assert server.stderr is not None
        assert "ended with -9, it is started again" in server.stderr.readline()
        assert "listening" in server.stderr.readline()
        for _ in range(10):
            assert get(url + "/health/readiness") == "ok\n"
    assert server.returncode == 0
    assert not any(map(alive, before))


def test_workers_end_with_the_first_process() -> None:
    with workers() as (server, _):
        left = children(server.pid)
        server.kill()
        server.wait(30)
        until(lambda: not any(map(alive, left)))


def test_a_port_in_use_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with workers() as (_, url):
        port = url.rsplit(":", 1)[1]
        # Whoever does not mean to share the port gets none.
        words = ["--host", "127.0.0.1", "--port", port]
        assert main(["serve", "--policies", str(EXAMPLES / "policies"), *words]) == 2
    assert "address already in use" in capsys.readouterr().err


def test_workers_are_for_bundles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--in-cluster", "--workers", "2"]) == 2
    assert "--workers is for serving without a cluster" in capsys.readouterr().err


def test_numbers_of_processes_are_added() -> None:
    one, two = Metrics(), Metrics()
    for metrics, seconds in ((one, 0.002), (two, 100.0), (two, 0.002)):
        metrics.count("kyverno_webhooks_processed_total", "validate")
        metrics.observe("kyverno_webhook_duration_seconds", seconds, "validate")
    two.count("kyverno_webhooks_processed_total", "mutate")
    for metrics in (one, two):
        metrics.set("kyverno_info", 1, "v1")

    async def others() -> list[bytes]:
        return [two.packed(), b'{"cut']

    one.others = others
    lines = asyncio.run(one.exposition_aside()).decode().splitlines()
    assert 'kyverno_webhooks_processed_total{request_webhook="validate"} 3.0' in lines
    assert 'kyverno_webhooks_processed_total{request_webhook="mutate"} 1.0' in lines
    assert 'kyverno_webhook_duration_seconds_count{request_webhook="validate"} 3.0' in lines
    assert 'kyverno_info{version="v1"} 1.0' in lines
    # Nothing of another stays with one.
    assert one.value("kyverno_webhooks_processed_total", "validate") == 1
