"""Two hundred triggers of a rule that generates, at once.

``test_generate_load`` looks at what comes of them; ``python -m tests.cluster.load generate`` at how long it takes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from runtime.k8s.client import HttpKubeClient, Object, Resource
from runtime.k8s.resources import CONFIG_MAP, NAMESPACE, UPDATE_REQUEST
from tests.cluster.test_generate import CLONE, DATA, config_map

NUMBER = 200
PATIENCE = 120.0
NETWORK_POLICY = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")

MADE = DATA.format(name="flood", team="flood", sync="true", existing="false", types="Ingress")
"""Gives each of the namespaces a NetworkPolicy."""

SOURCE = "flood-source"
COPIED = CLONE.format(name="flood", team="flood", source=SOURCE)
"""Gives each of them a copy of one ConfigMap."""


def source(value: str) -> str:
    return config_map(SOURCE, value)


async def make_namespaces(client: HttpKubeClient, prefix: str) -> None:
    """Creates them all at once; raises the first error when all have been answered."""
    gate = asyncio.Semaphore(50)

    async def one(number: int) -> None:
        async with gate:
            metadata = {"name": f"{prefix}-{number}", "labels": {"team": "flood"}}
            await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    answers = await asyncio.gather(*map(one, range(NUMBER)), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer


async def made(client: HttpKubeClient, resource: Resource, prefix: str) -> list[Object]:
    """What the policy has generated in the namespaces of a prefix."""
    query = {"labelSelector": "generate.kyverno.io/policy-name=flood"}
    found = (await client.list(resource, "", query))["items"]
    return [o for o in found if o["metadata"]["namespace"].startswith(prefix + "-")]


async def all_made(client: HttpKubeClient, prefix: str) -> bool:
    return len(await made(client, NETWORK_POLICY, prefix)) == NUMBER


async def all_say(client: HttpKubeClient, prefix: str, value: str) -> bool:
    """Whether every copy is there and holds a value."""
    found = await made(client, CONFIG_MAP, prefix)
    return len(found) == NUMBER and all(o["data"]["key"] == value for o in found)


async def edit_source(client: HttpKubeClient, value: str) -> None:
    await client.patch(CONFIG_MAP, SOURCE, {"data": {"key": value}}, "default")


async def idle(client: HttpKubeClient) -> bool:
    """Whether no update request is left."""
    return not (await client.list(UPDATE_REQUEST, "kyverno"))["items"]


async def wait_for(look: Callable[[], Awaitable[bool]]) -> float:
    """Seconds until it is so."""
    start = time.monotonic()
    while not await look():
        assert time.monotonic() - start < PATIENCE, f"it was not so after {PATIENCE} s"
        # Looking costs the API server something too.
        await asyncio.sleep(0.25)
    return time.monotonic() - start
