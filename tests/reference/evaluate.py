"""The rule pipeline (semantics §4, §5, §12, §15 and §16): policies and a resource in, one result a rule out."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import yaml

from tests.reference.autogen import computed_rules
from tests.reference.conditions import ConditionError, holds
from tests.reference.images import images
from tests.reference.matching import Subject, _block, rule_applies
from tests.reference.mutation import MutationError, NothingToDo, json_patch, strategic_merge
from tests.reference.query import equal
from tests.reference.scalars import json_text, wildcard
from tests.reference.variables import SubstitutionError, substitute
from tests.reference.walk import Mismatch, match_pattern


@dataclass(frozen=True)
class Result:
    """``status``: pass, fail, skip, error. ``patched`` is the resource after a rule that changed it."""

    policy: str
    rule: str
    status: str
    message: str
    patched: dict[str, Any] | None = None


def evaluate(
    policies: list[dict[str, Any]],
    resource: dict[str, Any],
    *,
    operation: str = "CREATE",
    old: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    namespace_labels: dict[str, str] | None = None,
    context: dict[str, Any] | None = None,
) -> list[Result]:
    """All results of the policies (exceptions may be among the documents) for one resource.

    Mutations come first, each on what those before it made; validations see the last of them. ``user`` holds
    ``userInfo``, ``roles`` and ``clusterRoles``; None is a request without admission information.
    """
    policies = _decoded(policies)
    exceptions = [p for p in policies if p.get("kind") == "PolicyException"]
    rules = [
        (policy, [_normal(r) for r in computed_rules(_normal_policy(policy))])
        for policy in policies
        if _is_policy(policy)
    ]
    run = _Run(operation, old, user, namespace_labels, context or {}, exceptions)
    results: list[Result] = []
    for policy, computed in rules:
        made, resource = run.policy(policy, [r for r in computed if "mutate" in r], resource)
        results += made
    for policy, computed in rules:
        made, _ = run.policy(policy, [r for r in computed if "validate" in r], resource)
        results += made
    return results


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

    def policy(
        self, policy: dict[str, Any], rules: list[dict[str, Any]], resource: dict[str, Any]
    ) -> tuple[list[Result], dict[str, Any]]:
        results: list[Result] = []
        metadata = policy.get("metadata") or {}
        for rule in rules:
            subject = Subject(resource, self.operation, self.user, self.namespace_labels)
            if policy["kind"] == "Policy" and subject.namespace != (metadata.get("namespace") or "default"):
                continue
            if not rule_applies(rule, subject):
                continue
            result = self.rule(metadata.get("name", ""), rule, subject)
            if result is None:
                continue
            results.append(result)
            if result.patched is not None:
                resource = result.patched
            if policy["spec"].get("applyRules") == "One" and result.status != "skip":
                break
        return results, resource

    def context(self, subject: Subject) -> dict[str, Any]:
        request: dict[str, Any] = {"operation": self.operation, "namespace": subject.namespace}
        if self.operation == "DELETE":
            request["oldObject"] = subject.resource
        else:
            request["object"] = subject.resource
            if self.old is not None:
                request["oldObject"] = self.old
        if self.user is not None:
            request["userInfo"] = self.user.get("userInfo") or {}
            request["roles"] = self.user.get("roles") or []
            request["clusterRoles"] = self.user.get("clusterRoles") or []
        username = request.get("userInfo", {}).get("username") or ""
        parts = username.split(":") if username.startswith("system:serviceaccount:") else []
        account = {
            "serviceAccountName": parts[3] if len(parts) == 4 else "",
            "serviceAccountNamespace": parts[2] if len(parts) == 4 else "",
        }
        return {"request": request, "images": images(subject.resource), **account, **self.more}

    def rule(self, policy: str, rule: dict[str, Any], subject: Subject) -> Result | None:
        name = rule["name"]
        context = self.context(subject)

        def result(status: str, message: str, patched: dict[str, Any] | None = None) -> Result:
            return Result(policy, name, status, message, patched)

        try:
            met, messages = holds(rule.get("preconditions"), context)
        except ConditionError as error:
            return result("error", f"failed to evaluate preconditions: {error}")
        if not met:
            return result("skip", "; ".join(["preconditions not met", *messages]))
        excepted = self.excepted(policy, name, subject)
        if excepted:
            return result("skip", "rule is skipped due to policy exceptions" + ", ".join(excepted))
        if "mutate" in rule:
            status, message, patched = mutate(rule, subject.resource, context)
            return result(status, message, patched)
        validate = rule["validate"]
        if "deny" in validate:
            return result(*deny(name, validate, context))
        if self.operation == "DELETE":
            return None
        if "pattern" in validate:
            return result(*pattern(name, validate, subject.resource, context))
        if "anyPattern" in validate:
            return result(*any_pattern(name, validate, subject.resource, context))
        return None

    def excepted(self, policy: str, rule: str, subject: Subject) -> list[str]:
        """Keys of the exceptions of the guide's form that hold for this rule."""
        found = []
        for exception in self.exceptions:
            for entry in exception["spec"].get("rules") or []:
                names = (entry["name"], f"autogen-{entry['name']}", f"autogen-cronjob-{entry['name']}")
                right_policy = entry.get("policy") in (None, policy)
                if right_policy and any(wildcard(n, rule) for n in names):
                    if _block(exception["spec"].get("match") or {}, subject, in_match=True):
                        metadata = exception["metadata"]
                        found.append(f"{metadata.get('namespace') or 'default'}/{metadata['name']}")
                    break
        return found


def _with_stop(message: str) -> str:
    return message if message.endswith(".") else message + "."


def _substituted_message(validate: dict[str, Any], context: dict[str, Any]) -> str:
    message = substitute(validate.get("message") or "", context)
    return message if isinstance(message, str) else json_text(message)


def pattern(name: str, validate: dict[str, Any], resource: Any, context: dict[str, Any]) -> tuple[str, str]:
    try:
        wanted = substitute(validate["pattern"], context)
    except SubstitutionError as error:
        return "error", f"variable substitution failed: {error}"
    found = match_pattern(resource, wanted)
    if found is None:
        return "pass", f"validation rule '{name}' passed."
    if found.skip:
        return "skip", found.text
    return ("fail" if found.path else "error"), _pattern_message(name, validate, found, context)


def _pattern_message(name: str, validate: dict[str, Any], found: Mismatch, context: dict[str, Any]) -> str:
    try:
        message = _substituted_message(validate, context)
    except SubstitutionError:
        return f"validation error: variables substitution error in rule {name} execution error: {found.text}"
    before = f"{_with_stop(message)} " if validate.get("message") else ""
    if found.path:
        return f"validation error: {before}rule {name} failed at path {found.path}"
    return f"validation error: {before}rule {name} execution error: {found.text}"


def any_pattern(name: str, validate: dict[str, Any], resource: Any, context: dict[str, Any]) -> tuple[str, str]:
    try:
        patterns = substitute(validate["anyPattern"], context)
    except SubstitutionError as error:
        return "error", f"variable substitution failed: {error}"
    failed, skipped = [], []
    for i, wanted in enumerate(patterns):
        found = match_pattern(resource, wanted)
        if found is None:
            return "pass", f"validation rule '{name}' anyPattern[{i}] passed."
        if found.skip:
            skipped.append(f"rule {name}[{i}] skipped: {found.text}")
        elif found.path:
            failed.append(f"rule {name}[{i}] failed at path {found.path}")
        else:
            failed.append(f"rule {name}[{i}] failed: {found.text}")
    if not failed:
        return "skip", " ".join(skipped)
    message = validate.get("message") or ""  # as written: Kyverno resolves no variables in it here
    before = f"{_with_stop(message)} " if message else ""
    return "fail", f"validation error: {before}{' '.join(failed)}"


def deny(name: str, validate: dict[str, Any], context: dict[str, Any]) -> tuple[str, str]:
    try:
        denied, messages = holds((validate["deny"] or {}).get("conditions"), context)
    except ConditionError as error:
        return "error", f"failed to check deny conditions: {error}"
    if not denied:
        return "pass", f"validation rule '{name}' passed."
    texts = [t for t in (validate.get("message"), *messages) if t]
    if not texts:
        return "fail", f"validation error: rule {name} failed"
    try:
        message = substitute("; ".join(texts), context)
    except SubstitutionError:
        return "fail", "; ".join(messages)
    if not isinstance(message, str):
        message = "the produced message didn't resolve to a string, check your policy definition."
    return "fail", message


def mutate(
    rule: dict[str, Any], resource: dict[str, Any], context: dict[str, Any]
) -> tuple[str, str, dict[str, Any] | None]:
    """Status, message, and the new resource when it changed."""
    try:
        ready = substitute(rule, context)["mutate"]
        if "patchStrategicMerge" in ready:
            patched = strategic_merge(resource, ready["patchStrategicMerge"])
        else:
            patched = json_patch(resource, _operations(ready["patchesJson6902"]))
    except NothingToDo:
        return "skip", "no patches applied", None
    except (SubstitutionError, MutationError) as error:
        return "error", str(error), None
    if equal(patched, resource):
        return "skip", "no patches applied", None
    metadata = patched.get("metadata") if isinstance(patched.get("metadata"), dict) else {}
    kind, called, namespace = (
        v if isinstance(v, str) else "" for v in (patched.get("kind"), metadata.get("name"), metadata.get("namespace"))
    )
    message = f"mutated {kind}/{called}" + (f" in namespace {namespace}" if namespace else "")
    return "pass", message, patched


def _operations(patch: Any) -> list[dict[str, Any]]:
    decoded = yaml.safe_load(patch) if isinstance(patch, str) else patch
    if not isinstance(decoded, list):
        raise MutationError("a JSON patch must be a list")
    return decoded
