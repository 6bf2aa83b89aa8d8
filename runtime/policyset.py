"""A set of policies ready to answer: verified modules, their programs and the match index.

``runtime.bundles`` reads bundle files, the policy controller compiles policies; both end here. A set never changes: a
change of policy makes a new set, and requests in flight end on the one they began with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from runtime.fusing import FusedRules, Generated
from runtime.match_index import MAX_ANSWERS, IndexedRule, MatchIndex
from runtime.mismatches import Mismatches
from runtime.narrowing import Narrowing
from runtime.params import for_each
from vm.cel.costs import PER_EXPRESSION, PER_RULE
from vm.code import BACKGROUND_KINDS, Exemption, MatchKey, Module, Policy, Rule
from vm.host import Imports, Meter
from vm.intrinsics.wildcard import match as wildcard
from vm.premises import NONE, Premise, premise

Tier: TypeAlias = Literal["1", "2", "check"]
Run: TypeAlias = Callable[[int, dict[str, Any], Meter], Any]

WHOLE_ROOT: Final = frozenset({"text.substitute", "jmes.root"})
"""Intrinsics through which code sees the root as a whole."""

CEL_FUEL: Final = 25
"""How many times the fuel of another rule one with CEL expressions has: their budget of 10,000,000 units comes to
23,000,000 of fuel where it goes into loops, and to half a second on tier 2."""

CLEANUP_POLICIES: Final = ("ClusterCleanupPolicy", "CleanupPolicy")
"""Kinds of policies that no request reaches: ``runtime.cleanup`` runs their rules by the clock."""

FUEL: Final = 1_000_000
"""Fuel of one rule, each with a meter of its own."""


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """What the runtime needs to know of a policy, decoded once from the bundle's plain JSON. ``recorded``: admission
    keeps what its rules pass, for warnings, or since no background scan reports it. ``properties_vary``: the properties
    for reports of some rule hold variables, so that a pass too has something to say of its object."""

    name: str
    namespace: str | None
    kind: str
    api_version: str
    action: str
    overrides: tuple[Mapping[str, Any], ...]
    apply_one: bool
    failure_policy: str
    emit_warning: bool
    background: bool
    admission: bool
    scored: bool
    enforcing: bool
    recorded: bool
    properties_vary: bool
    annotations: Mapping[str, str]
    meta: Mapping[str, Any] = field(repr=False)

    @property
    def key(self) -> str:
        """``name``, or ``namespace/name`` for a namespaced policy."""
        return self.name if self.namespace is None else f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ExemptionPlan:
    """An exception that names a rule: ``run(entry, root, meter)`` says whether it applies to a root. ``pod_security``
    are exclusions that it adds to a rule with podSecurity, empty where it frees from such a rule whole."""

    name: str
    namespace: str
    entry: int
    run: Run = field(repr=False)
    background: bool = True
    pod_security: tuple[Any, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``, as results and messages name it."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class RulePlan:
    """A computed rule ready to run: ``run(entry, root, meter)`` answers with an outcome, none for an object that does
    not meet the ``premise``."""

    policy: PolicyInfo
    name: str
    kind: str
    entry: int
    run: Run = field(repr=False)
    action: str | None
    overrides: tuple[Mapping[str, Any], ...]
    allow_existing: bool
    exemptions: tuple[ExemptionPlan, ...]
    meta: Mapping[str, Any] = field(repr=False)
    premise: Premise = NONE


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rules that a request may reach, grouped by policy in order: those that judge it, those that change it, and
    those that work on other objects because of it (``background``). Where a policy among them has ``admission: false``,
    and so keeps to background scans and the command line, ``admitted`` are the others.
    ``fused`` says at once which of the first pass for sure, ``fused_brief`` where what a rule says of a pass
    matters. ``narrowing``: some of the first are about objects of certain names, places or labels alone."""

    validate: tuple[tuple[PolicyInfo, tuple[RulePlan, ...]], ...]
    mutate: tuple[tuple[PolicyInfo, tuple[RulePlan, ...]], ...]
    background: tuple[tuple[PolicyInfo, tuple[RulePlan, ...]], ...]
    validating: tuple[PolicyInfo, ...]
    mutating: tuple[PolicyInfo, ...]
    in_background: tuple[PolicyInfo, ...]
    fused: FusedRules
    fused_brief: FusedRules
    admitted: Candidates | None = None
    narrowing: Narrowing | None = None


class PolicySet:
    """Policies of one or several bundles, in the order given."""

    __slots__ = (
        "_index",
        "_known",
        "_portions",
        "_removals",
        "digests",
        "mismatches",
        "modules",
        "policies",
        "rules",
        "tier",
        "wants_images",
    )

    def __init__(
        self, parts: Iterable[tuple[Module, Run]], *, tier: Tier, mismatches: Mismatches, digests: Sequence[bytes]
    ) -> None:
        parts = tuple(parts)
        self.modules: tuple[Module, ...] = tuple(module for module, _ in parts)
        self.tier = tier
        self.mismatches = mismatches
        self.digests = tuple(digests)
        self.wants_images = any(map(mentions_images, self.modules))
        exemptions = [(e, run) for module, run in parts for e in module.exemptions]
        plans: list[RulePlan] = []
        policies: list[PolicyInfo] = []
        indexed: list[IndexedRule[RulePlan]] = []
        removals: list[IndexedRule[RulePlan]] = []
        for module, run in parts:
            for policy in module.policies:
                info = _policy_info(policy)
                policies.append(info)
                for rule in policy.rules:
                    plan = _rule_plan(info, rule, run, exemptions)
                    plans.append(plan)
                    entry = IndexedRule(rule.keys, policy.namespace, plan)
                    if rule.kind == "cleanup":
                        removals.append(entry)
                    if info.kind not in CLEANUP_POLICIES:
                        indexed.append(entry)
        self.policies = tuple(policies)
        self.rules = tuple(plans)
        self._index = MatchIndex(indexed)
        self._removals = MatchIndex(removals)
        self._known: dict[tuple[str, str, str, str, str, str], Candidates] = {}
        self._portions: dict[int, tuple[Candidates, int, tuple[Candidates, ...]]] = {}

    @classmethod
    def load(
        cls,
        bundle: bytes | Sequence[bytes],
        *,
        tier: Tier = "2",
        trust: Any = None,
        imports: Imports | None = None,
        at_once: bool = False,
    ) -> PolicySet:
        """Reads, verifies and loads bundles.

        ``tier`` chooses the exact VM (``"1"``), generated code (``"2"``) or both with a comparison (``"check"``).
        ``at_once``: the exact VM answers while code is generated in the background, so that no request waits for it.
        Raises ``vm.bundle.BundleError`` and ``vm.verify.VerifyError``.
        """
        from runtime.bundles import load_module, make_imports

        lent = imports if imports is not None else make_imports()
        mismatches = Mismatches()
        parts: list[tuple[Module, Run]] = []
        digests: list[bytes] = []
        for data in [bundle] if isinstance(bundle, bytes) else bundle:
            module, digest, run = load_module(data, tier, trust, lent, mismatches, at_once=at_once)
            parts.append((module, run))
            digests.append(digest)
        return cls(parts, tier=tier, mismatches=mismatches, digests=digests)

    @classmethod
    def empty(cls) -> PolicySet:
        """A set that has nothing to say: what the webhook answers from before its first policy."""
        return cls((), tier="2", mismatches=Mismatches(), digests=())

    @property
    def cluster_wide(self) -> bool:
        """Whether no policy is of a namespace, so that a request's namespace decides nothing on which rules it
        reaches."""
        return not self._index.namespaces

    def idle_exemptions(self) -> list[str]:
        """The exceptions, as ``namespace/name``, that name no rule of the set."""
        return [
            f"{e.namespace}/{e.name}" if e.namespace else e.name
            for module in self.modules
            for e in module.exemptions
            if not any(_names(e, plan.policy, plan.name) for plan in self.rules)
        ]

    def removes(self, plan: RulePlan, kind: Sequence[str], operation: str, namespace: str) -> bool:
        """Whether a rule of kind ``cleanup`` may match an object of a kind (group, version, kind, subresource): its
        code leaves to the index what that says."""
        group, version, name, sub = kind
        return any(p is plan for p in self._removals.find(group, version, name, sub, operation, namespace))

    def candidates(self, group: str, version: str, kind: str, sub: str, operation: str, namespace: str) -> Candidates:
        """The rules that a request may reach; ``namespace`` is "" for a cluster-wide object."""
        place = namespace if namespace in self._index.namespaces else ""
        question = (group, version, kind, sub, operation, place)
        known = self._known.get(question)
        if known is None:
            if len(self._known) >= MAX_ANSWERS:
                self._known.clear()
            known = self._known[question] = _candidates(self._index.find(*question), operation)
        return known

    def portions(self, candidates: Candidates, most: int) -> tuple[Candidates, ...]:
        """The rules that judge a request, as they are or in portions of ``most`` policies: for those who must let
        others have their turn between them. The same portions for the same candidates."""
        if len(candidates.validate) <= most:
            return (candidates,)
        known = self._portions.get(id(candidates))
        if known is None or known[0] is not candidates or known[1] != most:
            groups = [candidates.validate[first : first + most] for first in range(0, len(candidates.validate), most)]
            operation = candidates.fused.operation
            made = tuple(_candidates([plan for _, plans in group for plan in plans], operation) for group in groups)
            if len(self._portions) > MAX_ANSWERS:
                self._portions.clear()
            known = self._portions[id(candidates)] = (candidates, most, made)
        return known[2]


def mentions_images(module: Module) -> bool:
    """Whether some code may read ``images``: by a constant path, or by a text formed at run time."""
    return any(path[0] == "images" for path in module.paths) or any(i.name in WHOLE_ROOT for i in module.imports)


def _candidates(found: Sequence[RulePlan], operation: str, *, whole: bool = True) -> Candidates:
    """``whole``: not a part of candidates that are narrowed already."""
    admitted = [plan for plan in found if plan.policy.admission]
    validate, mutate, background = (_group(found, *kinds) for kinds in (("validate",), ("mutate",), BACKGROUND_KINDS))
    narrowing = Narrowing(validate, lambda plans: _candidates(plans, operation, whole=False)) if whole else None
    return Candidates(
        validate=validate,
        mutate=mutate,
        background=background,
        validating=_policies(validate),
        mutating=_policies(mutate),
        in_background=_policies(background),
        fused=FusedRules(validate, operation, FUEL, brief=False),
        fused_brief=FusedRules(validate, operation, FUEL, brief=True),
        admitted=_candidates(admitted, operation) if len(admitted) < len(found) else None,
        narrowing=narrowing if narrowing is not None and narrowing.useful else None,
    )


def _policies(groups: Iterable[tuple[PolicyInfo, tuple[RulePlan, ...]]]) -> tuple[PolicyInfo, ...]:
    return tuple(policy for policy, _ in groups)


def _group(found: Sequence[RulePlan], *kinds: str) -> tuple[tuple[PolicyInfo, tuple[RulePlan, ...]], ...]:
    groups: list[tuple[PolicyInfo, list[RulePlan]]] = []
    for plan in found:
        if plan.kind not in kinds:
            continue
        if not groups or groups[-1][0] is not plan.policy:
            groups.append((plan.policy, []))
        groups[-1][1].append(plan)
    return tuple((policy, tuple(plans)) for policy, plans in groups)


def _policy_info(policy: Policy) -> PolicyInfo:
    meta = policy.meta
    annotations = meta.get("annotations") or {}
    action = _action(meta.get("failureAction")) or "Audit"
    overrides = tuple(meta.get("overrides") or ())
    actions = {action, *(_action(o.get("action")) for o in overrides)}
    for rule in policy.rules:
        actions.add(_action(rule.meta.get("failureAction")))
        actions.update(_action(o.get("action")) for o in rule.meta.get("overrides") or ())
    return PolicyInfo(
        name=policy.name,
        namespace=policy.namespace,
        kind=meta.get("kind") or ("ClusterPolicy" if policy.namespace is None else "Policy"),
        api_version=meta.get("apiVersion") or "kyverno.io/v1",
        action=action,
        overrides=overrides,
        apply_one=meta.get("applyRules") == "One",
        failure_policy=meta.get("failurePolicy") or "Fail",
        emit_warning=meta.get("emitWarning") is True,
        background=meta.get("background") is not False,
        admission=meta.get("admission") is not False,
        scored=annotations.get("policies.kyverno.io/scored") != "false",
        enforcing="Enforce" in actions,
        recorded=meta.get("emitWarning") is True
        or meta.get("background") is False
        or any(rule.kind == "validate" and not is_scanned(rule) for rule in policy.rules),
        properties_vary=any(is_variable(rule.meta.get("reportProperties") or {}) for rule in policy.rules),
        annotations=annotations,
        meta=meta,
    )


def is_variable(properties: Mapping[str, str]) -> bool:
    """Whether properties for reports hold variables."""
    return any("{{" in text for text in properties.values())


def is_scanned(rule: Rule) -> bool:
    """Whether a background scan can reach a rule: it looks at objects as if they were created now."""
    return rule.kind == "validate" and any(map(is_scan_key, rule.keys))


def is_scan_key(key: MatchKey) -> bool:
    """Whether a way to reach a rule is open to a background scan."""
    return not key.kind.subresource and (not key.operations or "CREATE" in key.operations)


def _rule_plan(policy: PolicyInfo, rule: Rule, run: Run, exemptions: Sequence[tuple[Exemption, Run]]) -> RulePlan:
    params = rule.meta.get("params")
    if rule.meta.get("cel") is not None:
        run = rationed(run) if params is None else for_each(rationed(run), params, policy.namespace)
    return RulePlan(
        policy=policy,
        name=rule.name,
        kind=rule.kind,
        entry=rule.entry,
        run=run,
        action=_action(rule.meta.get("failureAction")),
        overrides=tuple(rule.meta.get("overrides") or ()),
        allow_existing=rule.meta.get("allowExistingViolations") is not False,
        exemptions=tuple(
            ExemptionPlan(
                e.name,
                e.namespace,
                e.entry,
                owner,
                e.meta.get("background") is not False,
                tuple(e.meta.get("podSecurity") or ()),
            )
            for e, owner in exemptions
            if _names(e, policy, rule.name)
        ),
        meta=rule.meta,
        # The exact machine alone is asked as the code stands.
        premise=premise(run.module, rule.entry) if rule.kind == "validate" and isinstance(run, Generated) else NONE,
    )


def _names(exemption: Exemption, policy: PolicyInfo, rule: str) -> bool:
    for name, pattern in exemption.rules:
        if name is None:
            # The guide's form names rules of any policy and means what autogen makes of them too (decision 5).
            bare = rule.removeprefix("autogen-cronjob-").removeprefix("autogen-")
            if wildcard(pattern, rule) or wildcard(pattern, bare):
                return True
        elif name in (policy.key, policy.name if policy.namespace is None else policy.key) and wildcard(pattern, rule):
            return True
    return False


def _action(value: Any) -> str | None:
    """The action in its standard spelling; the guide writes it in lower case."""
    if type(value) is not str or not value:
        return None
    return {"enforce": "Enforce", "audit": "Audit"}.get(value.lower())


def rationed(run: Run) -> Run:
    """The code of a rule that CEL expressions make: what they cost decides, as in the API server, and fuel only where
    that counts too little."""

    def evaluate(entry: int, root: dict[str, Any], meter: Meter) -> Any:
        fuel = meter.limit
        meter.limit = meter.left = fuel * CEL_FUEL
        meter.cost_limit, meter.budget, meter.spent = PER_EXPRESSION, PER_RULE, 0
        try:
            return run(entry, root, meter)
        finally:
            meter.limit = fuel

    if isinstance(run, Generated):
        return run.around(evaluate, times=CEL_FUEL)
    return evaluate
