"""The background scan looks at objects when it must and no oftener: changes, policies, labels of namespaces, intervals,
shards, reports that somebody removed, and starts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from compiler.source import load_values
from runtime.bundles import make_imports
from runtime.config import Settings
from runtime.controllers import nativepolicies, reportwriter, scan
from runtime.controllers.audittrail import AuditTrail
from runtime.controllers.clusterconfig import ClusterConfig, parse
from runtime.controllers.installation import Installation
from runtime.controllers.leases import SHARDS, Shards
from runtime.controllers.policy import PolicyController
from runtime.controllers.reports import POLICY_REPORT
from runtime.controllers.scankinds import ScannedRules
from runtime.k8s.client import Object, Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.k8s.watch import Backoff
from runtime.observe.events import Events
from runtime.observe.metrics import Metrics
from runtime.observe.policy_events import PolicyEvents
from runtime.reporting import Reporting
from runtime.request import Request
from runtime.webhook.live import Live
from tests.integration.server import review
from tests.unit.runtime.fake_api import FakeApi
from vm.host import HostCall
from vm.values import Value

CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap")

POLICY = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {{name: {name}}}
spec:
  background: {background}
  rules:
    - name: {rule}
      match: {{any: [{{resources: {{kinds: [ConfigMap]{more}}}}}]}}
      validate:
        failureAction: Audit
        message: m
        pattern: {pattern}
"""


def policy(
    name: str = "p",
    *,
    rule: str = "r",
    more: str = "",
    background: bool = True,
    pattern: str = "{metadata: {labels: {team: '?*'}}}",
) -> Object:
    text = POLICY.format(name=name, rule=rule, more=more, background=str(background).lower(), pattern=pattern)
    (found,) = load_values(text)
    return dict(found)


def config(name: str, labels: dict[str, str] | None = None, **more: Any) -> Object:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


class Stage:
    """An installation over an API server in memory, with the reports part alone."""

    def __init__(
        self, reporting: Reporting | None = None, held: frozenset[int] | None = None, api: FakeApi | None = None
    ) -> None:
        self.api = api or FakeApi()
        self.config = ClusterConfig()
        self.shards = Shards()
        self.shards.set("reports", frozenset(range(SHARDS)) if held is None else held)
        self.live = Live(namespaces={"ns": {"metadata": {"name": "ns", "labels": {"env": "test"}}}})
        self.metrics = Metrics()
        settings = Settings(reporting=reporting or Reporting())
        self.policies = PolicyController(self.live, settings, self.metrics, make_imports(), self._changed)
        events = Events(self.api, "test", self.metrics)
        self.installation = Installation(
            self.api,  # type: ignore[arg-type]
            settings,
            self.live,
            self.metrics,
            self.policies,
            self._discovery,
            self._ask,
            lambda: self.config,
            events,
            self.shards,
            lambda: None,
            PolicyEvents(events),
        )
        self.trail = AuditTrail(self.installation)

    async def _discovery(self, fresh: bool) -> Discovery:
        return Discovery([Entry(CONFIG_MAP, verbs=frozenset({"list", "watch"}))])

    async def _ask(self, call: HostCall) -> Value:
        raise AssertionError(call)

    def _changed(self) -> None:
        self.trail.policies_changed()

    async def use(self, *policies: Object) -> None:
        for one in policies:
            self.policies.note("added", one)
        await self.policies.round()

    @property
    def looked_at(self) -> int:
        """How many results rules have given so far."""
        families = {f.metric.name: f for f in self.metrics.families()}
        return int(sum(v for v in families["kyverno_policy_results_total"].values.values() if isinstance(v, float)))

    def said(self, name: str) -> dict[str, str] | None:
        """What the report of an object says by rule."""
        found = self.api.objects.get("policyreports", {}).get(("ns", f"uid-{name}"))
        return None if found is None else {r["rule"]: r["result"] for r in found["results"]}

    async def until(self, wanted: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while not wanted():
                await asyncio.sleep(0.005)

    async def quiet(self) -> None:
        """Until nothing has happened for a while."""
        calls = -1
        while calls != len(self.api.calls) or not self.trail.writer.idle:
            calls = len(self.api.calls)
            await asyncio.sleep(0.15)


def play(scenario: Callable[[Stage], Awaitable[None]], stage: Stage | None = None) -> Stage:
    async def main() -> Stage:
        played = stage or Stage()
        task = asyncio.create_task(played.trail.run())
        try:
            await scenario(played)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return played

    return asyncio.run(main())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reportwriter, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(reportwriter, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(scan, "SETTLE", 0.01)
    monkeypatch.setattr(scan, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(Backoff, "next", lambda self: 0.01)


def test_objects_are_looked_at_again_when_what_rules_may_read_has_changed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.put(CONFIG_MAP, config("a"))
        await stage.use(policy())
        await stage.until(lambda: stage.said("a") == {"r": "fail"})
        before = stage.looked_at

        stage.api.put(CONFIG_MAP, {**config("a"), "status": {"seen": "now"}})
        await stage.quiet()
        assert stage.looked_at == before

        stage.api.put(CONFIG_MAP, config("a", {"team": "x"}))
        await stage.until(lambda: stage.said("a") == {"r": "pass"})

        stage.api.remove(CONFIG_MAP, "a", "ns")
        await stage.until(lambda: stage.said("a") is None)

    play(scenario)


def test_the_status_counts_where_a_rule_reads_it() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.put(CONFIG_MAP, config("a", status={"seen": "no"}))
        await stage.use(policy(pattern="{status: {seen: now}}"))
        await stage.until(lambda: stage.said("a") == {"r": "fail"})

        stage.api.put(CONFIG_MAP, config("a", status={"seen": "now"}))
        await stage.until(lambda: stage.said("a") == {"r": "pass"})

    play(scenario)


def test_policies_that_come_change_and_go_are_followed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.put(CONFIG_MAP, config("a"))
        await stage.use(policy("p", rule="one"))
        await stage.until(lambda: stage.said("a") == {"one": "fail"})
        await stage.use(policy("q", rule="two"))
        await stage.until(lambda: stage.said("a") == {"one": "fail", "two": "fail"})
        stage.policies.note("deleted", policy("p"))
        await stage.use(policy("q", rule="three"))
        await stage.until(lambda: stage.said("a") == {"three": "fail"})
        stage.policies.note("deleted", policy("q"))
        await stage.policies.round()
        await stage.until(lambda: stage.said("a") is None)

    play(scenario)


def test_labels_of_the_namespace_count_where_a_rule_asks_for_them() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.put(CONFIG_MAP, config("a"))
        await stage.use(policy(more=", namespaceSelector: {matchLabels: {env: prod}}"))
        await stage.quiet()
        assert stage.said("a") is None

        stage.live.namespaces = {"ns": {"metadata": {"name": "ns", "labels": {"env": "prod"}}}}
        await stage.until(lambda: stage.said("a") == {"r": "fail"})

    play(scenario)


def test_a_start_goes_on_where_the_last_process_ended() -> None:
    async def first(stage: Stage) -> None:
        for name in ("a", "b", "c"):
            stage.api.put(CONFIG_MAP, config(name))
        await stage.use(policy())
        await stage.until(lambda: stage.said("c"))
        await stage.quiet()

    ended = play(first)
    assert ended.looked_at == 3
    begun = Stage()
    begun.api.objects = ended.api.objects
    begun.api.remove(CONFIG_MAP, "a", "ns")
    begun.api.put(CONFIG_MAP, config("b", {"team": "x"}))

    async def second(stage: Stage) -> None:
        await stage.use(policy())
        await stage.until(lambda: stage.said("a") is None and stage.said("b") == {"r": "pass"})
        await stage.quiet()

    play(second, begun)

    assert begun.looked_at == 1
    assert sorted((verb, name) for verb, plural, name in begun.api.calls if plural == "policyreports" and name) == [
        ("delete", "uid-a"),
        ("get", "uid-b"),
        ("replace", "uid-b"),
    ]


def test_before_the_first_policies_are_here_no_report_is_touched() -> None:
    async def first(stage: Stage) -> None:
        stage.api.put(CONFIG_MAP, config("a"))
        await stage.use(policy("p", rule="scanned"), policy("q", rule="asked", background=False))
        admit(stage, config("a"))
        await stage.until(lambda: stage.said("a") == {"asked": "fail", "scanned": "fail"})

    async def second(stage: Stage) -> None:
        await stage.trail.writer.synced.wait()
        await stage.quiet()
        assert stage.said("a") == {"asked": "fail", "scanned": "fail"}
        # One of the policies went while nobody was there.
        await stage.use(policy("p", rule="scanned"))
        await stage.until(lambda: stage.said("a") == {"scanned": "fail"})

    begun = Stage()
    begun.api.objects = play(first).api.objects
    play(second, begun)


def test_at_intervals_everything_is_looked_at_and_nothing_written() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.put(CONFIG_MAP, config("a"))
        await stage.use(policy())
        await stage.until(lambda: stage.looked_at >= 3)

    stage = play(scenario, Stage(reporting=Reporting(seconds=0.1)))

    assert sum(verb in ("create", "replace", "delete") for verb, plural, _ in stage.api.calls) == 1


def test_a_report_that_somebody_removes_is_written_again() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.put(CONFIG_MAP, config("a"))
        await stage.use(policy())
        await stage.until(lambda: stage.said("a"))
        await stage.quiet()
        stage.api.remove(POLICY_REPORT, "uid-a", "ns")
        await stage.until(lambda: stage.said("a") == {"r": "fail"})

    play(scenario)


def test_reports_that_go_with_their_objects_have_nothing_listed_again() -> None:
    def lists(stage: Stage) -> int:
        return sum((verb, plural) == ("list", "configmaps") for verb, plural, _ in stage.api.calls)

    async def scenario(stage: Stage) -> None:
        for name in ("a", "b"):
            stage.api.put(CONFIG_MAP, config(name))
        await stage.use(policy())
        await stage.until(lambda: stage.said("a") and stage.said("b"))
        await stage.quiet()
        before = lists(stage)

        # The API server removes what the object owned sooner than the writer does.
        stage.api.remove(CONFIG_MAP, "a", "ns")
        stage.api.remove(POLICY_REPORT, "uid-a", "ns")
        await stage.quiet()
        assert lists(stage) == before

        # What another replica reports on is looked after there.
        stage.shards.set("reports", frozenset())
        await stage.until(lambda: lists(stage) > before)
        await stage.quiet()
        before = lists(stage)
        stage.api.remove(POLICY_REPORT, "uid-b", "ns")
        await stage.quiet()
        assert lists(stage) == before

    play(scenario)


def test_policies_that_change_while_rules_are_read_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    left = [policy("q", rule="two")]

    class Slow(ScannedRules):
        def __init__(self, *policies: Any) -> None:
            super().__init__(*policies)
            if left and self.may_reach("/ConfigMap"):
                # Runs in a thread: the loop takes the next policy in meanwhile.
                asyncio.run_coroutine_threadsafe(stage.use(left.pop()), loop[0]).result()

    loop: list[asyncio.AbstractEventLoop] = []
    monkeypatch.setattr(scan, "ScannedRules", Slow)

    async def scenario(stage: Stage) -> None:
        loop.append(asyncio.get_running_loop())
        stage.api.put(CONFIG_MAP, config("a"))
        await stage.use(policy("p", rule="one"))
        await stage.until(lambda: stage.said("a") == {"one": "fail", "two": "fail"})

    play(scenario, stage)


def test_replicas_share_the_objects() -> None:
    names = [f"c{number}" for number in range(12)]

    async def scenario(stage: Stage) -> None:
        for name in names:
            stage.api.put(CONFIG_MAP, config(name))
        await stage.use(policy())
        await stage.until(lambda: stage.looked_at)
        await stage.quiet()
        mine = [name for name in names if stage.shards.holds("reports", f"uid-{name}")]
        assert 0 < len(mine) < len(names)
        assert [name for name in names if stage.said(name)] == mine

        stage.shards.hold_all("reports")
        await stage.until(lambda: all(map(stage.said, names)))

    play(scenario, Stage(held=frozenset({0, 1})))


def test_resource_filters_hold_where_they_are_asked_for() -> None:
    async def scenario(stage: Stage) -> None:
        stage.config = parse({"data": {"resourceFilters": "[ConfigMap,ns,b]"}})
        for name in ("a", "b"):
            stage.api.put(CONFIG_MAP, config(name))
        await stage.use(policy())
        await stage.until(lambda: stage.said("a"))
        await stage.quiet()

    assert play(scenario, Stage(reporting=Reporting(filtered=True))).said("b") is None
    assert play(scenario).said("b") == {"r": "fail"}


def test_results_that_nobody_wants_are_not_reported() -> None:
    async def scenario(stage: Stage) -> None:
        for name, labels in (("a", {"team": "x"}), ("b", {})):
            stage.api.put(CONFIG_MAP, config(name, labels))
        await stage.use(policy())
        await stage.until(lambda: stage.said("b"))
        await stage.quiet()

    assert play(scenario, Stage(reporting=Reporting(statuses=frozenset({"fail"})))).said("a") is None


def admit(stage: Stage, obj: Object, **more: Any) -> None:
    request = Request.from_review(review(obj, **more))
    assert stage.live.judge(request, "validate", "", float("inf")) is not None


def test_admission_reports_what_no_scan_does() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.use(policy("p", rule="scanned"), policy("q", rule="asked", background=False))
        stage.api.put(CONFIG_MAP, config("a"))
        admit(stage, config("a"))
        await stage.until(lambda: stage.said("a") == {"asked": "fail", "scanned": "fail"})
        writes = len(stage.api.calls)
        admit(stage, config("a"))
        await stage.quiet()
        assert len(stage.api.calls) == writes

        stage.policies.note("deleted", policy("q"))
        await stage.policies.round()
        await stage.until(lambda: stage.said("a") == {"scanned": "fail"})

    play(scenario)


@pytest.mark.parametrize("asked", [{"operation": "DELETE"}, {"dryRun": True}, {"subResource": "scale"}])
def test_requests_that_leave_no_object_are_not_reported(asked: dict[str, Any]) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.use(policy("q", rule="asked", background=False))
        stage.api.put(CONFIG_MAP, config("a"))
        admit(stage, config("a"), **asked)
        await stage.quiet()

    assert play(scenario).said("a") is None


def test_admission_says_again_what_has_left_the_report_meanwhile() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.put(CONFIG_MAP, config("a"))
        asked = policy("q", rule="asked", background=False)
        await stage.use(policy("p", rule="scanned"), asked)
        admit(stage, config("a"))
        await stage.until(lambda: stage.said("a") == {"asked": "fail", "scanned": "fail"})
        stage.policies.note("deleted", asked)
        await stage.policies.round()
        await stage.until(lambda: stage.said("a") == {"scanned": "fail"})
        await stage.use(asked)
        admit(stage, config("a"))
        await stage.until(lambda: stage.said("a") == {"asked": "fail", "scanned": "fail"})

    play(scenario)


def test_without_admission_reports_only_the_scan_reports() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.use(policy("p", rule="scanned"), policy("q", rule="asked", background=False))
        stage.api.put(CONFIG_MAP, config("a"))
        admit(stage, config("a"))
        await stage.until(lambda: stage.said("a"))
        await stage.quiet()

    assert play(scenario, Stage(reporting=Reporting(admission=False))).said("a") == {"scanned": "fail"}


def test_without_reports_nothing_is_written_and_the_scan_still_counts() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.put(CONFIG_MAP, config("a"))
        await stage.use(policy())
        await stage.until(lambda: stage.looked_at)
        await stage.quiet()

    assert play(scenario, Stage(reporting=Reporting(write=False))).said("a") is None


VAP = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: p, labels: {{reports.kyverno.io/enabled: "{enabled}"}}}}
spec:
  matchConstraints:
    resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}}]
  validations: [{{expression: "has(object.metadata.labels) && 'team' in object.metadata.labels"}}]
"""

BOUND = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec:
  policyName: p
  validationActions: [Audit]
  matchResources: {{namespaceSelector: {{matchLabels: {{env: {env}}}}}}}
"""


def put_native(stage: Stage, resource: Resource, text: str) -> None:
    (found,) = load_values(text)
    stage.api.put(resource, dict(found))


def test_policies_of_the_api_server_are_reported_where_they_ask_for_it() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.put(CONFIG_MAP, config("a"))
        await stage.use(policy("p", rule="p"))
        put_native(stage, nativepolicies.POLICIES, VAP.format(enabled="true"))
        put_native(stage, nativepolicies.BINDINGS, BOUND.format(name="prod", env="prod"))
        put_native(stage, nativepolicies.BINDINGS, BOUND.format(name="test", env="test"))

        def native() -> list[dict[str, Any]]:
            found = stage.api.objects.get("policyreports", {}).get(("ns", "uid-a"), {"results": []})
            return [r for r in found["results"] if r["source"] == "ValidatingAdmissionPolicy"]

        await stage.until(lambda: native() and stage.said("a") == {"p": "fail"})
        (result,) = native()
        assert (result["policy"], result["rule"], result["result"]) == ("p", "p", "fail")
        assert result["properties"] == {"process": "background scan", "binding": "test"}

        stage.api.remove(nativepolicies.POLICIES, "p")
        await stage.until(lambda: not native())
        assert stage.said("a") == {"p": "fail"}

    play(scenario, Stage(reporting=Reporting(native=True)))


@pytest.mark.parametrize(("native", "enabled"), [(False, "true"), (True, "false")])
def test_policies_of_the_api_server_are_left_alone_else(native: bool, enabled: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.put(CONFIG_MAP, config("a"))
        put_native(stage, nativepolicies.POLICIES, VAP.format(enabled=enabled))
        await stage.use(policy("q", rule="scanned"))
        await stage.until(lambda: stage.said("a"))
        await stage.quiet()

    assert play(scenario, Stage(reporting=Reporting(native=native))).said("a") == {"scanned": "fail"}


def test_an_object_that_cannot_be_scanned_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    look = scan._KindScan._look

    async def fails(self: Any, obj: Object, *rest: Any) -> bool:
        if obj["metadata"]["name"] == "a":
            raise ValueError("no text")
        return await look(self, obj, *rest)

    monkeypatch.setattr(scan._KindScan, "_look", fails)

    async def scenario(stage: Stage) -> None:
        for name in ("a", "b"):
            stage.api.put(CONFIG_MAP, config(name))
        await stage.use(policy())
        await stage.until(lambda: stage.said("b"))

    assert play(scenario).said("a") is None


def test_a_report_that_cannot_be_made_does_not_keep_a_request_from_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*told: Any) -> None:
        raise ValueError("no text")

    async def scenario(stage: Stage) -> None:
        await stage.use(policy("q", background=False))
        monkeypatch.setattr(stage.trail.writer, "admitted", fails)
        admit(stage, config("a"))

    play(scenario)


@pytest.mark.parametrize("metadata", [[], "a", {"name": {}}])
def test_what_no_api_server_sends_is_not_reported_and_no_fault(metadata: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.use(policy("q", background=False))
        admit(stage, config("a"), object={**config("a"), "metadata": metadata})
        await stage.quiet()

    play(scenario)
    assert not [r for r in caplog.records if r.exc_info]
