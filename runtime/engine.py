"""Evaluates a request against a policy set: candidates, rule by rule, to rule results and the patched object.

The webhook, the command line, background scans and tests all come through :meth:`Engine.evaluate`. On the admission
path only results that say something are recorded; ``full`` records passes too, for reports and the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, Final, Literal, TypeAlias

from runtime.exceptions import EVERYWHERE, ExceptionScope, exclusions, skip_text
from runtime.exceptions import KEY as EXCLUSIONS
from runtime.narrowing import Narrowing
from runtime.policyset import FUEL, Candidates, ExemptionPlan, PolicyInfo, PolicySet, RulePlan, is_variable
from runtime.properties import of_pod_security
from runtime.request import Request
from vm.host import CEL_NOT_MET, CONTEXT_LIMIT, NOT_MET, PASSED, Meter, Outcome, Status
from vm.intrinsics.wildcard import match as wildcard
from vm.values import Value

What: TypeAlias = Literal["validate", "mutate", "background"]

PASS: Final = "pass"
FAIL: Final = "fail"
SKIP: Final = "skip"
ERROR: Final = "error"

# Reading a member through its enum class costs about 0.1 µs in Python 3.11, several times a rule.
_NONE: Final = Status.NONE
_PASS: Final = Status.PASS
_FAIL: Final = Status.FAIL
_SKIP: Final = Status.SKIP

WORDS: Final = {Status.PASS: PASS, Status.FAIL: FAIL, Status.SKIP: SKIP, Status.ERROR: ERROR}

REGISTRY: Final = "$registry"
"""Where the code of image extractors finds the default registry, if it is not the usual one."""

EXISTING_ALLOWED: Final = "skipping the rule evaluation as pre-existing violations are allowed"


Group: TypeAlias = tuple[PolicyInfo, tuple[RulePlan, ...]]
"""A policy with those of its rules that may reach the request."""


class DeadlinePassed(Exception):
    """The time that the caller gave is over; nobody reads the answer any more."""


@dataclass(slots=True)  # not frozen, though nobody changes it: that would take 1.2 µs more for each denial
class RuleResult:
    """How one rule ended. ``status`` is ``pass``, ``fail``, ``skip`` or ``error``; ``action`` is Enforce or Audit.

    ``properties`` are those for reports. ``patched`` is what a mutation made of the object. ``product`` is what a rule
    that works in the background asks for: of a generate rule a list of what it makes (``runtime.generate``), of a rule
    with targets the list of these (``runtime.mutate_existing``). ``plan`` is the rule itself, for whoever goes on from
    there.
    """

    policy: str
    namespace: str | None
    rule: str
    kind: str
    status: str
    message: str
    action: str
    exceptions: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    patched: Value = field(default=None, repr=False, compare=False)
    info: PolicyInfo | None = field(default=None, repr=False, compare=False)
    product: Value = field(default=None, repr=False, compare=False)
    plan: RulePlan | None = field(default=None, repr=False, compare=False)

    @property
    def policy_key(self) -> str:
        return self.policy if self.namespace is None else f"{self.namespace}/{self.policy}"

    def report_status(self, *, audit_warn: bool = False) -> str:
        """The status as reports show it: a violation of an unscored policy is a warning (semantics §4)."""
        if self.status != FAIL:
            return self.status
        unscored = self.info is not None and not self.info.scored
        return "warn" if unscored or (audit_warn and self.action == "Audit") else FAIL


@dataclass(slots=True, init=False)  # not frozen, as RuleResult: each request makes one
class EngineResponse:
    """What a request came to. ``patched`` is the object after all mutations, None when nothing changed it;
    ``policies`` are those whose rules could reach the request. ``passed`` are the validate rules that held and of which
    there is no result, since nobody asked for one."""

    request: Request
    what: What
    results: tuple[RuleResult, ...]
    patched: Value
    policies: tuple[PolicyInfo, ...]
    passed: tuple[RulePlan, ...]

    # Written out: that of a dataclass is no machine code where the rest is (make compiled).
    def __init__(
        self,
        request: Request,
        what: What,
        results: tuple[RuleResult, ...],
        patched: Value,
        policies: tuple[PolicyInfo, ...],
        passed: tuple[RulePlan, ...] = (),
    ) -> None:
        self.request = request
        self.what = what
        self.results = results
        self.patched = patched
        self.policies = policies
        self.passed = passed

    @property
    def resource(self) -> Value:
        """The object as it stands after this evaluation."""
        return self.request.resource if self.patched is None else self.patched


class Engine:
    """Stateless but for its set; make a new one (or call with another set) when policies change."""

    __slots__ = ("context_limit", "exceptions", "fuel", "own_user", "policies", "registry")

    def __init__(
        self,
        policies: PolicySet,
        *,
        fuel: int = FUEL,
        exceptions: ExceptionScope = EVERYWHERE,
        registry: str | None = None,
        own_user: str = "",
        context_limit: int = CONTEXT_LIMIT,
    ) -> None:
        """``registry`` is put before images that name none; empty: they stay without; None: the usual one.

        ``own_user`` is the user name of Thesmos itself: its requests set off no rule that works in the background,
        unless the rule says so (``skipBackgroundRequests: false``), lest rules set off one another for ever.
        ``context_limit`` is what the context entries of a rule may come to, in bytes of JSON.
        """
        self.policies = policies
        self.fuel = fuel
        self.context_limit = context_limit
        self.exceptions = exceptions
        self.registry = registry
        self.own_user = own_user

    def meter(self) -> Meter:
        """What one run of a rule or an exception may use up."""
        return Meter(self.fuel, context_limit=self.context_limit)

    def evaluate(
        self,
        request: Request,
        what: What,
        *,
        full: bool = False,
        brief: bool = False,
        only: Iterable[PolicyInfo] | None = None,
        among: Candidates | None = None,
        deadline: float | None = None,
    ) -> EngineResponse:
        """Runs the rules that the request reaches, policy by policy; a mutation's result is what the next one sees.
        ``background``: those that work on other objects because of it, each result with its product.

        ``brief``: as ``full``, but a rule that passes and says only what it always says then is in ``passed`` and makes
        no result, which costs as much as the rule. ``only`` limits it to some policies of the set; ``among`` are the
        rules to run where the caller has asked for them (:meth:`PolicySet.portions`). ``deadline`` is a reading of
        ``time.monotonic``: once it is over, the next policy raises :class:`DeadlinePassed`. Never raises for what a
        policy or an object holds.
        """
        found = among or self.policies.candidates(
            request.group, request.version, request.kind, request.subresource, request.operation, request.namespace
        )
        if found.admitted is not None and request.uid:
            found = found.admitted
        if what == "validate":
            groups, policies = found.validate, found.validating
        elif what == "mutate":
            groups, policies = found.mutate, found.mutating
        else:
            groups, policies = found.background, found.in_background
        fused = None
        if only is not None:
            wanted = {id(policy) for policy in only}
            groups = tuple(group for group in groups if id(group[0]) in wanted)
            policies = tuple(policy for policy, _ in groups)
        elif (brief or not full) and not request.rule_values:
            fused = found.fused_brief if brief else found.fused
        if groups and (self.policies.wants_images or self.registry is not None):
            self.add_images(request)
        if what == "validate" and fused is not None and found.narrowing is not None and self.fuel >= FUEL:
            return self._narrowed(request, found.narrowing, policies, full, brief, deadline)
        results: list[RuleResult] = []
        passed: list[RulePlan] = []
        patched: Value = None
        verdict = None
        meter = self.meter()
        if what == "validate" and fused is not None and not fused.idle and fused.fuel <= self.fuel:
            verdict = fused.judge(request.root, meter)
            if verdict is not None:
                groups = verdict.left
                if not groups:
                    return EngineResponse(request, what, (), None, policies, verdict.passed)
        timely = groups if deadline is None else _until(groups, deadline)
        if what == "validate":
            self._validate(request, timely, results, passed, full, brief, meter)
            if verdict is not None:
                return EngineResponse(request, what, tuple(results), None, policies, verdict.with_others(passed))
        elif what == "mutate":
            patched = self._mutate(request, timely, results, full, meter)
        else:
            self._background(request, timely, results, meter)
        return EngineResponse(request, what, tuple(results), patched, policies, tuple(passed))

    def _narrowed(
        self,
        request: Request,
        narrowing: Narrowing,
        policies: tuple[PolicyInfo, ...],
        full: bool,
        brief: bool,
        deadline: float | None,
    ) -> EngineResponse:
        """As :meth:`evaluate` of validate rules, without those whose premise the object does not meet: they would have
        no result."""
        results: list[RuleResult] = []
        passed: list[RulePlan] = []
        meter = self.meter()
        parts = narrowing.reached(request.resource)
        for part in parts:
            fused = part.fused_brief if brief else part.fused
            verdict = fused.judge(request.root, meter) if not fused.idle and fused.fuel <= self.fuel else None
            groups = part.validate if verdict is None else verdict.left
            also: list[RulePlan] = []
            timely = groups if deadline is None else _until(groups, deadline)
            self._validate(request, timely, results, also, full, brief, meter)
            passed += also if verdict is None else verdict.with_others(also)
        if len(parts) == 1:
            return EngineResponse(request, "validate", tuple(results), None, policies, tuple(passed))
        ordered = narrowing.in_order(results), narrowing.plans_in_order(passed)
        return EngineResponse(request, "validate", ordered[0], None, policies, ordered[1])

    def _validate(
        self,
        request: Request,
        groups: Iterable[Group],
        results: list[RuleResult],
        passed: list[RulePlan],
        full: bool,
        brief: bool,
        meter: Meter,
    ) -> None:
        root = request.root
        own = bool(request.rule_values)
        fuel = self.fuel
        for policy, plans in groups:
            keep = policy.properties_vary if brief else full or policy.recorded
            for plan in plans:
                # Meter.begin, written out: this loop is what every request waits for.
                meter.left = fuel
                meter.context = 0
                meter.noted = None
                if own:
                    root = request.root_of(plan.name)
                outcome = plan.run(plan.entry, root, meter)
                if outcome is PASSED and not keep and not plan.exemptions:
                    passed.append(plan)
                    if policy.apply_one:
                        break
                    continue
                status = outcome.status
                if status is _NONE:
                    continue
                more: list[Any] = []
                if plan.exemptions and not _unmet(outcome):
                    held = self.exceptions.holding(plan, request.namespace, root, self.meter)
                    excluded = exclusions(held) if "podSecurity" in plan.meta else None
                    if held and excluded is None:
                        results.append(_exempt_result(plan, request, held))
                        continue
                    if excluded and status is _FAIL:
                        more = excluded
                        outcome = plan.run(plan.entry, {**root, EXCLUSIONS: more}, self.meter())
                        status = outcome.status
                        if status is _PASS:
                            results.append(_exempt_result(plan, request, held))
                            continue
                if status is _PASS:
                    if keep or (brief and outcome.message is not None):
                        results.append(_result(plan, request, PASS, outcome, meter))
                    else:
                        passed.append(plan)
                    if policy.apply_one:
                        break
                    continue
                if status is _FAIL and self._existed(plan, request, more):
                    results.append(_result(plan, request, SKIP, Outcome(Status.SKIP, EXISTING_ALLOWED), meter))
                    continue
                result = _result(plan, request, WORDS[status], outcome, meter)
                if (keep or brief) and status is _FAIL and (standard := plan.meta.get("podSecurity")):
                    broken = of_pod_security(standard, more, request.resource)
                    result = replace(result, properties={**result.properties, **broken})
                results.append(result)
                if policy.apply_one and status is not _SKIP:
                    break

    def _mutate(
        self,
        request: Request,
        groups: Iterable[Group],
        results: list[RuleResult],
        full: bool,
        meter: Meter,
    ) -> Value:
        patched: Value = None
        for policy, plans in groups:
            for plan in plans:
                meter.begin()
                outcome = plan.run(plan.entry, request.root_of(plan.name), meter)
                status = outcome.status
                if status is _NONE:
                    continue
                if plan.exemptions and not _unmet(outcome):
                    held = self.exceptions.holding(plan, request.namespace, request.root_of(plan.name), self.meter)
                    if held:
                        results.append(_exempt_result(plan, request, held))
                        continue
                if status is _PASS and outcome.patched is not None:
                    results.append(_result(plan, request, PASS, outcome, meter))
                    patched = outcome.patched
                    request = request.patched(patched)
                    self.add_images(request)
                elif full or status is not _PASS:
                    results.append(_result(plan, request, WORDS[status], outcome, meter))
                if policy.apply_one and status is not _SKIP:
                    break
        return patched

    def _background(self, request: Request, groups: Iterable[Group], results: list[RuleResult], meter: Meter) -> None:
        own = bool(self.own_user) and request.username == self.own_user
        for policy, plans in groups:
            for plan in plans:
                if own and plan.meta.get("skipBackgroundRequests") is not False:
                    continue
                meter.begin()
                outcome = plan.run(plan.entry, request.root_of(plan.name), meter)
                status = outcome.status
                if status is _NONE:
                    continue
                held = self.exceptions.holding(plan, request.namespace, request.root_of(plan.name), self.meter)
                if held:
                    results.append(_exempt_result(plan, request, held))
                    continue
                result = _result(plan, request, WORDS[status], outcome, meter)
                results.append(replace(result, patched=None, product=outcome.patched, plan=plan))
                if policy.apply_one and status is not _SKIP:
                    break

    def _existed(self, plan: RulePlan, request: Request, excluded: list[Any]) -> bool:
        """Whether the old object already broke the rule, and the rule lets that be (semantics §4). ``excluded`` is what
        exceptions exclude from a rule with podSecurity."""
        if request.operation != "UPDATE" or type(request.old) is not dict or not plan.allow_existing:
            return False
        if (plan.action or plan.policy.action) != "Enforce":
            return False
        old = request.before()
        found = self.policies.candidates(
            old.group, old.version, old.kind, old.subresource, old.operation, old.namespace
        )
        # Code leaves to the index what the index can say: a rule that no CREATE reaches did not look at the old object.
        if not any(p is plan for _, plans in found.validate for p in plans):
            return False
        self.add_images(old)
        root = old.root_of(plan.name)
        if excluded:
            root = {**root, EXCLUSIONS: excluded}
        meter = self.meter()
        return bool(plan.run(plan.entry, root, meter).status is Status.FAIL)

    def add_images(self, request: Request) -> None:
        """Puts ``images`` into the root, unless values or an earlier evaluation have; absent when there is none."""
        root = request.root
        if self.registry is not None:
            root[REGISTRY] = self.registry
        if not self.policies.wants_images or "images" in root:
            return
        from vm.intrinsics.images import DEFAULT_REGISTRY, image_infos

        found = image_infos(request.resource, DEFAULT_REGISTRY if self.registry is None else self.registry)
        if found:
            root["images"] = found


def _unmet(outcome: Outcome) -> bool:
    """Whether the preconditions of a rule have skipped it: exceptions are for what comes after them."""
    message = outcome.message
    return outcome.status is _SKIP and message is not None and message.startswith((NOT_MET, CEL_NOT_MET))


def _until(groups: Iterable[Group], deadline: float) -> Iterator[Group]:
    for group in groups:
        if monotonic() >= deadline:
            raise DeadlinePassed
        yield group


def _result(plan: RulePlan, request: Request, status: str, outcome: Outcome, meter: Meter) -> RuleResult:
    message = outcome.message
    if message is None:
        message = plan.meta.get("passed", pass_text(plan.name)) if status == PASS else ""
    return RuleResult(
        plan.policy.name,
        plan.policy.namespace,
        plan.name,
        plan.kind,
        status,
        message,
        resolve_action(plan, request),
        properties=_properties(plan, meter),
        patched=outcome.patched,
        info=plan.policy,
    )


def _properties(plan: RulePlan, meter: Meter) -> Mapping[str, str]:
    """The properties of a rule for reports: as written, or as its code has put them together."""
    written: Mapping[str, str] | None = plan.meta.get("reportProperties")
    if written is None:
        return {}
    if not is_variable(written):
        return written
    # A rule that was skipped before has noted none; what is there then is of another rule.
    noted, meter.noted = meter.noted, None
    return noted[1] if noted is not None and noted[0] == plan.name else {}


def _exempt_result(plan: RulePlan, request: Request, held: Sequence[ExemptionPlan]) -> RuleResult:
    return RuleResult(
        plan.policy.name,
        plan.policy.namespace,
        plan.name,
        plan.kind,
        SKIP,
        skip_text(plan, held),
        resolve_action(plan, request),
        tuple(e.key for e in held),
        info=plan.policy,
    )


def standing(plan: RulePlan) -> RuleResult:
    """The result of a rule that is among the ``passed`` of a brief evaluation, whatever object it held for. Its action
    is that of the policy: for a rule that holds no namespace changes what follows."""
    written: Mapping[str, str] | None = plan.meta.get("reportProperties")
    return RuleResult(
        plan.policy.name,
        plan.policy.namespace,
        plan.name,
        plan.kind,
        PASS,
        plan.meta.get("passed", pass_text(plan.name)),
        plan.action or plan.policy.action,
        properties=written or {},
        info=plan.policy,
    )


def pass_text(rule: str) -> str:
    """The standing message of a rule that holds."""
    return f"validation rule '{rule}' passed."


def resolve_action(plan: RulePlan, request: Request) -> str:
    """Enforce or Audit for this rule and request: the rule's overrides and action, then the policy's (§23)."""
    policy = plan.policy
    return (
        (_override(plan.overrides, request) if plan.overrides else None)
        or plan.action
        or (_override(policy.overrides, request) if policy.overrides else None)
        or policy.action
    )


def _override(overrides: Iterable[Mapping[str, Any]], request: Request) -> str | None:
    for entry in overrides:
        action = {"enforce": "Enforce", "audit": "Audit"}.get(str(entry.get("action", "")).lower())
        if action is None:
            continue
        namespaces = entry.get("namespaces") or ()
        selector = entry.get("namespaceSelector")
        if namespaces and not any(wildcard(pattern, request.namespace) for pattern in namespaces):
            continue
        if selector is not None and not _selects(selector, request):
            continue
        return action
    return None


def _selects(selector: Mapping[str, Any], request: Request) -> bool:
    from vm.intrinsics.labels import selects

    return request.namespace_labels is not None and selects(dict(selector), dict(request.namespace_labels))
