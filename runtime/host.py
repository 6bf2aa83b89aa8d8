"""What rules ask of the world outside their request: whether a user may do something, which objects are parameters.

The root holds a :class:`Host` under ``$host``. Evaluation is synchronous: the command line answers from what it was
given; the webhook answers from a table, and where that has no answer :class:`Pending` unwinds the evaluation, the
question is put to the API server, and the evaluation begins again (:func:`settle`). A request that asks nothing pays
nothing, and beginning again costs less than what the API server takes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from runtime.context.tenancy import admitted
from vm.host import Execution, HostCall
from vm.intrinsics.text import json_text
from vm.values import Err, Value

T = TypeVar("T")

KEY: Final = "$host"
AUTHORIZE: Final = "authorize"
"""The call of code that asks who may do what; its payload is the spec of a SubjectAccessReview."""
NAMESPACE_CALL: Final = "namespace"
"""The webhook's own call for a Namespace by name."""
SERVICES: Final = "$services"
"""A key of the root: true where the context entries of namespaced policies may call services."""
MAX_QUESTIONS: Final = 100
"""Questions that one request may put: a rule may ask in a loop over the object's own parts."""

Ask: TypeAlias = Callable[[HostCall], Awaitable[Value]]
"""Puts a question to the API server. Answers with an ``Err`` when it cannot be answered; never raises for that."""


class Pending(Exception):
    """The answer to a call is not known yet."""

    def __init__(self, call: HostCall) -> None:
        super().__init__(call.kind)
        self.call = call


class Host(Protocol):
    def ask(self, call: HostCall) -> Value:
        """The answer to a call, an ``Err`` when there is none. May raise :class:`Pending`."""


class Table:
    """Answers from what has been asked so far."""

    __slots__ = ("answers",)

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str, str | None], Value] = {}

    def ask(self, call: HostCall) -> Value:
        found = self.answers.get(_key(call), self)
        if found is not self:
            return found
        if len(self.answers) >= MAX_QUESTIONS:
            return Err("host", f"more than {MAX_QUESTIONS} questions to the API server for one request")
        raise Pending(call)

    def learn(self, call: HostCall, answer: Value) -> None:
        self.answers[_key(call)] = answer


async def settle(evaluate: Callable[[Table], T], ask: Ask) -> T:
    """Evaluates until no answer is missing. ``evaluate`` must have no effect when it ends in :class:`Pending`."""
    table = Table()
    while True:
        try:
            return evaluate(table)
        except Pending as pending:
            call = pending.call
        table.learn(call, await ask(call))


def within(ask: Ask, deadline: float) -> Ask:
    """The same until a reading of ``time.monotonic``; then the answer is an ``Err``."""

    async def bounded(call: HostCall) -> Value:
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
                return await ask(call)
        except TimeoutError:
            return Err("host", "the API server did not answer in time")

    return bounded


def ask(root: dict[str, Any], call: HostCall) -> Value:
    """Puts a call to the host of a root, if the policy may ask that; without a host there is nobody to answer."""
    host: Host | None = root.get(KEY)
    if host is None:
        return Err("host", f"{call.kind}: there is no cluster to ask")
    allowed = admitted(call, services=root.get(SERVICES) is True)
    return allowed if isinstance(allowed, Err) else host.ask(allowed)


def drive(execution: Execution, root: dict[str, Any]) -> Any:
    """Runs code that may ask to its end."""
    try:
        call = next(execution)
        while True:
            call = execution.send(ask(root, call))
    except StopIteration as stop:
        return stop.value


def _key(call: HostCall) -> tuple[str, str, str | None]:
    payload = call.payload
    if type(payload) is dict and "for" in payload:
        payload = {key: value for key, value in payload.items() if key != "for"}  # the answer is the same for all
    return call.kind, json_text(payload), call.scope
