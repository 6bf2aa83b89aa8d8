"""A recording made against an API server answers by itself afterwards."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from runtime.cli.main import main
from runtime.context.recording import Recording, RecordingError
from vm.host import HostCall
from vm.values import MISSING, Err

POLICY = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  background: false
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Pod]}}]}
    context:
    - {name: cm, configMap: {name: settings}}
    - {name: nodes, apiCall: {urlPath: "/api/v1/nodes?labelSelector=a%20in%20(b)", jmesPath: length(items)}}
    - {name: gone, apiCall: {urlPath: /api/v1/namespaces/gone, default: none}}
    validate:
      failureAction: Enforce
      message: "{{ cm.data.level }} {{ nodes }} {{ gone }}"
      deny: {}
"""
ANSWERS: dict[str, Any] = {
    "/api/v1/namespaces/default/configmaps/settings": {"metadata": {"name": "settings"}, "data": {"level": "high"}},
    "/api/v1/nodes?labelSelector=a+in+(b)": {"items": [1, 2]},
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, list[str]]]:
    """The kubeconfig of an API server that answers :data:`ANSWERS`, and what it was asked."""
    asked: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(request.raw_path)
        found = ANSWERS.get(asked[-1])
        if found is None:
            status = {"kind": "Status", "message": f"{request.path} not found", "reason": "NotFound", "code": 404}
            return web.json_response(status, status=404)
        return web.json_response(found)

    loop, ready, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))

    async def serve() -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.SockSite(runner, sock).start()
        ready.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{sock.getsockname()[1]}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")
    yield path, asked
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
    loop.close()


def test_what_is_recorded_is_replayed(
    server: tuple[Path, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig, asked = server
    (tmp_path / "p.yaml").write_text(POLICY, encoding="utf-8")
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: default}\n"
    (tmp_path / "r.yaml").write_text(pod, encoding="utf-8")
    command = ["apply", str(tmp_path / "p.yaml"), "-r", str(tmp_path / "r.yaml")]
    recording = tmp_path / "recording.json"
    assert main([*command, "--record", str(recording), "--kubeconfig", str(kubeconfig)]) == 1
    assert "1 - r high 2 none" in capsys.readouterr().out
    assert len(asked) == 3
    written = json.loads(recording.read_text(encoding="utf-8"))
    assert [call["kind"] for call in written["calls"]] == ["apicall", "apicall", "configmap"]
    assert "for" not in written["calls"][0]["ask"]
    assert main([*command, "--replay", str(recording)]) == 1
    assert "1 - r high 2 none" in capsys.readouterr().out
    assert len(asked) == 3


def test_recordings() -> None:
    made = Recording()
    made.add(HostCall("configmap", {"name": "a", "namespace": "b", "for": {"entry": "x"}}), {"data": None})
    made.add(HostCall("apicall", {"urlPath": "/x"}, "mine"), Err("host", "no"))
    again = Recording.read(json.loads(made.text()))
    assert again.document() == made.document()
    assert again.find(HostCall("configmap", {"name": "a", "namespace": "b", "for": {"entry": "y"}})) == {"data": None}
    assert again.find(HostCall("configmap", {"name": "a", "namespace": "b"}, "mine")) == {"data": None}
    assert again.find(HostCall("apicall", {"urlPath": "/x"}, "mine")) == Err("host", "no")
    assert again.find(HostCall("apicall", {"urlPath": "/x"})) is MISSING
    for document in (None, {"kind": "Recording"}, {"kind": "Recording", "calls": [{"kind": "a", "ask": {}}]}):
        with pytest.raises(RecordingError):
            Recording.read(document)
