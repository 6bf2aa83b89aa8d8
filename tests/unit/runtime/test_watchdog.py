"""Webhooks that the API server does not reach are noticed by the time in the health Lease that stands still."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import orjson
import pytest

from runtime.config import Names
from runtime.controllers.watchdog import ANNOTATION, MISSED, Watchdog, verifier
from runtime.k8s.errors import Unreachable
from runtime.k8s.resources import LEASE
from tests.unit.runtime.fake_api import FakeApi

NAMES = Names()


def test_a_time_that_stands_still_takes_the_webhooks_away_and_one_that_moves_brings_them_back() -> None:
    async def main() -> None:
        api = FakeApi()
        turns: list[bool] = []
        dog = Watchdog(api, NAMES, lambda: True, lambda: turns.append(dog.reachable))
        for _ in range(MISSED):
            await dog.beat()
        assert dog.reachable
        await dog.beat()
        assert turns == [False]
        lease = await api.get(LEASE, "kyverno-health", "kyverno")
        lease["metadata"]["annotations"][ANNOTATION] = "2030-01-01T00:00:00Z"
        api.put(LEASE, lease)
        await dog.beat()
        assert turns == [False, True]

    asyncio.run(main())


def test_only_the_leader_touches_the_lease_and_an_api_server_away_counts_for_nothing() -> None:
    async def main() -> None:
        api = FakeApi()
        leader = Watchdog(api, NAMES, lambda: True, lambda: None)
        follower = Watchdog(api, NAMES, lambda: False, lambda: None)
        await leader.beat()
        api.calls.clear()
        await follower.beat()
        assert [verb for verb, _, _ in api.calls] == ["get"]
        await leader.beat()
        assert api.calls[-1][0] == "replace"
        for _ in range(MISSED * 2):
            api.fail_next = [Unreachable("away")]
            with pytest.raises(Unreachable):
                await leader.beat()
        assert leader.reachable

    asyncio.run(main())


def ask(name: str, metadata: dict[str, Any]) -> Any:
    request = {"uid": "u", "name": name, "namespace": "kyverno", "object": {"metadata": metadata}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = asyncio.run(verifier(NAMES)(orjson.dumps(review)))
    assert answer.status == 200
    response = json.loads(answer.body)["response"]
    assert response["allowed"]
    return json.loads(base64.b64decode(response["patch"])) if "patch" in response else None


def test_the_answer_writes_the_time() -> None:
    paths = [p["path"] for p in ask("kyverno-health", {})]
    assert paths == ["/metadata/annotations", "/metadata/annotations/kyverno.io~1last-request-time"]
    assert [p["op"] for p in ask("kyverno-health", {"annotations": {}})] == ["add"]
    assert ask("another", {}) is None
    assert asyncio.run(verifier(NAMES)(b"{}")).status == 400
