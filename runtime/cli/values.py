"""The documents that stand in for a cluster offline: ``Values`` and ``UserInfo``, with ``--set`` on top.

``apply`` and ``test`` give them to :mod:`runtime.cli.offline`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from runtime.cli.files import read_mapping
from runtime.cli.problem import Problem
from runtime.context.outside import Outside
from runtime.request import OPERATIONS, RequestError, UserInfo, split_path

FIELDS: Final = (
    "apiVersion",
    "kind",
    "metadata",
    "globalValues",
    "policies",
    "namespaceSelector",
    "namespaces",
    "subresources",
)


@dataclass(frozen=True, slots=True)
class Subresource:
    """An object kind that stands for a subresource, its parent kind, and the name after the slash."""

    group: str
    version: str
    kind: str
    parent: tuple[str, str, str]
    name: str


@dataclass(frozen=True, slots=True)
class Values:
    """Values for variables, by dotted name: for all policies, and per (policy, resource) and (policy, rule).

    ``elements`` are those of context entries within loops, one for each element of a loop. ``namespaces`` are whole
    Namespace objects by name, ``params`` the objects that CEL rules may see as ``params``, ``outside`` what context
    entries are answered from, ``targets`` the objects that rules with targets may change, ``sources`` those that
    generate rules may copy.
    """

    everywhere: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    rules: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    elements: Mapping[tuple[str, str], Mapping[str, list[Any]]] = field(default_factory=dict)
    assigned: Mapping[str, str] = field(default_factory=dict)
    namespace_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    subresources: tuple[Subresource, ...] = ()
    namespaces: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    params: tuple[Mapping[str, Any], ...] = ()
    outside: Outside = field(default_factory=Outside)
    targets: tuple[Mapping[str, Any], ...] = ()
    sources: tuple[Mapping[str, Any], ...] = ()

    def with_objects(self, resources: Iterable[Mapping[str, Any]], params: Iterable[Mapping[str, Any]]) -> Values:
        """With parameters for CEL rules, and with the Namespaces among the resources."""
        return replace(self.with_namespaces(resources), params=(*self.params, *params))

    def with_namespaces(self, objects: Iterable[Mapping[str, Any]]) -> Values:
        """With the Namespaces among given objects that no values file and no object before tells of."""
        found = {
            str((o.get("metadata") or {}).get("name")): o
            for o in objects
            if (o.get("apiVersion"), o.get("kind")) == ("v1", "Namespace")
        }
        return replace(self, namespaces={**found, **self.namespaces})

    def variables(self, policy: str, resource: str) -> dict[str, Any]:
        """What holds for a policy and a resource name, later ones first: ``--set``, the pair's own, the global ones."""
        return {**self.everywhere, **self.resources.get((policy, resource), {}), **self.assigned}

    def of_rules(self, policy: str) -> dict[str, Mapping[str, Any]]:
        """The values that single rules of a policy see, by rule; ``--set`` wins here too."""
        return {
            rule: {name: v for name, v in values.items() if name not in self.assigned}
            for (owner, rule), values in self.rules.items()
            if owner == policy and values
        }

    def of_elements(self, policy: str) -> dict[str, Mapping[str, list[Any]]]:
        """The values of context entries within loops, by rule."""
        return {rule: values for (owner, rule), values in self.elements.items() if owner == policy}

    def differs(self, policy: str, resource: str) -> bool:
        """Whether this policy sees other values than the rest do."""
        return (policy, resource) in self.resources

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """Labels of a namespace, those of a values file before those of an object; None when nothing is known of it."""
        known = self.namespace_labels.get(namespace)
        if known is not None or namespace not in self.namespaces:
            return known
        labels = (self.namespaces[namespace].get("metadata") or {}).get("labels")
        return {str(k): str(v) for k, v in labels.items()} if type(labels) is dict else {}


NO_VALUES: Final = Values()


def load_values_file(path: Path | str) -> Values:
    """Reads a ``Values`` file."""
    return parse_values(read_mapping(path, ("Values", "Value")), str(path))


def parse_values(document: Mapping[str, Any], origin: str) -> Values:
    """A ``Values`` document, from a file or written inline; ``origin`` is what a message calls it."""
    checked_fields(document, FIELDS, origin)
    resources: dict[tuple[str, str], dict[str, Any]] = {}
    rules: dict[tuple[str, str], dict[str, Any]] = {}
    elements: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for policy in _maps(document, "policies", origin):
        checked_fields(policy, ("name", "resources", "rules"), f"{origin}: policies")
        name = str(policy.get("name", ""))
        for resource in _maps(policy, "resources", origin):
            checked_fields(resource, ("name", "values"), f"{origin}: policies.resources")
            values = _map(resource, "values", origin)
            resources.setdefault((name, str(resource.get("name", ""))), {}).update(values)
        for rule in _maps(policy, "rules", origin):
            checked_fields(rule, ("name", "values", "foreachValues"), f"{origin}: policies.rules")
            key = name, str(rule.get("name", ""))
            rules.setdefault(key, {}).update(_map(rule, "values", origin))
            for variable, given in _map(rule, "foreachValues", origin).items():
                if type(given) is not list:
                    raise Problem(f"{origin}: foreachValues.{variable} is no list (one value for each element)")
                elements.setdefault(key, {})[str(variable)] = given
    labels: dict[str, Mapping[str, str]] = {}
    namespaces: dict[str, Mapping[str, Any]] = {}
    for entry in _maps(document, "namespaceSelector", origin):
        checked_fields(entry, ("name", "labels"), f"{origin}: namespaceSelector")
        labels[str(entry.get("name", ""))] = _labels(entry, origin)
    for namespace in _maps(document, "namespaces", origin):
        metadata = _map(namespace, "metadata", origin)
        labels[str(metadata.get("name", ""))] = _labels(metadata, origin)
        namespaces[str(metadata.get("name", ""))] = namespace
    return Values(
        everywhere=_map(document, "globalValues", origin),
        resources=resources,
        rules=rules,
        elements=elements,
        namespace_labels=labels,
        subresources=tuple(_subresource(s, origin) for s in _maps(document, "subresources", origin)),
        namespaces=namespaces,
    )


def with_assignments(values: Values, assignments: list[str]) -> Values:
    """Adds ``--set name=value`` (several in one text with commas); a value is always a text, as in the reference."""
    assigned: dict[str, str] = {}
    for text in assignments:
        for pair in text.split(","):
            name, sign, value = pair.strip().partition("=")
            if not sign or not name:
                raise Problem(f"--set {text}: expected name=value")
            try:
                split_path(name)
            except RequestError as error:
                raise Problem(f"--set {text}: {error}") from None
            assigned[name] = value
    return replace(values, assigned=assigned)


def operation_of(variables: Mapping[str, Any], default: str = "CREATE") -> str:
    """The operation that the values ask for."""
    operation = variables.get("request.operation", default)
    return operation if operation in OPERATIONS else default


def load_user_info(path: Path | str) -> UserInfo:
    """Reads a ``UserInfo`` file: ``userInfo`` (username, groups, …), ``roles``, ``clusterRoles``."""
    document = read_mapping(path, ("UserInfo",))
    checked_fields(document, ("apiVersion", "kind", "metadata", "userInfo", "roles", "clusterRoles"), str(path))
    user = _map(document, "userInfo", str(path))
    return UserInfo(
        username=str(user.get("username") or ""),
        groups=tuple(map(str, _list(user, "groups", str(path)))),
        roles=tuple(map(str, _list(document, "roles", str(path)))),
        cluster_roles=tuple(map(str, _list(document, "clusterRoles", str(path)))),
        # As in the JSON of a request, what is empty is left out.
        raw={key: value for key, value in user.items() if value},
    )


def _subresource(entry: Mapping[str, Any], origin: str) -> Subresource:
    sub, parent = _map(entry, "subresource", origin), _map(entry, "parentResource", origin)
    name = str(sub.get("name", "")).partition("/")[2]
    if not name:
        raise Problem(f"{origin}: a subresource's name has the form parent/name, as deployments/scale")
    return Subresource(
        str(sub.get("group") or ""),
        str(sub.get("version") or ""),
        str(sub.get("kind") or ""),
        (str(parent.get("group") or ""), str(parent.get("version") or ""), str(parent.get("kind") or "")),
        name,
    )


def checked_fields(document: Mapping[str, Any], fields: tuple[str, ...], origin: str) -> None:
    for key in document:
        if key not in fields:
            raise Problem(f"{origin}: unknown field {key}{_nearest(str(key), fields)}")


def _nearest(name: str, fields: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, fields, 1)
    return f", did you mean {near[0]}" if near else f" (known: {', '.join(fields)})"


def _map(document: Mapping[str, Any], key: str, origin: str) -> dict[str, Any]:
    value = document.get(key)
    if value is None:
        return {}
    if type(value) is not dict:
        raise Problem(f"{origin}: {key} is no map")
    return value


def _list(document: Mapping[str, Any], key: str, origin: str) -> list[Any]:
    value = document.get(key)
    if value is None:
        return []
    if type(value) is not list:
        raise Problem(f"{origin}: {key} is no list")
    return value


def _maps(document: Mapping[str, Any], key: str, origin: str) -> list[dict[str, Any]]:
    values = _list(document, key, origin)
    if any(type(v) is not dict for v in values):
        raise Problem(f"{origin}: {key} holds something that is no map")
    return values


def _labels(document: Mapping[str, Any], origin: str) -> dict[str, str]:
    return {str(k): str(v) for k, v in _map(document, "labels", origin).items()}
