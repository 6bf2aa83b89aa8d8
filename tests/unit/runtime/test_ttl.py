"""Times to live over an API server in memory: which kinds are watched, and which objects go when."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from runtime.cleanup import PROPAGATION, TTL_LABEL
from runtime.config import Names
from runtime.controllers import ttl
from runtime.controllers.ttl import TimesToLive
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import CLUSTER_ROLE, CONFIG_MAP
from tests.unit.runtime.clock_bench import POD, Bench, until


def stamp(seconds: float) -> str:
    """A creation time that long ago."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))


def mortal(bench: Bench, name: str, life: str, **metadata: Any) -> None:
    bench.pod(name, labels={TTL_LABEL: life}, **metadata)


def test_objects_go_when_their_time_is_over_and_no_others() -> None:
    async def run() -> None:
        bench = Bench()
        mortal(bench, "past", "2023-07-19T120000Z")
        mortal(bench, "day", "2023-07-19")
        mortal(bench, "old", "1h", creationTimestamp=stamp(3700))
        mortal(bench, "young", "1h", creationTimestamp=stamp(0))
        mortal(bench, "odd", "10ay")
        mortal(bench, "going", "1s", deletionTimestamp=stamp(0))
        bench.pod("unlabelled", annotations={TTL_LABEL: "1s"})
        async with bench.running(TimesToLive(bench.installation)):
            await until(lambda: bench.left() == {"young", "odd", "going", "unlabelled"})
            mortal(bench, "soon", "1s", creationTimestamp=stamp(0))
            await until(lambda: "soon" not in bench.left())
            mortal(bench, "young", "2023-07-19")
            await until(lambda: "young" not in bench.left())
        text = bench.metrics.exposition().decode()
        assert 'resource_resource="pods",resource_version="v1"} 5' in text.replace("5.0", "5")

    asyncio.run(run())


def test_a_label_that_is_taken_away_saves_an_object() -> None:
    async def run() -> None:
        bench = Bench()
        part = TimesToLive(bench.installation)
        async with bench.running(part):
            await until(lambda: ("watch", "pods", "") in bench.api.calls)
            mortal(bench, "saved", "1s", creationTimestamp=stamp(0))
            await until(lambda: part.known == 1)
            bench.pod("saved")
            await until(lambda: part.known == 0)
            await asyncio.sleep(1.2)
        assert bench.left() == {"saved"}

    asyncio.run(run())


def test_what_was_made_again_or_changed_while_it_went_is_looked_at_anew() -> None:
    async def run() -> None:
        bench = Bench()
        mortal(bench, "again", "2023-07-19")

        def made_again() -> None:
            bench.api.remove(POD, "again", "default")
            mortal(bench, "again", "1h", creationTimestamp=stamp(0))

        bench.api.meanwhile = [made_again]
        part = TimesToLive(bench.installation)
        async with bench.running(part):
            await until(lambda: len(bench.api.tried) == 1)
            await asyncio.sleep(0.1)
            assert bench.left() == {"again"}
            assert part.known == 1
            bench.api.meanwhile = [lambda: mortal(bench, "changed", "2023-07-19", annotations={"a": "b"})]
            mortal(bench, "changed", "2023-07-19")
            await until(lambda: bench.left() == {"again"})
        assert all(set(o["preconditions"]) == {"uid", "resourceVersion"} for o in bench.api.tried)

    asyncio.run(run())


def test_kinds_without_permission_and_of_other_replicas_are_not_watched() -> None:
    async def run() -> None:
        bench = Bench(ttl_seconds=0.05)
        bench.api.may = lambda verb, plural: plural == "pods" or verb != "delete"
        bench.api.put(
            CONFIG_MAP, {"metadata": {"name": "kept", "namespace": "default", "labels": {TTL_LABEL: "2023-07-19"}}}
        )
        mortal(bench, "past", "2023-07-19")
        async with bench.running(TimesToLive(bench.installation)):
            await until(lambda: not bench.left())
            assert {plural for verb, plural, _ in bench.api.calls if verb == "watch"} == {"pods"}
            bench.api.may = lambda verb, plural: True
            await until(lambda: not bench.left(CONFIG_MAP))
            bench.shards.set("cleanup", frozenset())
            await asyncio.sleep(0.2)
            mortal(bench, "others", "2023-07-19")
            await asyncio.sleep(0.2)
            assert bench.left() == {"others"}
        # One version of each kind.
        assert sorted({plural for verb, plural, _ in bench.api.calls if verb == "watch"}) == [
            "configmaps",
            "jobs",
            "pods",
        ]

    asyncio.run(run())


def role(name: str, *resources: str, **labels: str) -> dict[str, Any]:
    rules = [{"apiGroups": [""], "resources": list(resources), "verbs": ["create", "delete"]}]
    return {"metadata": {"name": name, "labels": labels}, "rules": rules}


@pytest.mark.parametrize(
    ("cleanup", "separate", "watched"),
    [
        ("secrets", False, {"jobs", "pods"}),
        ("configmaps", False, {"configmaps", "jobs", "pods"}),
        ("*", False, {"configmaps", "jobs", "pods"}),
        ("secrets", True, {"configmaps", "jobs", "pods"}),
    ],
)
def test_what_may_be_deleted_for_generated_objects_alone_has_no_time_to_live(
    cleanup: str, separate: bool, watched: set[str]
) -> None:
    async def run() -> None:
        bench = Bench(names=Names(separate=separate))
        bench.api.put(CLUSTER_ROLE, role("kyverno:background", "configmaps"))
        label = {"rbac.kyverno.io/aggregate-to-cleanup-controller": "true"}
        bench.api.put(CLUSTER_ROLE, role("mine", cleanup, **label))
        mortal(bench, "past", "2023-07-19")
        async with bench.running(TimesToLive(bench.installation)):
            await until(lambda: not bench.left())
            assert {plural for verb, plural, _ in bench.api.calls if verb == "watch"} == watched

    asyncio.run(run())


def test_propagation_is_taken_from_the_annotation_when_it_is_one() -> None:
    async def run() -> None:
        bench = Bench()
        mortal(bench, "one", "2023-07-19", annotations={PROPAGATION: "Orphan"})
        mortal(bench, "two", "2023-07-19", annotations={PROPAGATION: "Sideways"})
        async with bench.running(TimesToLive(bench.installation)):
            await until(lambda: not bench.left())
        assert sorted(str(o.get("propagationPolicy")) for o in bench.api.tried) == ["None", "Orphan"]

    asyncio.run(run())


@pytest.mark.parametrize("problem", [ApiProblem(403, "Forbidden", "not yours"), Unreachable("gone"), TimeoutError()])
def test_a_deletion_that_fails_is_tried_again(problem: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ttl, "LONGEST_RETRY", 0.05)

    def fail() -> None:
        raise problem

    async def run() -> None:
        bench = Bench()
        mortal(bench, "past", "2023-07-19")
        bench.api.meanwhile = [fail, fail]
        async with bench.running(TimesToLive(bench.installation)):
            await until(lambda: not bench.left())
        assert len(bench.api.tried) == 3

    asyncio.run(run())


def test_what_changes_ten_thousand_times_is_held_once() -> None:
    async def run() -> None:
        bench = Bench()
        part = TimesToLive(bench.installation)
        obj = bench.pod("busy", labels={TTL_LABEL: "1h"}, creationTimestamp=stamp(0))
        for n in range(10_000):
            obj["metadata"]["resourceVersion"] = str(n)
            part._note(POD, obj)
        assert part.known == 1
        assert len(part._heap) < 200

    asyncio.run(run())
