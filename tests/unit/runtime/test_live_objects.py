"""What follows from a request follows from an object: values that no API server sends set nothing off."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from runtime.policyset import PolicySet
from runtime.webhook.live import ALL, Hook, Judged, Live, Snapshot, is_object

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "b", "uid": "c", "labels": {"x": "y"}, "annotations": None},
}


@pytest.mark.parametrize("value", [None, {}, POD, {**POD, "metadata": None}, {"kind": "Scale", "spec": 3}])
def test_objects_and_nothing(value: Any) -> None:
    assert is_object(value)


@pytest.mark.parametrize(
    "value",
    [
        "x",
        [],
        {**POD, "kind": 7},
        {**POD, "metadata": []},
        {**POD, "metadata": {"name": {}}},
        {**POD, "metadata": {"labels": []}},
        {**POD, "metadata": {"labels": {"x": 1}}},
        {**POD, "metadata": {"annotations": "x"}},
        {**POD, "metadata": {"uid": 3}},
    ],
)
def test_what_no_api_server_sends(value: Any) -> None:
    assert not is_object(value)


@pytest.mark.parametrize("field", ["object", "oldObject"])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
def test_nothing_follows_from_a_request_either_of_whose_objects_no_api_server_sends(operation: str, field: str) -> None:
    told: list[Judged] = []

    async def hook(judged: Judged) -> None:
        told.append(judged)

    good = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}

    def judged(**objects: Any) -> Judged:
        request = {
            "uid": "u",
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "operation": operation,
            "object": good,
            "oldObject": good,
            **objects,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        live = Live(Snapshot.of(PolicySet.empty()), hooks=[Hook(hook)])
        found = live.judge(live.decode(review), "validate", ALL, time.monotonic() + 60)
        asyncio.run(live.told(found))
        return found

    judged(**{field: {**good, "metadata": 1.5}})
    assert not told
    usual = judged()
    assert told == [usual]
