"""The queue of events: what is written, how often, and what happens when it cannot be."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.observe import events as module
from runtime.observe.events import EVENT, Events, Limits
from runtime.observe.metrics import Metrics
from tests.unit.runtime.fake_api import FakeApi

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "uid": "1"}}
POLICY = {"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "labels", "uid": "2"}}


class Told:
    """An event queue over an API server in memory."""

    def __init__(self, limits: Limits | None = None, successes: Callable[[str], bool] = lambda action: False) -> None:
        self.api = FakeApi()
        self.metrics = Metrics()
        self.events = Events(self.api, "here", self.metrics, limits or Limits(), successes)

    @property
    def written(self) -> list[dict[str, Any]]:
        return list(self.api.objects.get(EVENT.plural, {}).values())

    @property
    def dropped(self) -> float:
        return self.metrics.value("kyverno_events_dropped_total")

    async def run(self, seconds: float = 0.05) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.events.run()


def test_an_event_is_written_as_the_api_server_wants_it() -> None:
    told = Told()
    told.events.emit("PolicyViolation", "Resource Passed", "text", POD, related=POLICY, reporter="kyverno-scan")
    asyncio.run(told.run())
    (event,) = told.written
    assert event["metadata"]["namespace"] == "shop"
    assert event["metadata"]["name"].startswith("web.")
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web", "uid": "1"}
    assert event["related"]["kind"] == "ClusterPolicy"
    assert (event["type"], event["reason"], event["action"]) == ("Warning", "PolicyViolation", "Resource Passed")
    assert (event["reportingController"], event["reportingInstance"]) == ("kyverno-scan", "kyverno-scan-here")
    assert event["note"] == "text"


def test_events_of_what_has_no_namespace_are_in_default() -> None:
    told = Told()
    told.events.emit("PolicyError", "None", "text", POLICY)
    asyncio.run(told.run())
    assert told.written[0]["metadata"]["namespace"] == "default"


@pytest.mark.parametrize(
    ("reason", "successes", "count"),
    [
        ("PolicyViolation", False, 1),
        ("PolicySkipped", False, 0),
        ("PolicyApplied", False, 0),
        ("PolicyApplied", True, 1),
    ],
)
def test_reasons_can_be_omitted_and_successes_have_to_be_asked_for(reason: str, successes: bool, count: int) -> None:
    told = Told(Limits(omitted=frozenset({"PolicySkipped"})), lambda action: successes)
    told.events.emit(reason, "Resource Passed", "text", POD)
    asyncio.run(told.run())
    assert len(told.written) == count


def test_what_has_no_name_yet_gets_no_event() -> None:
    told = Told()
    told.events.emit("PolicyViolation", "Resource Passed", "text", {"kind": "Pod", "metadata": {"generateName": "a-"}})
    asyncio.run(told.run())
    assert told.written == []


def test_the_same_told_again_is_one_event_with_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SERIES_EVERY", 0.02)
    told = Told()
    for _ in range(4):
        told.events.emit("PolicyViolation", "Resource Passed", "text", POD)
    told.events.emit("PolicyViolation", "Resource Passed", "another text", POD)
    asyncio.run(told.run(0.2))
    counts = {event["note"]: (event.get("series") or {}).get("count") for event in told.written}
    assert counts == {"text": 4, "another text": None}


def test_a_series_whose_event_is_gone_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SERIES_EVERY", 0.02)
    told = Told()

    async def main() -> None:
        told.events.emit("PolicyViolation", "Resource Passed", "text", POD)
        await told.run()
        told.api.remove(EVENT, told.written[0]["metadata"]["name"], "shop")
        told.events.emit("PolicyViolation", "Resource Passed", "text", POD)
        await told.run()
        assert told.written == []
        told.events.emit("PolicyViolation", "Resource Passed", "text", POD)
        await told.run()

    asyncio.run(main())
    assert len(told.written) == 1


def test_what_is_too_much_is_dropped_and_counted() -> None:
    told = Told(Limits(queued=3))
    for number in range(10):
        told.events.emit("PolicyViolation", "Resource Passed", f"text {number}", POD)
    asyncio.run(told.run())
    assert len(told.written) == 3
    assert told.dropped == 7


def test_only_so_many_are_written_a_second() -> None:
    told = Told(Limits(per_second=20, burst=2))
    for number in range(50):
        told.events.emit("PolicyViolation", "Resource Passed", f"text {number}", POD)
    asyncio.run(told.run(0.3))
    assert 2 + 4 <= len(told.written) <= 2 + 7


def test_an_api_server_that_is_away_is_waited_for() -> None:
    told = Told()
    told.api.fail_next = [Unreachable("nobody there"), TimeoutError()]
    told.events.emit("PolicyViolation", "Resource Passed", "text", POD)
    asyncio.run(told.run(1.5))
    assert len(told.written) == 1
    assert told.dropped == 0


def test_an_account_that_may_not_write_events_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    told.api.fail_next = [ApiProblem(403, "Forbidden", "no events for you") for _ in range(20)]
    for number in range(20):
        told.events.emit("PolicyViolation", "Resource Passed", f"text {number}", POD)
    asyncio.run(told.run())
    assert told.dropped == 20
    assert [record.getMessage() for record in caplog.records] == ["events were not written (1): no events for you"]


def test_what_is_refused_is_dropped_and_may_be_told_again() -> None:
    told = Told()
    told.api.fail_next = [ApiProblem(403, "Forbidden", "the namespace is being terminated")]

    async def main() -> None:
        for _ in range(2):
            told.events.emit("PolicyViolation", "Resource Passed", "text", POD)
            await told.run()

    asyncio.run(main())
    assert told.dropped == 1
    assert len(told.written) == 1


@pytest.mark.parametrize(
    ("name", "made"),
    [("system:node", "system-node"), ("A.-b", "a--b"), ("x" * 253, "x" * 200), (":::", "unnamed"), ("a..b.", "a--b")],
)
def test_names_of_events_are_names(name: str, made: str) -> None:
    told = Told()
    told.events.emit("PolicyViolation", "None", "text", {"kind": "Role", "metadata": {"name": name}})
    asyncio.run(told.run())
    assert told.written[0]["metadata"]["name"].rpartition(".")[0] == made


def test_notes_are_cut_to_the_bytes_that_the_api_server_takes() -> None:
    told = Told()
    told.events.emit("PolicyViolation", "None", "ü" * 1000, POD)
    asyncio.run(told.run())
    note = told.written[0]["note"]
    assert note.endswith("ü...")
    assert len(note.encode()) <= 1024


def test_what_was_told_is_written_before_the_end() -> None:
    told = Told()

    async def main(seconds: float) -> None:
        writing = asyncio.create_task(told.events.run())
        for number in range(5):
            told.events.emit("PolicyViolation", "Resource Passed", f"text {number}", POD)
        await told.events.flush(seconds)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)

    asyncio.run(main(1.0))
    assert len(told.written) == 5
    told.api.fail_next = [Unreachable("nobody there")] * 10
    asyncio.run(main(0.05))
    assert len(told.written) == 5
