"""Cleanup policies and the guide's rules over an API server in memory: what goes, what stays, when they run."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runtime.controllers import cleaning
from runtime.controllers.cleaning import Cleaning
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import CLUSTER_CLEANUP_POLICY
from tests.unit.runtime.clock_bench import JOB, POD, Bench, until

LONG_AGO = "2024-01-01T00:00:00Z"

TIDY = """
apiVersion: kyverno.io/v2
kind: ClusterCleanupPolicy
metadata: {name: tidy, creationTimestamp: "2024-01-01T00:00:00Z"}
spec:
  schedule: "0 * * * *"
  match: {any: [{resources: {kinds: [Pod]}}]}
  exclude: {any: [{resources: {namespaces: [kept]}}]}
  conditions: {all: [{key: "{{ target.metadata.name }}", operator: Equals, value: old*}]}
"""

OWN = TIDY.replace("ClusterCleanupPolicy", "CleanupPolicy").replace("name: tidy", "name: tidy, namespace: own")

GUIDE = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: guide}
spec:
  rules:
  - name: jobs
    match: {resources: {kinds: [Job]}}
    cleanup: {removeResources: [{kind: Job, selector: {matchLabels: {cleanup: "true"}}}]}
"""

BY_POD = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: by-pod}
spec:
  rules:
  - name: jobs
    match: {resources: {kinds: [Pod], names: [signal]}}
    cleanup: {removeResources: [{kind: Job}]}
"""


def job(bench: Bench, name: str, done: str = "Complete", **labels: str) -> None:
    status = {"conditions": [{"type": done, "status": "True"}]} if done else {"active": 1}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    bench.api.put(JOB, {"metadata": metadata, "status": status})


def last_run(bench: Bench) -> Any:
    return (bench.api.objects["clustercleanuppolicies"]["", "tidy"].get("status") or {}).get("lastExecutionTime")


def test_a_missed_run_is_made_up_for_and_its_time_written() -> None:
    async def run() -> None:
        bench = Bench()
        for name, namespace in (("old-1", "default"), ("old-2", "other"), ("new", "default"), ("old-kept", "kept")):
            bench.pod(name, namespace)
        await bench.policy(TIDY)
        async with bench.running(Cleaning(bench.installation)):
            stamp = await until(lambda: last_run(bench))
        assert bench.left() == {"new", "old-kept"}
        assert datetime.now(UTC) - datetime.fromisoformat(stamp) < timedelta(minutes=1)
        assert sorted(bench.tell.cleanups) == [("tidy", "old-1", ""), ("tidy", "old-2", "")]

    asyncio.run(run())


def test_a_policy_that_ran_a_moment_ago_waits_for_its_hour() -> None:
    async def run() -> None:
        bench = Bench()
        bench.pod("old-1")
        stored = await bench.policy(TIDY)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        bench.policies.note("changed", {**stored, "status": {"lastExecutionTime": now}})
        await bench.policies.round()
        async with bench.running(Cleaning(bench.installation)):
            await asyncio.sleep(0.2)
        assert bench.left() == {"old-1"}

    asyncio.run(run())


def test_what_another_replica_holds_is_left_to_it() -> None:
    async def run() -> None:
        bench = Bench()
        bench.shards.set("cleanup", frozenset())
        bench.pod("old-1")
        await bench.policy(TIDY)
        async with bench.running(Cleaning(bench.installation)):
            await asyncio.sleep(0.2)
            assert bench.left() == {"old-1"}
            bench.shards.hold_all("cleanup")
            await until(lambda: not bench.left())

    asyncio.run(run())


def test_a_namespaced_policy_looks_at_its_own_namespace_alone() -> None:
    async def run() -> None:
        bench = Bench()
        bench.pod("old-1", "own")
        bench.pod("old-2", "other")
        await bench.policy(OWN)
        async with bench.running(Cleaning(bench.installation)):
            await until(lambda: bench.left() == {"old-2"})

    asyncio.run(run())


def test_what_filters_and_protection_name_and_what_goes_already_is_spared() -> None:
    async def run() -> None:
        bench = Bench(protect_managed=True)
        bench.filters("[Pod,default,old-filtered]")
        bench.pod("old-filtered")
        bench.pod("old-managed", labels={"app.kubernetes.io/managed-by": "kyverno"})
        bench.pod("old-going", deletionTimestamp="2026-02-02T00:00:00Z")
        bench.pod("old-1")
        await bench.policy(TIDY)
        async with bench.running(Cleaning(bench.installation)):
            await until(lambda: last_run(bench))
        assert bench.left() == {"old-filtered", "old-managed", "old-going"}

    asyncio.run(run())


def test_an_object_that_changes_is_judged_anew_and_one_made_again_stays() -> None:
    async def run() -> None:
        bench = Bench()
        bench.pod("old-changed", labels={"a": "1"})
        bench.pod("old-again")

        def again() -> None:
            bench.api.remove(POD, "old-again", "default")
            bench.pod("old-again", labels={"keep": "true"})

        bench.api.meanwhile = [lambda: bench.pod("old-changed", labels={"a": "2"}), lambda: None, again]
        await bench.policy(
            TIDY.replace(
                "value: old*}",
                'value: old*}, {key: "{{ target.metadata.labels.keep || \'\' }}", operator: Equals, value: ""}',
            )
        )
        async with bench.running(Cleaning(bench.installation)):
            await until(lambda: last_run(bench))
        assert bench.left() == {"old-again"}
        assert len(bench.api.tried) == 3
        assert all(set(o["preconditions"]) == {"uid", "resourceVersion"} for o in bench.api.tried)

    asyncio.run(run())


def test_a_dry_run_asks_and_removes_nothing() -> None:
    async def run() -> None:
        bench = Bench(cleanup_dry_run=True)
        bench.pod("old-1")
        await bench.policy(TIDY)
        async with bench.running(Cleaning(bench.installation)):
            await until(lambda: last_run(bench))
        assert bench.left() == {"old-1"}
        assert [o["dryRun"] for o in bench.api.tried] == [["All"]]
        assert bench.tell.cleanups == []

    asyncio.run(run())


def test_the_propagation_of_the_policy_is_sent() -> None:
    async def run() -> None:
        bench = Bench()
        bench.pod("old-1")
        await bench.policy(TIDY.replace("  schedule:", "  deletionPropagationPolicy: Foreground\n  schedule:"))
        async with bench.running(Cleaning(bench.installation)):
            await until(lambda: not bench.left())
        assert [o["propagationPolicy"] for o in bench.api.tried] == ["Foreground"]

    asyncio.run(run())


def test_a_run_with_problems_is_told_of_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "FIRST_RETRY", 0.01)

    def refuse() -> None:
        raise ApiProblem(403, "Forbidden", "may not delete pods")

    async def run() -> None:
        bench = Bench()
        bench.pod("old-1")
        bench.api.meanwhile = [refuse, refuse]
        await bench.policy(TIDY)
        async with bench.running(Cleaning(bench.installation)):
            await until(lambda: last_run(bench))
        assert bench.left() == set()
        assert bench.tell.cleanups == [("tidy", "old-1", "may not delete pods")] * 2 + [("tidy", "old-1", "")]
        text = bench.metrics.exposition().decode()
        assert re.search(r'kyverno_cleanup_controller_errors_total\{.*policy_name="tidy".*\} 2', text)
        assert re.search(r'kyverno_cleanup_controller_deletedobjects_total\{.*policy_name="tidy".*\} 1', text)

    asyncio.run(run())


def test_the_guides_rule_removes_completed_jobs_that_are_there_and_those_that_complete() -> None:
    async def run() -> None:
        bench = Bench()
        job(bench, "done", cleanup="true")
        job(bench, "failed", "Failed", cleanup="true")
        job(bench, "other")
        job(bench, "running", "", cleanup="true")
        await bench.policy(GUIDE)
        async with bench.running(Cleaning(bench.installation)):
            await until(lambda: "done" not in bench.left(JOB))
            assert bench.left(JOB) == {"failed", "other", "running"}
            await asyncio.sleep(0.2)  # the first sweep after the watch began
            job(bench, "running", "Complete", cleanup="true")
            await until(lambda: bench.left(JOB) == {"failed", "other"})
        assert {o["propagationPolicy"] for o in bench.api.tried} == {"Background"}

    asyncio.run(run())


def test_an_object_of_another_kind_sets_the_guides_rule_off() -> None:
    async def run() -> None:
        bench = Bench()
        await bench.policy(BY_POD)
        async with bench.running(Cleaning(bench.installation)):
            await until(lambda: ("watch", "pods", "") in bench.api.calls)
            await asyncio.sleep(0.2)
            job(bench, "done")
            bench.pod("noise")
            await asyncio.sleep(0.2)
            assert bench.left(JOB) == {"done"}
            bench.pod("signal")
            await until(lambda: not bench.left(JOB))

    asyncio.run(run())


def test_an_exception_frees_an_object() -> None:
    async def run() -> None:
        bench = Bench()
        bench.pod("old-1")
        await bench.policy(
            """
            apiVersion: kyverno.io/v2
            kind: PolicyException
            metadata: {name: keep, namespace: default}
            spec:
              exceptions: [{policyName: tidy, ruleNames: [tidy]}]
              match: {any: [{resources: {kinds: [Pod], names: [old-1]}}]}
            """
        )
        await bench.policy(TIDY)
        async with bench.running(Cleaning(bench.installation)):
            await until(lambda: last_run(bench))
        assert bench.left() == {"old-1"}

    asyncio.run(run())


def test_a_policy_that_is_gone_does_nothing() -> None:
    async def run() -> None:
        bench = Bench()
        stored = await bench.policy(TIDY)
        part = Cleaning(bench.installation)
        bench.policies.note("deleted", stored)
        await bench.policies.round()
        bench.pod("old-1")
        async with bench.running(part):
            await asyncio.sleep(0.2)
        assert bench.left() == {"old-1"}
        assert CLUSTER_CLEANUP_POLICY.plural not in {call[1] for call in bench.api.calls}

    asyncio.run(run())
