"""Runs the routes of the webhook in a thread of the test process, and asks it with the standard library's client."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from runtime.config import Settings
from runtime.controllers.compilation import compile_text
from runtime.observe.metrics import Metrics
from runtime.policyset import PolicySet
from runtime.webhook.app import build_app
from runtime.webhook.live import Live, Snapshot
from runtime.webhook.routing import Routes


@dataclass(frozen=True, slots=True)
class Answered:
    """An HTTP answer."""

    status: int
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def response(self) -> dict[str, Any]:
        """``response`` of the AdmissionReview in the body."""
        review = json.loads(self.body)
        assert review["apiVersion"] == "admission.k8s.io/v1"
        assert review["kind"] == "AdmissionReview"
        found: dict[str, Any] = review["response"]
        return found


class Client:
    """One connection to a running application."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def get(self, path: str) -> Answered:
        return self._send("GET", path, None, {})

    def post(
        self, path: str, body: Any, content_type: str | None = "application/json", headers: Mapping[str, str] = {}
    ) -> Answered:
        """Sends bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = dict(headers)
        if content_type is not None:
            sent["Content-Type"] = content_type
        return self._send("POST", path, data, sent)

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answered:
        self._connection.request(method, path, body, dict(headers))
        answer = self._connection.getresponse()
        return Answered(answer.status, answer.read())

    def close(self) -> None:
        self._connection.close()


@contextmanager
def running(make_app: Callable[[], Routes]) -> Iterator[Client]:
    """The routes on a free port while the block runs."""
    loop = asyncio.new_event_loop()
    started: list[tuple[web.ServerRunner, int]] = []

    async def start() -> None:
        runner = make_app().runner()
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        started.append((runner, runner.addresses[0][1]))

    loop.run_until_complete(start())
    runner, port = started[0]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    client = Client(port)
    try:
        yield client
    finally:
        client.close()
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


def policy_set(text: str) -> PolicySet:
    """Compiles policies that must compile."""
    compiled = compile_text(text, "policies.yaml")
    assert compiled.bundle is not None, compiled.report
    return PolicySet.load(compiled.bundle)


@contextmanager
def webhook(text: str, settings: Settings | None = None, live: Live | None = None) -> Iterator[Client]:
    """The webhook over some policies."""
    live = live or Live()
    live.swap(Snapshot.of(policy_set(text)))
    with running(lambda: build_app(live, settings or Settings(), Metrics())) as client:
        yield client


def review(obj: dict[str, Any] | None, *, operation: str = "CREATE", **request: Any) -> dict[str, Any]:
    """An AdmissionReview for an object; ``request`` replaces or adds fields of the request."""
    shown = obj or request.get("oldObject") or {}
    group, _, version = str(shown.get("apiVersion", "v1")).rpartition("/")
    kind = {"group": group, "version": version, "kind": shown.get("kind", "Pod")}
    fields: dict[str, Any] = {
        "uid": "0b1e5b0e-5e5e-4b6e-9c1d-000000000001",
        "kind": kind,
        "resource": {"group": group, "version": version, "resource": f"{kind['kind'].lower()}s"},
        "name": shown.get("metadata", {}).get("name", ""),
        "namespace": shown.get("metadata", {}).get("namespace", "default"),
        "operation": operation,
        "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": None,
        "dryRun": False,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**fields, **request}}
