"""What follows from a request follows from an object: values that no API server sends set nothing off."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.webhook.live import is_object

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
