"""What the webhook answers from right now: one immutable snapshot of engines, swapped as a whole.

The policy controller (or start-up, from bundles) calls :meth:`Live.swap`; each request takes the snapshot once and ends
on it, so a change of policy never shows half. Kyverno's webhooks are split by failure policy and by policy
(``/validate/fail``, ``/validate/ignore``, ``/validate/fail/finegrained/<policy>``): a snapshot has an engine for each.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from runtime.decision import Decision, decide, forget_policies
from runtime.engine import DeadlinePassed, Engine, EngineResponse, What
from runtime.host import KEY as HOST
from runtime.host import NAMESPACE_CALL, SERVICES, Ask, Host, Table
from runtime.policyset import Candidates, PolicySet
from runtime.request import KindOf, Request
from runtime.webhook.entry import Entry
from vm.host import HostCall

log = logging.getLogger("thesmos.webhook")

ALL: Final = ""
"""The scope of ``/validate`` and ``/mutate``: every policy."""

_NOTHING: Final = Engine(PolicySet.empty())

_TEXTS: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
_UNSEEN: Final = frozenset({"managedFields", "ownerReferences", "selfLink"})


def slim_namespace(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """What of a Namespace requests and expressions read: all but who wrote which field, and owners (Kubernetes)."""
    metadata = {k: v for k, v in (namespace.get("metadata") or {}).items() if k not in _UNSEEN}
    return {"metadata": metadata, "spec": namespace.get("spec") or {}, "status": namespace.get("status") or {}}


@dataclass(slots=True)  # not frozen, though nobody changes it: that would take 0.5 µs more for each request
class Judged:
    """A request of the validating webhook with what became of it: the response of the engine of ``scope``, and the
    decision. ``deadline`` is a reading of ``time.monotonic``."""

    request: Request
    response: EngineResponse
    decision: Decision
    scope: str
    deadline: float


def is_object(value: Any) -> bool:
    """Whether a value is nothing, or an object whose identity and labels are what the API server makes sure of."""
    if value is None:
        return True
    if type(value) is not dict or type(metadata := _given(value, "metadata", {})) is not dict:
        return False
    return (
        all(type(_given(value, key, "")) is str for key in ("apiVersion", "kind"))
        and all(type(_given(metadata, key, "")) is str for key in _TEXTS)
        and all(
            type(found := _given(metadata, key, {})) is dict and all(type(v) is str for v in found.values())
            for key in ("labels", "annotations")
        )
    )


def _given(obj: Mapping[str, Any], key: str, otherwise: Any) -> Any:
    found = obj.get(key)
    return otherwise if found is None else found


Observer = Callable[[Judged, float], None]
"""Called after each evaluation with what came of it and its seconds: metrics, log lines and events hang on it."""


@dataclass(frozen=True, slots=True)
class Hook:
    """What must be durable before the answer is sent: ``run`` writes it, never raises, and is cut off at the deadline.
    ``wanted`` says at once whether there may be something to write, whatever the request holds; ``looks`` whether it
    looks at the objects of a request to say so, by the rules that the request reaches and by the bytes of the objects.
    """

    run: Callable[[Judged], Awaitable[None]]
    wanted: Callable[[Judged], bool] = lambda judged: True
    looks: Callable[[Candidates, bytes], bool] = lambda found, raw: True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Engines by scope: ``""`` all policies, ``fail`` and ``ignore`` those of one failure policy, and one for each
    policy that has a webhook of its own, ``finegrained/<policy>`` or ``finegrained/<namespace>/<policy>``."""

    generation: int
    engines: Mapping[str, Engine]
    force_ignore: bool = False

    @classmethod
    def of(cls, policies: PolicySet, *, generation: int = 1, registry: str | None = None) -> Snapshot:
        """A snapshot where every path answers from the whole set: bundles given on the command line."""
        return cls(generation, {ALL: Engine(policies, registry=registry)})

    def engine(self, scope: str) -> Engine:
        """The engine of a scope. A set that is not split answers every path from the whole."""
        found = self.engines.get(scope)
        if found is not None:
            return found
        # A webhook configuration may name a policy for a moment after it went: nothing speaks for it any more.
        return _NOTHING if scope.startswith("finegrained/") and "fail" in self.engines else self.engines[ALL]

    @property
    def policies(self) -> PolicySet:
        return self.engines[ALL].policies


@dataclass(slots=True)
class Live:
    """The mutable cell that holds the snapshot, and what requests need beside policies.

    ``namespaces`` are the Namespaces by name where they are known (a cluster), else it is None. ``roles`` answers with
    the roles and cluster roles bound to a user. ``ask`` answers what rules ask of the cluster; None: there is none.
    ``services``: context entries of namespaced policies may call services. ``kind_of`` gives the kind of a resource.
    ``entry`` says which requests policies are not asked about. ``draining``: this process is about to end, and says so
    to those who look whether it is ready.
    """

    snapshot: Snapshot | None = None
    namespaces: Mapping[str, Mapping[str, Any]] | None = None
    roles: Callable[[Mapping[str, Any]], tuple[tuple[str, ...], tuple[str, ...]]] | None = None
    ask: Ask | None = None
    services: bool = False
    kind_of: KindOf | None = None
    entry: Entry = field(default_factory=Entry)
    draining: bool = False
    observers: list[Observer] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)

    def swap(self, snapshot: Snapshot) -> None:
        """One assignment: a request sees the old snapshot or the new one."""
        self.snapshot = snapshot
        forget_policies()

    @property
    def ready(self) -> bool:
        """Whether requests can be answered: policies are loaded."""
        return self.snapshot is not None

    def looks(self, what: What, scope: str, asked: Mapping[str, Any], raw: bytes) -> bool:
        """Whether anybody looks at the objects of a request: a rule, a hook, the filters at the entry. ``asked`` is the
        request without them, ``raw`` their bytes. What is told by the whole review alone is looked at."""
        kind, snapshot = asked.get("kind"), self.snapshot
        if snapshot is None or type(kind) is not dict or asked.get("subResource"):
            return True
        policies = snapshot.engine(scope).policies
        namespace = asked.get("namespace", "")
        place: tuple[Any, ...] = (
            kind.get("group"),
            kind.get("version"),
            kind.get("kind"),
            "",
            asked.get("operation"),
            namespace,
        )
        # Where a request does not name its namespace, its object may (no API server's request).
        if not (namespace or policies.cluster_wide) or any(type(part) is not str for part in place):
            return True
        found = policies.candidates(*place)
        of_admission = found.admitted or found
        return (
            bool(of_admission.validate if what == "validate" else of_admission.mutate)
            or self.entry.looks(raw)
            or (what == "validate" and any(hook.looks(found, raw) for hook in self.hooks))
        )

    def decode(self, review: dict[str, Any], host: Host | None = None) -> Request:
        """The request of a review with what this process knows of its namespace and user. Raises ``RequestError``, and
        where the host is to answer first, ``Pending``."""
        request = review.get("request")
        found: Mapping[str, Any] | None = None
        roles: tuple[str, ...] = ()
        cluster_roles: tuple[str, ...] = ()
        if type(request) is dict:
            namespace = request.get("namespace")
            if self.namespaces is not None and type(namespace) is str and namespace:
                found = self.namespaces.get(namespace)
                if found is None and host is not None:
                    # It is so new that the watch has not told of it.
                    answer = host.ask(HostCall(NAMESPACE_CALL, namespace))
                    found = slim_namespace(answer) if type(answer) is dict else None
            user = request.get("userInfo")
            if self.roles is not None and type(user) is dict:
                roles, cluster_roles = self.roles(user)
        labels = None if found is None else (found.get("metadata") or {}).get("labels") or {}
        made = Request.from_review(
            review,
            namespace_labels=labels,
            namespace_object=found,
            roles=roles,
            cluster_roles=cluster_roles,
            kind_of=self.kind_of,
        )
        if host is not None:
            made.root[HOST] = host
            if self.services:
                made.root[SERVICES] = True
        return made

    def evaluate(self, request: Request, what: What, scope: str, deadline: float) -> Decision:
        """Decides one request. ``deadline`` is a reading of ``time.monotonic``; raises ``DeadlinePassed``."""
        decided = self.entry.decide(request)
        return self.judge(request, what, scope, deadline).decision if decided is None else decided

    def judge(self, request: Request, what: What, scope: str, deadline: float) -> Judged:
        """What policies say of a request, which :attr:`entry` has let through to them."""
        snapshot = self.snapshot
        if snapshot is None or time.monotonic() >= deadline:
            # Also when no rule is reached: the body took too long to come in.
            raise DeadlinePassed
        start = time.perf_counter()
        response = snapshot.engine(scope).evaluate(request, what, deadline=deadline)
        host = request.root.get(HOST)
        if isinstance(host, Table):
            host.complete()
        seconds = time.perf_counter() - start
        decision = decide(response, force_ignore=snapshot.force_ignore)
        judged = Judged(request, response, decision, scope, deadline)
        try:
            for observer in self.observers:
                observer(judged, seconds)
        except Exception:
            # The verdict stands, whatever goes wrong in telling of it.
            log.exception("a decision could not be told of")
        return judged

    def is_followed(self, judged: Judged) -> bool:
        """Whether some hook may have something to do."""
        return bool(self.hooks) and any(hook.wanted(judged) for hook in self.hooks)

    async def told(self, judged: Judged) -> None:
        """Runs the hooks, all at once, for as long as the request has time. Nothing follows from what no API server
        sends."""
        root = judged.request.root
        # Both as they were sent: a DELETE may carry an object too, which is none that rules look at.
        if not self.hooks or not (is_object(root["$object"]) and is_object(root["$oldObject"])):
            return
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + judged.deadline - time.monotonic()):
                await asyncio.gather(*(hook.run(judged) for hook in self.hooks if hook.wanted(judged)))
        except TimeoutError:
            log.warning("what follows a request was cut off: its time is over")
        except Exception:
            # The verdict stands, whatever goes wrong after it.
            log.exception("what follows a request failed")
