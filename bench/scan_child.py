"""A background scan in a process of its own: an installation with the reports part alone, over an API server in memory
that hands out pages of decoded JSON as the client does. ``bench.process`` starts it, on one core.

Answers with the processor time from the first page until the last report has been written, and peak memory.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import yaml

from bench import measure
from runtime.controllers.reports import POLICY_REPORT
from runtime.k8s.client import Object, Resource
from runtime.k8s.discovery import Discovery, Entry
from tests.unit.runtime.fake_api import FakeApi
from tests.unit.runtime.test_background_scan import Stage

POD = Resource("", "v1", "pods", "Pod")
PAGE = 500


class Api(FakeApi):
    """Lists Pods that are made as they are asked for, and counts reports instead of keeping them."""

    def __init__(self, pods: list[bytes], count: int) -> None:
        super().__init__()
        self.reports = 0
        self._pods = pods
        self._count = count

    async def pages(
        self, resource: Resource, namespace: str = "", query: Mapping[str, str] | None = None, *, metadata: bool = False
    ) -> AsyncIterator[Object]:
        if resource != POD:
            async for page in super().pages(resource, namespace, query, metadata=metadata):
                yield page
            return
        for start in range(0, self._count, PAGE):
            items = [self._pod(number) for number in range(start, min(start + PAGE, self._count))]
            yield {"items": items, "metadata": {"resourceVersion": "1"}}

    def _pod(self, number: int) -> Any:
        pod = orjson.loads(self._pods[number % len(self._pods)])
        pod["metadata"] |= {"name": f"web-{number}", "namespace": "ns", "uid": f"uid-{number}"}
        return pod

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", subresource: str = ""
    ) -> Object:
        if resource == POLICY_REPORT:
            self.reports += 1
            return {"metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"}}
        return await super().patch(resource, name, patch, namespace, subresource)

    async def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        if resource == POLICY_REPORT:
            self.reports += 1
            return obj
        return await super().create(resource, obj, namespace)


class PodStage(Stage):
    async def _discovery(self, fresh: bool) -> Discovery:
        return Discovery([Entry(POD, verbs=frozenset({"list", "watch"}))])


async def scan(policies: list[Object], api: Api, count: int) -> float:
    """Seconds of processor time."""
    stage = PodStage(api=api)
    await stage.use(*policies)
    start = time.process_time()
    task = asyncio.create_task(stage.trail.run())
    stage.trail.policies_changed()
    deadline = time.monotonic() + 300
    while api.reports < count and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    spent = time.process_time() - start
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    if api.reports < count:
        raise SystemExit(f"{api.reports} of {count} reports were written")
    return spent


def main() -> int:
    policies, objects, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    api = Api(objects.read_bytes().splitlines(), count)
    documents = list(yaml.safe_load_all(policies.read_text(encoding="utf-8")))
    spent = asyncio.run(scan(documents, api, count))
    memory = measure.peak_mb()
    json.dump({"cpu": spent, "memory": memory}, sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
