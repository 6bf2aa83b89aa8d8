"""Results of rules become reports; old and new ones of an object are merged; the writer writes what changes, once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runtime.controllers import reports, reportwriter
from runtime.controllers.reports import POLICY_REPORT, Result, Subject, Told
from runtime.controllers.reportwriter import ReportWriter
from runtime.engine import RuleResult
from runtime.k8s.client import Object, Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.watch import Backoff
from tests.unit.runtime.fake_api import FakeApi

THINGS = Resource("example.com", "v1", "things", "Thing")
SUBJECT = Subject("example.com/v1", "Thing", "n", "one", "uid-1")
RULES: reports.Rules = {
    ("scanned", "kyverno"): {"a": "scan", "b": "scan"},
    ("asked", "kyverno"): {"a": "admission"},
    ("n/own", "kyverno"): {"a": "admission"},
}


def result(policy: str = "scanned", rule: str = "a", status: str = "pass", at: int = 1, **more: Any) -> Result:
    return {
        "source": "kyverno",
        "policy": policy,
        "rule": rule,
        "result": status,
        "message": "",
        "timestamp": {"seconds": at, "nanos": 0},
        **more,
    }


def shown(results: list[Result]) -> list[tuple[str, str, str, int]]:
    return [(r["policy"], r["rule"], r["result"], r["timestamp"]["seconds"]) for r in results]


def test_a_scan_takes_the_place_of_the_last_and_leaves_what_admission_said() -> None:
    old = [result("asked", status="fail"), result("scanned", "a"), result("scanned", "b"), result("gone")]

    found = reports.merged(old, [result("scanned", "b", "fail", at=9)], {}, RULES)

    assert shown(found) == [("asked", "a", "fail", 1), ("scanned", "b", "fail", 9)]


def test_admission_replaces_rule_by_rule() -> None:
    old = [result("asked"), result("n/own"), result("scanned")]

    found = reports.merged(old, None, {("asked", "a", "kyverno"): result("asked", status="fail", at=9)}, RULES)

    assert shown(found) == [("asked", "a", "fail", 9), ("n/own", "a", "pass", 1), ("scanned", "a", "pass", 1)]


def test_a_result_that_says_the_same_keeps_its_time() -> None:
    found = reports.merged([result(at=1)], [result(at=9)], {("asked", "a", "kyverno"): result("asked", at=9)}, RULES)

    assert shown(found) == [("asked", "a", "pass", 9), ("scanned", "a", "pass", 1)]


def test_a_sweep_takes_what_no_rule_says_any_more() -> None:
    old = [result("gone"), result("scanned", "gone"), result("scanned"), result("asked")]

    assert shown(reports.merged(old, None, {}, RULES)) == sorted(shown(old))
    found = reports.merged(old, None, {}, RULES, sweep=True)
    assert shown(found) == [("asked", "a", "pass", 1), ("scanned", "a", "pass", 1)]


def test_results_of_other_tools_stay() -> None:
    other = result("gone", source="scanner")

    assert reports.merged([other], [], {}, RULES, sweep=True) == [other]


def test_a_report_counts_its_results_and_is_owned_by_its_object() -> None:
    results = [result(), result(rule="b", status="fail"), result("asked", status="warn")]

    found = reports.report_of(POLICY_REPORT, SUBJECT, None, results, "seen.said", RULES)

    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "one", "uid": "uid-1"}
    assert found["metadata"]["name"] == "uid-1"
    assert found["metadata"]["namespace"] == "n"
    assert found["metadata"]["ownerReferences"] == [owner]
    assert found["metadata"]["annotations"] == {reports.SCAN: "seen.said", reports.ADMISSION: reports.mark("asked")}
    assert found["scope"] == {**owner, "namespace": "n"}
    assert found["summary"] == {"pass": 1, "fail": 1, "warn": 1, "error": 0, "skip": 0}


class Stage:
    """A writer beside an API server in memory."""

    def __init__(self, **limits: int) -> None:
        self.api = FakeApi()
        self.api.put(THINGS, {"metadata": {"name": "one", "namespace": "n", "uid": "uid-1"}})
        self.writer = ReportWriter(self.api, self._discovery, **limits)  # type: ignore[arg-type]
        self.writer.rules = RULES

    async def _discovery(self, fresh: bool) -> Discovery:
        return Discovery([Entry(THINGS)])

    @property
    def reports(self) -> dict[str, Object]:
        return {name: found for (_, name), found in self.api.objects.get("policyreports", {}).items()}

    def said(self, uid: str = "uid-1") -> list[tuple[str, str, str, int]] | None:
        found = self.reports.get(uid)
        return None if found is None else shown(found["results"])

    def writes(self) -> int:
        return sum(verb in ("create", "replace", "delete") for verb, _, _ in self.api.calls)

    async def written(self) -> None:
        async with asyncio.timeout(5):
            while not self.writer.idle:
                await asyncio.sleep(0.005)


def play(scenario: Callable[[Stage], Awaitable[None]], stage: Stage | None = None) -> Stage:
    """Runs a scenario while the writer writes."""
    stage = stage or Stage()

    async def main() -> None:
        task = asyncio.create_task(stage.writer.run())
        try:
            await asyncio.wait_for(stage.writer.synced.wait(), 5)
            await scenario(stage)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    return stage


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reportwriter, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(reportwriter, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(Backoff, "next", lambda self: 0.01)


def test_the_same_results_are_written_once() -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.writer.scanned(SUBJECT, Told.of([result(at=1)]), "seen")
        await stage.written()
        assert stage.said() == [("scanned", "a", "pass", 1)]
        calls = len(stage.api.calls)
        assert not await stage.writer.scanned(SUBJECT, Told.of([result(at=9)]), "seen")
        assert not await stage.writer.scanned(SUBJECT, Told.of([result(at=9)]), "another form, judged the same")
        await stage.written()
        assert stage.api.calls[calls:] == []

    play(scenario)


def test_a_new_process_goes_on_with_the_reports_that_are_there() -> None:
    first = play(lambda stage: _scan_one(stage))

    async def scenario(stage: Stage) -> None:
        stage.api.objects = first.api.objects
        stage.writer = ReportWriter(stage.api, stage._discovery)
        stage.writer.rules = RULES
        task = asyncio.create_task(stage.writer.run())
        await asyncio.wait_for(stage.writer.synced.wait(), 5)
        assert not await stage.writer.scanned(SUBJECT, Told.of([result(at=9)]), "seen")
        assert stage.writes() == 0
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(scenario)


async def _scan_one(stage: Stage) -> None:
    await stage.writer.scanned(SUBJECT, Told.of([result()]), "seen")
    await stage.written()


def test_what_is_said_in_a_moment_is_one_write() -> None:
    async def scenario(stage: Stage) -> None:
        stage.writer.admitted(SUBJECT, [result("asked")])
        stage.writer.admitted(SUBJECT, [result("n/own", status="fail")])
        await stage.writer.scanned(SUBJECT, Told.of([result()]), "seen")
        await stage.written()

    stage = play(scenario)

    assert stage.said() == [("asked", "a", "pass", 1), ("n/own", "a", "fail", 1), ("scanned", "a", "pass", 1)]
    assert stage.writes() == 1


def test_an_object_that_never_came_to_be_has_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: Stage) -> None:
        stage.writer.admitted(Subject("example.com/v1", "Thing", "n", "other", "uid-2"), [result("asked")])
        stage.writer.admitted(Subject("example.com/v1", "Thing", "n", "one", "uid-of-before"), [result("asked")])
        await stage.written()

    assert play(scenario).reports == {}


def test_an_object_without_a_uid_is_looked_up_by_name() -> None:
    async def scenario(stage: Stage) -> None:
        stage.writer.admitted(Subject("example.com/v1", "Thing", "n", "one", ""), [result("asked")])
        await stage.written()

    assert play(scenario).said() == [("asked", "a", "pass", 1)]


def test_a_report_that_has_nothing_to_say_is_removed() -> None:
    async def scenario(stage: Stage) -> None:
        await _scan_one(stage)
        assert await stage.writer.scanned(SUBJECT, Told.of([]), "seen")
        await stage.written()

    assert play(scenario).reports == {}


def test_the_report_goes_with_its_object() -> None:
    async def scenario(stage: Stage) -> None:
        await _scan_one(stage)
        stage.writer.gone("uid-1")
        await stage.written()

    assert play(scenario).reports == {}


@pytest.mark.parametrize("gone", [True, False], ids=["its object is gone", "it says nothing"])
def test_a_report_that_could_not_be_removed_is_removed_later(gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: Stage) -> None:
        await _scan_one(stage)
        delete, left = stage.api.delete, [Unreachable("away")] * 2

        async def failing(*args: Any, **options: Any) -> bool:
            if left:
                raise left.pop()
            return await delete(*args, **options)

        monkeypatch.setattr(stage.api, "delete", failing)
        if gone:
            stage.writer.gone("uid-1")
        else:
            await stage.writer.scanned(SUBJECT, Told.of([]), "seen")
        await stage.written()

    stage = play(scenario)
    assert stage.reports == {}
    assert stage.writer.known == {}


def test_somebody_who_writes_the_report_meanwhile_is_not_overwritten() -> None:
    async def scenario(stage: Stage) -> None:
        await _scan_one(stage)
        get = stage.api.get

        async def meanwhile(resource: Resource, name: str, namespace: str = "") -> Object:
            found = await get(resource, name, namespace)
            stage.api.get = get  # type: ignore[method-assign]
            stage.api.put(POLICY_REPORT, {**found, "results": [*found["results"], result("asked")]})
            return found

        stage.api.get = meanwhile  # type: ignore[method-assign]
        await stage.writer.scanned(SUBJECT, Told.of([result(status="fail", at=2)]), "other")
        await stage.written()

    assert play(scenario).said() == [("asked", "a", "pass", 1), ("scanned", "a", "fail", 2)]


def test_a_report_that_somebody_else_made_first_is_added_to() -> None:
    async def scenario(stage: Stage) -> None:
        create = stage.api.create

        async def meanwhile(resource: Resource, obj: Object, namespace: str = "") -> Object:
            stage.api.create = create  # type: ignore[method-assign]
            stage.api.put(POLICY_REPORT, {**obj, "results": [result("asked")]})
            return await create(resource, obj, namespace)

        stage.api.create = meanwhile  # type: ignore[method-assign]
        await _scan_one(stage)

    assert play(scenario).said() == [("asked", "a", "pass", 1), ("scanned", "a", "pass", 1)]


@pytest.mark.parametrize(
    "problem", [Unreachable("away"), ApiProblem(500, "InternalError", "no leader"), ApiProblem(429, "TooMany", "later")]
)
def test_an_api_server_that_is_away_is_waited_for(problem: Exception) -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.fail_next = [problem] * 4
        await _scan_one(stage)

    assert play(scenario).said() == [("scanned", "a", "pass", 1)]


def test_a_report_that_is_refused_is_given_up() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.fail_next = [ApiProblem(403, "Forbidden", "no")] * 100
        await _scan_one(stage)

    assert play(scenario).reports == {}


def test_what_admission_said_is_written_before_the_end() -> None:
    async def scenario(stage: Stage) -> None:
        stage.writer.admitted(SUBJECT, [result("asked")])

    assert play(scenario).said() == [("asked", "a", "pass", 1)]


def test_a_storm_of_conflicts_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: Stage) -> None:
        await _scan_one(stage)
        replace, left = stage.api.replace, 30

        async def stormy(resource: Resource, obj: Object, namespace: str = "") -> Object:
            nonlocal left
            left -= 1
            if left > 0:
                raise ApiProblem(409, "Conflict", "changed meanwhile")
            return await replace(resource, obj, namespace)

        monkeypatch.setattr(stage.api, "replace", stormy)
        await stage.writer.scanned(SUBJECT, Told.of([result(status="fail")]), "other")
        await stage.written()

    assert play(scenario).said() == [("scanned", "a", "fail", 1)]


def test_admission_never_waits_for_room() -> None:
    stage = Stage(most=2)
    for number in range(5):
        stage.writer.admitted(Subject("example.com/v1", "Thing", "n", "one", f"uid-{number}"), [result("asked")])

    assert stage.writer.dropped == 3


def test_a_scan_takes_no_room_from_admission() -> None:
    async def scenario(stage: Stage) -> None:
        for number in range(5):
            await stage.writer.scanned(
                Subject("example.com/v1", "Thing", "n", "one", f"uid-{number}"), Told.of([result()]), "x"
            )
        for uid in ("uid-1", "uid-7", "uid-8"):
            stage.writer.admitted(Subject("example.com/v1", "Thing", "n", "one", uid), [result("asked")])
        assert stage.writer.dropped == 1
        await stage.written()
        stage.writer.admitted(SUBJECT, [result("n/own")])
        stage.writer.admitted(Subject("example.com/v1", "Thing", "n", "one", "uid-2"), [result("asked")])
        assert stage.writer.dropped == 1

    play(scenario, Stage(most=2))


def test_the_scan_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reportwriter, "ROOM", 3000)

    async def scenario(stage: Stage) -> None:
        for number in range(50):
            subject = Subject("example.com/v1", "Thing", "n", "one", f"uid-{number}")
            await stage.writer.scanned(subject, Told.of([result(message="x" * 500)]), "seen")
            assert stage.writer.waiting_bytes <= 3000 + 1500
        await stage.written()

    assert len(play(scenario).reports) == 50


def test_somebody_who_removes_a_report_is_noticed() -> None:
    told: list[str] = []

    async def scenario(stage: Stage) -> None:
        stage.writer.missed.append(lambda kind, uid: told.append(f"{kind} {uid}"))
        await _scan_one(stage)
        stage.api.remove(POLICY_REPORT, "uid-1", "n")
        async with asyncio.timeout(5):
            while not told:
                await asyncio.sleep(0.005)
        assert await stage.writer.scanned(SUBJECT, Told.of([result()]), "seen")

    play(scenario)

    assert told == ["example.com/Thing uid-1"]


def test_of_several_results_of_a_rule_the_worst_counts() -> None:
    def said(status: str) -> RuleResult:
        return RuleResult("p", None, "r", "validate", status, status, "Audit")

    statuses = ["pass", "fail", "skip", "error"]
    (found,) = reports.results_of(map(said, statuses), frozenset(reports.STATUSES), 1)
    assert (found["result"], found["message"]) == ("fail", "fail")
    (found,) = reports.results_of(map(said, statuses), frozenset({"pass", "skip"}), 1)
    assert found["result"] == "pass"
