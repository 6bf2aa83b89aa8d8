"""A review that is read in two steps is the review: whatever its order, and whatever its texts and maps look like."""

from __future__ import annotations

import json
from random import Random
from time import monotonic
from typing import Any, Final

import orjson

from runtime.webhook.envelope import Envelopes

NAME: Final = "f22_envelope"
PROPERTY: Final = "opened(review) ≡ decoded(review), but for objects that nobody looks at"

_DECOYS: Final = (
    ',"object":{',
    '"object":',
    ',"dryRun":',
    ',"dryRun":false}',
    '},"oldObject":null,"dryRun":true',
    "\\",
)
_KEYS: Final = ("object", "oldObject", "dryRun", "options", "request", "namespace", "a", *_DECOYS)
_FIELDS: Final = (
    "uid",
    "kind",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "object",
    "oldObject",
    "dryRun",
    "options",
)
"""In the order of the API server."""
_OBJECTS: Final = frozenset({"object", "oldObject", "options"})


class _Map(list[tuple[str, Any]]):
    """A JSON object with its fields in order, some of them twice."""


def run(seconds: float, seed: int) -> int:
    end = monotonic() + seconds
    rng = Random(seed)
    runs = 0
    while not runs or monotonic() < end:
        body, plain = _review(rng)
        if rng.random() < 0.1:
            body, plain = _damaged(rng, body), False
        want = _decoded(body)
        got = _opened(body, looks=True)
        assert want == got, f"body: {body!r}\nwhole: {want!r}\nin two steps: {got!r}"
        if plain:
            left = _opened(body, looks=False)
            assert left == want or left["request"].pop("object") == {}, f"body: {body!r}\nenvelope: {left!r}"
            want["request"] = {k: v for k, v in want["request"].items() if k not in _OBJECTS}
            left["request"] = {k: v for k, v in left["request"].items() if k not in _OBJECTS}
            assert left == want, f"body: {body!r}\nwhole: {want!r}\nenvelope: {left!r}"
        runs += 1
    return runs


def _opened(body: bytes, *, looks: bool) -> Any:
    try:
        return Envelopes().opened(lambda request, raw: looks, body)
    except orjson.JSONDecodeError:
        return "no JSON"


def _decoded(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return "no JSON"


def _review(rng: Random) -> tuple[bytes, bool]:
    """A review, and whether it is one as the API server writes it: nothing twice, and in order."""
    fields = [(key, _field(rng, key)) for key in _FIELDS if rng.random() < 0.95]
    plain = rng.random() < 0.5
    if not plain:
        rng.shuffle(fields)
        fields += [(rng.choice(_FIELDS), _value(rng, 2)) for _ in range(rng.randint(0, 2))]
        if rng.random() < 0.5:
            rng.shuffle(fields)
    review = _Map([("kind", "AdmissionReview"), ("apiVersion", "admission.k8s.io/v1"), ("request", _Map(fields))])
    if not plain:
        for _ in range(rng.randint(0, 2)):
            review.insert(
                rng.randint(0, 3), (rng.choice(("request", "a", "b")), rng.choice((_value(rng, 3), review[-1][1])))
            )
    return _written(review).encode(), plain


def _field(rng: Random, key: str) -> Any:
    match key:
        case "object" | "oldObject":
            return rng.choice((None, _value(rng, 4), _Map([("metadata", _value(rng, 3)), ("spec", _value(rng, 3))])))
        case "dryRun":
            return rng.random() < 0.5
        case "userInfo":
            return _Map([("username", rng.choice(_DECOYS)), ("extra", _value(rng, 2))])
        case "kind" | "options":
            return _Map([("group", ""), ("kind", rng.choice(_DECOYS)), ("dryRun", ["All"])])
    return rng.choice(_DECOYS)


def _value(rng: Random, depth: int) -> Any:
    match rng.randint(0, 5 if depth else 2):
        case 0:
            return rng.choice(_DECOYS)
        case 1:
            return rng.choice((None, True, 1, -0.5, ""))
        case 2:
            return "".join(rng.choices(('"', "\\", ",", "{", "}", "é", "a", "object"), k=rng.randint(0, 9)))
        case 3:
            return [_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return _Map([(rng.choice(_KEYS), _value(rng, depth - 1)) for _ in range(rng.randint(0, 4))])


def _written(value: Any) -> str:
    match value:
        case _Map():
            return "{" + ",".join(f"{json.dumps(key)}:{_written(inner)}" for key, inner in value) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value)


def _damaged(rng: Random, body: bytes) -> bytes:
    at = rng.randrange(len(body))
    if rng.random() < 0.5:
        return body[:at]
    return body[:at] + rng.choice((b"", b"}", b"{", b'"', b",", b"\\")) + body[at + 1 :]
