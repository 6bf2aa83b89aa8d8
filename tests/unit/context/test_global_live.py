"""The global context of a cluster: how long data is kept, and how much."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from runtime.context.global_live import MAX_KEPT, REFRESH_SECONDS, GlobalContext, interval
from runtime.k8s.client import Object, Resource
from tests.unit.runtime.fake_api import FakeApi
from vm.values import Err, Value


class Entries(FakeApi):
    """Has an entry of every name, whose data is the answer of a call."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return {"spec": {"apiCall": {"urlPath": f"/{name}"}}}


def test_names_that_requests_make_up_are_not_kept_for_ever() -> None:
    asked: list[str] = []

    async def call(payload: Mapping[str, Any], name: str) -> Value:
        asked.append(name)
        return {"of": name}

    async def scenario() -> GlobalContext:
        context = GlobalContext(Entries(), call)
        for i in range(3 * MAX_KEPT):
            assert await context.read(f"n{i}") == {"of": f"n{i}"}
            assert context.kept <= MAX_KEPT
        assert await context.read(f"n{i}") == {"of": f"n{i}"}
        return context

    asyncio.run(scenario())
    assert len(asked) == 3 * MAX_KEPT  # the last was still there


def test_one_name_is_asked_once_by_many() -> None:
    asked: list[str] = []

    async def call(payload: Mapping[str, Any], name: str) -> Value:
        asked.append(name)
        await asyncio.sleep(0)
        return Err("host", "down")

    async def scenario() -> None:
        context = GlobalContext(Entries(), call)
        await asyncio.gather(*(context.read("same") for _ in range(5)))

    asyncio.run(scenario())
    assert set(asked) == {"same"}
    assert len(asked) <= 3  # the tries of one reading


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0),
        ("1h30m", 5400.0),
        ("500ms", 0.5),
        ("", REFRESH_SECONDS),
        ("10", REFRESH_SECONDS),
        ("0s", REFRESH_SECONDS),
    ],
)
def test_the_interval_of_an_entry(text: str, seconds: float) -> None:
    assert interval(text) == seconds
