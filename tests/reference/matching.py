"""Which resources a rule is about: match and exclude, kind selectors, label selectors (semantics §11)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tests.reference.scalars import has_wildcard, wildcard


@dataclass(frozen=True)
class Subject:
    """A resource in its request."""

    resource: dict[str, Any]
    operation: str = "CREATE"
    user: dict[str, Any] | None = None  # None: background mode, no admission information
    namespace_labels: dict[str, str] | None = None
    subresource: str = ""
    asked_kind: tuple[str, str, str] | None = None  # of the request, where the object has another
    gvk: tuple[str, str, str] = field(init=False)

    def __post_init__(self) -> None:
        if self.asked_kind is not None:
            object.__setattr__(self, "gvk", self.asked_kind)
            return
        group, _, version = str(self.resource.get("apiVersion", "")).rpartition("/")
        object.__setattr__(self, "gvk", (group, version, str(self.resource.get("kind", ""))))

    @property
    def metadata(self) -> dict[str, Any]:
        metadata = self.resource.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def namespace(self) -> str:
        return str(self.metadata.get("namespace") or "")


def rule_applies(rule: dict[str, Any], subject: Subject) -> bool:
    match = rule.get("match") or {}
    if not block_matches(match, subject, in_match=True):
        return False
    exclude = rule.get("exclude")
    return not (exclude and block_matches(exclude, subject, in_match=False))


def block_matches(block: dict[str, Any], subject: Subject, *, in_match: bool) -> bool:
    if block.get("any"):
        return any(_filter(f, subject, in_match) for f in block["any"])
    if block.get("all"):
        return all(_filter(f, subject, in_match) for f in block["all"])
    return _filter(block, subject, in_match)


def _filter(entry: dict[str, Any], subject: Subject, in_match: bool) -> bool:
    resources = dict(entry.get("resources") or {})
    if "operations" in entry:  # the guide's form: beside resources
        resources.setdefault("operations", entry["operations"])
    users = {k: entry[k] for k in ("roles", "clusterRoles", "subjects") if entry.get(k)}
    if in_match and subject.user is None:
        users = {}
    checks = [
        _attribute(name, wanted, subject) for name, wanted in resources.items() if wanted not in (None, [], {}, "")
    ]
    checks += [_user(name, wanted, subject.user or {}) for name, wanted in users.items()]
    return bool(checks) and all(checks)


def _attribute(name: str, wanted: Any, subject: Subject) -> bool:
    metadata = subject.metadata
    match name:
        case "operations":
            return subject.operation in wanted
        case "kinds":
            return any(kind_matches(k, subject.gvk, subject.subresource) for k in wanted)
        case "name" | "names":
            given = metadata.get("name") or metadata.get("generateName") or ""
            return any(wildcard(n, given) for n in ([wanted] if name == "name" else wanted))
        case "namespaces":
            where = metadata.get("name", "") if subject.gvk[2] == "Namespace" else subject.namespace
            return any(wildcard(n, where or "") for n in wanted)
        case "annotations" | "labels":
            actual = metadata.get(name) or {}
            return all(
                any(wildcard(k, ak) and wildcard(str(v), str(av)) for ak, av in actual.items())
                for k, v in wanted.items()
            )
        case "selector":
            return selector_matches(wanted, metadata.get("labels") or {})
        case "namespaceSelector":
            if subject.gvk[2] == "Namespace":
                return False
            return selector_matches(wanted, subject.namespace_labels or {})
        case "excludeResources":
            return not _filter({"resources": wanted}, subject, in_match=False)
    raise ValueError(f"a filter attribute that is none: {name}")


def _user(name: str, wanted: Any, user: dict[str, Any]) -> bool:
    if name in ("roles", "clusterRoles"):
        return bool(set(wanted) & set(user.get(name) or []))
    info = user.get("userInfo") or user
    for one in wanted:
        match one.get("kind"):
            case "User" if wildcard(one["name"], info.get("username") or ""):
                return True
            case "Group" if any(wildcard(one["name"], g) for g in info.get("groups") or []):
                return True
            case "ServiceAccount":
                account = f"system:serviceaccount:{one.get('namespace', '')}:{one['name']}"
                if wildcard(account, info.get("username") or ""):
                    return True
    return False


def kind_matches(selector: str, gvk: tuple[str, str, str], subresource: str = "") -> bool:
    group, version, kind, sub = parse_kind(selector)
    if not (wildcard(group, gvk[0]) and wildcard(version, gvk[1]) and wildcard(kind, gvk[2])):
        return False
    return wildcard(sub, subresource) or (gvk[2] == "Pod" and sub == "" and subresource == "ephemeralcontainers")


def _is_version(text: str) -> bool:
    return text == "*" or re.fullmatch(r"v\d+((alpha|beta)\d+)?", text) is not None


def parse_kind(selector: str) -> tuple[str, str, str, str]:
    """Group, version, kind, subresource."""
    parts = selector.split("/")
    parts = [*parts[:-1], *parts[-1].split(".", 1)]
    match parts:
        case [kind]:
            return "*", "*", kind, ""
        case ["*", "*"]:
            return "*", "*", "*", "*"
        case ["*", second] if second[:1].islower():
            return "*", "*", "*", second
        case [first, second] if _is_version(first):
            return "*", first, second, ""
        case [first, second]:
            return "*", "*", first, second
        case [first, second, third] if _is_version(first):
            return "*", first, second, third
        case [first, second, third]:
            return first, second, third, ""
        case [group, version, kind, sub]:
            return group, version, kind, sub
    return "", "", "", ""


_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


def selector_matches(selector: dict[str, Any], labels: dict[str, Any]) -> bool:
    for key, value in (selector.get("matchLabels") or {}).items():
        value = str(value)
        if has_wildcard(key) or has_wildcard(value):
            found = next(
                ((k, labels[k]) for k in sorted(labels) if wildcard(key, k) and wildcard(value, str(labels[k]))), None
            )
            if found is None:
                found = tuple(re.sub(r"[*?]", "0", part) for part in (key, value))  # type: ignore[assignment]
            key, value = found  # type: ignore[misc]
        if not _LABEL_VALUE.fullmatch(value) or labels.get(key) != value:
            return False
    return all(_expression(e, labels) for e in selector.get("matchExpressions") or [])


def _expression(expression: dict[str, Any], labels: dict[str, Any]) -> bool:
    key, values = expression.get("key"), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return bool(values) and key in labels and labels[key] in values
        case "NotIn":
            return bool(values) and not (key in labels and labels[key] in values)
        case "Exists":
            return not values and key in labels
        case "DoesNotExist":
            return not values and key not in labels
    return False
