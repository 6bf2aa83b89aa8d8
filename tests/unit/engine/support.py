"""Small policies and requests for tests of the engine and its neighbours."""

from __future__ import annotations

from typing import Any, Literal

from compiler import compile_policies, load_documents
from compiler.diagnostics import Reporter
from runtime.policyset import PolicySet
from runtime.request import Request


def policy_set(*texts: str, tier: Literal["1", "2", "check"] = "2") -> PolicySet:
    """A set from policy texts, all in one bundle. Fails the test when one does not compile."""
    reporter = Reporter()
    documents = load_documents("\n---\n".join(texts), "policy.yaml", reporter)
    result = compile_policies(documents)
    errors = [d.message for d in (*reporter.diagnostics, *result.diagnostics) if d.severity == "error"]
    assert result.bundle is not None, errors
    return PolicySet.load(result.bundle, tier=tier)


def policy(
    name: str = "labels",
    *,
    rules: str | None = None,
    spec: str = "",
    kind: str = "ClusterPolicy",
    namespace: str = "",
    annotations: str = "",
) -> str:
    """A policy's text; ``rules`` default to one that asks for label app."""
    lines = ["apiVersion: kyverno.io/v1", f"kind: {kind}", "metadata:", f"  name: {name}"]
    if namespace:
        lines.append(f"  namespace: {namespace}")
    if annotations:
        lines += ["  annotations:", f"    {annotations}"]
    lines.append("spec:")
    lines += [f"  {line}" for line in spec.splitlines()]
    lines.append("  rules:")
    return "\n".join(lines) + "\n" + (rules if rules is not None else wants_label("app"))


def wants_label(label: str, action: str = "Enforce", rule: str = "", more: str = "") -> str:
    """A rule that asks Pods for a label."""
    extra = "".join(f"\n      {line}" for line in more.splitlines())
    return f"""
  - name: {rule or "wants-" + label}
    match:
      any:
      - resources:
          kinds: [Pod]
    validate:
      failureAction: {action}
      message: "label {label} is required"
      pattern:
        metadata:
          labels:
            {label}: "?*"{extra}
"""


def adds_label(label: str, value: str) -> str:
    """A rule that sets a label of Pods."""
    return f"""
  - name: adds-{label}
    match:
      any:
      - resources:
          kinds: [Pod]
    mutate:
      patchStrategicMerge:
        metadata:
          labels:
            {label}: "{value}"
"""


def pod(name: str = "web", namespace: str = "default", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/web:1"}]},
    }


def create(resource: dict[str, Any], **more: Any) -> Request:
    return Request.from_resource(resource, **more)
