"""Runs Thesmos out of the cluster against a test control plane, as a process of its own that can be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.cluster.control_plane import ControlPlane, free_port

READY_SECONDS: Final = 60.0


class Thesmos:
    """One installation: start it, stop it politely, kill it, start it again on the same port."""

    command: str = "serve"

    def __init__(self, plane: ControlPlane, folder: Path, *flags: str) -> None:
        self.plane = plane
        self.port = free_port()
        self.log = folder / "thesmos.log"
        self.ca = folder / "thesmos-ca.pem"
        self.environment: dict[str, str] = {}
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait: bool = True) -> None:
        command = [sys.executable, "-m", "runtime.cli.main", self.command, "--kubeconfig", str(self.plane.account)]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--server-ip", f"127.0.0.1:{self.port}"]
        command += ["--ca-out", str(self.ca), *self._flags]
        with self.log.open("ab") as log:
            environment = {**os.environ, "PYTHONUNBUFFERED": "1", **self.environment}
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)
        if wait:
            self.wait_ready()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ends the process; gives its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            return process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """The process stands still while the block runs."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Until policies are loaded. Fails with the tail of the log."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                raise AssertionError(f"thesmos ended with code {self._process.returncode}:\n{self.tail()}")
            if self._ready():
                return
            time.sleep(0.05)
        raise AssertionError(f"thesmos was not ready in {seconds:.0f} s:\n{self.tail()}")

    def get(self, path: str) -> str:
        """The text of a GET; raises ``OSError``."""
        context = ssl.create_default_context(cafile=str(self.ca))
        with urllib.request.urlopen(self.url + path, context=context, timeout=2) as answer:
            return str(answer.read().decode())

    def _ready(self) -> bool:
        try:
            return self.ca.exists() and self.get("/health/readiness") == "ok\n"
        except (OSError, urllib.error.URLError, ssl.SSLError):
            return False

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
