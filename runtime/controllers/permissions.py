"""What the rules of a policy do to other objects, and whether this installation's account may do it.

Policy admission refuses a policy whose generate, mutateExisting or cleanup rules could never work, and says what to
grant; the status of a policy names what its background scan cannot read. The API server is asked
(``SelfSubjectAccessReview``), so that any authorizer counts, and every kind of role.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from runtime.config import Names
from runtime.k8s.client import KubeClient, Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import ACCESS_REVIEW

if TYPE_CHECKING:
    from compiler.schema.model import GenerateTarget, Policy, Rule, Target

    _Needs: TypeAlias = "dict[Key, tuple[Policy, Discovery, list[Need]]]"

log = logging.getLogger("thesmos.permissions")

Key = tuple[str, str, str]
"""Kind, namespace and name of a policy."""

SELF_ACCESS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
GRANTED_SECONDS: Final = 2.0
REFUSED_SECONDS: Final = 1.0
"""How long an answer is taken for granted: a folder of policies asks once. Who was refused grants it and applies the
policy again; what was taken away since the last policy must be seen with the next one."""

AT_ONCE: Final = 16
KEPT: Final = 4096
"""Answers that are remembered: policies name objects, so that their number has no bound of its own."""

READ: Final = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Need:
    """Verbs on a resource that a part of a policy needs. ``at`` is its place in the policy; ``namespace`` and ``name``
    are empty where it may be any. ``strict``: without them the policy is refused, as Kyverno refuses it; the others are
    warned of. ``part`` is the part of an installation whose account does it."""

    at: str
    group: str
    plural: str
    kind: str
    verbs: tuple[str, ...]
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    strict: bool = True
    part: str = "background"

    @property
    def resource(self) -> str:
        """As roles name it."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


@dataclass(frozen=True, slots=True)
class Lack:
    """A need, the verbs of it that are not allowed, and the user whom it is not allowed to."""

    user: str
    need: Need
    verbs: tuple[str, ...]


class Rights:
    """Asks the API server what the accounts of an installation may do, and remembers the answers for a while.

    What its own account may do any process may ask; of others only one that may create ``subjectaccessreviews``.
    """

    def __init__(self, client: KubeClient, names: Names) -> None:
        self._client = client
        self._names = names
        self._known: dict[tuple[str, ...], tuple[bool, float]] = {}
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def lacking(self, needs: Iterable[Need]) -> list[Lack]:
        """The needs that are not met, in their order. Raises the errors of the client."""
        wanted = {need: self._names.user_of(need.part) for need in needs}
        keys = {(user, verb, *_place(need)): False for need, user in wanted.items() for verb in need.verbs}
        answers = dict(zip(keys, await asyncio.gather(*map(self._allowed, keys)), strict=True))
        found = []
        for need, user in wanted.items():
            verbs = tuple(verb for verb in need.verbs if not answers[user, verb, *_place(need)])
            if verbs:
                found.append(Lack(user, need, verbs))
        return found

    async def _allowed(self, key: tuple[str, ...]) -> bool:
        known = self._known.get(key)
        if known is not None and known[1] > time.monotonic():
            return known[0]
        user, verb, group, plural, subresource, namespace, name = key
        asked = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
        asked |= {"namespace": namespace, "name": name}
        spec: dict[str, Any] = {"resourceAttributes": {k: v for k, v in asked.items() if v}}
        review = SELF_ACCESS
        if user != self._names.user_of("admission"):
            review, spec = ACCESS_REVIEW, {**spec, "user": user, "groups": _groups(user)}
        asking = {"apiVersion": review.api_version, "kind": review.kind, "spec": spec}
        async with self._at_once:
            answer = await self._client.create(review, asking)
        allowed = (answer.get("status") or {}).get("allowed") is True
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[key] = allowed, time.monotonic() + (GRANTED_SECONDS if allowed else REFUSED_SECONDS)
        return allowed


def _groups(user: str) -> list[str]:
    """The groups of a service account, as its tokens tell them."""
    namespace = user.split(":")[2] if user.startswith("system:serviceaccount:") else ""
    accounts = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"] if namespace else []
    return [*accounts, "system:authenticated"]


def _place(need: Need) -> tuple[str, ...]:
    return need.group, need.plural, need.subresource, need.namespace, need.name


def refusal(lacks: Sequence[Lack]) -> str:
    """What the author of a policy reads, a line a need: who needs what, where, and for which part of the policy. Empty
    when nothing is lacking."""
    parts = dict.fromkeys(lack.need.part for lack in lacks)
    advice = [
        f'grant them by a ClusterRole with the label rbac.kyverno.io/aggregate-to-{part}-controller: "true"'
        for part in parts
    ]
    return "\n".join([*map(sentence, lacks), *advice])


def sentence(lack: Lack) -> str:
    """One need that is not met, in Kyverno's words."""
    need = lack.need
    where = f" in namespace {need.namespace}" if need.namespace else ""
    return f"{need.at}: {lack.user} requires permissions {','.join(lack.verbs)} for resource {_shown(need)}{where}"


def summary(lacks: Sequence[Lack]) -> str:
    """The same for a status, one line: ``needs list,watch on apps/deployments``."""
    return "; ".join(dict.fromkeys(f"needs {','.join(lack.verbs)} on {_shown(lack.need)}" for lack in lacks))


def _shown(need: Need) -> str:
    return f"{need.group}/{need.resource}" if need.group else need.resource


def working_needs(policy: Policy, discovery: Discovery) -> list[Need]:
    """What the rules that work in the background do to other objects. Kinds with variables cannot be looked up, and
    those that the cluster does not serve have nobody to ask: both are left out."""
    found: list[Need] = []
    for rule in policy.rules:
        at = f"spec.rules[{rule.index}]"
        if rule.generate is not None:
            for place, target in _generated(rule):
                found += _generate_needs(f"{at}.{place}", target, rule.generate.synchronize, discovery)
        if rule.mutate is not None:
            for n, changed in enumerate(rule.mutate.targets):
                found += _target_needs(f"{at}.mutate.targets[{n}]", policy, changed, discovery)
        if rule.cleanup is not None:
            found += _cleanup_needs(at, policy, rule, discovery)
    return found


def scan_needs(policy: Policy, discovery: Discovery) -> list[Need]:
    """What the background scan must read for a policy: every kind that its rules match, wildcards aside (a role for
    ``*`` would be one for secrets too; what may be read of them is scanned)."""
    kinds = [
        (f"spec.rules[{rule.index}]", kind)
        for rule in policy.rules
        if policy.background and rule.validate is not None
        for f in rule.match.filters
        for kind in f.kinds
        if not _open(kind)
    ]
    namespace = policy.scope or ""
    return [
        replace(_need(at, entry, READ, namespace), strict=False, part="reports")
        for at, kind in kinds
        for entry in _entries(kind, discovery)
        if _main(entry)
    ]


class Lacking:
    """What each policy lacks, for the status: every permission that its rules need, those of the background scan where
    ``scans`` included."""

    def __init__(self, rights: Rights, *, scans: bool) -> None:
        self._rights = rights
        self._scans = scans
        # By the model and the kinds that they are of: looking up kinds takes longer than asking for permissions.
        self._needs: _Needs = {}
        self._told: dict[Key, str] = {}

    async def look(self, policies: Mapping[Key, Policy], discovery: Discovery) -> Mapping[Key, str]:
        """One line for each policy that lacks something. While the API server does not say, what it said last."""
        self._needs = await asyncio.to_thread(self._all, policies, discovery)
        try:
            lacks = await self._rights.lacking(need for _, _, needs in self._needs.values() for need in needs)
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            log.warning("the permissions of this installation cannot be asked for: %s", problem)
            return self._told
        by_need = {lack.need: lack for lack in lacks}
        found = {key: [by_need[n] for n in needs if n in by_need] for key, (_, _, needs) in self._needs.items()}
        told = {key: summary(lacking) for key, lacking in found.items() if lacking}
        for key, text in told.items():
            if self._told.get(key) != text:
                log.warning("%s %s", "/".join(part for part in key if part), text)
        self._told = told
        return told

    def _all(
        self, policies: Mapping[Key, Policy], discovery: Discovery
    ) -> dict[Key, tuple[Policy, Discovery, list[Need]]]:
        found = {}
        for key, policy in policies.items():
            known = self._needs.get(key)
            if known is None or known[0] is not policy or known[1] is not discovery:
                scanned = scan_needs(policy, discovery) if self._scans else []
                known = (policy, discovery, [*working_needs(policy, discovery), *scanned])
            found[key] = known
        return found


def _generated(rule: Rule) -> Iterator[tuple[str, GenerateTarget]]:
    assert rule.generate is not None
    if rule.generate.target is not None:
        yield "generate", rule.generate.target
    for n, loop in enumerate(rule.generate.foreach):
        if loop.generate is not None:
            yield f"generate.foreach[{n}]", loop.generate


def _generate_needs(at: str, target: GenerateTarget, synchronize: bool, discovery: Discovery) -> Iterator[Need]:
    verbs = ("get", "create", "update", "delete") if synchronize else ("get", "create")
    namespace = _fixed(target.namespace)
    if target.clone_list is not None:
        source = _fixed(str(target.clone_list.get("namespace") or ""))
        for kind in target.clone_list.get("kinds") or ():
            for entry in _entries(str(kind), discovery):
                yield _need(at, entry, verbs, namespace)
                yield replace(_need(f"{at}.cloneList", entry, ("get", "list"), source), strict=False)
        return
    for entry in _entries(f"{target.api_version}/{target.kind}", discovery):
        yield _need(at, entry, verbs, namespace)
        if target.clone is not None:
            source = _fixed(str(target.clone.get("namespace") or ""))
            name = _fixed(str(target.clone.get("name") or ""))
            yield replace(_need(f"{at}.clone", entry, ("get",), source, name), strict=False)


def _target_needs(at: str, policy: Policy, target: Target, discovery: Discovery) -> Iterator[Need]:
    name = _fixed(target.name)
    for entry in _entries(f"{target.api_version}/{target.kind}", discovery):
        need = _need(at, entry, ("get", "update"), policy.scope or _fixed(target.namespace), name)
        yield need
        if not name and not entry.subresource:
            # A single object is read by its name, and a role may be for that name alone; others are listed.
            yield replace(need, verbs=("list",), strict=False)


def _cleanup_needs(at: str, policy: Policy, rule: Rule, discovery: Discovery) -> Iterator[Need]:
    assert rule.cleanup is not None
    if rule.cleanup.removals:
        kinds = [(f"{at}.cleanup.removeResources[{n}]", r.kind) for n, r in enumerate(rule.cleanup.removals)]
    else:
        kinds = [
            (f"spec.match.{rule.match.mode}[{n}]", kind) for n, f in enumerate(rule.match.filters) for kind in f.kinds
        ]
    for place, kind in kinds:
        for entry in _entries(kind, discovery):
            if _main(entry):
                yield replace(_need(place, entry, ("list", "delete"), policy.scope or ""), part="cleanup")


def _need(at: str, entry: Entry, verbs: tuple[str, ...], namespace: str, name: str = "") -> Need:
    resource = entry.resource
    return Need(
        at,
        resource.group,
        resource.plural,
        resource.kind,
        verbs,
        namespace if resource.namespaced else "",
        name,
        entry.subresource,
    )


def _entries(kind: str, discovery: Discovery) -> list[Entry]:
    """What the cluster serves of a kind selector, one entry a resource though it may have several versions."""
    from compiler.frontends.pattern import parse_kind

    key = None if "{{" in kind else parse_kind(kind)
    if key is None:
        return []
    found: dict[tuple[str, str, str], Entry] = {}
    for entry in discovery.find(key.group, key.version, key.kind, key.subresource):
        found.setdefault((entry.resource.group, entry.resource.plural, entry.subresource), entry)
    return list(found.values())


def _main(entry: Entry) -> bool:
    return not entry.subresource


def _open(kind: str) -> bool:
    return "*" in kind or "?" in kind


def _fixed(text: str) -> str:
    """A text that names one thing, empty where variables or wildcards stand for several."""
    return "" if "{{" in text or "$(" in text or _open(text) else text


def unserved(policy: Policy, discovery: Discovery) -> list[tuple[str, str]]:
    """Kinds that rules match or exclude and that the cluster does not serve, each with the place where it is first."""
    found: dict[str, str] = {}
    for rule in policy.rules:
        for part, block in (("match", rule.match), ("exclude", rule.exclude)):
            for f in block.filters if block is not None else ():
                for kind in f.kinds:
                    if not _open(kind) and not _entries(kind, discovery):
                        found.setdefault(kind, f"spec.rules[{rule.index}].{part}")
    return list(found.items())
