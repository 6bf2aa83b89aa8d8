"""The webhook configurations that follow from the policies in use: exactly their kinds and operations (semantics §24).

:func:`build` is pure: policies, discovery and settings in, objects out. :class:`WebhookConfigController` writes what
differs, keeps it when someone else changes or deletes it, and removes all of it with the installation.
"""

from __future__ import annotations

import base64
import ipaddress
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from runtime.config import MANAGED_BY, MAXIMUM_TIMEOUT, Names, Settings
from runtime.controllers.clusterconfig import NAMESPACE_LABEL, Webhooks
from runtime.controllers.ownwebhooks import own_names, own_webhooks
from runtime.controllers.webhookrules import DEFAULT_OPERATIONS, EVERYWHERE, Verb, WatchedRule, asked_by, webhook_rules
from runtime.k8s.client import KubeClient, Object, Resource
from runtime.k8s.discovery import Discovery
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import CLUSTER_ROLE, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS

__all__ = ["Configurations", "WatchedPolicy", "WatchedRule", "WebhookConfigController", "build"]

log = logging.getLogger("thesmos.webhooks")

MOST_MENDS: Final = 20

_EVER: Final = tuple(
    f"{what}-{how}"
    for what in ("resource", "policy", "verify", "exception", "cel-exception", "global-context", "cleanup", "ttl")
    for how in ("validating", "mutating")
)
"""Configurations that this or another version of Kyverno has had. Names are not guessed by their beginning: another
installation may have a name that begins with ours."""

_REPORT_GROUPS: Final = ("openreports.io", "reports.kyverno.io", "wgpolicyk8s.io")
_OWN_GROUPS: Final = frozenset(["*", "kyverno.io", *_REPORT_GROUPS])


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
    """The two objects for resources, the kind selectors that no resource meets, and the objects that do not depend on
    policies. An object without webhooks stays: tools look for its name."""

    validating: Object
    mutating: Object
    unknown: tuple[str, ...] = ()
    own: tuple[tuple[Resource, Object], ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """What all webhooks of an installation share: settings, the PEM bundle that the API server must trust, what the
    ConfigMap says, and the owner with which the configurations go (None: nobody)."""

    settings: Settings
    ca: bytes
    webhooks: Webhooks = field(default_factory=Webhooks)
    owner: Mapping[str, Any] | None = None

    def client_config(self, path: str) -> dict[str, Any]:
        """Where the API server finds a path."""
        return client_config(path, self.settings, self.ca)


def build(
    policies: Iterable[WatchedPolicy],
    discovery: Discovery,
    settings: Settings,
    ca: bytes,
    config: Webhooks | None = None,
    *,
    reachable: bool = True,
    owner: Mapping[str, Any] | None = None,
) -> Configurations:
    """The configurations for these policies. Where the webhooks cannot be reached, nothing is asked."""
    frame = Frame(settings, ca, config or Webhooks(), owner)
    policies = tuple(policies) if reachable else ()
    unknown: set[str] = set()
    objects: dict[Verb, Object] = {}
    for verb in DEFAULT_OPERATIONS:
        webhooks = _everything(verb, frame) if not settings.auto_update_webhooks else []
        for failure in ("Ignore", "Fail") if settings.auto_update_webhooks else ():
            chosen = [p for p in policies if _failure(p, settings) == failure]
            shared = [p for p in chosen if not p.match_conditions]
            for group in (shared, *([p] for p in chosen if p.match_conditions)):
                asked = [a for p in group for a in asked_by(p.rules, p.namespaced, verb, discovery, unknown)]
                rules = webhook_rules(asked)
                if not rules:
                    continue
                timeouts = [p.timeout for p in group if any(r.verb == verb for r in p.rules)]
                timeout = min(max([settings.timeout, *timeouts]), MAXIMUM_TIMEOUT)
                own = group[0] if group is not shared else None
                webhooks.append(_webhook(verb, failure, rules, timeout, frame, own))
        # Kyverno's order: what is shared, then what policies have for their own.
        webhooks.sort(key=lambda w: "finegrained" in w["name"])
        objects[verb] = _configuration(verb, webhooks, frame)
    fixed = [] if settings.shadow else own_configurations(frame)
    fixed.append((MUTATING_WEBHOOKS, verify_configuration(frame)))
    return Configurations(objects["validate"], objects["mutate"], tuple(sorted(unknown)), tuple(fixed))


def own_configurations(frame: Frame) -> list[tuple[Resource, Object]]:
    """The configurations by which the API server asks about Thesmos' own kinds."""
    return [
        (resource, _object(resource.kind, name, webhooks, frame))
        for resource, name, webhooks in own_webhooks(frame.settings, frame.client_config)
    ]


def verify_configuration(frame: Frame) -> Object:
    """The configuration by which a change of the health Lease calls the webhooks (``runtime.controllers.watchdog``)."""
    webhook = {
        "name": frame.settings.names.webhook("monitor-webhooks"),
        "admissionReviewVersions": ["v1"],
        "clientConfig": frame.client_config("/verifymutate"),
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: frame.settings.names.namespace}},
        "objectSelector": {"matchLabels": {"app.kubernetes.io/name": "kyverno"}},
        "reinvocationPolicy": "IfNeeded",
        "rules": [
            {
                "apiGroups": ["coordination.k8s.io"],
                "apiVersions": ["v1"],
                "operations": ["UPDATE"],
                "resources": ["leases"],
                "scope": "*",
            }
        ],
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": frame.settings.timeout,
    }
    return _object("MutatingWebhookConfiguration", frame.settings.names.verifying, [webhook], frame)


async def owner_of(client: KubeClient, names: Names) -> Object | None:
    """The reference to the ClusterRole of the installation, with which its configurations go when it is uninstalled;
    None where there is none, or it may not be read. Raises the other errors of the client."""
    try:
        role = await client.get(CLUSTER_ROLE, names.install)
    except ApiProblem as problem:
        if problem.code in (403, 404):
            return None
        raise
    uid = role["metadata"].get("uid")
    return {"apiVersion": CLUSTER_ROLE.api_version, "kind": CLUSTER_ROLE.kind, "name": names.install, "uid": uid}


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


def _everything(verb: Verb, frame: Frame) -> list[dict[str, Any]]:
    """Webhooks that ask about all there is (``--autoUpdateWebhooks=false``)."""
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": list(DEFAULT_OPERATIONS[verb]),
        "resources": ["*/*"],
        "scope": EVERYWHERE,
    }
    return [_webhook(verb, failure, [rule], frame.settings.timeout, frame, None) for failure in ("Ignore", "Fail")]


def _webhook(
    verb: Verb,
    failure: str,
    rules: list[dict[str, Any]],
    timeout: int,
    frame: Frame,
    own: WatchedPolicy | None,
) -> dict[str, Any]:
    """The webhook that policies share, or that a policy with match conditions has for its own."""
    low = failure.lower()
    path, suffix = f"/{verb}/{low}", f"-{low}"
    if own is not None:
        path, suffix = f"{path}/{own.scope}", f"{suffix}-{own.scope.replace('/', '-')}"
    selector = frame.webhooks.object_selector
    webhook: dict[str, Any] = {
        "name": frame.settings.names.webhook(verb, suffix),
        "admissionReviewVersions": ["v1"],
        "clientConfig": frame.client_config(path),
        "failurePolicy": failure,
        "matchPolicy": "Equivalent",
        "namespaceSelector": _namespace_selector(frame),
        "objectSelector": dict(selector) if selector is not None else {},
        "rules": rules,
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": timeout,
    }
    conditions = [dict(c) for c in (frame.webhooks.match_conditions if own is None else own.match_conditions)]
    if failure == "Fail":
        conditions += _repairable(rules, frame.settings)
    if conditions:
        webhook["matchConditions"] = conditions
    if verb == "mutate":
        webhook["reinvocationPolicy"] = "IfNeeded"
    return webhook


def _namespace_selector(frame: Frame) -> dict[str, Any]:
    """The API server must come up, and Thesmos itself, when Thesmos is down: their namespaces are left alone. What the
    ConfigMap says takes the place of the first; the namespace of the installation is always left alone."""
    given = frame.webhooks.namespace_selector
    selector = dict(given) if given is not None else {"matchExpressions": [_without("kube-system")]}
    expressions = [dict(e) for e in selector.get("matchExpressions") or () if isinstance(e, dict)]
    own = frame.settings.names.namespace
    if not any(_leaves_out(e, own) for e in expressions):
        expressions.append(_without(own))
    return {**selector, "matchExpressions": expressions}


def _without(namespace: str) -> dict[str, Any]:
    return {"key": NAMESPACE_LABEL, "operator": "NotIn", "values": [namespace]}


def _leaves_out(expression: Mapping[str, Any], namespace: str) -> bool:
    key, operator, values = (expression.get(k) for k in ("key", "operator", "values"))
    return key == NAMESPACE_LABEL and operator == "NotIn" and namespace in (values or ())


def _repairable(rules: Sequence[Mapping[str, Any]], settings: Settings) -> list[dict[str, str]]:
    """Conditions under which a webhook that fails closed is asked: not where its answer would lock people out.

    A webhook for every kind would else refuse, while nobody answers, the removal of the very policy that asks for it,
    the mend of Thesmos' own definitions and roles, and the heartbeats of nodes, so that no Pod of Thesmos could start
    again. Policies say nothing about Thesmos' own kinds anyway (semantics §23).
    """
    conditions = []
    if any(not _OWN_GROUPS.isdisjoint(rule["apiGroups"]) for rule in rules):
        name = settings.names.install
        groups = ", ".join(f'"{g}"' for g in _REPORT_GROUPS)
        spared = (
            f"request.resource.group in [{groups}]",
            'request.resource.group == "kyverno.io" && '
            'request.resource.resource in ["clusterpolicies", "policies", "updaterequests"]',
            'request.resource.group == "apiextensions.k8s.io" && '
            'has(request.name) && request.name.endsWith(".kyverno.io")',
            'request.resource.group == "rbac.authorization.k8s.io" && has(request.name) && '
            f'(request.name == "{name}" || request.name.startsWith("{name}:"))',
            'request.resource.group == "coordination.k8s.io" && '
            'has(request.namespace) && request.namespace == "kube-node-lease"',
        )
        expression = "!(" + " || ".join(f"({one})" for one in spared) + ")"
        conditions.append({"name": "kyverno-exclude-own-resources", "expression": expression})
    if settings.exclude_bootstrap:
        expression = (
            '!(request.resource.group == "" && request.resource.resource == "nodes") && '
            '!(request.resource.group == "certificates.k8s.io" && '
            'request.resource.resource == "certificatesigningrequests")'
        )
        conditions.append({"name": "kyverno-exclude-bootstrap-resources", "expression": expression})
    return conditions


def _configuration(verb: Verb, webhooks: list[dict[str, Any]], frame: Frame) -> Object:
    names = frame.settings.names
    if verb == "validate":
        return _object("ValidatingWebhookConfiguration", names.resource_validating, webhooks, frame)
    return _object("MutatingWebhookConfiguration", names.resource_mutating, webhooks, frame)


def _object(kind: str, name: str, webhooks: list[dict[str, Any]], frame: Frame) -> Object:
    metadata: dict[str, Any] = {"name": name, "labels": {**frame.webhooks.labels, MANAGED_BY: "kyverno"}}
    if frame.webhooks.annotations:
        metadata["annotations"] = dict(frame.webhooks.annotations)
    if frame.owner is not None:
        metadata["ownerReferences"] = [dict(frame.owner)]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "webhooks": webhooks,
    }


class WebhookConfigController:
    """Brings the configurations of the cluster to what :func:`build` says."""

    def __init__(self, client: KubeClient, settings: Settings) -> None:
        self.mends: deque[float] = deque(maxlen=MOST_MENDS)
        """When something was put back that was wanted as it was: readings of ``time.monotonic``."""
        self._client = client
        self._settings = settings
        self._written: dict[str, Object] = {}

    async def ensure(self, wanted: Configurations) -> None:
        """Creates or replaces; writes nothing when all is as it should be. Raises the errors of the client."""
        for resource, own in wanted.own:
            await self.bring(resource, own)
        once = not self._settings.auto_update_webhooks
        await self.bring(VALIDATING_WEBHOOKS, wanted.validating, once=once)
        await self.bring(MUTATING_WEBHOOKS, wanted.mutating, once=once)

    async def sweep(self, wanted: Configurations) -> None:
        """Removes configurations of this installation's name that another version left: what they ask for nobody
        answers any more. Raises the errors of the client."""
        kept = {obj["metadata"]["name"] for _, obj in wanted.own}
        kept |= {wanted.validating["metadata"]["name"], wanted.mutating["metadata"]["name"]}
        known = {f"{self._settings.names.install}-{what}-webhook-cfg" for what in _EVER}
        for resource in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS):
            for item in (await self._client.list(resource, "", {"labelSelector": f"{MANAGED_BY}=kyverno"}))["items"]:
                name = str(item["metadata"]["name"])
                ours = (item["metadata"].get("labels") or {}).get(MANAGED_BY) == "kyverno"
                if ours and name in known and name not in kept:
                    await self._client.delete(resource, name)
                    log.info("removed %s, which another version left", name)

    async def remove(self) -> None:
        """Takes all of them away: nobody is left to answer."""
        names = self._settings.names
        await self._client.delete(MUTATING_WEBHOOKS, names.resource_mutating)
        await self._client.delete(VALIDATING_WEBHOOKS, names.resource_validating)
        for resource, name in own_names(self._settings):
            await self._client.delete(resource, name)
        await self._client.delete(MUTATING_WEBHOOKS, names.verifying)

    async def bring(self, resource: Resource, wanted: Object, *, once: bool = False) -> None:
        """Makes one object as it should be. ``once``: one that is there already is left as it is, but for the bundle
        without which nobody could be asked."""
        name = wanted["metadata"]["name"]
        try:
            current: Object | None = await self._client.get(resource, name)
        except ApiProblem as problem:
            if not problem.missing:
                raise
            current = None
        try:
            if current is None:
                await self._client.create(resource, wanted)
                log.info("created %s", name)
            else:
                made = _with_bundle(current, wanted) if once else _over(current, wanted)
                if made == current:
                    return
                await self._client.replace(resource, made)
                log.info("updated %s", name)
            if self._written.get(name) == wanted:
                self.mends.append(time.monotonic())
            self._written[name] = wanted
        except ApiProblem as problem:
            # Another replica wrote at the same time, and the same: the watch brings us back if it was not.
            if not problem.conflict:
                raise


def _over(current: Object, wanted: Object) -> Object:
    """The object of the cluster with what we want put over it; labels and annotations of others stay."""
    metadata = dict(current["metadata"])
    for key in ("labels", "annotations"):
        if wanted["metadata"].get(key):
            metadata[key] = {**(metadata.get(key) or {}), **wanted["metadata"][key]}
    if "ownerReferences" in wanted["metadata"]:
        metadata["ownerReferences"] = wanted["metadata"]["ownerReferences"]
    made = {**current, "metadata": metadata, "webhooks": wanted["webhooks"]}
    if not wanted["webhooks"] and "webhooks" not in current:
        del made["webhooks"]
    return made


def _with_bundle(current: Object, wanted: Object) -> Object:
    bundle = next((w["clientConfig"]["caBundle"] for w in wanted["webhooks"]), None)
    webhooks = [
        {**w, "clientConfig": {**w["clientConfig"], "caBundle": bundle}} if bundle else w
        for w in current.get("webhooks") or ()
    ]
    return {**current, "webhooks": webhooks} if webhooks else current
