"""The queue of update requests: written before anything is answered, tried again, never lost, one of a trigger at a
time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from runtime.config import Names
from runtime.controllers import updaterequests
from runtime.controllers.clusterconfig import ClusterConfig
from runtime.controllers.leases import Shards
from runtime.controllers.updaterequests import DONE, Outcome, UpdateRequest, UpdateRequests, failed, group_of, later
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import UPDATE_REQUEST
from runtime.observe.metrics import Metrics
from tests.unit.runtime.fake_api import FakeApi


class Bench:
    """A queue over an API server in memory; ``worked`` has the requests in the order in which they were worked on."""

    def __init__(self, threshold: int = 1000) -> None:
        self.api = FakeApi()
        self.shards = Shards()
        self.shards.hold_all("background")
        config = ClusterConfig(update_request_threshold=threshold)
        self.queue = UpdateRequests(self.api, Names(), self.shards, lambda: config, Metrics())
        self.queue.processors["generate"] = self.work
        self.worked: list[UpdateRequest] = []
        self.answer: Callable[[UpdateRequest], Awaitable[Outcome]] | None = None

    async def work(self, request: UpdateRequest) -> Outcome:
        self.worked.append(request)
        return DONE if self.answer is None else await self.answer(request)

    def stored(self) -> list[dict[str, Any]]:
        return list(self.api.objects.get("updaterequests", {}).values())

    async def until(self, look: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not look():
                await asyncio.sleep(0.01)


def run(scenario: Callable[[Bench], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        bench = Bench(**options)
        task = asyncio.create_task(bench.queue.run())
        try:
            await scenario(bench)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def spec(policy: str = "p", uid: str = "u1") -> dict[str, Any]:
    trigger = {"kind": "Namespace", "uid": uid}
    return {
        "requestType": "generate",
        "policy": policy,
        "resource": trigger,
        "ruleContext": [{"rule": "r", "trigger": trigger}],
    }


def test_what_is_done_is_deleted() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.queue.write(spec("tenant/p"))
        (made,) = bench.stored() or [{}]
        assert made["metadata"]["name"].startswith("ur-")
        await bench.until(lambda: not bench.stored())
        assert [r.policy for r in bench.worked] == ["tenant/p"]

    run(scenario)


def test_a_failure_is_told_in_the_status_and_tried_again(monkeypatch: Any) -> None:
    monkeypatch.setattr(updaterequests, "FIRST_RETRY", 0.01)

    async def scenario(bench: Bench) -> None:
        async def answer(request: UpdateRequest) -> Outcome:
            return failed("no such source") if request.retries < 2 else DONE

        bench.answer = answer
        await bench.queue.write(spec())
        await bench.until(lambda: any("status" in u for u in bench.stored()))
        await bench.until(lambda: not bench.stored())
        assert [r.retries for r in bench.worked] == [0, 1, 2]
        told = [obj["status"] for _, _, what, obj in bench.api._log if what == "MODIFIED"]
        assert told == [{"state": "Failed", "message": "no such source", "retryCount": n} for n in (1, 2)]

    run(scenario)


def test_what_fails_for_ever_is_given_up(monkeypatch: Any) -> None:
    monkeypatch.setattr(updaterequests, "FIRST_RETRY", 0.001)
    monkeypatch.setattr(updaterequests, "LONGEST_RETRY", 0.002)

    async def scenario(bench: Bench) -> None:
        async def answer(request: UpdateRequest) -> Outcome:
            return failed("never")

        bench.answer = answer
        await bench.queue.write(spec())
        await bench.until(lambda: len(bench.worked) > updaterequests.MAX_FAILURES and not bench.stored())
        assert len(bench.worked) == updaterequests.MAX_FAILURES + 1

    run(scenario)


def test_waiting_for_the_world_is_no_failure() -> None:
    async def scenario(bench: Bench) -> None:
        async def answer(request: UpdateRequest) -> Outcome:
            return later(0.01) if len(bench.worked) < 4 else DONE

        bench.answer = answer
        await bench.queue.write(spec())
        await bench.until(lambda: len(bench.worked) == 4 and not bench.stored())
        assert {r.retries for r in bench.worked} == {0}

    run(scenario)


def test_requests_of_one_trigger_are_done_one_after_another_in_order() -> None:
    async def scenario(bench: Bench) -> None:
        busy: set[str] = set()

        async def answer(request: UpdateRequest) -> Outcome:
            uid = request.spec["resource"]["uid"]
            assert uid not in busy
            busy.add(uid)
            await asyncio.sleep(0.02)
            busy.discard(uid)
            return DONE

        bench.answer = answer
        for number in range(4):
            await bench.queue.write(spec(f"p{number}", "same"))
        await bench.queue.write(spec("other", "other"))
        await bench.until(lambda: not bench.stored())
        assert [r.policy for r in bench.worked if r.policy != "other"] == ["p0", "p1", "p2", "p3"]

    run(scenario)


def test_ten_are_done_at_once() -> None:
    async def scenario(bench: Bench) -> None:
        running = most = 0

        async def answer(request: UpdateRequest) -> Outcome:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            return DONE

        bench.answer = answer
        await asyncio.gather(*(bench.queue.write(spec(uid=str(n))) for n in range(40)))
        await bench.until(lambda: not bench.stored() and len(bench.worked) == 40)
        assert most == updaterequests.WORKERS

    run(scenario)


def test_another_replicas_work_is_left_to_it() -> None:
    async def scenario(bench: Bench) -> None:
        bench.shards.set("background", frozenset())
        await bench.queue.write(spec())
        await asyncio.sleep(0.05)
        assert bench.worked == []
        bench.shards.hold_all("background")
        await bench.until(lambda: not bench.stored())

    run(scenario)


def test_what_cannot_be_written_is_written_later(monkeypatch: Any) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.until(lambda: bench.queue._watcher is not None and bench.queue._watcher.synced.is_set())
        bench.api.fail_next = [Unreachable("away"), ApiProblem(500, "InternalError", "no leader")]
        await bench.queue.write(spec("p1"))
        assert bench.stored() == []
        await bench.queue.write(spec("p2", "u2"))
        await bench.until(lambda: len(bench.worked) == 2)
        assert [r.policy for r in bench.worked] == ["p1", "p2"]

    run(scenario)


def test_above_the_threshold_requests_are_held_back_and_not_lost() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.until(lambda: bench.queue._watcher is not None and bench.queue._watcher.synced.is_set())
        gate = asyncio.Event()

        async def answer(request: UpdateRequest) -> Outcome:
            await gate.wait()
            return DONE

        bench.answer = answer
        for number in range(6):
            await bench.queue.write(spec(f"p{number}", str(number)))
            await asyncio.sleep(0.01)
        assert len(bench.stored()) == 2
        gate.set()
        await bench.until(lambda: len(bench.worked) == 6 and not bench.stored())

    run(scenario, threshold=2)


def test_an_api_server_that_is_away_is_no_failure(monkeypatch: Any) -> None:
    monkeypatch.setattr(updaterequests, "FIRST_RETRY", 0.01)

    async def scenario(bench: Bench) -> None:
        async def answer(request: UpdateRequest) -> Outcome:
            if len(bench.worked) == 1:
                raise Unreachable("away")
            if len(bench.worked) == 2:
                raise ValueError("a mistake of the processor")
            return DONE

        monkeypatch.setattr(updaterequests, "LONGEST_RETRY", 0.01)
        bench.answer = answer
        await bench.queue.write(spec())
        await bench.until(lambda: len(bench.worked) == 3 and not bench.stored())
        assert {r.retries for r in bench.worked} == {0}

    run(scenario)


def test_what_is_not_permitted_is_a_failure(monkeypatch: Any) -> None:
    async def scenario(bench: Bench) -> None:
        async def answer(request: UpdateRequest) -> Outcome:
            raise ApiProblem(403, "Forbidden", "secrets is forbidden")

        bench.answer = answer
        await bench.queue.write(spec())
        await bench.until(lambda: any("status" in u for u in bench.stored()))
        assert bench.stored()[0]["status"]["message"] == "secrets is forbidden"

    run(scenario)


def test_a_restart_goes_on_where_it_was() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.queue.write(spec())
        (made,) = bench.stored()
        await bench.api.patch(
            UPDATE_REQUEST, made["metadata"]["name"], {"status": {"state": "Failed", "retryCount": 2}}, "kyverno"
        )
        task = asyncio.create_task(bench.queue.run())
        await bench.until(lambda: not bench.stored())
        assert [r.retries for r in bench.worked] == [2]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def test_what_a_request_is_about() -> None:
    assert group_of(spec(uid="a")) == "a"
    several = [{"trigger": {"uid": "a"}}, {"trigger": {"uid": "b"}}]
    assert group_of({"resource": {"uid": "a"}, "ruleContext": several}) == ""
    assert group_of({"resource": {"uid": "source"}, "ruleContext": []}) == "source"


def test_a_spec_that_nests_deeply_ends_nothing() -> None:
    deep: Any = "x"
    for _ in range(400):
        deep = [deep]
    spec = {"requestType": "generate", "policy": "p", "context": {"object": deep}}
    kept = updaterequests._slim({"metadata": {"name": "ur-1"}, "spec": spec})
    assert orjson.loads(kept["spec"]) == spec
