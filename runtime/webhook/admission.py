"""Turns the body of an admission call into the body of its answer: a pure function, no server and no clock of its own.

``runtime.webhook.app`` calls :func:`answer` with the bytes it read. What is no ``AdmissionReview`` of
``admission.k8s.io/v1`` becomes a 4xx with one clear line, so that the API server applies the webhook's failure policy;
an evaluated request is always answered with its own uid.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

import orjson

from runtime.config import DEFAULT_TIMEOUT, MAXIMUM_TIMEOUT
from runtime.engine import DeadlinePassed
from runtime.request import Request, RequestError

API_VERSION: Final = "admission.k8s.io/v1"

_JSON: Final = "application/json"
_DURATION: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,9})?)(ms|s|m)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
MARGIN: Final = 0.1
"""Share of the API server's timeout that is left for the way back of the answer."""


class Verdict(Protocol):
    """What an evaluation decides (``runtime.decision.Decision``); ``patch`` holds RFC 6902 operations."""

    @property
    def allowed(self) -> bool: ...
    @property
    def message(self) -> str: ...
    @property
    def warnings(self) -> Sequence[str]: ...
    @property
    def patch(self) -> Sequence[Mapping[str, Any]] | None: ...
    @property
    def audit_annotations(self) -> Mapping[str, str]: ...


@dataclass(slots=True)  # not frozen, though nobody changes it: that would take 0.8 µs more for each request
class Answer:
    """An HTTP answer, and what of the request the metrics name (empty texts when it could not be read)."""

    status: int
    body: bytes
    content_type: str = _JSON
    kind: str = ""
    namespace: str = ""
    operation: str = ""
    allowed: bool = False


Decode = Callable[[Any], Request]
Evaluate = Callable[[Request], Verdict]
Read = Callable[[bytes], Any]


def refusal(status: int, text: str) -> Answer:
    """An answer for what is no review: one line of plain text."""
    return Answer(status, (text + "\n").encode(), "text/plain")


def answer(body: bytes, decode: Decode, evaluate: Evaluate, read: Read = orjson.loads) -> Answer:
    """The whole of an admission call. ``read`` decodes the body, once (``runtime.webhook.envelope`` leaves out what
    nobody looks at); ``decode`` raises ``RequestError``, ``evaluate`` ``DeadlinePassed``."""
    review = parse(body, read)
    if isinstance(review, Answer):
        return review
    try:
        request = decode(review)
    except RequestError as error:
        return refusal(400, str(error))
    try:
        verdict = evaluate(request)
    except DeadlinePassed:
        return refusal(408, "the time that the API server gave for this request is over")
    except RecursionError:
        # Kubernetes objects are about twenty levels deep; a thousand is an attack or a mistake.
        return refusal(400, "the object is nested too deeply")
    try:
        encoded = respond(request.uid, verdict)
    except orjson.JSONEncodeError as error:
        # A patch or message made of the object's values that JSON for Kubernetes cannot hold: a whole number of more
        # than 64 bits, a lone surrogate.
        return refusal(400, f"the answer to this request is no JSON: {str(error).lower()}")
    return Answer(200, encoded, _JSON, request.kind, request.namespace, request.operation, verdict.allowed)


def parse(body: bytes, read: Read = orjson.loads) -> Any:
    """The decoded review, or the 400 that tells why it is none."""
    try:
        review = read(body)
    except orjson.JSONDecodeError as error:
        return refusal(400, f"the body is no JSON: {str(error).lower()}" if body else "the body is empty")
    if type(review) is not dict:
        return refusal(400, "the body is no AdmissionReview: it is no object")
    kind, version = review.get("kind"), review.get("apiVersion")
    if kind != "AdmissionReview":
        return refusal(400, f"the body is no AdmissionReview: its kind is {_shown(kind)}")
    if version != API_VERSION:
        return refusal(400, f"the AdmissionReview has apiVersion {_shown(version)}, this server speaks {API_VERSION}")
    return review


def respond(uid: str, verdict: Verdict) -> bytes:
    """The AdmissionReview that carries a verdict; the API server takes a patch only when the request is allowed."""
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = {"status": "Failure", "message": verdict.message}
    elif verdict.message:
        response["status"] = {"status": "Success", "message": verdict.message}
    if verdict.allowed and verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(list(verdict.patch))).decode("ascii")
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    # Whoever decided: the audit log of the API server shows every decision.
    response["auditAnnotations"] = {"decision": "allow" if verdict.allowed else "deny", **verdict.audit_annotations}
    return orjson.dumps({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})


@lru_cache(64)
def timeout_seconds(query: str | None) -> float | None:
    """Seconds of the ``timeout`` query parameter that the API server adds (``10s``); None when it is no duration."""
    if query is None:
        return float(DEFAULT_TIMEOUT)
    found = _DURATION.fullmatch(query)
    if found is None:
        return None
    return min(float(found[1]) * _UNITS[found[2]], float(MAXIMUM_TIMEOUT))


def is_json(content_type: str | None) -> bool:
    """Whether a content type header names JSON; its parameters do not matter."""
    return content_type is not None and content_type.partition(";")[0].strip().lower() == "application/json"


def _shown(value: Any) -> str:
    text = value if type(value) is str else "missing" if value is None else "no text"
    return text if len(text) <= 60 else text[:57] + "..."
