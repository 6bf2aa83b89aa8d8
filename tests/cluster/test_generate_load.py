"""Generation under load: 200 triggers at once, one source for 200 copies, a kill in the middle.

Nothing is missing and nothing is made twice, however long it takes; ``python -m tests.cluster.load generate`` tells how
long that is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from runtime.k8s.client import HttpKubeClient, connect
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import NAMESPACE
from tests.cluster import flood
from tests.cluster.cluster import Cluster
from tests.cluster.flood import NETWORK_POLICY, NUMBER, made, wait_for

Work = Callable[[HttpKubeClient], Awaitable[None]]


@pytest.fixture
def flooded(cluster: Cluster) -> Callable[[Work], None]:
    """Runs a test's work with a connection of its own."""

    def run(work: Work) -> None:
        async def main() -> None:
            client = await connect(str(cluster.plane.kubeconfig), lambda verb, resource, namespace: None)
            try:
                await work(client)
            finally:
                await client.close()

        asyncio.run(main())

    return run


def test_two_hundred_triggers_at_once(cluster: Cluster, flooded: Callable[[Work], None]) -> None:
    cluster.policy(flood.MADE, "clusterpolicy", "flood")

    async def work(client: HttpKubeClient) -> None:
        await flood.make_namespaces(client, "flood-a")
        await wait_for(lambda: flood.all_made(client, "flood-a"))
        await wait_for(lambda: flood.idle(client))
        found = await made(client, NETWORK_POLICY, "flood-a")
        assert len(found) == len({o["metadata"]["namespace"] for o in found}) == NUMBER
        # Made once and never written again.
        assert {o["metadata"]["generation"] for o in found} == {1}
        assert all(len(o["metadata"]["managedFields"]) == 1 for o in found)

    flooded(work)


def test_an_edit_of_a_source_reaches_two_hundred_copies(cluster: Cluster, flooded: Callable[[Work], None]) -> None:
    cluster.apply(flood.source("one"))
    cluster.policy(flood.COPIED, "clusterpolicy", "flood")

    async def work(client: HttpKubeClient) -> None:
        await flood.make_namespaces(client, "flood-b")
        await wait_for(lambda: flood.all_say(client, "flood-b", "one"))
        await flood.edit_source(client, "two")
        await wait_for(lambda: flood.all_say(client, "flood-b", "two"))

    flooded(work)


def test_a_kill_in_the_middle_loses_nothing(cluster: Cluster, flooded: Callable[[Work], None]) -> None:
    cluster.policy(flood.MADE, "clusterpolicy", "flood")

    async def some(client: HttpKubeClient) -> bool:
        return len(await made(client, NETWORK_POLICY, "flood-c")) > 0

    async def work(client: HttpKubeClient) -> None:
        making = asyncio.create_task(flood.make_namespaces(client, "flood-c"))
        # Some are under way when it is killed, and those after are refused: nobody answers.
        await wait_for(lambda: some(client))
        await asyncio.to_thread(cluster.thesmos.kill)
        (refused,) = await asyncio.gather(making, return_exceptions=True)
        assert isinstance(refused, ApiProblem)
        admitted = [
            o["metadata"]["name"]
            for o in (await client.list(NAMESPACE, "", {"labelSelector": "team=flood"}))["items"]
            if o["metadata"]["name"].startswith("flood-c-")
        ]
        before = len(await made(client, NETWORK_POLICY, "flood-c"))
        await asyncio.to_thread(cluster.thesmos.start)

        async def complete() -> bool:
            found = await made(client, NETWORK_POLICY, "flood-c")
            return {o["metadata"]["namespace"] for o in found} == set(admitted)

        await wait_for(complete)
        assert 0 < before < len(admitted)
        await wait_for(lambda: flood.idle(client))
        found = await made(client, NETWORK_POLICY, "flood-c")
        assert len(found) == len(admitted)
        assert {o["metadata"]["generation"] for o in found} == {1}

    flooded(work)
