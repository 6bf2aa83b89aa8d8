"""Decides which requests policies are not asked about at all (semantics §23): excluded users, filtered objects, objects
of Thesmos' own kinds; and refuses, where that is asked for, what others do to objects that Thesmos manages.

The webhook asks :meth:`Entry.decide` before it evaluates anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from runtime.config import Settings
from runtime.decision import Decision
from runtime.request import Request

if TYPE_CHECKING:
    from runtime.controllers.clusterconfig import ClusterConfig

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
NAMESPACE_CONTROLLER: Final = "system:serviceaccount:kube-system:namespace-controller"
_MANAGED: Final = MANAGED_BY.encode()
PROTECTED: Final = "A kyverno managed resource can only be modified by kyverno"
"""Kyverno's own words, which people look for."""

_OWN_KINDS: Final = frozenset({"ClusterPolicy", "Policy", "UpdateRequest"})
_REPORT_GROUPS: Final = frozenset({"wgpolicyk8s.io", "reports.kyverno.io", "openreports.io"})
_ADMITTED: Final = Decision(True)


def is_own(request: Request) -> bool:
    """Whether an object is one of the engine's own: policies, reports and update requests are admitted whatever
    policies say (semantics §23), since a policy for every kind could else forbid its own removal."""
    return request.group in _REPORT_GROUPS or (request.group == "kyverno.io" and request.kind in _OWN_KINDS)


class Entry:
    """``config`` is the current ConfigMap, exchanged as a whole; None: there is no cluster."""

    def __init__(self, settings: Settings | None = None, config: ClusterConfig | None = None) -> None:
        self.config = config
        self._protects = settings is not None and settings.protect_managed
        self._own_users = f"system:serviceaccount:{settings.names.namespace}:" if settings is not None else ""

    def decide(self, request: Request) -> Decision | None:
        """The decision on a request that policies are not asked about; None: they are."""
        if self.config is not None and self.config.passes(request):
            return _ADMITTED
        if is_own(request):
            return _ADMITTED
        return self._protection(request) if self._protects else None

    def looks(self, raw: bytes) -> bool:
        """Whether a decision may depend on the objects of a request, by their bytes."""
        return self._protects and _MANAGED in raw

    def _protection(self, request: Request) -> Decision | None:
        user = str((request.root["request"].get("userInfo") or {}).get("username") or "")
        if user.startswith(self._own_users) or (request.operation == "DELETE" and user == NAMESPACE_CONTROLLER):
            return None
        managed = any(_labels(obj).get(MANAGED_BY) == "kyverno" for obj in (request.resource, request.old))
        return Decision(False, PROTECTED) if managed else None


def _labels(obj: Any) -> dict[str, Any]:
    metadata = obj.get("metadata") if type(obj) is dict else None
    labels = metadata.get("labels") if type(metadata) is dict else None
    return labels if type(labels) is dict else {}
