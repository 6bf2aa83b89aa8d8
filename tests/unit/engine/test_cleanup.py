"""Times to live, schedules, and what exceptions and errors mean for removals."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from compiler.schema.cleanup_rules import schedule_problem
from runtime.cleanup import BadTtl, expires, next_run, removal, ttl_problem
from runtime.engine import Engine
from runtime.request import Request
from tests.unit.engine.support import policy_set

BORN = "2026-01-01T00:00:00Z"


def with_ttl(text: str) -> dict[str, Any]:
    return {"metadata": {"name": "n", "creationTimestamp": BORN, "labels": {"cleanup.kyverno.io/ttl": text}}}


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("2m", datetime(2026, 1, 1, 0, 2, tzinfo=UTC)),
        ("1h30m", datetime(2026, 1, 1, 1, 30, tzinfo=UTC)),
        ("1d", datetime(2026, 1, 2, tzinfo=UTC)),
        ("2w", datetime(2026, 1, 15, tzinfo=UTC)),
        ("2026-03-04", datetime(2026, 3, 4, tzinfo=UTC)),
        ("2026-03-04T101112Z", datetime(2026, 3, 4, 10, 11, 12, tzinfo=UTC)),
    ],
)
def test_times_to_live(text: str, when: datetime) -> None:
    assert expires(with_ttl(text)) == when
    assert ttl_problem(with_ttl(text)) == ""


@pytest.mark.parametrize("text", ["soon", "", "5", "1h x", "9999999999999999w"])
def test_times_to_live_that_cannot_be_read(text: str) -> None:
    with pytest.raises(BadTtl):
        expires(with_ttl(text))
    assert ttl_problem(with_ttl(text))


def test_an_annotation_is_no_time_to_live() -> None:
    obj = {"metadata": {"name": "n", "creationTimestamp": BORN, "annotations": {"cleanup.kyverno.io/ttl": "1m"}}}
    assert expires(obj) is None
    assert ttl_problem(obj) == "cleanup.kyverno.io/ttl is a label, as an annotation it has no effect"
    assert ttl_problem({"metadata": {"name": "n"}}) == ""


@pytest.mark.parametrize("text", ["* * * * *", "*/5 0-6 1,15 * MON", "0 0 29 2 *"])
def test_schedules(text: str) -> None:
    assert schedule_problem(text) == ""


@pytest.mark.parametrize(
    "text", ["every monday", "", "* * * *", "* * * * * *", "61 * * * *", "* * * 13 *", "0 0 31 2 *"]
)
def test_texts_that_are_no_schedule(text: str) -> None:
    assert schedule_problem(text)


def test_the_next_run() -> None:
    assert next_run("*/15 * * * *", datetime(2026, 1, 1, 10, 20, tzinfo=UTC)) == datetime(
        2026, 1, 1, 10, 30, tzinfo=UTC
    )


POLICY = """
apiVersion: kyverno.io/v2
kind: ClusterCleanupPolicy
metadata: {name: sweep}
spec:
  schedule: "* * * * *"
  deletionPropagationPolicy: Orphan
  match: {any: [{resources: {kinds: [Pod]}}]}
  conditions:
    all:
    - {key: "{{ target.metadata.labels.gone }}", operator: Equals, value: "yes"}
"""


def judged(labels: dict[str, str]) -> Any:
    policies = policy_set(POLICY)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a", "labels": labels}}
    return removal(Engine(policies), policies.rules[0], Request.from_resource(pod))


def test_a_removal_says_what_goes_and_how() -> None:
    found = judged({"gone": "yes"})
    assert (found.result.status, found.result.message) == ("pass", "v1/Pod/a/p would be deleted")
    assert found.propagation == "Orphan"


def test_a_condition_that_cannot_be_evaluated_removes_nothing() -> None:
    found = judged({})
    assert found.result.status == "error"
    assert judged({"gone": "no"}) is None


def test_no_request_reaches_a_cleanup_policy() -> None:
    policies = policy_set(POLICY)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a", "labels": {"gone": "yes"}}}
    assert Engine(policies).evaluate(Request.from_resource(pod), "background").results == ()


@pytest.mark.parametrize(
    "metadata", [None, [], {"labels": []}, {"annotations": "x"}, {"labels": {"cleanup.kyverno.io/ttl": 7}}]
)
def test_an_object_that_is_not_checked_yet_breaks_nothing(metadata: Any) -> None:
    assert ttl_problem({"metadata": metadata}) == ""
