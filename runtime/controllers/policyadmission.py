"""Answers the admission of policies themselves: what does not compile is refused with the compiler's own diagnostic.

The webhook mounts :meth:`PolicyAdmission.check` at ``/policyvalidate``. It is the compiler that the policy controller
runs, not a second checker, so that an accepted policy is one that can be loaded.
"""

from __future__ import annotations

import asyncio
from typing import Any

from runtime.controllers.compilation import Compiled, compile_text, object_text, origin_of, updated
from runtime.decision import Decision
from runtime.request import Request, RequestError
from runtime.webhook.admission import Answer, parse, refusal, respond

GROUP = "kyverno.io"
KINDS = ("ClusterPolicy", "Policy", "PolicyException")
MAX_MESSAGE = 3500
"""Characters of a refusal: the API server passes more, but people read the first error."""


class PolicyAdmission:
    """``lock`` keeps one compilation at a time, so that a burst of policies does not starve admission of Pods."""

    def __init__(self, *, cel_strict: bool = False, quirks: str = "") -> None:
        self._lock = asyncio.Lock()
        self._cel_strict = cel_strict
        self._quirks = quirks

    async def check(self, body: bytes) -> Answer:
        """The whole of a call to ``/policyvalidate``."""
        review = parse(body)
        if isinstance(review, Answer):
            return review
        try:
            request = Request.from_review(review)
        except RequestError as error:
            return refusal(400, str(error))
        decision = await self._decide(request)
        return Answer(
            200,
            respond(request.uid, decision),
            kind=request.kind,
            namespace=request.namespace,
            operation=request.operation,
            allowed=decision.allowed,
        )

    async def _decide(self, request: Request) -> Decision:
        new = request.resource
        asked = request.operation in ("CREATE", "UPDATE") and request.group == GROUP and request.kind in KINDS
        if not asked or request.subresource or type(new) is not dict or unchanged(new, request.old):
            return Decision(True)
        async with self._lock:
            # A bug of the compiler ends in a 500 here, so that the policy is not stored (failurePolicy Fail).
            compiled = await asyncio.to_thread(
                compile_object, new, request.old, cel_strict=self._cel_strict, quirks=self._quirks
            )
        if compiled.bundle is None:
            return Decision(False, "\n" + _cut(compiled.report))
        return Decision(True, warnings=compiled.warnings)


def compile_object(obj: dict[str, Any], old: Any = None, *, cel_strict: bool = False, quirks: str = "") -> Compiled:
    """Compiles a policy object of the cluster; ``old`` is the one it takes the place of, when it is an update."""
    text = object_text(obj)
    compiled = compile_text(text, origin_of(obj), cel_strict=cel_strict, quirks=quirks)
    if compiled.bundle is None or type(old) is not dict:
        return compiled
    return updated(object_text(old), text, compiled)


def unchanged(new: dict[str, Any], old: Any) -> bool:
    """Whether an update leaves what the compiler reads alone. Finalizers and owners of a policy that no longer compiles
    (an older version stored it) must stay changeable, or it could never go."""
    if type(old) is not dict:
        return False
    return all(_read(new, *path) == _read(old, *path) for path in _COMPILED)


_COMPILED = (("apiVersion",), ("spec",), ("metadata", "annotations"), ("metadata", "labels"))


def _read(obj: Any, *path: str) -> Any:
    for key in path:
        obj = obj.get(key) if type(obj) is dict else None
    return obj


def _cut(report: str) -> str:
    return report if len(report) <= MAX_MESSAGE else report[:MAX_MESSAGE].rsplit("\n", 1)[0] + "\n…"
