"""The Kubernetes client against a server that misbehaves as real ones do: lost history, broken streams, errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from runtime.k8s.client import ApiMissing, HttpKubeClient, Resource, connect
from runtime.k8s.discovery import discover
from runtime.k8s.errors import ApiProblem, Expired, Unreachable

THINGS = Resource("example.com", "v1", "things", "Thing")
PATH = "/apis/example.com/v1/things"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def talk(tmp_path: Path, handler: Handler, scenario: Callable[[HttpKubeClient], Awaitable[Any]]) -> Any:
    """Runs a scenario with a client of a server whose every request goes to the handler."""

    async def main() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server = f"http://127.0.0.1:{runner.addresses[0][1]}"
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "t",
                    "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
                    "clusters": [{"name": "t", "cluster": {"server": server}}],
                    "users": [{"name": "t", "user": {"token": "secret"}}],
                }
            )
        )
        client = await connect(str(kubeconfig), lambda verb, resource, namespace: None)
        try:
            return await scenario(client)
        finally:
            await client.close()
            await runner.cleanup()

    return asyncio.run(main())


async def events(client: HttpKubeClient) -> list[Any]:
    return [event async for event in client.watch(THINGS, "1")]


def streaming(*chunks: bytes) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.query["watch"] == "true"
        assert request.query["allowWatchBookmarks"] == "true"
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        return response

    return handler


def event(what: str, **obj: Any) -> bytes:
    return json.dumps({"type": what, "object": obj}).encode() + b"\n"


def test_the_token_is_sent_and_pages_are_joined(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.path == PATH
        assert request.headers["Authorization"] == "Bearer secret"
        more = request.query.get("continue")
        page: dict[str, Any] = {"items": [{"n": 2 if more else 1}], "metadata": {"resourceVersion": "9"}}
        if more is None:
            page["metadata"]["continue"] = "t/o=k"
        else:
            assert more == "t/o=k"
        return web.json_response(page)

    listed = talk(tmp_path, handler, lambda client: client.list(THINGS))
    assert listed["items"] == [{"n": 1}, {"n": 2}]


def test_events_may_be_long_and_cut_anywhere(tmp_path: Path) -> None:
    data = event("ADDED", value="x" * 300_000) + event("BOOKMARK", metadata={"resourceVersion": "5"})
    found = talk(tmp_path, streaming(data[:7], data[7:200_000], data[200_000:]), events)
    assert [e["type"] for e in found] == ["ADDED", "BOOKMARK"]
    assert len(found[0]["object"]["value"]) == 300_000


def test_lost_history_is_told_as_an_event_or_as_a_status(tmp_path: Path) -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    with pytest.raises(Expired, match="too old"):
        talk(tmp_path, streaming(event("ERROR", **gone)), events)

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response(gone, status=410)

    with pytest.raises(Expired, match="too old"):
        talk(tmp_path, handler, events)


def test_a_stream_that_breaks_is_no_end(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(event("ADDED", n=1) + b'{"type": "ADD')
        assert request.transport is not None
        request.transport.abort()
        return response

    with pytest.raises(Unreachable):
        talk(tmp_path, handler, events)


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (
            404,
            {"kind": "Status", "reason": "NotFound", "message": "things x not found"},
            ApiMissing,
            "things x not found",
        ),
        (409, {"kind": "Status", "reason": "Conflict", "message": "changed"}, ApiProblem, "changed"),
        (403, {"kind": "Status", "reason": "Forbidden", "message": "may not"}, ApiProblem, "may not"),
        (502, None, ApiProblem, "bad gateway"),
    ],
)
def test_errors_carry_what_the_server_said(
    tmp_path: Path, status: int, body: Any, kind: type[ApiProblem], said: str
) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text="bad gateway" if body is None else json.dumps(body))

    with pytest.raises(kind, match=said) as caught:
        talk(tmp_path, handler, lambda client: client.get(THINGS, "x"))
    assert caught.value.code == status


def test_an_answer_that_is_no_json_comes_from_no_api_server(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>signed out</html>")

    with pytest.raises(Unreachable):
        talk(tmp_path, handler, lambda client: client.list(THINGS))


def test_deleting_what_is_gone_is_fine(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert (request.method, request.path) == ("DELETE", f"{PATH}/x")
        return web.json_response({"kind": "Status"}, status=404)

    talk(tmp_path, handler, lambda client: client.delete(THINGS, "x"))


def test_names_cannot_leave_their_place_in_the_path(tmp_path: Path) -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.raw_path)
        return web.json_response({})

    talk(tmp_path, handler, lambda client: client.get(THINGS, "../../secrets", "a/b"))
    assert seen == ["/apis/example.com/v1/namespaces/a%2Fb/things/..%2F..%2Fsecrets"]


def test_nobody_there(tmp_path: Path) -> None:
    async def main() -> None:
        kubeconfig = tmp_path / "k"
        kubeconfig.write_text(
            "{apiVersion: v1, kind: Config, current-context: t, contexts: [{name: t, context: {cluster: t, user: t}}],"
            " clusters: [{name: t, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: t, user: {token: s}}]}"
        )
        client = await connect(str(kubeconfig), lambda verb, resource, namespace: None)
        try:
            await client.list(THINGS)
        finally:
            await client.close()

    with pytest.raises(Unreachable):
        asyncio.run(main())


def test_discovery_reads_kinds_and_subresources(tmp_path: Path) -> None:
    def group(name: str, *resources: Any) -> Any:
        return {"metadata": {"name": name}, "versions": [{"version": "v1", "resources": list(resources)}]}

    pods = {
        "resource": "pods",
        "scope": "Namespaced",
        "responseKind": {"kind": "Pod"},
        "subresources": [{"subresource": "exec", "responseKind": {"kind": "PodExecOptions"}}],
    }
    nodes = {"resource": "nodes", "scope": "Cluster", "responseKind": {"kind": "Node"}}

    async def handler(request: web.Request) -> web.StreamResponse:
        assert "APIGroupDiscoveryList" in request.headers["Accept"]
        items = [group("", pods)] if request.path == "/api" else [group("example.com", nodes)]
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": items})

    found = talk(tmp_path, handler, discover)
    assert [e.rule_name for e in found.find("*", "*", "Pod")] == ["pods"]
    assert [e.rule_name for e in found.find("*", "*", "Pod", "exec")] == ["pods/exec"]
    assert [e.resource.namespaced for e in found.find("example.com", "v1", "Node")] == [False]
    assert found.find("other.com", "*", "Node") == []
    assert {e.resource.kind for e in found.find("*", "*", "*o*")} == {"Pod", "Node"}
