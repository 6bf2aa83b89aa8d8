"""The API server's ``authz`` library: questions of who may do what, built step by step and asked by ``check``.

``check`` is two steps here, since asking needs the host: :func:`payload` makes of a check and a verb the spec of a
``SubjectAccessReview`` (a JSON value), the code asks the host for its status, and :func:`decision` makes a value of
the answer. Only code that the compiler writes calls these two, :func:`authorizer` and :func:`request_resource`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

from vm.cel.k8s_format import dns1123_label, dns1123_subdomain
from vm.cel.values import no_overload
from vm.values import Err, Value


@dataclass(frozen=True, slots=True)
class User:
    """Who is asked about. ``extra`` as pairs, since values have to be hashable."""

    name: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Authorizer:
    CEL_TYPE: ClassVar[str] = "kubernetes.authorization.Authorizer"
    user: User


@dataclass(frozen=True, slots=True)
class PathCheck:
    CEL_TYPE: ClassVar[str] = "kubernetes.authorization.PathCheck"
    user: User
    path: str


@dataclass(frozen=True, slots=True)
class GroupCheck:
    CEL_TYPE: ClassVar[str] = "kubernetes.authorization.GroupCheck"
    user: User
    group: str


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    CEL_TYPE: ClassVar[str] = "kubernetes.authorization.ResourceCheck"
    user: User
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """``failed``: the question could not be answered; ``error`` says why."""

    CEL_TYPE: ClassVar[str] = "kubernetes.authorization.Decision"
    is_allowed: bool = False
    reason: str = ""
    failed: bool = False
    error: str = ""


_NO_REPLY: Final = Decision(failed=True, error="the host gave no answer")


def authorizer(user_info: Value) -> Value:
    """The ``authorizer`` of a request: ``request.userInfo`` as a JSON map. What is no user is one without a name."""
    if type(user_info) is Err:
        return user_info
    return Authorizer(_user(user_info))


def _user(info: Value) -> User:
    if type(info) is not dict:
        return User()
    extra = info.get("extra")
    pairs = sorted(extra.items()) if type(extra) is dict else ()
    return User(
        _text(info.get("username")),
        _text(info.get("uid")),
        _texts(info.get("groups")),
        tuple((key, _texts(values)) for key, values in pairs),
    )


def _text(v: Value) -> str:
    return v if type(v) is str else ""


def _texts(v: Value) -> tuple[str, ...]:
    return tuple(x for x in v if type(x) is str) if type(v) is list else ()


def request_resource(of: Value, request: Value) -> Value:
    """``authorizer.requestResource``: the check of what the request (an ``AdmissionRequest`` as a map) is about."""
    if type(of) is not Authorizer or type(request) is not dict:
        return no_overload("requestResource", of, request)
    resource = request.get("resource")
    resource = resource if type(resource) is dict else {}
    return ResourceCheck(
        of.user,
        _text(resource.get("group")),
        _text(resource.get("resource")),
        _text(request.get("subResource")),
        _text(request.get("namespace")),
        _text(request.get("name")),
    )


def path(of: Value, text: Value) -> Value:
    """``authorizer.path(text)``: of a path that is no resource."""
    if type(of) is Authorizer and type(text) is str:
        return PathCheck(of.user, text) if text.strip() else Err("argument", "path must not be empty")
    return no_overload("path", of, text)


def group(of: Value, text: Value) -> Value:
    """``authorizer.group(text)``: of resources of an API group, empty for the core group."""
    if type(of) is Authorizer and type(text) is str:
        return GroupCheck(of.user, text)
    return no_overload("group", of, text)


def service_account(of: Value, namespace: Value, name: Value) -> Value:
    """``authorizer.serviceAccount(namespace, name)``: of that service account instead of the user."""
    if type(of) is not Authorizer or type(namespace) is not str or type(name) is not str:
        return no_overload("serviceAccount", of, namespace, name)
    if dns1123_subdomain(name):
        return Err("argument", "Invalid service account name")
    if dns1123_label(namespace):
        return Err("argument", "Invalid service account namespace")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return Authorizer(User(f"system:serviceaccount:{namespace}:{name}", "", groups))


def resource(of: Value, text: Value) -> Value:
    """``group.resource(text)``: a resource by its plural name."""
    if type(of) is GroupCheck and type(text) is str:
        if not text.strip():
            return Err("argument", "resource must not be empty")
        return ResourceCheck(of.user, of.group, text)
    return no_overload("resource", of, text)


def subresource(of: Value, text: Value) -> Value:
    """``resource.subresource(text)``."""
    if type(of) is ResourceCheck and type(text) is str:
        return replace(of, subresource=text)
    return no_overload("subresource", of, text)


def namespace(of: Value, text: Value) -> Value:
    """``resource.namespace(text)``."""
    if type(of) is ResourceCheck and type(text) is str:
        return replace(of, namespace=text)
    return no_overload("namespace", of, text)


def name(of: Value, text: Value) -> Value:
    """``resource.name(text)``."""
    if type(of) is ResourceCheck and type(text) is str:
        return replace(of, name=text)
    return no_overload("name", of, text)


def field_selector(of: Value, text: Value) -> Value:
    """``resource.fieldSelector(text)``. One that cannot be read limits nothing: the server that answers reads it."""
    if type(of) is ResourceCheck and type(text) is str:
        return replace(of, field_selector=text)
    return no_overload("fieldSelector", of, text)


def label_selector(of: Value, text: Value) -> Value:
    """``resource.labelSelector(text)``. One that cannot be read limits nothing: the server that answers reads it."""
    if type(of) is ResourceCheck and type(text) is str:
        return replace(of, label_selector=text)
    return no_overload("labelSelector", of, text)


def payload(of: Value, verb: Value) -> Value:
    """What ``check(verb)`` asks: the spec of a ``SubjectAccessReview`` of ``authorization.k8s.io/v1`` as JSON."""
    if type(verb) is str:
        if type(of) is PathCheck:
            return _spec(of.user) | {"nonResourceAttributes": {"path": of.path, "verb": verb}}
        if type(of) is ResourceCheck:
            return _spec(of.user) | {"resourceAttributes": _attributes(of, verb)}
    return no_overload("check", of, verb)


def _spec(user: User) -> dict[str, Value]:
    out: dict[str, Value] = {"user": user.name}
    if user.uid:
        out["uid"] = user.uid
    if user.groups:
        out["groups"] = list(user.groups)
    if user.extra:
        out["extra"] = {key: list(values) for key, values in user.extra}
    return out


def _attributes(of: ResourceCheck, verb: str) -> dict[str, Value]:
    out: dict[str, Value] = {"verb": verb, "group": of.group, "version": "*", "resource": of.resource}
    for key, text in (("subresource", of.subresource), ("namespace", of.namespace), ("name", of.name)):
        if text:
            out[key] = text
    for key, text in (("fieldSelector", of.field_selector), ("labelSelector", of.label_selector)):
        if text:
            out[key] = {"rawSelector": text}
    return out


def decision(reply: Value) -> Value:
    """What ``check`` gives: the decision of the host's reply, a JSON map of ``allowed``, ``denied``, ``reason`` and
    ``error``. A reply with an error and one of another form is a decision that failed: the API server lets expressions
    ask ``errored()`` too. One that is an ``Err`` is no decision: nobody could be asked, and an expression that forbids
    what is allowed must not hold for that."""
    if type(reply) is Err:
        return reply
    if type(reply) is not dict:
        return _NO_REPLY
    problem = _text(reply.get("error")) or _text(reply.get("evaluationError"))
    allowed_it = reply.get("allowed") is True and reply.get("denied") is not True
    return Decision(allowed_it, _text(reply.get("reason")), bool(problem), problem)


def allowed(d: Value) -> Value:
    """``decision.allowed()``."""
    return d.is_allowed if type(d) is Decision else no_overload("allowed", d)


def reason(d: Value) -> Value:
    """``decision.reason()``."""
    return d.reason if type(d) is Decision else no_overload("reason", d)


def errored(d: Value) -> Value:
    """``decision.errored()``."""
    return d.failed if type(d) is Decision else no_overload("errored", d)


def error(d: Value) -> Value:
    """``decision.error()``: empty without one."""
    return d.error if type(d) is Decision else no_overload("error", d)
