"""The rule pipeline (semantics §4, §5, §12 and §15): policies and a resource in, one result a rule out."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.reference.autogen import computed_rules
from tests.reference.cel_rule import cel_rule
from tests.reference.conditions import ConditionError, holds
from tests.reference.context import Context
from tests.reference.exceptions import Excepted, exceptions_for
from tests.reference.generation import GenerationError, OwnTarget, generated
from tests.reference.images import ImageError, images
from tests.reference.matching import Subject, rule_applies
from tests.reference.mutating import Mutated, mutate, mutate_existing
from tests.reference.pod_security import pod_security
from tests.reference.query import QueryError
from tests.reference.validation import Checked, validate
from tests.reference.variables import SubstitutionError, substitute
from tests.reference.world import World

PHASES = ("mutate", "validate", "background")


@dataclass(frozen=True)
class Result:
    """``status``: pass, fail, skip, error. ``patched`` is the resource after a rule that changed it, ``generated`` the
    objects that a generate rule makes, ``target`` the existing object that a rule looked at."""

    policy: str
    rule: str
    status: str
    message: str
    patched: dict[str, Any] | None = None
    generated: list[dict[str, Any]] | None = None
    properties: dict[str, str] = field(default_factory=dict)
    target: dict[str, Any] | None = None


@dataclass(frozen=True)
class Prepared:
    """Policies, each with its computed rules, and the exceptions."""

    exceptions: list[dict[str, Any]]
    rules: list[tuple[dict[str, Any], list[dict[str, Any]]]]


def evaluate(
    policies: list[dict[str, Any]] | Prepared,
    resource: dict[str, Any],
    *,
    operation: str = "CREATE",
    old: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    namespace_labels: dict[str, str] | None = None,
    context: dict[str, Any] | None = None,
    world: World | None = None,
    phases: Sequence[str] = PHASES,
    subresource: str = "",
    existed: bool = True,
    kind: tuple[str, str, str] | None = None,
    namespace_object: dict[str, Any] | None = None,
) -> list[Result]:
    """All results of the policies (exceptions may be among the documents) for one resource.

    Mutations come first, each on what those before it made; validations see the last of them, and so do the rules of
    the background. ``user`` holds ``userInfo``, ``roles`` and ``clusterRoles``; None is a request without admission
    information. ``context`` is plain data beside the request; what it has in ``request`` is added to the request.
    ``existed``: whether ``old`` is an object that was there, and no stand-in for one. ``kind``: group, version and
    kind of the request, where the object is of another (a subresource).
    """
    ready = policies if isinstance(policies, Prepared) else prepared(policies)
    world = world or World()
    if kind is None:
        # What a request is about does not change, whatever a mutation makes of the object's kind.
        group, _, version = str(resource.get("apiVersion") or "").rpartition("/")
        kind = group, version, str(resource.get("kind") or "")
    run = _Run(
        operation,
        old,
        user,
        namespace_labels,
        context or {},
        ready.exceptions,
        world,
        subresource,
        existed,
        kind,
        namespace_object,
    )
    results: list[Result] = []
    for phase in phases:
        for policy, computed in ready.rules:
            made, after = run.policy(policy, [r for r in computed if _phase(r) == phase], resource)
            results += made
            if phase == "mutate":
                resource = after
    return results


def prepared(policies: list[dict[str, Any]]) -> Prepared:
    """Policies to be run on many objects."""
    policies = _decoded(policies)
    return Prepared(
        [p for p in policies if p.get("kind") == "PolicyException"],
        [(p, [_normal(r) for r in computed_rules(_normal_policy(p))]) for p in policies if _is_policy(p)],
    )


def _phase(rule: dict[str, Any]) -> str:
    if rule.get("mutate") is not None:
        return "background" if rule["mutate"].get("targets") else "mutate"
    return "background" if rule.get("generate") is not None else "validate"


def _decoded(value: Any) -> Any:
    """Kubernetes writes a float without a fraction as an integer when it turns YAML into JSON."""
    if isinstance(value, dict):
        return {k: _decoded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_decoded(v) for v in value]
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return int(value)
    return value


def _is_policy(document: dict[str, Any]) -> bool:
    return document.get("kind") in ("ClusterPolicy", "Policy")


def _normal(rule: dict[str, Any]) -> dict[str, Any]:
    """The guide's ``validation`` is ``validate``."""
    rule = dict(rule)
    if "validation" in rule:
        rule["validate"] = rule.pop("validation")
    return rule


def _normal_policy(policy: dict[str, Any]) -> dict[str, Any]:
    policy = copy.deepcopy(policy)
    policy["spec"]["rules"] = [_normal(r) for r in policy["spec"].get("rules") or []]
    return policy


@dataclass(frozen=True)
class _Run:
    operation: str
    old: dict[str, Any] | None
    user: dict[str, Any] | None
    namespace_labels: dict[str, str] | None
    more: dict[str, Any]
    exceptions: list[dict[str, Any]]
    world: World
    subresource: str
    existed: bool
    kind: tuple[str, str, str] | None
    namespace_object: dict[str, Any] | None

    def policy(
        self, policy: dict[str, Any], rules: list[dict[str, Any]], resource: dict[str, Any]
    ) -> tuple[list[Result], dict[str, Any]]:
        results: list[Result] = []
        metadata = policy.get("metadata") or {}
        for rule in rules:
            subject = self.subject(resource, self.operation)
            if policy["kind"] == "Policy" and subject.namespace != (metadata.get("namespace") or "default"):
                continue
            if not rule_applies(rule, subject):
                continue
            found = list(self.rule(policy, rule, subject))
            results += found
            for result in found:
                if result.patched is not None and _phase(rule) == "mutate":
                    resource = result.patched
            applied = any(result.status != "skip" for result in found)
            if policy["spec"].get("applyRules") == "One" and applied:
                break
        return results, resource

    def subject(self, resource: dict[str, Any], operation: str) -> Subject:
        return Subject(resource, operation, self.user, self.namespace_labels, self.subresource, self.kind)

    def root(self, rule: dict[str, Any], subject: Subject, old: dict[str, Any] | None) -> dict[str, Any]:
        given = {k: v for k, v in (self.more.get("request") or {}).items() if k not in ("object", "oldObject")}
        request: dict[str, Any] = {**given, "operation": subject.operation, "namespace": subject.namespace}
        if subject.operation == "DELETE":
            request["oldObject"] = subject.resource
        else:
            request["object"] = subject.resource
            if old is not None:
                request["oldObject"] = old
        if self.user is not None:
            # What is empty of a user is left out of the request's JSON.
            request["userInfo"] = {k: v for k, v in (self.user.get("userInfo") or {}).items() if v}
            request["roles"] = self.user.get("roles") or []
            request["clusterRoles"] = self.user.get("clusterRoles") or []
        username = (request.get("userInfo") or {}).get("username") or ""
        parts = username.split(":") if username.startswith("system:serviceaccount:") else []
        account = {
            "serviceAccountName": parts[3] if len(parts) == 4 else "",
            "serviceAccountNamespace": parts[2] if len(parts) == 4 else "",
        }
        extractors = (rule.get("imageExtractors") or {}).get(subject.gvk[2])
        more = {k: v for k, v in self.more.items() if k != "request"}
        return {"request": request, "images": images(subject.resource, extractors), **account, **more}

    def context(
        self, policy: dict[str, Any], rule: dict[str, Any], subject: Subject, old: dict[str, Any] | None
    ) -> Context:
        """The rule's context: the data, what a values file has for the rule, and the entries."""
        metadata = policy["metadata"]
        namespace = (metadata.get("namespace") or "default") if policy["kind"] == "Policy" else None
        data = self.root(rule, subject, old)
        given = self.world.rule_values.get((metadata["name"], rule["name"])) or {}
        return Context(data, self.world, namespace).with_values(given).declare(rule.get("context"))

    def rule(self, policy: dict[str, Any], rule: dict[str, Any], subject: Subject) -> Iterator[Result]:
        try:
            context = self.context(policy, rule, subject, self.old)
        except (ImageError, QueryError) as error:
            yield Result(policy["metadata"]["name"], rule["name"], "error", f"failed to extract images: {error}")
            return
        yield from self.in_context(policy, rule, subject, context)

    def in_context(
        self, policy: dict[str, Any], rule: dict[str, Any], subject: Subject, context: Context
    ) -> Iterator[Result]:
        name = rule["name"]
        properties: dict[str, str] = {}

        def result(status: str, message: str, **more: Any) -> Result:
            return Result(policy["metadata"]["name"], name, status, message, properties=properties, **more)

        background = _phase(rule) == "background"
        if background and subject.operation == "DELETE" and not _lists_delete(rule.get("match")):
            return
        if background:  # there exceptions go before preconditions
            excepted = exceptions_for(self.exceptions, policy, name, subject, context)
            if excepted:
                yield result("skip", "rule is skipped due to policy exception " + ", ".join(e.key for e in excepted))
                return
        try:
            met, messages = holds(rule.get("preconditions"), context)
        except ConditionError as error:
            excepted = [] if background else exceptions_for(self.exceptions, policy, name, subject, context)
            pod_security = "podSecurity" in (rule.get("validate") or {})
            if excepted and not (pod_security and all(e.pod_security for e in excepted)):
                yield result("skip", _excepted(excepted, " " if pod_security else ""))  # it does not concern him
            else:
                yield result("error", f"failed to evaluate preconditions: {error}")
            return
        if not met:
            yield result("skip", "; ".join(["preconditions not met", *messages]))
            return
        properties.update(_properties(rule, context))
        values = self.world.foreach_values.get((policy["metadata"]["name"], name)) or {}
        if rule.get("generate") is not None:
            try:
                yield result("pass", "", generated=generated(rule, context))
            except GenerationError as error:
                yield result("error", str(error))
            except OwnTarget:
                yield result("skip", "the target is the object that sets the rule off", generated=[])
        elif background:
            for (status, message, patched), target in mutate_existing(rule, context, values):
                yield result(status, message, patched=patched, target=target)
        else:
            found = self.outcome(policy, rule, subject, context, values)
            if found is not None:
                yield result(found[0], found[1], patched=found[2])

    def outcome(
        self, policy: dict[str, Any], rule: dict[str, Any], subject: Subject, context: Context, values: dict[str, Any]
    ) -> Mutated | None:
        """What a rule about the admitted object says, exceptions heeded. One that says nothing needs none."""
        found = self.said(rule, subject, context, values, [])
        if found is None:
            return None
        excepted = exceptions_for(self.exceptions, policy, rule["name"], subject, context)
        pod_security = "podSecurity" in (rule.get("validate") or {})
        partly = pod_security and all(e.pod_security for e in excepted)
        if excepted and not partly:
            return "skip", _excepted(excepted, " " if pod_security else ""), None
        if excepted:
            found = self.said(rule, subject, context, values, excepted)
        if found is not None and found[0] == "fail" and self.was_so_before(policy, rule, subject, values, excepted):
            return "skip", "skipping the rule evaluation as pre-existing violations are allowed", None
        return found

    def said(
        self,
        rule: dict[str, Any],
        subject: Subject,
        context: Context,
        values: dict[str, Any],
        excepted: list[Excepted],
    ) -> Mutated | None:
        body = rule.get("validate") or {}
        deleting = subject.operation == "DELETE"
        if rule.get("mutate") is not None:
            return None if deleting else mutate(rule, subject.resource, context, values)
        if "podSecurity" in body:
            return None if deleting else (*pod_security(rule, subject.resource, excepted), None)
        if "cel" in body:
            labels = self.namespace_labels or {}
            known = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": subject.namespace, "labels": labels}}
            namespace = self.namespace_object or (known if subject.namespace else None)
            return (*cel_rule(rule, context, namespace), None)
        outcome = validate(Checked(rule["name"], body, deleting, values), subject.resource, context)
        return None if outcome is None else (*outcome, None)

    def was_so_before(
        self,
        policy: dict[str, Any],
        rule: dict[str, Any],
        subject: Subject,
        values: dict[str, Any],
        excepted: list[Excepted],
    ) -> bool:
        """Whether an UPDATE of an object that failed already is let through (§4)."""
        body = rule["validate"]
        action = body.get("failureAction") or policy["spec"].get("validationFailureAction") or "Audit"
        if action.lower() != "enforce" or body.get("allowExistingViolations") is False:
            return False
        if subject.operation != "UPDATE" or self.old is None or not self.existed:
            return False
        before = self.subject(self.old, "CREATE")
        if not rule_applies(rule, before):
            return False
        context = self.context(policy, rule, before, None)
        try:
            if not holds(rule.get("preconditions"), context)[0]:
                return False
        except ConditionError:
            return False
        found = self.said(rule, before, context, values, excepted)
        return found is not None and found[0] == "fail"


def _lists_delete(node: Any) -> bool:
    """Rules of the background are about deletions only where their match names them."""
    if isinstance(node, dict):
        return "DELETE" in (node.get("operations") or ()) or any(map(_lists_delete, node.values()))
    return isinstance(node, list) and any(map(_lists_delete, node))


def _excepted(excepted: list[Excepted], space: str = "") -> str:
    return f"rule is skipped due to policy exceptions{space}" + ", ".join(e.key for e in excepted)


def _properties(rule: dict[str, Any], context: Context) -> dict[str, str]:
    """The report's properties; what cannot be resolved is ignored."""
    try:
        found = substitute(rule.get("reportProperties") or {}, context)
    except SubstitutionError:
        return {}
    return {k: v for k, v in found.items() if isinstance(v, str)}


__all__ = ["PHASES", "Result", "evaluate"]
