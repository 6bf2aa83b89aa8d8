"""Answers the admission of Thesmos' own kinds: what is wrong is refused with the compiler's own diagnostic, and so is a
policy whose work this installation has no permission for.

The webhook mounts :meth:`PolicyAdmission.checks`; the configurations that lead there are those of ``ownwebhooks``. The
compiler is that of the policy controller, not a second checker, so that an accepted policy is one that can be loaded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from runtime.cleanup import ttl_problem
from runtime.config import Settings
from runtime.controllers.compilation import Compiled, compile_text, object_text, origin_of, updated
from runtime.controllers.ownwebhooks import CLEANUP_PATH, EXCEPTION_PATH, GLOBAL_CONTEXT_PATH, POLICY_PATH, TTL_PATH
from runtime.controllers.permissions import Rights, refusal, sentence, unserved, working_needs
from runtime.decision import Decision
from runtime.k8s.discovery import Discovery
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.observe.logs import fields
from runtime.request import Request, RequestError
from runtime.webhook.admission import Answer, parse, respond
from runtime.webhook.admission import refusal as no_review
from vm.intrinsics.wildcard import match as wildcard

if TYPE_CHECKING:
    from compiler.schema.model import Policy

log = logging.getLogger("thesmos.policies")

GROUP: Final = "kyverno.io"
KINDS: Final = (
    "ClusterPolicy",
    "Policy",
    "PolicyException",
    "ClusterCleanupPolicy",
    "CleanupPolicy",
    "GlobalContextEntry",
)
MAX_MESSAGE: Final = 3500
"""Characters of a refusal: the API server passes more, but people read the first error."""

PERMISSION_SECONDS: Final = 3.0
"""How long the API server may take to tell of permissions, of the ten seconds that it waits for the answer."""

DISABLED: Final = "PolicyException resources would not be processed until it is enabled."
"""Kyverno's own words, which people look for."""

BUNDLED: Final = "this installation has its policies from bundles: what the cluster stores is not in force"

_ALLOWED: Final = Decision(True)

Check = Callable[[bytes], Awaitable[Answer]]


class PolicyAdmission:
    """``rights`` and ``discovery`` tell what a cluster allows and serves (None: nothing is known of one),
    ``definitions`` gives its custom kinds."""

    def __init__(
        self,
        settings: Settings | None = None,
        rights: Rights | None = None,
        discovery: Callable[[bool], Awaitable[Discovery]] | None = None,
        definitions: Callable[[], Iterable[Mapping[str, Any]]] = tuple,
    ) -> None:
        # One compilation at a time, so that a burst of policies does not starve admission of Pods.
        self._lock = asyncio.Lock()
        self._settings = settings or Settings()
        self._rights = rights
        self._discovery = discovery
        self._definitions = definitions

    def checks(self) -> dict[str, Check]:
        """The paths of the webhook, and who answers each. All but the one of times to live take all kinds: which kinds
        come where is the business of the configurations."""
        paths = (POLICY_PATH, EXCEPTION_PATH, GLOBAL_CONTEXT_PATH, CLEANUP_PATH)
        return {**dict.fromkeys(paths, self.check), TTL_PATH: self.check_ttl}

    async def check(self, body: bytes) -> Answer:
        """The whole of a call about an object of our own."""
        return await _answer(body, self._decide)

    async def check_ttl(self, body: bytes) -> Answer:
        """The whole of a call about an object with a time to live: it is admitted, with a warning where the label says
        nothing (semantics §25)."""
        return await _answer(body, _time_to_live)

    async def _decide(self, request: Request) -> Decision:
        new = request.resource
        asked = request.operation in ("CREATE", "UPDATE") and request.group == GROUP and request.kind in KINDS
        if not asked or request.subresource or type(new) is not dict or unchanged(new, request.old):
            return _ALLOWED
        settings = self._settings
        async with self._lock:
            # A bug of the compiler ends in a 500 here, so that the policy is not stored (failurePolicy Fail).
            compiled = await asyncio.to_thread(
                compile_object,
                new,
                request.old,
                cel_strict=settings.cel_strict,
                quirks=settings.quirks,
                crds=tuple(self._definitions()),
            )
        if compiled.bundle is None:
            return Decision(False, "\n" + _cut(compiled.report))
        warnings = list(compiled.warnings)
        if settings.bundle_sources:
            warnings.append(BUNDLED)
        if request.kind == "PolicyException":
            warnings += self._exception_warnings(request.namespace)
        refused = await self._permitted(compiled.policies, warnings)
        if refused:
            return Decision(False, "\n" + _cut(refused), warnings=tuple(warnings))
        return Decision(True, warnings=tuple(warnings))

    def _exception_warnings(self, namespace: str) -> list[str]:
        settings = self._settings
        if not settings.exceptions_count:
            return [DISABLED]
        named = settings.exception_namespaces
        if named and not any(wildcard(pattern, namespace) for pattern in named):
            return [f"the exception counts for objects of {namespace} alone, which --exceptionNamespace does not name"]
        return []

    async def _permitted(self, policies: Sequence[Policy], warnings: list[str]) -> str:
        """Why the policies are refused for want of permissions, empty when they are not."""
        if self._rights is None or self._discovery is None or not policies:
            return ""
        try:
            async with asyncio.timeout(PERMISSION_SECONDS):
                discovery = await self._discovery(False)
                unknown = [u for p in policies for u in unserved(p, discovery)]
                if unknown:
                    discovery = await self._discovery(True)
                    unknown = [u for p in policies for u in unserved(p, discovery)]
                warnings += (f"{at}: the cluster does not serve the kind {kind}" for kind, at in unknown)
                lacks = await self._rights.lacking(n for p in policies for n in working_needs(p, discovery))
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            # Whoever stores the policy is told; the status will tell of it once the API server answers.
            warnings.append(f"whether the rules may do their work was not tested: {problem or 'no answer in time'}")
            return ""
        warnings += (sentence(lack) for lack in lacks if not lack.need.strict)
        return refusal([lack for lack in lacks if lack.need.strict])


async def _time_to_live(request: Request) -> Decision:
    problem = ttl_problem(request.resource) if type(request.resource) is dict else ""
    return Decision(True, warnings=(problem,)) if problem else _ALLOWED


async def _answer(body: bytes, decide: Callable[[Request], Awaitable[Decision]]) -> Answer:
    review = parse(body)
    if isinstance(review, Answer):
        return review
    try:
        request = Request.from_review(review)
    except RequestError as error:
        return no_review(400, str(error))
    decision = await decide(request)
    if not decision.allowed:
        log.info(
            "policy refused",
            extra=fields(
                verdict="deny", operation=request.operation, kind=request.kind, namespace=request.namespace,
                name=request.name, user=request.username, message=decision.message.strip().partition("\n")[0],
            ),
        )  # fmt: skip
    return Answer(
        200,
        respond(request.uid, decision),
        kind=request.kind,
        namespace=request.namespace,
        operation=request.operation,
        allowed=decision.allowed,
    )


def compile_object(
    obj: dict[str, Any],
    old: Any = None,
    *,
    cel_strict: bool = False,
    quirks: str = "",
    crds: Iterable[Mapping[str, Any]] = (),
) -> Compiled:
    """Compiles a policy object of the cluster; ``old`` is the one it takes the place of, when it is an update."""
    text = object_text(obj)
    compiled = compile_text(text, origin_of(obj), cel_strict=cel_strict, quirks=quirks, crds=crds)
    if compiled.bundle is None or type(old) is not dict:
        return compiled
    return updated(object_text(old), text, compiled)


def unchanged(new: dict[str, Any], old: Any) -> bool:
    """Whether an update leaves what the compiler reads alone. Finalizers and owners of a policy that no longer compiles
    (an older version stored it) must stay changeable, or it could never go."""
    if type(old) is not dict:
        return False
    return all(_read(new, *path) == _read(old, *path) for path in _COMPILED)


_COMPILED: Final = (("apiVersion",), ("spec",), ("metadata", "annotations"), ("metadata", "labels"))


def _read(obj: Any, *path: str) -> Any:
    for key in path:
        obj = obj.get(key) if type(obj) is dict else None
    return obj


def _cut(report: str) -> str:
    return report if len(report) <= MAX_MESSAGE else report[:MAX_MESSAGE].rsplit("\n", 1)[0] + "\n…"
