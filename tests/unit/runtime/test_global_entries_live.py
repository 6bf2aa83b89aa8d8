"""The global context that controllers keep, over an API server in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.context.global_live import ENTRIES
from runtime.controllers import globalcontext, globaldata
from runtime.controllers.globalcontext import GlobalContextEntries
from runtime.k8s.client import Object, Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import CONFIG_MAP
from tests.unit.runtime.clock_bench import VERBS, Bench, until
from vm.host import HostCall
from vm.values import Err, Value

MAPS = {
    "kubernetesResource": {"version": "v1", "resource": "configmaps"},
    "projections": [{"name": "count", "jmesPath": "length(@)"}, {"name": "names", "jmesPath": "[].metadata.name"}],
}
NODES = {"apiCall": {"urlPath": "/api/v1/nodes", "refreshInterval": "50ms", "retryLimit": 1}}


def entry(bench: Bench, name: str, spec: dict[str, Any]) -> None:
    bench.api.put(
        ENTRIES, {"apiVersion": "kyverno.io/v2", "kind": "GlobalContextEntry", "metadata": {"name": name}, "spec": spec}
    )


def config_map(bench: Bench, name: str, namespace: str = "default", size: int = 0) -> Object:
    metadata = {"name": name, "namespace": namespace, "managedFields": [{"manager": "me"}]}
    return bench.api.put(CONFIG_MAP, {"metadata": metadata, "data": {"text": "x" * size}})


async def read(bench: Bench, reference: str) -> Value:
    return await bench.installation.ask(HostCall("globalcontext", {"name": reference}))


def condition(bench: Bench, name: str) -> tuple[str, str, str] | None:
    status = bench.api.objects["globalcontextentries"]["", name].get("status") or {}
    found = [(c["status"], c["reason"], c["message"]) for c in status.get("conditions") or ()]
    return found[0] if found else None


def test_objects_are_current_without_asking_for_each_reader() -> None:
    async def run() -> None:
        bench = Bench()
        config_map(bench, "a")
        entry(bench, "maps", MAPS)
        async with bench.running(GlobalContextEntries(bench.installation)):
            await until(lambda: condition(bench, "maps") == ("True", "Succeeded", "Ready"))
            assert await read(bench, "maps.count") == 1
            config_map(bench, "b")
            bench.api.remove(CONFIG_MAP, "a", "default")
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert await read(bench, "maps.names") == ["b"]
            whole = await read(bench, "maps")
            assert [(o["kind"], "managedFields" in o["metadata"]) for o in whole] == [("ConfigMap", False)]
            missing = await read(bench, "maps.nothing")
            assert missing == Err("host", 'projection "nothing" not found')
        assert [c for c in bench.api.calls if c[:2] == ("list", "configmaps")] == [("list", "configmaps", "")]

    asyncio.run(run())


def test_a_namespace_limits_the_objects() -> None:
    async def run() -> None:
        bench = Bench()
        config_map(bench, "a", "one")
        config_map(bench, "b", "two")
        spec = {**MAPS, "kubernetesResource": {**MAPS["kubernetesResource"], "namespace": "two"}}  # type: ignore[dict-item]
        entry(bench, "maps", spec)
        async with bench.running(GlobalContextEntries(bench.installation)):
            await until(lambda: condition(bench, "maps"))
            assert await read(bench, "maps.names") == ["b"]

    asyncio.run(run())


def test_a_call_is_put_again_and_what_it_fails_with_is_told() -> None:
    async def run() -> None:
        bench = Bench()
        entry(bench, "nodes", NODES)
        async with bench.running(GlobalContextEntries(bench.installation)):
            await until(lambda: condition(bench, "nodes"))
            status, reason, message = condition(bench, "nodes") or ("", "", "")
            assert (status, reason) == ("False", "Failed")
            assert message.startswith("failed to GET resource with raw url: /api/v1/nodes")
            failed = await read(bench, "nodes")
            assert type(failed) is Err
            assert [r for r, _ in bench.heard.events] == ["FailedToCallAPI"]
            bench.api.answers["GET", "/api/v1/nodes"] = {"items": [1]}
            await until(lambda: condition(bench, "nodes") == ("True", "Succeeded", "Ready"))
            assert await read(bench, "nodes") == {"items": [1]}
            assert bench.api.objects["globalcontextentries"]["", "nodes"]["status"]["lastRefreshTime"]

    asyncio.run(run())


def test_a_resource_that_comes_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(globalcontext, "UNKNOWN_SECONDS", 0.05)
    widgets = Resource("example.org", "v1", "widgets", "Widget")

    async def run() -> None:
        bench = Bench()
        entry(
            bench, "widgets", {"kubernetesResource": {"group": "example.org", "version": "v1", "resource": "widgets"}}
        )
        async with bench.running(GlobalContextEntries(bench.installation)):
            said = ("False", "Failed", "the cluster has no widgets of example.org/v1")
            await until(lambda: condition(bench, "widgets") == said)
            bench.discovery = Discovery([*bench.discovery.entries, Entry(widgets, verbs=VERBS)])
            await until(lambda: condition(bench, "widgets") == ("True", "Succeeded", "Ready"))
            assert await read(bench, "widgets") == []

    asyncio.run(run())


def test_what_is_loaded_stands_while_the_server_is_away_and_not_once_it_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        bench = Bench()
        config_map(bench, "a")
        entry(bench, "maps", MAPS)
        async with bench.running(GlobalContextEntries(bench.installation)):
            await until(lambda: condition(bench, "maps"))
            bench.api._break()
            await asyncio.sleep(0.05)
            assert await read(bench, "maps.count") == 1
            assert condition(bench, "maps") == ("True", "Succeeded", "Ready")
            enter = bench.api._enter

            def refusing(verb: str, resource: Resource, name: str = "") -> None:
                enter(verb, resource, name)
                if resource == CONFIG_MAP:
                    raise ApiProblem(403, "Forbidden", "not any more")

            monkeypatch.setattr(bench.api, "_enter", refusing)
            await until(lambda: condition(bench, "maps") == ("False", "Failed", "not any more"))
            assert await read(bench, "maps.count") == Err("host", "not any more")

    asyncio.run(run())


def test_too_much_is_refused_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(globaldata, "MOST_BYTES", 1 << 20)

    async def run() -> None:
        bench = Bench()
        for n in range(5):
            config_map(bench, f"m{n}", size=300_000)
        entry(bench, "maps", MAPS)
        async with bench.running(GlobalContextEntries(bench.installation)):
            said = ("False", "Failed", "the objects come to more than 1 MiB")
            await until(lambda: condition(bench, "maps") == said)
            assert await read(bench, "maps.count") == Err("host", said[2])

    asyncio.run(run())


def test_entries_above_the_limit_wait_for_room() -> None:
    async def run() -> None:
        bench = Bench(global_entries=1)
        entry(bench, "first", MAPS)
        entry(bench, "second", MAPS)
        async with bench.running(GlobalContextEntries(bench.installation)):
            await until(lambda: (condition(bench, "second") or ("",))[0] == "False")
            assert type(await read(bench, "second")) is Err
            assert await read(bench, "first.count") == 0
            bench.api.remove(ENTRIES, "first")
            await until(lambda: condition(bench, "second") == ("True", "Succeeded", "Ready"))
            assert await read(bench, "second.count") == 0

    asyncio.run(run())


def test_a_changed_entry_is_loaded_anew_and_one_that_is_gone_is_no_more() -> None:
    async def run() -> None:
        bench = Bench()
        config_map(bench, "a")
        entry(bench, "maps", MAPS)
        async with bench.running(GlobalContextEntries(bench.installation)):
            await until(lambda: condition(bench, "maps"))
            entry(bench, "maps", {**MAPS, "projections": [{"name": "count", "jmesPath": "`7`"}]})
            await until(lambda: len([c for c in bench.api.calls if c[:2] == ("list", "configmaps")]) == 2)
            assert await read(bench, "maps.count") == 7
            bench.api.remove(ENTRIES, "maps")
            await asyncio.sleep(0.05)
            assert await read(bench, "maps.count") == Err("host", "failed to fetch entry key=maps")

    asyncio.run(run())


def test_a_replica_that_does_not_lead_writes_no_status() -> None:
    async def run() -> None:
        bench = Bench()
        bench.shards.set("admission", frozenset())
        entry(bench, "maps", MAPS)
        async with bench.running(GlobalContextEntries(bench.installation)):
            await asyncio.sleep(0.2)
            assert condition(bench, "maps") is None
            assert await read(bench, "maps.count") == 0
            bench.shards.hold_all("admission")
            await until(lambda: condition(bench, "maps"))

    asyncio.run(run())


def test_a_status_that_cannot_be_written_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(globalcontext, "RETRY", 0.05)

    async def run() -> None:
        bench = Bench()
        entry(bench, "maps", MAPS)
        patch = bench.api.patch
        refusals = [ApiProblem(500, "Internal", "no")]

        async def refusing(*args: Any) -> Object:
            if refusals:
                raise refusals.pop()
            return await patch(*args)

        monkeypatch.setattr(bench.api, "patch", refusing)
        async with bench.running(GlobalContextEntries(bench.installation)):
            await until(lambda: condition(bench, "maps"))

    asyncio.run(run())
