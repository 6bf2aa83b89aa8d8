"""F14: whatever JSON is posted to the webhook, the answer is an AdmissionReview with the same uid, or a 4xx."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from collections.abc import Callable
from typing import Any, Final

from aiohttp import ClientSession, web

from runtime.config import Settings
from runtime.controllers.compilation import compile_text
from runtime.observe.metrics import Metrics
from runtime.policyset import PolicySet
from runtime.webhook.app import build_app
from runtime.webhook.live import Live, Snapshot

NAME: Final = "f14_webhook"
PROPERTY: Final = "post(any JSON) = AdmissionReview v1 with uid(request), or 4xx; never 5xx"

Json = Any

POLICIES: Final = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: patterns}
spec:
  background: false
  rules:
    - name: walk
      match: {any: [{resources: {kinds: [Pod, Service, Namespace]}}]}
      validate:
        failureAction: Enforce
        message: "{{ request.object.metadata.name || 'nameless' }} of {{ request.userInfo.username }} is not wanted"
        pattern:
          metadata:
            =(labels): {"*": "?*"}
          =(spec):
            =(containers):
              - (name): "*"
                image: "!*:latest"
                =(resources): {=(limits): {=(memory): "<=2Gi"}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: conditions}
spec:
  background: false
  rules:
    - name: ask
      match:
        any:
          - resources:
              kinds: [Pod, Service, Namespace]
              selector: {matchExpressions: [{key: a, operator: NotIn, values: [b]}]}
      exclude: {any: [{clusterRoles: [cluster-admin]}, {subjects: [{kind: User, name: "system:*"}]}]}
      preconditions:
        any:
          - {key: "{{ request.operation }}", operator: AnyIn, value: [CREATE, UPDATE, DELETE, CONNECT]}
      validate:
        failureAction: Enforce
        deny:
          conditions:
            any:
              - {key: "{{ length(request.object.spec.containers || `[]`) }}", operator: GreaterThan, value: 3}
              - {key: "{{ request.object.spec.containers[].image }}", operator: AnyNotIn, value: ["*/*", a, b]}
              - {key: "{{ request.object.metadata.annotations.limit || '1Gi' }}", operator: GreaterThan, value: 2Gi}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: changes}
spec:
  background: false
  rules:
    - name: merge
      match: {any: [{resources: {kinds: [Pod, Service, Namespace]}}]}
      mutate:
        patchStrategicMerge:
          metadata: {labels: {"+(by)": "{{ request.userInfo.username }}"}}
          spec: {containers: [{(name): "*", "+(imagePullPolicy)": Always}]}
    - name: json
      match: {any: [{resources: {kinds: [Pod]}}]}
      mutate:
        patchesJson6902: |-
          - {op: add, path: /metadata/annotations/seen, value: "{{ request.uid }}"}
"""
"""Policies that look everywhere and change much, so that odd objects reach the walk, the conditions and the patches."""

_BATCH: Final = 16
PATHS: Final = ("/validate", "/mutate", "/validate/fail", "/mutate/ignore", "/validate/fail/finegrained/x")
_TEXTS: Final = (
    "",
    "a",
    "nginx:latest",
    "1Gi",
    "*",
    "{{ request.object }}",
    "\u0000",
    "\ud83d\ude00",
    "é",
    "-1",
    "1e400",
)
_KEYS: Final = ("metadata", "spec", "containers", "name", "image", "labels", "a", "kind", "uid", "object", "", "~", "/")


def run(seconds: float, seed: int) -> int:
    """Asks for a time; gives the number of bodies. Raises ``AssertionError`` with the body that broke the property."""
    return asyncio.run(_run(seconds, random.Random(seed)))


async def _run(seconds: float, rng: random.Random) -> int:
    compiled = compile_text(POLICIES, "f14.yaml")
    assert compiled.bundle is not None, compiled.report
    live = Live(namespaces={"default": {"metadata": {"name": "default", "labels": {"a": "b"}}}})
    live.swap(Snapshot.of(PolicySet.load(compiled.bundle)))
    routes = build_app(live, Settings(), Metrics())
    runner = routes.runner()
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    ends = time.monotonic() + seconds
    count = 0
    try:
        async with ClientSession() as session:
            while time.monotonic() < ends:
                bodies = [body(rng) for _ in range(_BATCH)]
                await asyncio.gather(*(check(session, url + rng.choice(PATHS), one) for one in bodies))
                count += len(bodies)
    finally:
        await runner.cleanup()
    # Else all of them went through aiohttp's parser, and none as the API server's do.
    assert len(routes.heads.known) >= len(PATHS), routes.heads.known
    return count


async def check(session: ClientSession, url: str, data: bytes) -> None:
    """Posts one body and looks at the answer. Raises ``AssertionError``."""
    async with session.post(url, data=data, headers={"Content-Type": "application/json"}) as answer:
        said = await answer.read()
        holds = 400 <= answer.status < 500 or (answer.status == 200 and is_review(said, data))
    assert holds, f"{url} answered {answer.status} {said[:500]!r} to {data!r}"


def is_review(data: bytes, body: bytes) -> bool:
    """Whether an answer is an AdmissionReview that the API server would take, for the request in ``body``."""
    review = json.loads(data)
    response = review["response"]
    if (review["apiVersion"], review["kind"]) != ("admission.k8s.io/v1", "AdmissionReview"):
        return False
    if response["uid"] != json.loads(body)["request"]["uid"] or type(response["allowed"]) is not bool:
        return False
    if not response["allowed"] and type(response["status"]["message"]) is not str:
        return False
    if "patch" in response:
        operations = json.loads(base64.b64decode(response["patch"], validate=True))
        return response["patchType"] == "JSONPatch" and all({"op", "path"} <= set(op) for op in operations)
    return "patchType" not in response


def body(rng: random.Random) -> bytes:
    """A review, mostly with something odd in it; sometimes no review, and no JSON."""
    review = _review(rng)
    roll = rng.random()
    if roll < 0.05:
        review = _value(rng, 4)
    elif roll < 0.9:
        for _ in range(rng.randrange(4)):
            review = _mutated(rng, review)
    data = json.dumps(review, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    if rng.random() < 0.01:
        # Deeper than the encoder here goes: written as text.
        depth = rng.choice((400, 900, 1100, 5000))
        data = data.replace(b'"labels": {', b'"deep": ' + b"[" * depth + b"]" * depth + b', "labels": {', 1)
    return _broken(rng, data) if roll > 0.95 else data


def _review(rng: random.Random) -> Json:
    operation = rng.choice(("CREATE", "UPDATE", "DELETE", "CONNECT"))
    obj = _object(rng)
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": f"{rng.getrandbits(64):x}",
            "kind": {"group": "", "version": "v1", "kind": rng.choice(("Pod", "Service", "Namespace"))},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": operation,
            "name": "x",
            "namespace": rng.choice(("default", "", "other")),
            "userInfo": {"username": rng.choice(("jane", "system:serviceaccount:a:b")), "groups": ["g"]},
            "object": None if operation == "DELETE" else obj,
            "oldObject": obj if operation in ("UPDATE", "DELETE") else None,
            "dryRun": rng.random() < 0.5,
        },
    }


def _object(rng: random.Random) -> Json:
    containers = [{"name": f"c{i}", "image": rng.choice(_TEXTS)} for i in range(rng.randrange(5))]
    metadata = {
        "name": "x",
        "namespace": "default",
        "labels": {"a": rng.choice(_TEXTS)},
        "annotations": {"limit": "3Gi"},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


def _mutated(rng: random.Random, value: Json) -> Json:
    """One change at a random place: a value replaced, taken away, added, or wrapped many times."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        return {**value, key: _mutated(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.85:
        i = rng.randrange(len(value))
        return [*value[:i], _mutated(rng, value[i]), *value[i + 1 :]]
    changes: list[Callable[[], Json]] = [lambda: _value(rng, 3)] * 3
    if isinstance(value, dict):
        changes += [lambda: {**value, rng.choice(_KEYS): _value(rng, 2)}, lambda: _without(rng, value)]
    if isinstance(value, list):
        changes += [lambda: [*value, _value(rng, 2)], lambda: value[1:]]
    if rng.random() < 0.03:
        changes = [lambda: _nested(rng.choice((20, 150)), value)]
    return rng.choice(changes)()


def _without(rng: random.Random, value: dict[str, Json]) -> Json:
    gone = rng.choice(list(value)) if value else ""
    return {k: v for k, v in value.items() if k != gone}


def _nested(depth: int, value: Json) -> Json:
    for i in range(depth):
        value = {"spec": value} if i % 2 else [value]
    return value


def _value(rng: random.Random, depth: int) -> Json:
    leaves: tuple[Json, ...] = (None, True, False, 0, -1, 2**63, 2**70, 0.5, 1e300, rng.choice(_TEXTS))
    if depth == 0 or rng.random() < 0.5:
        return rng.choice(leaves)
    if rng.random() < 0.5:
        return [_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(_KEYS): _value(rng, depth - 1) for _ in range(rng.randrange(4))}


def _broken(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return rng.choice(
        (data[:at], data[:at] + bytes([rng.randrange(256)]) + data[at:], data + b"}", b"\xef\xbb\xbf" + data)
    )
