"""The ConfigMap of an installation as one frozen value: which objects and users policies are not asked about, what the
webhook configurations carry, and limits.

``runtime.controllers.cluster`` watches the ConfigMap and hands each form to :func:`parse`; admission and the scans ask
the value that is current. Keys and their meaning are Kyverno's (features g.2).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from runtime.request import Request
from vm.code import KindKey
from vm.intrinsics.quantity import NANO, parse_quantity
from vm.intrinsics.wildcard import match, matcher

log = logging.getLogger("thesmos.config")

_ENTRY: Final = re.compile(r"\[([^\[\]]*)\]")
_REGISTRY: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?")
_MOST_PLACES: Final = 8192
"""Kinds in namespaces of which is kept what filters speak of them; requests name them."""
Test = Callable[[str], bool]
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Filter:
    """One ``[kind,namespace,name]``: every part may hold wildcards."""

    kind: KindKey
    namespace: str
    name: str

    def of_kind(self, key: KindKey) -> bool:
        """Whether it speaks of a kind at all."""
        wanted = self.kind
        return (
            match(wanted.kind, key.kind)
            and match(wanted.subresource, key.subresource)
            and match(wanted.group, key.group)
            and match(wanted.version, key.version)
        )


@dataclass(frozen=True, slots=True)
class Users:
    """Patterns for who asks."""

    usernames: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    cluster_roles: tuple[str, ...] = ()

    def match(self, username: str, groups: Sequence[str], roles: Sequence[str], cluster_roles: Sequence[str]) -> bool:
        return (
            _any(self.usernames, (username,))
            or _any(self.groups, groups)
            or _any(self.roles, roles)
            or _any(self.cluster_roles, cluster_roles)
        )

    @property
    def empty(self) -> bool:
        return not (self.usernames or self.groups or self.roles or self.cluster_roles)


@dataclass(frozen=True, slots=True)
class Webhooks:
    """What the webhooks for resources carry. A selector is None where the ConfigMap does not say."""

    namespace_selector: Mapping[str, Any] | None = None
    object_selector: Mapping[str, Any] | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    match_conditions: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """``update_request_threshold``: update requests that may wait at most; more are not made (semantics §19).

    ``registry`` is put before images that name none, None where the ConfigMap leaves it to the flags; empty: they stay
    without. ``success_actions`` are the actions whose success is told of where ``success_events`` is set; None: of
    all. ``context_bytes`` is what a rule may load, None where the flags say. ``problems`` are the keys that could not
    be read, a line each.
    """

    filters: tuple[Filter, ...] = ()
    excluded: Users = field(default_factory=Users)
    included: Users = field(default_factory=Users)
    webhooks: Webhooks = field(default_factory=Webhooks)
    registry: str | None = None
    success_events: bool = False
    success_actions: frozenset[str] | None = None
    update_request_threshold: int = 1000
    context_bytes: int | None = None
    problems: tuple[str, ...] = ()
    _in_place: dict[tuple[str, str, str, str, str], tuple[Test, ...]] = field(default_factory=dict, compare=False)

    def filters_out(self, group: str, version: str, kind: str, subresource: str, namespace: str, name: str) -> bool:
        """Whether policies are not asked about an object. A cluster-wide object has namespace ""."""
        place = (group, version, kind, subresource, namespace)
        found = self._in_place.get(place)
        if found is None:
            # Which filters speak of a place is found once: two dozen take longer to ask than a policy.
            if len(self._in_place) >= _MOST_PLACES:
                self._in_place.clear()
            found = self._in_place[place] = self._tests(KindKey(group, version, kind, subresource), namespace)
        return bool(found) and any(named(name) for named in found)

    def _tests(self, kind: KindKey, namespace: str) -> tuple[Test, ...]:
        """Tests for the names that filters name in a place."""
        of_kind = [f for f in self.filters if f.of_kind(kind)]
        tests = [matcher(f.name) for f in of_kind if match(f.namespace, namespace)]
        if (kind.group, kind.version, kind.kind) == ("", "v1", "Namespace"):
            # A filter for all of a namespace is one for the Namespace itself (Kyverno).
            tests += [matcher(f.namespace) for f in of_kind]
        return tuple(tests)

    def excludes(
        self, username: str, groups: Sequence[str], roles: Sequence[str], cluster_roles: Sequence[str]
    ) -> bool:
        """Whether policies are not asked about what a user does: excluded, and not included again with ``!``."""
        return self.excluded.match(username, groups, roles, cluster_roles) and not self.included.match(
            username, groups, roles, cluster_roles
        )

    def passes(self, request: Request) -> bool:
        """Whether a request is admitted without asking policies: the first two entry filters of semantics §23."""
        if not self.excluded.empty:
            asked = request.root["request"]
            user = asked.get("userInfo")
            user = user if type(user) is dict else {}
            groups = user.get("groups")
            roles, cluster_roles = asked.get("roles") or (), asked.get("clusterRoles") or ()
            if self.excludes(str(user.get("username") or ""), _texts(groups), roles, cluster_roles):
                return True
        if not self.filters:
            return False
        r = request
        return self.filters_out(r.group, r.version, r.kind, r.subresource, r.namespace, r.name)

    def tells_of(self, action: str) -> bool:
        """Whether an event tells of the success of an action."""
        return self.success_events and (self.success_actions is None or action in self.success_actions)


def parse(config_map: Mapping[str, Any] | None) -> ClusterConfig:
    """The settings of a ConfigMap; those of none when it is not there. What cannot be read is passed over and told."""
    data = (config_map or {}).get("data") or {}
    problems: list[str] = []
    filters = tuple(_filters(str(data.get("resourceFilters") or ""), problems))
    keys = ("excludeUsernames", "excludeGroups", "excludeRoles", "excludeClusterRoles")
    sides = [_sides(str(data.get(key) or "")) for key in keys]
    actions = _list(str(data.get("successEventActions") or ""))
    return ClusterConfig(
        filters,
        Users(*(out for out, _ in sides)),
        Users(*(back for _, back in sides)),
        _webhooks(data, problems),
        _registry(data, problems),
        _boolean(data, "generateSuccessEvents", False, problems),
        frozenset(actions) if actions else None,
        _number(data, "updateRequestThreshold", problems) or 1000,
        _bytes(data, "maxContextSize", problems),
        tuple(problems),
    )


def _filters(text: str, problems: list[str]) -> Iterable[Filter]:
    from compiler.frontends.pattern.kinds import parse_kind

    for found in _ENTRY.findall(text):
        parts = [part.strip() for part in found.split(",")]
        kind = parse_kind(parts[0]) if len(parts) <= 3 else None
        if kind is None:
            problems.append(f"resourceFilters: [{found}] is no [kind,namespace,name]")
            continue
        if len(parts) < 3:
            # As Kyverno has it; whoever writes [Event] means all of them and gets none.
            problems.append(
                f"resourceFilters: [{found}] matches only objects without a namespace or name, write [{parts[0]},*,*]"
            )
        key = KindKey(kind.group, kind.version, kind.kind, kind.subresource)
        yield Filter(key, *[*parts[1:], "", ""][:2])


def _sides(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Patterns that exclude, and those with ``!`` that include again."""
    parts = _list(text)
    back = tuple(p[1:].strip() for p in parts if p.startswith("!") and p[1:].strip())
    return tuple(p for p in parts if not p.startswith("!")), back


def _webhooks(data: Mapping[str, Any], problems: list[str]) -> Webhooks:
    given = _json(data, "webhooks", problems)
    # A list was the form of earlier versions: only its first entry ever counted.
    first = given[0] if isinstance(given, list) and given else given
    if first is not None and not isinstance(first, dict):
        problems.append("webhooks: neither an object nor a list of objects")
        first = None
    selectors = [_selector(first, key, problems) for key in ("namespaceSelector", "objectSelector")]
    conditions = _json(data, "matchConditions", problems)
    if conditions is not None and not (isinstance(conditions, list) and all(map(_is_condition, conditions))):
        problems.append("matchConditions: no list of objects with name and expression")
        conditions = None
    return Webhooks(
        selectors[0],
        selectors[1],
        _text_map(data, "webhookAnnotations", problems),
        _text_map(data, "webhookLabels", problems),
        tuple({"name": c["name"], "expression": c["expression"]} for c in conditions or ()),
    )


def _selector(webhook: Mapping[str, Any] | None, key: str, problems: list[str]) -> Mapping[str, Any] | None:
    selector = (webhook or {}).get(key)
    if selector is None or isinstance(selector, dict):
        return selector
    problems.append(f"webhooks: {key} is no label selector")
    return None


def _is_condition(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(k), str) and value[k] for k in ("name", "expression"))


def _registry(data: Mapping[str, Any], problems: list[str]) -> str | None:
    if not _boolean(data, "enableDefaultRegistryMutation", True, problems):
        return ""
    name = data.get("defaultRegistry")
    if name is None or _REGISTRY.fullmatch(str(name)):
        return None if name is None else str(name)
    problems.append(f"defaultRegistry: {str(name)[:100]!r} is no host name")
    return None


def _boolean(data: Mapping[str, Any], key: str, default: bool, problems: list[str]) -> bool:
    text = data.get(key)
    if text is None:
        return default
    match str(text).strip().lower():
        case "true" | "t" | "1":
            return True
        case "false" | "f" | "0":
            return False
    problems.append(f"{key}: {str(text)[:100]!r} is neither true nor false")
    return default


def _number(data: Mapping[str, Any], key: str, problems: list[str]) -> int | None:
    text = data.get(key)
    if text is None or (str(text).isdigit() and int(text) > 0):
        return None if text is None else int(text)
    problems.append(f"{key}: {str(text)[:100]!r} is no number above 0")
    return None


def _bytes(data: Mapping[str, Any], key: str, problems: list[str]) -> int | None:
    text = data.get(key)
    if text is None:
        return None
    quantity = parse_quantity(str(text))
    if quantity is not None and quantity.nano >= NANO:
        return quantity.nano // NANO
    problems.append(f"{key}: {str(text)[:100]!r} is no size such as 2Mi")
    return None


def _text_map(data: Mapping[str, Any], key: str, problems: list[str]) -> Mapping[str, str]:
    given = _json(data, key, problems)
    if given is None:
        return {}
    if isinstance(given, dict) and all(isinstance(v, str) for v in given.values()):
        return given
    problems.append(f"{key}: no map of texts")
    return {}


def _json(data: Mapping[str, Any], key: str, problems: list[str]) -> Any:
    text = data.get(key)
    if text is None or not str(text).strip():
        return None
    try:
        return orjson.loads(str(text))
    except orjson.JSONDecodeError as error:
        problems.append(f"{key}: no JSON: {str(error).lower()}")
        return None


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(v for v in value if type(v) is str) if isinstance(value, list) else ()


def _any(patterns: Sequence[str], texts: Sequence[str]) -> bool:
    return bool(patterns) and any(match(pattern, text) for pattern in patterns for text in texts)
