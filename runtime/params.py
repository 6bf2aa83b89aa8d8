"""Parameters of a rule (``paramKind`` and ``paramRef``): which objects they are, and a rule run once for each.

``runtime.policyset`` wraps the code of such a rule in :func:`for_each`. Where the objects come from is the host's
business (``runtime.host``); which of them a rule may read is decided here for all hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from runtime.host import ask
from vm.host import PASSED, HostCall, Meter, Outcome, Status
from vm.intrinsics.labels import selects
from vm.values import Err, Value

Run: TypeAlias = Callable[[int, dict[str, Any], Meter], Any]

CALL: Final = "params"
KEY: Final = "$params"
_PREFIX: Final = "error in parameterized resource: "
_UNBOUND: Final = "failed to configure binding: "
_DENIED: Final = " for policy binding with `Deny` parameterNotFoundAction"
"""What the API server says of a binding whose parameters cannot be had."""


@dataclass(frozen=True, slots=True)
class Query:
    """What a rule asks for: a kind, and a name or a label selector; ``namespace`` is the one in ``paramRef``, or empty.

    ``resource_namespace`` is that of the object under evaluation. ``listed``: the rule sees all its parameters at once.
    """

    api_version: str
    kind: str
    name: str
    namespace: str
    selector: Mapping[str, Any] | None
    required: bool
    resource_namespace: str = ""
    listed: bool = False

    def place(self, namespaced: bool, scope: str | None) -> str | Err:
        """The namespace to look in, empty for a kind without; an ``Err`` where the rule may not look.

        A namespaced policy (``scope``) reads parameters of its own namespace and no others.
        """
        if not namespaced:
            if self.namespace:
                return Err("host", "paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
            if scope is not None:
                return Err("host", f"a policy of the namespace {scope} reads no cluster-wide {self.kind}")
            return ""
        place = self.namespace or self.resource_namespace
        if not place:
            return Err("host", "can't use namespaced paramRef to match cluster-scoped resources")
        if scope is not None and place != scope:
            return Err("host", f"a policy of the namespace {scope} reads no {self.kind} of {place}")
        return place

    def chooses(self, obj: Mapping[str, Any]) -> bool:
        """Whether an object of the right kind and namespace is one of the parameters."""
        metadata = obj.get("metadata") or {}
        if self.name:
            return bool(metadata.get("name") == self.name)
        return self.selector is not None and selects(dict(self.selector), dict(metadata.get("labels") or {}))


def query_of(payload: Mapping[str, Any]) -> Query:
    """The query of a rule's metadata or of a host call."""
    return Query(
        payload.get("apiVersion") or "",
        payload.get("kind") or "",
        payload.get("name") or "",
        payload.get("namespace") or "",
        payload.get("selector"),
        payload.get("required") is True,
        payload.get("resourceNamespace") or "",
        payload.get("listed") is True,
    )


def for_each(run: Run, wanted: Mapping[str, Any], scope: str | None) -> Run:
    """The code of a rule as one run for each of its parameters: the first that does not pass decides.

    Without ``$params`` in the root the code says whether the rule has anything to do with the request (no result, an
    error, or a skip that stands for yes), so that nothing is looked up for requests that it does not match. With
    ``onError`` (a policy of the API server itself, see ``compiler.lower``) a parameter whose match conditions are not
    met has no say, and each run sees the object as the one before left it.
    """
    native, ignored = "onError" in wanted, wanted.get("onError") == "ignore"

    def evaluate(entry: int, root: dict[str, Any], meter: Meter) -> Any:
        outcome = run(entry, root, meter)
        if outcome.status is not Status.SKIP:
            return outcome
        found = look_up(root, wanted, scope)
        if type(found) is Err:
            if ignored:
                return PASSED
            return Outcome(Status.ERROR, (_UNBOUND if native else _PREFIX) + found.text)
        if wanted.get("listed") is True and found:
            found = [{"items": found}]
        held = skipped = None
        for params in found:
            outcome = run(entry, {**root, KEY: params}, meter)
            if outcome.status is Status.SKIP and native:
                skipped = outcome
            elif outcome.status is not Status.PASS:
                return outcome
            elif outcome.patched is not None:
                held = outcome
                root = {**root, "$object": outcome.patched, "$resource": outcome.patched}
            else:
                held = held or outcome
        return held or skipped or PASSED

    return evaluate


def look_up(root: dict[str, Any], wanted: Mapping[str, Any], scope: str | None) -> Value:
    """The parameters of a rule in the order of their names, or an ``Err``."""
    namespace = "" if root["$kind"][:3] == ["", "v1", "Namespace"] else root["$request"].get("namespace") or ""
    found = ask(root, HostCall(CALL, {**wanted, "resourceNamespace": namespace}, scope))
    if type(found) is list and not found and wanted.get("required") is True:
        return Err("host", "no params found" + (_DENIED if "onError" in wanted else ""))
    return found


def chosen(query: Query, objects: Iterable[Mapping[str, Any]], namespaced: bool, scope: str | None) -> Value:
    """The parameters among given objects, by name (as given for a rule that sees them all at once); one that names no
    namespace stands in ``default``, as for kubectl."""
    place = query.place(namespaced, scope)
    if type(place) is Err:
        return place
    found = [
        obj
        for obj in objects
        if (obj.get("apiVersion"), obj.get("kind")) == (query.api_version, query.kind)
        and (not namespaced or (obj.get("metadata") or {}).get("namespace", "default") == place)
        and query.chooses(obj)
    ]
    return found if query.listed else sorted(found, key=lambda obj: str((obj.get("metadata") or {}).get("name")))
