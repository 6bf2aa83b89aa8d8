"""Turns an admission request, or a resource of the command line, into the root that rules read.

The webhook calls :meth:`Request.from_review`, the command line and tests :meth:`Request.from_resource`. The root's keys
are those of ``docs/architecture.md``; the request keeps the objects as decoded, no copies, no model classes.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as with_default
from typing import Any, Final, TypeAlias

from vm.values import Value

OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")

_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


class RequestError(Exception):
    """A request that is not one: the text says what is wrong and where, for a 4xx answer or exit code 2."""


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who asks: user name, groups and roles. ``raw`` is ``request.userInfo`` as policies see it."""

    username: str = ""
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    cluster_roles: tuple[str, ...] = ()
    raw: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        if self.raw is not None:
            return dict(self.raw)
        info: dict[str, Any] = {}
        if self.username:
            info["username"] = self.username
        if self.groups:
            info["groups"] = list(self.groups)
        return info


KindOf: TypeAlias = Callable[[str, str, str], str | None]
"""The kind of a resource by group, version and plural name, None for one that is not known."""


@dataclass(slots=True)  # not frozen, though nobody changes it: that would take 1.5 µs more for each request
class Request:
    """One admission request. ``resource`` is the object under evaluation: the new one, on DELETE the old one; ``old``
    is the object that was there before, None when there was none or nothing is known of it. ``uid`` is empty for
    anything but an admission review.

    ``root`` is what rules read; it is shared by all of them and none may change it.
    """

    uid: str
    group: str
    version: str
    kind: str
    subresource: str
    operation: str
    namespace: str
    name: str
    resource: Value
    old: Value
    dry_run: bool
    namespace_labels: Mapping[str, str] | None
    root: dict[str, Any]
    rule_values: Mapping[str, Mapping[str, Any]] = with_default(default_factory=dict)
    """Offline: values that one rule alone sees, by its name and by dotted name."""

    def root_of(self, rule: str) -> dict[str, Any]:
        """The root as a rule sees it. The values of a rule are those of the rules that autogen makes of it too."""
        values = self.rule_values.get(rule) or self.rule_values.get(base_rule(rule))
        if not values:
            return self.root
        plain = {key: value for key, value in self.root.items() if not key.startswith("$")}
        for path, value in values.items():
            plain = _merge(plain, _nested(split_path(path), value))
        return {**self.root, **plain}

    @classmethod
    def from_review(
        cls,
        review: Any,
        *,
        namespace_labels: Mapping[str, str] | None = None,
        namespace_object: Mapping[str, Any] | None = None,
        roles: Iterable[str] = (),
        cluster_roles: Iterable[str] = (),
        kind_of: KindOf | None = None,
    ) -> Request:
        """Decodes an ``AdmissionReview`` (``admission.k8s.io/v1``). Raises :class:`RequestError` for anything else.

        ``namespace_object`` is the request's Namespace, None when nothing is known of it. ``kind_of`` gives the kind of
        a resource: rules name a subresource by the kind that it is of (``Deployment/scale``), a request by its own
        (``Scale``).
        """
        request = _review_request(review)
        group, version, kind = _triple(request, "kind", "kind")
        operation = request.get("operation")
        if operation not in OPERATIONS:
            raise RequestError(f"request.operation is none of {', '.join(OPERATIONS)}")
        new, old = request.get("object"), request.get("oldObject")
        if new is not None and type(new) is not dict:
            raise RequestError("request.object is no object")
        if old is not None and type(old) is not dict:
            raise RequestError("request.oldObject is no object")
        if new is None and old is None and operation != "CONNECT":
            raise RequestError("the request has neither object nor oldObject")
        user = request.get("userInfo") or {}
        if type(user) is not dict:
            raise RequestError("request.userInfo is no object")
        subresource = request.get("subResource") or ""
        if type(subresource) is not str:
            raise RequestError("request.subResource is no text")
        if subresource and kind_of is not None:
            of = _triple(request, "resource", "resource")
            whole = kind_of(*of)
            if whole is not None:
                group, version, kind = of[0], of[1], whole
        extended = request.copy()
        extended["roles"] = list(roles)
        extended["clusterRoles"] = list(cluster_roles)
        return _build(
            extended,
            (group, version, kind, subresource),
            operation,
            new,
            old,
            _text(user, "username"),
            namespace_labels,
            admission=True,
            shown=request,
            namespace_object=namespace_object,
        )

    @classmethod
    def from_resource(
        cls,
        resource: dict[str, Any],
        operation: str = "CREATE",
        old: dict[str, Any] | None = None,
        *,
        user: UserInfo | None = None,
        namespace_labels: Mapping[str, str] | None = None,
        namespace_object: Mapping[str, Any] | None = None,
        values: Mapping[str, Any] | None = None,
        kind: tuple[str, str, str, str] | None = None,
        plural: str = "",
    ) -> Request:
        """Makes the request that an offline evaluation stands for.

        On UPDATE rules see the resource itself as the old object when ``old`` is not given (but nothing is taken to
        have existed before), on DELETE the resource is the old object. ``values`` are
        variables by dotted name: they are merged into what policies see, and into the resource where they name a part
        of ``request.object``. ``kind`` (group, version, kind, subresource) replaces the resource's own, for an object
        that stands for a subresource. Of a namespace that is not given (``namespace_object``) expressions see the name
        and the labels. ``plural`` is the name of the resource in ``request.resource``.
        """
        request: dict[str, Any] = {"operation": operation, "namespace": _metadata(resource, "namespace")}
        if operation == "DELETE":
            request["oldObject"] = resource
        else:
            request["object"] = resource
            if operation == "UPDATE":
                request["oldObject"] = resource if old is None else old
        username = ""
        if user is not None:
            request |= {"userInfo": user.as_json(), "roles": list(user.roles), "clusterRoles": list(user.cluster_roles)}
            username = user.username
        outer: dict[str, Any] = {"request": request}
        for path, value in (values or {}).items():
            outer = _merge(outer, _nested(split_path(path), value))
            if type(outer["request"]) is not dict:
                raise RequestError("a value would put something that is no map in the place of request")
        request = outer.pop("request")
        kind = kind or (*split_api_version(_text(resource, "apiVersion")), _text(resource, "kind"), "")
        namespace = _metadata(resource, "namespace")
        if namespace_object is None and namespace:
            metadata: dict[str, Any] = {"name": namespace}
            if namespace_labels:
                metadata["labels"] = dict(namespace_labels)
            namespace_object = {"metadata": metadata, "spec": {}, "status": {}}
        return _build(
            request,
            kind,
            operation,
            request.get("object"),
            request.get("oldObject"),
            username,
            namespace_labels,
            admission=user is not None,
            extra=outer,
            invented_old=operation == "UPDATE" and old is None,
            shown=_invented(request, kind, plural, _metadata(resource, "name")),
            namespace_object=namespace_object,
        )

    def patched(self, resource: dict[str, Any]) -> Request:
        """The same request with the object as a mutation left it."""
        inner = dict(self.root["request"])
        inner["object"] = resource
        root = dict(self.root)
        root["request"] = inner
        root["$resource"] = resource
        if self.operation != "DELETE":
            root["$object"] = resource
        root.pop("images", None)
        return Request(
            self.uid,
            self.group,
            self.version,
            self.kind,
            self.subresource,
            self.operation,
            self.namespace,
            self.name,
            resource,
            self.old,
            self.dry_run,
            self.namespace_labels,
            root,
            self.rule_values,
        )

    @property
    def username(self) -> str:
        """Who asks, empty where nobody is known."""
        user = self.root["request"].get("userInfo")
        return _text(user, "username") if type(user) is dict else ""

    def before(self) -> Request:
        """The request that would have made the old object: what ``allowExistingViolations`` asks about.

        An object is made as a whole: rules about a subresource did not look at it (Kyverno quirk).
        """
        kind = (self.group, self.version, self.kind)
        if self.subresource and type(self.old) is dict:
            kind = (*split_api_version(_text(self.old, "apiVersion")), _text(self.old, "kind") or self.kind)
        inner = dict(self.root["request"])
        inner["object"] = self.old
        inner["operation"] = "CREATE"
        inner.pop("oldObject", None)
        root = dict(self.root)
        root |= {"request": inner, "$resource": self.old, "$old": None, "$operation": "CREATE"}
        root |= {"$object": self.old, "$oldObject": None, "$request": {**root["$request"], "operation": "CREATE"}}
        root["$kind"] = [*kind, ""]
        root.pop("images", None)  # those of the new object
        return Request(
            self.uid,
            *kind,
            "",
            "CREATE",
            self.namespace,
            self.name,
            self.old,
            None,
            self.dry_run,
            self.namespace_labels,
            root,
            self.rule_values,
        )


def _build(
    request: dict[str, Any],
    kind: tuple[str, str, str, str],
    operation: str,
    new: Value,
    old: Value,
    username: str,
    namespace_labels: Mapping[str, str] | None,
    *,
    admission: bool,
    extra: dict[str, Any] | None = None,
    invented_old: bool = False,
    shown: dict[str, Any],
    namespace_object: Mapping[str, Any] | None,
) -> Request:
    deleting = operation == "DELETE"
    if deleting and new is None:
        request["object"] = old
    resource = old if deleting or new is None else new
    account_namespace, account = service_account(username)
    namespace = request.get("namespace")
    if type(namespace) is not str:
        namespace = _metadata(resource, "namespace")
    name = request.get("name")
    if type(name) is not str:
        name = _metadata(resource, "name")
    root: dict[str, Any] = {
        "request": request,
        "serviceAccountName": account,
        "serviceAccountNamespace": account_namespace,
        "$resource": resource,
        "$old": None if deleting else old,
        "$namespaceLabels": None if namespace_labels is None else dict(namespace_labels),
        "$admission": admission,
        "$operation": operation,
        "$kind": list(kind),
        "$object": new,
        "$oldObject": old,
        "$request": shown,
    }
    if not namespace or kind[:3] == ("", "v1", "Namespace"):
        root["$namespaceObject"] = None
    elif namespace_object is not None:
        root["$namespaceObject"] = namespace_object
    if extra:
        root |= extra
    uid = request.get("uid")
    return Request(
        uid if type(uid) is str else "",
        *kind,
        operation,
        namespace,
        name,
        resource,
        None if invented_old else old,
        request.get("dryRun") is True,
        namespace_labels,
        root,
    )


def _invented(request: dict[str, Any], kind: tuple[str, str, str, str], plural: str, name: str) -> dict[str, Any]:
    """The request as expressions of an offline evaluation see it: what Kubernetes would send, with empty texts left
    out."""
    group, version, word, sub = kind
    gvk = {"group": group, "version": version, "kind": word}
    gvr = {"group": group, "version": version, "resource": plural}
    shown = {
        "kind": gvk,
        "resource": gvr,
        "subResource": sub,
        "requestKind": gvk,
        "requestResource": gvr,
        "requestSubResource": sub,
        "name": name,
        "namespace": request.get("namespace"),
        "operation": request["operation"],
    }
    shown = {key: value for key, value in shown.items() if value}
    return {**shown, "userInfo": request.get("userInfo") or {}, "dryRun": request.get("dryRun") is True}


def _review_request(review: Any) -> dict[str, Any]:
    if type(review) is not dict:
        raise RequestError("the body is no AdmissionReview: it is no object")
    if review.get("kind") != "AdmissionReview" or review.get("apiVersion") != "admission.k8s.io/v1":
        raise RequestError("the body is no AdmissionReview of admission.k8s.io/v1")
    request = review.get("request")
    if type(request) is not dict:
        raise RequestError("the AdmissionReview has no request")
    if type(request.get("uid")) is not str or not request["uid"]:
        raise RequestError("the request has no uid")
    return request


def _triple(request: dict[str, Any], field: str, last: str) -> tuple[str, str, str]:
    value = request.get(field)
    if type(value) is dict:
        group, version, name = value.get("group"), value.get("version"), value.get(last)
        if type(name) is str and name:
            return group if type(group) is str else "", version if type(version) is str else "", name
    raise RequestError(f"request.{field} is no group, version and {last}")


def split_api_version(api_version: str) -> tuple[str, str]:
    """(group, version) of an ``apiVersion``; the core group is empty."""
    group, slash, version = api_version.partition("/")
    return (group, version) if slash else ("", api_version)


def service_account(username: str) -> tuple[str, str]:
    """(namespace, name) of the service account that a user name stands for, else two empty texts."""
    if not username.startswith(_SERVICE_ACCOUNT):
        return "", ""
    namespace, colon, name = username[len(_SERVICE_ACCOUNT) :].partition(":")
    return (namespace, name) if colon else ("", "")


def base_rule(rule: str) -> str:
    """The name of the rule that autogen made a rule of; of any other its own."""
    return rule.removeprefix("autogen-").removeprefix("cronjob-") if rule.startswith("autogen-") else rule


def split_path(path: str) -> list[str]:
    """The keys of a dotted name, where a quoted key may hold dots: ``a."b.c/d".e``."""
    try:
        return next(csv.reader([path], delimiter=".", strict=True))
    except (csv.Error, StopIteration):
        raise RequestError(f"{path!r} is no dotted name") from None


def _nested(keys: list[str], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return value if isinstance(value, dict) else {}


def _merge(old: Any, new: Any) -> Any:
    """Deep merge of maps into a new one, as data is added to the context; anything else is replaced."""
    if type(old) is dict and type(new) is dict:
        merged = dict(old)
        for key, value in new.items():
            merged[key] = _merge(old[key], value) if key in old else value
        return merged
    return new


def _metadata(resource: Value, field: str) -> str:
    metadata = resource.get("metadata") if type(resource) is dict else None
    return _text(metadata, field) if type(metadata) is dict else ""


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    return found if type(found) is str else ""
