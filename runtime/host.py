"""What rules ask of the world outside their request: whether a user may do something, which objects are parameters.

The root holds a :class:`Host` under ``$host``. Evaluation is synchronous: the command line answers from what it was
given; the webhook answers from a table, and where that has no answer :class:`Pending` unwinds the evaluation, the
question is put to the API server, and the evaluation begins again (:func:`settle`). A request that asks nothing pays
nothing, and beginning again costs less than what the API server takes.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from runtime.context.tenancy import admitted
from vm.host import Execution, HostCall, Outcome, Status
from vm.intrinsics.text import json_text
from vm.values import Err, Value

T = TypeVar("T")

KEY: Final = "$host"
AUTHORIZE: Final = "authorize"
"""The call of code that asks who may do what; its payload is the spec of a SubjectAccessReview."""
TARGETS: Final = "targets"
"""The call for the objects that a rule with targets changes (``runtime.mutate_existing``)."""
SOURCES: Final = "sources"
"""The call for the objects that a generate rule copies (``runtime.generate``)."""
NAMESPACE_CALL: Final = "namespace"
"""The webhook's own call for a Namespace by name."""
SERVICES: Final = "$services"
"""A key of the root: true where the context entries of namespaced policies may call services."""
MAX_QUESTIONS: Final = 100
"""Questions that one request may put: a rule may ask in a loop over the object's own parts."""

Ask: TypeAlias = Callable[[HostCall], Awaitable[Value]]
"""Puts a question to the API server. Answers with an ``Err`` when it cannot be answered; never raises for that."""


TOGETHER: Final = frozenset({"configmap", "apicall", "globalcontext", "imagedata"})
"""Calls of context entries. A rule that waits for one says nothing else, so that the rules after it may go on and say
what they wait for: all of them are asked together."""


class Pending(Exception):
    """The answers to calls are not known yet."""

    def __init__(self, *calls: HostCall) -> None:
        super().__init__(", ".join(call.kind for call in calls))
        self.calls = calls


class TooManyQuestions(Exception):
    """A request asks more than it may. Code must not meet this as a value: a loop may pass over an element that cannot
    be evaluated, and a default may stand in for an answer, so that what was never asked would count as fine."""


class Host(Protocol):
    def ask(self, call: HostCall) -> Value:
        """The answer to a call, an ``Err`` when there is none. May raise :class:`Pending`."""


class Table:
    """Answers from what has been asked so far.

    What an evaluation comes to is of no use when it ends with calls ``wanted``: :meth:`complete` raises then.
    """

    __slots__ = ("answers", "wanted")

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str, str | None], Value] = {}
        self.wanted: dict[tuple[str, str, str | None], HostCall] = {}

    def ask(self, call: HostCall) -> Value:
        found = self.answers.get(key_of(call), self)
        if found is not self:
            return found
        if len(self.answers) + len(self.wanted) >= MAX_QUESTIONS:
            raise TooManyQuestions(f"more than {MAX_QUESTIONS} questions to the API server for one request")
        if call.kind in TOGETHER:
            self.wanted[key_of(call)] = call
            return Err("later", "the answer is not known yet")
        raise Pending(*self.wanted.values(), call)

    def complete(self) -> None:
        """Raises :class:`Pending` when an evaluation has not got all the answers it wanted."""
        if self.wanted:
            raise Pending(*self.wanted.values())

    def learn(self, call: HostCall, answer: Value) -> None:
        self.answers[key_of(call)] = answer


async def settle(
    evaluate: Callable[[Table], T], ask: Ask, table: Table | None = None, calls: Sequence[HostCall] = ()
) -> T:
    """Evaluates until no answer is missing. ``evaluate`` must end with :meth:`Table.complete`, and have no effect when
    it ends in :class:`Pending`. With ``calls``, the first evaluation is over and has asked for these."""
    import asyncio  # 20 ms, which a command line without a cluster has no use for

    table = table or Table()
    while True:
        if not calls:
            try:
                return evaluate(table)
            except Pending as pending:
                calls = pending.calls
        table.wanted = {}
        for call, answer in zip(calls, await asyncio.gather(*map(ask, calls)), strict=True):
            table.learn(call, answer)
        calls = ()


def within(ask: Ask, deadline: float) -> Ask:
    """The same until a reading of ``time.monotonic``; then the answer is an ``Err``."""
    import asyncio

    async def bounded(call: HostCall) -> Value:
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
                return await ask(call)
        except TimeoutError:
            return Err("host", "the API server did not answer in time")

    return bounded


def ask(root: dict[str, Any], call: HostCall) -> Value:
    """Puts a call to the host of a root, if the policy may ask that; without a host there is nobody to answer."""
    try:
        return _put(root, call)
    except TooManyQuestions as refusal:
        return Err("host", str(refusal))


def _put(root: dict[str, Any], call: HostCall) -> Value:
    host: Host | None = root.get(KEY)
    if host is None:
        return Err("host", f"{call.kind}: there is no cluster to ask")
    allowed = admitted(call, services=root.get(SERVICES) is True)
    return allowed if isinstance(allowed, Err) else host.ask(allowed)


def drive(execution: Execution, root: dict[str, Any]) -> Any:
    """Runs code that may ask to its end, which is an error when it asks too much."""
    try:
        call = next(execution)
        while True:
            call = execution.send(_put(root, call))
    except StopIteration as stop:
        return stop.value
    except TooManyQuestions as refusal:
        execution.close()
        return Outcome(Status.ERROR, str(refusal))


def key_of(call: HostCall) -> tuple[str, str, str | None]:
    payload = call.payload
    if type(payload) is dict and "for" in payload:
        payload = {key: value for key, value in payload.items() if key != "for"}  # the answer is the same for all
    return call.kind, json_text(payload), call.scope
