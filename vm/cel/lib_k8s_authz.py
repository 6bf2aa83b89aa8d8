"""The table of the API server's ``authz`` libraries (Kubernetes 1.27, selectors 1.31).

``check`` is pure here: its row makes the question as JSON. The lowering of a call of ``check`` asks the host that
question and makes the decision of the reply by ``authz.@decision``.
"""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, Overload, function, method

_A: Final = "kubernetes.authorization."
_AUTHORIZER: Final = f"{_A}Authorizer"
_PATH: Final = f"{_A}PathCheck"
_GROUP: Final = f"{_A}GroupCheck"
_RESOURCE: Final = f"{_A}ResourceCheck"
_DECISION: Final = f"{_A}Decision"

CHECK: Final = "cel.authz.payload.2"
DECISION: Final = "cel.authz.decision.1"


def _row(
    name: str, overload: Overload, body: str, doc: str, *, sized: tuple[int, ...] = (), cost: str = "one", fuel: int = 2
) -> Function:
    symbol = "authz." + name.removeprefix("authz.@")
    return Function(name, (overload,), f"vm.cel.k8s_authz:{body}", doc, symbol, fuel=fuel, sized=sized, cost=cost)


LIBRARY: Final = Library(
    "kubernetes.authz",
    1,
    (
        _row(
            "authz.@authorizer",
            function("dyn", to=_AUTHORIZER),
            "authorizer",
            "the authorizer of a request's userInfo",
            fuel=8,
            cost="none",
        ),
        _row(
            "authz.@requestResource",
            function(_AUTHORIZER, "dyn", to=_RESOURCE),
            "request_resource",
            "the check of the resource that a request is about",
            fuel=4,
            cost="none",
        ),
        _row(
            "authz.@decision",
            function("dyn", to=_DECISION),
            "decision",
            "the decision of the host's reply: allowed, denied, reason, error",
            cost="none",
        ),
        Function(
            "check",
            (method(_PATH, "string", to=_DECISION), method(_RESOURCE, "string", to=_DECISION)),
            "vm.cel.k8s_authz:payload",
            "whether a verb is allowed: as an intrinsic the question, the spec of a SubjectAccessReview, that the host"
            " is then asked",
            "authz.payload",
            fuel=8,
            cost="check",
        ),
        _row("path", method(_AUTHORIZER, "string", to=_PATH), "path", "checks of a path that is no resource"),
        _row("group", method(_AUTHORIZER, "string", to=_GROUP), "group", "checks of resources of an API group"),
        _row(
            "serviceAccount",
            method(_AUTHORIZER, "string", "string", to=_AUTHORIZER),
            "service_account",
            "the authorizer of a service account, by namespace and name",
            fuel=6,
            sized=(1, 2),
        ),
        _row("resource", method(_GROUP, "string", to=_RESOURCE), "resource", "checks of a resource"),
        _row("subresource", method(_RESOURCE, "string", to=_RESOURCE), "subresource", "checks of a subresource"),
        _row("namespace", method(_RESOURCE, "string", to=_RESOURCE), "namespace", "checks within a namespace"),
        _row("name", method(_RESOURCE, "string", to=_RESOURCE), "name", "checks of one object"),
        _row(
            "fieldSelector",
            method(_RESOURCE, "string", to=_RESOURCE),
            "field_selector",
            "checks of objects with such fields; in Kubernetes since 1.31",
            cost="selector",
        ),
        _row(
            "labelSelector",
            method(_RESOURCE, "string", to=_RESOURCE),
            "label_selector",
            "checks of objects with such labels; in Kubernetes since 1.31",
            cost="selector",
        ),
        _row("allowed", method(_DECISION, to="bool"), "allowed", "whether it is allowed"),
        _row("reason", method(_DECISION, to="string"), "reason", "why, where the authorizer says so"),
        _row("errored", method(_DECISION, to="bool"), "errored", "whether asking failed"),
        _row("error", method(_DECISION, to="string"), "error", "why asking failed, empty otherwise"),
    ),
    "who may do what, asked of the API server; in Kubernetes since 1.27",
)
