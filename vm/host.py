"""What crosses the border of the VM: outcomes out, host calls out and their replies in.

Both tiers run a function as a generator ``Generator[HostCall, Value, Outcome | Value]``: each ``yield`` asks the
host, and what is sent back (a value, or an ``Err``) goes on the stack. A function that cannot suspend never yields.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Protocol, TypeAlias

from vm.values import Err, Value


class Status(IntEnum):
    """How a rule ended. ``NONE`` is no result at all, which is not a skip."""

    NONE = 0
    PASS = 1
    FAIL = 2
    SKIP = 3
    ERROR = 4


@dataclass(slots=True, init=False)  # not frozen, though nobody changes it: that would take 0.6 µs more for each
class Outcome:
    """The end of a rule: its status, its message (None for the standing text of a pass) and, for a mutation, the new
    resource."""

    status: Status
    message: str | None
    patched: Any

    # Written out: that of a dataclass is no machine code where the rest is (make compiled).
    def __init__(self, status: Status, message: str | None = None, patched: Any = None) -> None:
        self.status = status
        self.message = message
        self.patched = patched


NOTHING: Final = Outcome(Status.NONE)
PASSED: Final = Outcome(Status.PASS)


@dataclass(frozen=True, slots=True)
class HostCall:
    """A question to the host: ``kind`` of :data:`HOST_CALLS`, a JSON payload, and the policy's scope (its namespace, or
    None for a cluster-wide policy), by which the host refuses what lies outside it."""

    kind: str
    payload: Any
    scope: str | None = None


HOST_CALLS: Final[tuple[str, ...]] = ("configmap", "apicall", "globalcontext", "imagedata", "authorize")
"""Kinds of host call by number; the immediate of ``await`` points here."""

Execution: TypeAlias = Generator[HostCall, Value, Any]


class OutOfFuel(Exception):
    """Raised by :meth:`Meter.charge`; both tiers turn it into an error outcome, it never reaches a caller."""


NOT_MET: Final = "preconditions not met"
CEL_NOT_MET: Final = "cel preconditions not met"
"""How the message of a rule begins that its preconditions have skipped, before exceptions are asked for."""

UNLIMITED: Final = 1 << 62
CONTEXT_LIMIT: Final = 2 << 20
"""Kyverno's limit on what a rule may load (``maxContextSize``)."""


class Meter:
    """Fuel of one evaluation. ``left`` goes down by the verified cost of each straight-line segment and of bulk
    work.

    Beside fuel it counts what CEL expressions cost in the API server's units: ``cost`` of the expression under way,
    at most ``cost_limit``, and ``spent`` by all that have ended, at most ``budget`` (Kubernetes: 1,000,000 a call and
    10,000,000 for all expressions of a policy; None: no limit).
    """

    __slots__ = (
        "budget",
        "context",
        "context_limit",
        "cost",
        "cost_limit",
        "depth",
        "dice",
        "left",
        "limit",
        "noted",
        "sizes",
        "spent",
    )

    def __init__(
        self,
        limit: int = 1_000_000,
        *,
        cost_limit: int | None = None,
        budget: int | None = None,
        context_limit: int = CONTEXT_LIMIT,
    ) -> None:
        self.limit = limit
        self.left = limit
        self.cost = 0
        self.spent = 0
        self.cost_limit = UNLIMITED if cost_limit is None else cost_limit
        self.budget = UNLIMITED if budget is None else budget
        self.depth = 0
        """How many substitutions of texts formed at run time are under way inside one another."""
        self.context = 0
        self.context_limit = context_limit
        """Bytes that the context entries of a rule come to, as JSON, and the most that they may."""
        self.dice: Any = None
        """What draws for ``random``: a ``random.Random``, made at the first call unless a seeded one is put here."""
        self.noted: tuple[str, dict[str, str]] | None = None
        """The rule that last had properties for reports, and these properties."""
        self.sizes: dict[int, tuple[int, Value]] = {}
        """What containers hold that went into a scope, by identity, each with the container (``vm.fuel``)."""

    def begin(self) -> None:
        """A rule begins: it has all the fuel, no context yet, and nothing noted for its report."""
        self.left = self.limit
        self.context = 0
        self.noted = None

    def charge(self, n: int) -> None:
        self.left -= n
        if self.left < 0:
            raise OutOfFuel


Dynamic: TypeAlias = Callable[[str, Any, Meter], Value]


def no_queries(text: str, root: Any, meter: Meter) -> Value:
    """The queries of an embedding that lends none."""
    return Err("syntax", f"nobody answers the query {text}")


def no_names(host: str) -> list[str] | Err:
    """The addresses of a host name where nobody asks for them."""
    return Err("host", f"the name {host} is not resolved here, only addresses are known")


class Program(Protocol):
    """A module ready to run; both tiers are one."""

    def start(self, fn: int, root: dict[str, Any], meter: Meter) -> Execution:
        """Runs a function without parameters as a generator of host calls; its value is the function's."""

    def run(self, fn: int, root: dict[str, Any], meter: Meter) -> Any:
        """Runs a function that cannot suspend. ``ValueError`` for one that may."""


@dataclass(frozen=True, slots=True)
class Imports:
    """Functions that the embedding lends the VM, since they need the compiler: texts formed at run time.

    ``substitute(text, root, meter)`` resolves the variables of a text, ``pattern(text)`` compiles a scalar pattern,
    ``yaml(text)`` parses a YAML or JSON document, ``query(text, root, meter)`` answers a JMESPath query on the root, or
    on its key ``$document`` where it has one; ``resolve(host)`` answers with the addresses of a host name. Each
    answers with an ``Err`` for a bad text and keeps a bounded cache.
    """

    substitute: Dynamic
    pattern: Callable[[str], Any]
    yaml: Callable[[str], Value]
    query: Dynamic = no_queries
    resolve: Callable[[str], list[str] | Err] = no_names


def drive_sync(execution: Execution, replies: Mapping[tuple[str, str], Value]) -> Any:
    """Runs an execution to its end, answering each host call from a table of (kind, canonical JSON of the payload)."""
    from vm.intrinsics.text import json_text

    reply: Value = None
    try:
        call = next(execution)
        while True:
            key = (call.kind, json_text(call.payload))
            reply = replies.get(key, Err("host", f"no reply for {call.kind} {key[1]}"))
            call = execution.send(reply)
    except StopIteration as stop:
        return stop.value
