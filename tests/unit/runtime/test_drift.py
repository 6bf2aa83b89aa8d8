"""What webhooks miss is found by watching: edits, deletions, sources, what happened while nobody ran."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runtime.controllers import drift
from runtime.k8s.client import Object
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import CONFIG_MAP, NAMESPACE, SECRET
from tests.unit.runtime.test_generation import CLONE, DATA, Bench, namespace, secret


@pytest.fixture(autouse=True)
def _quick(monkeypatch: Any) -> None:
    monkeypatch.setattr(drift, "SETTLE", 0.01)


async def until(look: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not look():
            await asyncio.sleep(0.01)


def run(scenario: Callable[[Bench], Awaitable[None]], prepare: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench()
        await prepare(bench)
        task = asyncio.create_task(bench.part._drift.run())
        try:
            await asyncio.sleep(0.05)
            await scenario(bench)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


async def one_made(bench: Bench) -> None:
    await bench.policy(DATA)
    await bench.create(namespace(team="a"))
    await bench.work()


def settings(bench: Bench) -> Object | None:
    return bench.find("ConfigMap", "settings", "one")


def test_an_edit_is_taken_back_and_a_deletion_made_good() -> None:
    async def scenario(bench: Bench) -> None:
        made = settings(bench)
        assert made is not None
        bench.api.put(CONFIG_MAP, {**made, "data": {"size": "9"}})
        await until(lambda: (settings(bench) or {}).get("data") == {"of": "one", "size": "1"})
        bench.api.remove(CONFIG_MAP, "settings", "one")
        await until(lambda: settings(bench) is not None)

    run(scenario, one_made)


def test_what_we_wrote_ourselves_is_not_looked_at_again() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.create(namespace("two", team="a"))
        await bench.work()
        bench.api.calls.clear()
        await asyncio.sleep(0.1)
        assert bench.api.calls == []

    run(scenario, one_made)


def test_all_is_looked_at_after_a_start() -> None:
    async def edited(bench: Bench) -> None:
        before = Bench()
        await one_made(before)
        made = settings(before)
        assert made is not None
        before.api.put(CONFIG_MAP, {**made, "data": {"size": "9"}})
        bench.api.objects, bench.api._version = before.api.objects, before.api._version
        await bench.policy(DATA)

    async def scenario(bench: Bench) -> None:
        await until(lambda: (settings(bench) or {}).get("data") == {"of": "one", "size": "1"})

    run(scenario, edited)


def test_what_was_made_for_a_trigger_that_has_gone_goes() -> None:
    async def orphaned(bench: Bench) -> None:
        await one_made(bench)
        bench.api.remove(NAMESPACE, "one")
        made = settings(bench)
        assert made is not None
        bench.api.put(CONFIG_MAP, made)

    async def scenario(bench: Bench) -> None:
        await until(lambda: settings(bench) is None)

    run(scenario, orphaned)


def test_a_source_that_changes_unseen_reaches_its_copies() -> None:
    async def copied(bench: Bench) -> None:
        await bench.policy(CLONE)
        bench.api.put(SECRET, secret())
        await bench.create(namespace())
        await bench.work()

    async def scenario(bench: Bench) -> None:
        source = bench.find("Secret", "pull", "default")
        assert source is not None
        bench.api.put(SECRET, {**source, "data": {"token": "y"}})
        await until(lambda: (bench.find("Secret", "pull", "one") or {}).get("data") == {"token": "y"})
        bench.api.remove(SECRET, "pull", "default")
        await until(lambda: bench.find("Secret", "pull", "one") is None)

    run(scenario, copied)


def test_what_cannot_be_mended_is_tried_again(monkeypatch: Any) -> None:
    async def scenario(bench: Bench) -> None:
        monkeypatch.setattr(drift, "FIRST_RETRY", 0.01)
        replace = bench.api.replace
        refused = 0

        async def refusing(*arguments: Any) -> Object:
            nonlocal refused
            if refused < 2:
                refused += 1
                raise ApiProblem(403, "Forbidden", "configmaps is forbidden")
            return await replace(*arguments)

        bench.api.replace = refusing  # type: ignore[method-assign]
        made = settings(bench)
        assert made is not None
        bench.api.put(CONFIG_MAP, {**made, "data": {"size": "9"}})
        await until(lambda: (settings(bench) or {}).get("data") == {"of": "one", "size": "1"})
        assert refused == 2
        assert "configmaps is forbidden" in bench.tell.failures[0]

    run(scenario, one_made)
