"""The attributes of resource filters in ``match`` and ``exclude`` (semantics §11): one small test each.

Called by the match code of compiled rules. The resource is the object under evaluation, ``user`` the ``userInfo`` of
the request. Every test answers false for operands of the wrong shape.
"""

from __future__ import annotations

from typing import Any

from vm.host import Meter
from vm.intrinsics.labels import selects, text_map
from vm.intrinsics.wildcard import match as glob
from vm.values import Value, size

_SERVICE_ACCOUNT = "system:serviceaccount:"


def operations(operation: Value, wanted: Value) -> bool:
    """Whether the operation is one of those."""
    return type(wanted) is list and operation in wanted


def names(resource: Value, wanted: Value) -> bool:
    """Whether the name matches one of the wildcards; ``generateName`` stands in for an empty name."""
    return _any_wildcard(wanted, name_of(resource))


def namespaces(resource: Value, wanted: Value) -> bool:
    """Whether the namespace matches one of the wildcards. The namespace of a Namespace is its own name."""
    return _any_wildcard(wanted, namespace_of(resource))


def annotated(meter: Meter, resource: Value, wanted: Value) -> bool:
    """Whether for each wanted pair there is an annotation whose key and value it matches."""
    actual = text_map(_metadata(resource).get("annotations"))
    if type(wanted) is not dict:
        return False
    meter.charge(len(wanted) * (1 + len(actual)))
    return all(any(glob(k, a) and glob(_text(v), actual[a]) for a in actual) for k, v in wanted.items())


def selector(meter: Meter, resource: Value, wanted: Value) -> bool:
    """Whether the resource's labels meet the selector."""
    labels = text_map(_metadata(resource).get("labels"))
    meter.charge(len(labels) + _weight(wanted))
    return selects(wanted, labels)


def namespace_selector(meter: Meter, resource: Value, labels: Value, wanted: Value) -> bool:
    """Whether the labels of the resource's namespace meet the selector; a Namespace itself never does."""
    known = text_map(labels)
    meter.charge(len(known) + _weight(wanted))
    return type(resource) is dict and resource.get("kind") != "Namespace" and selects(wanted, known)


def own_namespace_selector(meter: Meter, resource: Value, labels: Value, wanted: Value) -> bool:
    """As the API server reads the selector: of a Namespace its own labels count, what has no namespace meets any."""
    own = _metadata(resource)
    is_namespace = type(resource) is dict and (resource.get("apiVersion"), resource.get("kind")) == ("v1", "Namespace")
    known = text_map(own.get("labels") if is_namespace else labels)
    meter.charge(len(known) + _weight(wanted))
    return not (is_namespace or _text(own.get("namespace"))) or selects(wanted, known)


def groups(kind: Value, wanted: Value) -> bool:
    """Whether the API group of ``[group, version, kind, subresource]`` is one of those."""
    return type(kind) is list and type(wanted) is list and kind[:1] != [] and kind[0] in wanted


def plurals(kind: Value, wanted: Value) -> bool:
    """Whether one of the plurals is an English plural of the kind, in lower case as resources are."""
    if type(kind) is not list or len(kind) != 4 or type(wanted) is not list:
        return False
    name = _text(kind[2]).lower()
    return any(plural in wanted for plural in (name + "s", name + "es", name.removesuffix("y") + "ies", name))


def roles(actual: Value, wanted: Value) -> bool:
    """Whether the user has one of the roles, written alike."""
    return type(actual) is list and type(wanted) is list and any(role in wanted for role in actual)


def subjects(meter: Meter, user: Value, wanted: Value) -> bool:
    """Whether the user is one of the subjects: ``[kind, name, namespace]`` with wildcards in name and namespace.

    A ServiceAccount is told by its user name ``system:serviceaccount:<namespace>:<name>``.
    """
    if type(user) is not dict or type(wanted) is not list:
        return False
    username, groups = _text(user.get("username")), user.get("groups")
    groups = [g for g in groups if type(g) is str] if type(groups) is list else []
    meter.charge(len(wanted) * (1 + len(groups)))
    return any(_is_subject(subject, username, groups) for subject in wanted)


def describe(resource: Value) -> str:
    """``Kind/name in namespace ns``, or ``Kind/name`` for a resource without a namespace."""
    if type(resource) is not dict:
        return "resource"
    metadata = _metadata(resource)
    text = f"{_text(resource.get('kind'))}/{_text(metadata.get('name'))}"
    namespace = _text(metadata.get("namespace"))
    return f"{text} in namespace {namespace}" if namespace else text


def name_of(resource: Value) -> str:
    """The name by which a resource is matched: ``generateName`` stands in for an empty one."""
    metadata = _metadata(resource)
    return _text(metadata.get("name")) or _text(metadata.get("generateName"))


def namespace_of(resource: Value) -> str:
    """The namespace a resource counts to: a Namespace's own name, else ``metadata.namespace``, else empty."""
    metadata = _metadata(resource)
    is_namespace = type(resource) is dict and resource.get("kind") == "Namespace"
    return _text(metadata.get("name" if is_namespace else "namespace"))


def _is_subject(subject: Value, username: str, groups: list[str]) -> bool:
    match subject:
        case ["User", str(name), _]:
            return glob(name, username)
        case ["Group", str(name), _]:
            return any(glob(name, group) for group in groups)
        case ["ServiceAccount", str(name), str(namespace)]:
            if not username.startswith(_SERVICE_ACCOUNT):
                return False
            own_namespace, _, own_name = username.removeprefix(_SERVICE_ACCOUNT).partition(":")
            return glob(namespace, own_namespace) and glob(name, own_name)
    return False


def _metadata(resource: Value) -> dict[str, Any]:
    metadata = resource.get("metadata") if type(resource) is dict else None
    return metadata if type(metadata) is dict else {}


def _text(v: Value) -> str:
    return v if type(v) is str else ""


def _any_wildcard(wanted: Value, text: str) -> bool:
    return type(wanted) is list and any(type(w) is str and glob(w, text) for w in wanted)


def _weight(selector: Value) -> int:
    if type(selector) is not dict:
        return 1
    return 1 + size(selector.get("matchLabels")) + size(selector.get("matchExpressions"))
