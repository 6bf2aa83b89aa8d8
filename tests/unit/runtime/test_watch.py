"""A watcher's copy follows the API server through broken watches, lost history and restarts; nothing is told twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from runtime.k8s import watch
from runtime.k8s.client import Object, Resource
from runtime.k8s.errors import Unreachable
from runtime.k8s.watch import Watcher
from tests.unit.runtime.fake_api import FakeApi

THINGS = Resource("example.com", "v1", "things", "Thing")

Told = list[tuple[str, str]]


def thing(name: str, value: int = 0) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "n"}, "v": value}


def watched(scenario: Callable[[FakeApi, Told, Watcher], Awaitable[None]]) -> Told:
    """Runs a scenario beside a watcher and gives what the watcher told."""
    told: Told = []

    async def main() -> None:
        api = FakeApi()
        api.put(THINGS, thing("first"))
        watcher = Watcher(api, THINGS, lambda change, obj: told.append((change, obj["metadata"]["name"])))
        task = asyncio.create_task(watcher.run())
        try:
            await asyncio.wait_for(watcher.synced.wait(), 5)
            await scenario(api, told, watcher)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    return told


async def settle(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch.Backoff, "next", lambda self: 0.01)


def test_changes_are_told_as_they_come() -> None:
    async def scenario(api: FakeApi, told: Told, watcher: Watcher) -> None:
        api.put(THINGS, thing("second"))
        api.put(THINGS, thing("first", 1))
        api.remove(THINGS, "second", "n")
        await settle(lambda: len(told) == 4)
        assert list(watcher.objects) == [("n", "first")]
        assert watcher.objects["n", "first"]["v"] == 1

    assert watched(scenario) == [
        ("added", "first"),
        ("added", "second"),
        ("changed", "first"),
        ("deleted", "second"),
    ]


def test_lost_history_ends_in_a_list_that_tells_only_differences() -> None:
    async def scenario(api: FakeApi, told: Told, watcher: Watcher) -> None:
        api.put(THINGS, thing("stays"))
        await settle(lambda: len(told) == 2)
        # Three changes whose events nobody will ever see.
        api.objects["things"].pop(("n", "first"))
        api.put(THINGS, thing("new"))
        api.put(THINGS, thing("stays", 7))
        told.clear()
        api.forget_history()
        await settle(lambda: len(told) >= 3)

    assert sorted(watched(scenario)) == [("added", "new"), ("changed", "stays"), ("deleted", "first")]


def test_a_broken_connection_is_mended() -> None:
    async def scenario(api: FakeApi, told: Told, watcher: Watcher) -> None:
        api.fail_next += [Unreachable("away"), Unreachable("still away")]
        api._break()
        await settle(lambda: not api.fail_next)
        api.put(THINGS, thing("later"))
        await settle(lambda: len(told) == 2)

    assert watched(scenario) == [("added", "first"), ("added", "later")]


def test_items_of_a_list_get_their_kind() -> None:
    async def scenario(api: FakeApi, told: Told, watcher: Watcher) -> None:
        assert watcher.objects["n", "first"]["kind"] == "Thing"
        assert watcher.objects["n", "first"]["apiVersion"] == "example.com/v1"

    watched(scenario)


def test_waits_double_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("random.random", lambda: 0.5)
    backoff = watch.Backoff(1, 5)
    assert [backoff.next() for _ in range(5)] == [1, 2, 4, 5, 5]
    backoff.reset()
    assert backoff.next() == 1
