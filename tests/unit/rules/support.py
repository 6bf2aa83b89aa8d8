"""Compiles the text of one policy and runs its rules on a request, on both tiers, at both ends of optimisation."""

from __future__ import annotations

from typing import Any

import yaml

from compiler import Options, compile_policies
from compiler.diagnostics import Diagnostic, Reporter
from compiler.source import load_documents
from runtime.engine import Engine, RuleResult
from runtime.policyset import PolicySet
from runtime.request import Request, UserInfo

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "team-a", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "nginx:1.2"}]},
}


def rule_policy(rule: str, *, name: str = "p", background: bool = False, kind: str = "ClusterPolicy") -> str:
    """A policy whose one rule ``r`` matches Pods and has the given body."""
    written = yaml.safe_load(rule)
    body = {"name": "r", "match": {"any": [{"resources": {"kinds": ["Pod"]}}]}, **written}
    metadata = {"name": name, "annotations": {"pod-policies.kyverno.io/autogen-controllers": "none"}}
    if kind == "Policy":
        metadata["namespace"] = "team-a"
    doc = {
        "apiVersion": "kyverno.io/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"background": background, "rules": [body]},
    }
    return yaml.safe_dump(doc, sort_keys=False)


def run(policy: str, resource: dict[str, Any] | None = None, rule: str = "r", **request: Any) -> tuple[str, str]:
    """Status word and message of a rule on a resource, ``("none", "")`` when it has nothing to say; ``request`` are
    arguments of ``Request.from_resource``."""
    found = result_of(policy, resource, rule, **request)
    return ("none", "") if found is None else (found.status, found.message)


def result_of(
    policy: str, resource: dict[str, Any] | None = None, rule: str = "r", **request: Any
) -> RuleResult | None:
    """The result of a rule. Both tiers at both levels must agree on it."""
    made = Request.from_resource(resource or POD, **request)
    found = [_run(policy, rule, made, level, tier) for level in (0, 2) for tier in ("1", "2")]
    assert all(o == found[0] for o in found), found
    return found[0]


def problems(policy: str) -> list[Diagnostic]:
    """The errors of a policy text."""
    return [d for d in _compiled(policy, 2)[1] if d.severity == "error"]


def _run(policy: str, rule: str, request: Request, level: int, tier: str) -> RuleResult | None:
    bundle, diagnostics = _compiled(policy, level)
    assert bundle is not None, [d.message for d in diagnostics if d.severity == "error"]
    engine = Engine(PolicySet.load(bundle, tier=tier))
    for what in ("validate", "mutate"):
        for result in engine.evaluate(request, what, full=True).results:  # type: ignore[arg-type]
            if result.rule == rule:
                return result
    return None


def _compiled(policy: str, level: int) -> tuple[bytes | None, list[Diagnostic]]:
    reporter = Reporter()
    docs = load_documents(policy, "policy.yaml", reporter)
    result = compile_policies(docs, options=Options(level=level))
    return result.bundle, [*reporter.diagnostics, *result.diagnostics]


__all__ = ["POD", "UserInfo", "problems", "result_of", "rule_policy", "run"]
