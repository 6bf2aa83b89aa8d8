"""The webhook configurations that follow from the policies in use: exactly their kinds and operations (semantics §24).

:func:`build` is pure: policies, discovery and settings in, objects out. :class:`WebhookConfigController` writes what
differs, keeps it when someone else changes or deletes it, and removes it when nothing is left to watch for.
"""

from __future__ import annotations

import base64
import ipaddress
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from runtime.config import MANAGED_BY, MAXIMUM_TIMEOUT, Settings
from runtime.k8s.client import KubeClient, Object, Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from vm.code import MatchKey

log = logging.getLogger("thesmos.webhooks")

Verb = Literal["validate", "mutate"]

OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")
DEFAULT_OPERATIONS: Final[dict[Verb, tuple[str, ...]]] = {"validate": OPERATIONS, "mutate": ("CREATE", "UPDATE")}
"""Operations of a rule that names none."""

POLICY_RESOURCES: Final = ("clusterpolicies", "policies")
EXCEPTION_RESOURCES: Final = ("policyexceptions",)


@dataclass(frozen=True, slots=True)
class WatchedRule:
    """One computed rule: what it does, the ways to reach it, and the operations that its exclude takes away from all of
    them."""

    verb: Verb
    keys: tuple[MatchKey, ...]
    without: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WatchedPolicy:
    """What the configurations need to know of a live policy. ``timeout`` is in seconds; ``match_conditions`` have
    ``name`` and ``expression``."""

    key: str
    namespaced: bool
    failure_policy: Literal["Fail", "Ignore"]
    timeout: int
    rules: tuple[WatchedRule, ...]
    match_conditions: tuple[Mapping[str, str], ...] = ()

    @property
    def scope(self) -> str:
        """The path below ``/validate/fail/`` of the webhook that a policy with match conditions has for itself."""
        return f"finegrained/{self.key}"


@dataclass(frozen=True, slots=True)
class Configurations:
    """The two objects for resources (None: nothing to watch for), and the kind selectors that no resource meets."""

    validating: Object | None
    mutating: Object | None
    unknown: tuple[str, ...] = ()


def build(policies: Iterable[WatchedPolicy], discovery: Discovery, settings: Settings, ca: bytes) -> Configurations:
    """The configurations for these policies. ``ca`` is the PEM bundle that the API server must trust."""
    policies = tuple(policies)
    unknown: set[str] = set()
    objects: dict[Verb, Object | None] = {}
    for verb in DEFAULT_OPERATIONS:
        webhooks = []
        for failure in ("Ignore", "Fail"):
            chosen = [p for p in policies if _failure(p, settings) == failure]
            shared = [p for p in chosen if not p.match_conditions]
            for group in (shared, *([p] for p in chosen if p.match_conditions)):
                rules = _webhook_rules(group, verb, discovery, unknown)
                if not rules:
                    continue
                timeouts = [p.timeout for p in group if any(r.verb == verb for r in p.rules)]
                timeout = min(max([settings.timeout, *timeouts]), MAXIMUM_TIMEOUT)
                own = group[0] if group is not shared else None
                webhooks.append(_webhook(verb, failure, rules, timeout, settings, ca, own))
        objects[verb] = _configuration(verb, webhooks, settings) if webhooks else None
    return Configurations(objects["validate"], objects["mutate"], tuple(sorted(unknown)))


def policy_configuration(settings: Settings, ca: bytes) -> Object:
    """The configuration by which the API server asks about policies themselves."""
    rule = {
        "apiGroups": ["kyverno.io"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [*POLICY_RESOURCES, *EXCEPTION_RESOURCES],
        "scope": "*",
    }
    webhook = {
        "name": settings.names.webhook("validate-policy"),
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config("/policyvalidate", settings, ca),
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": settings.timeout,
    }
    return _object("ValidatingWebhookConfiguration", settings.names.policy_validating, [webhook])


def client_config(path: str, settings: Settings, ca: bytes) -> dict[str, Any]:
    """Where the API server finds a path: the Service, or a URL when this runs outside the cluster."""
    bundle = base64.b64encode(ca).decode("ascii")
    if settings.server_ip is not None:
        return {"url": f"https://{address(settings.server_ip, settings.port)}{path}", "caBundle": bundle}
    names = settings.names
    service = {"name": names.service, "namespace": names.namespace, "path": path, "port": settings.service_port}
    return {"service": service, "caBundle": bundle}


def address(server: str, port: int) -> str:
    """``host:port`` of a ``--server-ip``, which may have a port of its own and may be an IPv6 address."""
    try:
        ip = ipaddress.ip_address(server.strip("[]"))
    except ValueError:
        return server if ":" in server else f"{server}:{port}"
    return f"[{ip}]:{port}" if ip.version == 6 else f"{ip}:{port}"


def _failure(policy: WatchedPolicy, settings: Settings) -> str:
    return "Ignore" if settings.force_failure_policy_ignore else policy.failure_policy


def _webhook(
    verb: Verb,
    failure: str,
    rules: list[dict[str, Any]],
    timeout: int,
    settings: Settings,
    ca: bytes,
    own: WatchedPolicy | None,
) -> dict[str, Any]:
    """The webhook that policies share, or that a policy with match conditions has for its own."""
    low = failure.lower()
    path, suffix = f"/{verb}/{low}", f"-{low}"
    if own is not None:
        path, suffix = f"{path}/{own.scope}", f"{suffix}-{own.scope.replace('/', '-')}"
    webhook: dict[str, Any] = {
        "name": settings.names.webhook(verb, suffix),
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config(path, settings, ca),
        "failurePolicy": failure,
        "matchPolicy": "Equivalent",
        "namespaceSelector": _namespace_selector(settings),
        "objectSelector": {},
        "rules": rules,
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": timeout,
    }
    if own is not None:
        webhook["matchConditions"] = [dict(c) for c in own.match_conditions]
    if verb == "mutate":
        webhook["reinvocationPolicy"] = "IfNeeded"
    return webhook


def _namespace_selector(settings: Settings) -> dict[str, Any]:
    """The API server must come up, and Thesmos itself, when Thesmos is down: their namespaces are left alone."""
    values = sorted({"kube-system", settings.names.namespace})
    return {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": values}]}


def _configuration(verb: Verb, webhooks: list[dict[str, Any]], settings: Settings) -> Object:
    if verb == "validate":
        return _object("ValidatingWebhookConfiguration", settings.names.resource_validating, webhooks)
    return _object("MutatingWebhookConfiguration", settings.names.resource_mutating, webhooks)


def _object(kind: str, name: str, webhooks: list[dict[str, Any]]) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {MANAGED_BY: "kyverno"}},
        "webhooks": webhooks,
    }


Target = tuple[str, str, str]
"""Group, version and scope of a webhook rule."""


def _webhook_rules(
    policies: Sequence[WatchedPolicy], verb: Verb, discovery: Discovery, unknown: set[str]
) -> list[dict[str, Any]]:
    """Webhook rules of all policies: one for each group, version, scope and set of operations, resources joined."""
    operations: dict[Target, dict[str, set[str]]] = {}
    for policy in policies:
        for rule in policy.rules:
            if rule.verb != verb:
                continue
            for key in rule.keys:
                wanted = set(key.operations or DEFAULT_OPERATIONS[verb]) - rule.without
                if not wanted:
                    continue
                targets = list(_targets(key, policy.namespaced, discovery))
                if not targets:
                    unknown.add(_selector_text(key))
                for target, resource in targets:
                    operations.setdefault(target, {}).setdefault(resource, set()).update(wanted)
    _drop_covered(operations)
    grouped: dict[tuple[Target, tuple[str, ...]], list[str]] = {}
    for target, resources in operations.items():
        for resource, wanted in resources.items():
            ordered = tuple(o for o in OPERATIONS if o in wanted)
            grouped.setdefault((target, ordered), []).append(resource)
    return [
        {
            "apiGroups": [group],
            "apiVersions": [version],
            "operations": list(ordered),
            "resources": sorted(resources),
            "scope": scope,
        }
        for ((group, version, scope), ordered), resources in sorted(grouped.items())
    ]


def _targets(key: MatchKey, namespaced: bool, discovery: Discovery) -> Iterable[tuple[Target, str]]:
    selector = key.kind
    if selector.kind == "*":
        parts = ["*", "*/*"] if selector.subresource == "*" else [f"*/{selector.subresource}"]
        for resource in parts if selector.subresource else ["*"]:
            yield (selector.group, selector.version, "Namespaced" if namespaced else "*"), resource
        return
    for entry in discovery.find(selector.group, selector.version, selector.kind, selector.subresource):
        if namespaced and not entry.resource.namespaced:
            continue
        yield _target(entry), entry.rule_name
        if entry.resource.group == "" and entry.rule_name == "pods":
            # Rules on Pods speak for containers that are added to a running Pod too.
            yield _target(entry), "pods/ephemeralcontainers"


def _target(entry: Entry) -> Target:
    resource = entry.resource
    return resource.group, resource.version, "Namespaced" if resource.namespaced else "Cluster"


def _drop_covered(operations: dict[Target, dict[str, set[str]]]) -> None:
    """Takes out what a wildcard entry asks for anyway."""
    everything: set[str] = set()
    for target, resources in operations.items():
        if target == ("*", "*", "*"):
            everything |= resources.get("*", set())
    for target, resources in list(operations.items()):
        own = resources.get("*", set())
        for resource, wanted in list(resources.items()):
            if resource == "*" or "/" in resource:
                continue
            if wanted <= own or wanted <= everything:
                del resources[resource]
        if not resources:
            del operations[target]


def _selector_text(key: MatchKey) -> str:
    kind = key.kind
    parts = [p for p in (kind.group, kind.version) if p not in ("", "*")] + [kind.kind, kind.subresource]
    return "/".join(p for p in parts if p)


class WebhookConfigController:
    """Brings the configurations of the cluster to what :func:`build` says."""

    def __init__(self, client: KubeClient, settings: Settings) -> None:
        self._client = client
        self._settings = settings

    async def ensure(self, wanted: Configurations, ca: bytes) -> None:
        """Creates, replaces or deletes; writes nothing when all is as it should be. Raises the errors of the client."""
        names = self._settings.names
        await self._bring(VALIDATING_WEBHOOKS, names.policy_validating, policy_configuration(self._settings, ca))
        await self._bring(VALIDATING_WEBHOOKS, names.resource_validating, wanted.validating)
        await self._bring(MUTATING_WEBHOOKS, names.resource_mutating, wanted.mutating)

    async def remove(self) -> None:
        """Takes all of them away: nobody is left to answer."""
        names = self._settings.names
        await self._client.delete(MUTATING_WEBHOOKS, names.resource_mutating)
        await self._client.delete(VALIDATING_WEBHOOKS, names.resource_validating)
        await self._client.delete(VALIDATING_WEBHOOKS, names.policy_validating)

    async def _bring(self, resource: Resource, name: str, wanted: Object | None) -> None:
        try:
            current: Object | None = await self._client.get(resource, name)
        except ApiProblem as problem:
            if not problem.missing:
                raise
            current = None
        if wanted is None:
            if current is not None:
                await self._client.delete(resource, name)
                log.info("removed %s: no policy needs it", name)
            return
        try:
            if current is None:
                await self._client.create(resource, wanted)
                log.info("created %s", name)
            elif not same(current, wanted):
                version = current["metadata"]["resourceVersion"]
                await self._client.replace(
                    resource, {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
                )
                log.info("updated %s", name)
        except ApiProblem as problem:
            # Another replica wrote at the same time, and the same: the watch brings us back if it was not.
            if not problem.conflict:
                raise


def same(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether an object of the cluster says what we want: webhooks equal, our labels there."""
    labels = (current.get("metadata") or {}).get("labels") or {}
    if any(labels.get(k) != v for k, v in wanted["metadata"]["labels"].items()):
        return False
    return bool(current.get("webhooks") == wanted["webhooks"])
