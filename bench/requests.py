"""The objects that are asked about: the reference Pods, one that breaks one rule, and many that all differ."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

Object = dict[str, Any]

DISTINCT = 512
"""More objects than any cache of answers should help with, fewer than would fill the caches of the processor."""


def reference_pod(folder: Path, name: str = "pod-pass") -> Object:
    """``pod-pass`` or ``pod-fail`` of the reference work."""
    pod: Object = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return pod


def denied_by_one(folder: Path) -> Object:
    """The Pod that passes, less a label that one of the ten reference policies asks for."""
    pod = reference_pod(folder)
    del pod["metadata"]["labels"]["team"]
    return pod


def pods(folder: Path, count: int = DISTINCT) -> list[Object]:
    """``count`` Pods that pass: names, labels, images, limits and environments of their own, two to four containers."""
    start = reference_pod(folder)
    made: list[Object] = []
    for number in range(count):
        pod = copy.deepcopy(start)
        pod["metadata"]["name"] = f"web-{number}"
        pod["metadata"]["labels"]["app.kubernetes.io/version"] = f"1.{number}.0"
        containers = pod["spec"]["containers"]
        containers[:] = containers[: 2 + number % 2] + copy.deepcopy(containers[: number % 3 // 2])
        for place, container in enumerate(containers):
            container["name"] = f"c{place}"
            container["image"] = f"eu.foo.io/shop/web-{number % 37}:1.{number}.{place}"
            container["resources"]["limits"] = {"cpu": f"{200 + number % 700}m", "memory": f"{256 + number % 700}Mi"}
            container["resources"]["requests"] = {"cpu": "100m", "memory": "128Mi"}
            container["env"].append({"name": "NUMBER", "value": str(number)})
        made.append(pod)
    return made


def reviews(folder: Path, count: int = DISTINCT) -> list[bytes]:
    """An admission review of each of :func:`pods`, uids of their own."""
    start = json.loads((folder / "review-pass.json").read_text(encoding="utf-8"))
    made: list[bytes] = []
    for number, pod in enumerate(pods(folder, count)):
        review = copy.deepcopy(start)
        review["request"] |= {"uid": f"705ab4f5-6393-11e8-b7cc-{number:012x}", "object": pod}
        review["request"]["name"] = pod["metadata"]["name"]
        made.append(json.dumps(review, separators=(",", ":")).encode())
    return made
