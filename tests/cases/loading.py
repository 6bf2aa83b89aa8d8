"""Reads the case files ``<topic>/<behaviour>.yaml``.

A file has ``note``, the policy, and ``cases``::

    note: one sentence on the behaviour
    rule: {validate: {pattern: ...}}     # or policies: [whole documents], exceptions among them
    cases:
    - name: what is special about it
      resource: {spec: ...}              # kind Pod, name p, namespace default where it does not say
      operation: CREATE                  # default
      old: ...                           # old object of an UPDATE
      user: {userInfo: ..., roles: [...], clusterRoles: [...]}
      namespaceLabels: {...}
      values: {name: value}              # context variables
      params: [objects]                  # what CEL rules may see as params
      world: {objects: [...]}            # what context entries are answered from: objects, calls, globalEntries,
                                         # images, and foreachValues of the rule r, by dotted name
      namespaceObject: {...}             # the Namespace; without it its name and labels
      kyverno: {rule: fail}              # what --quirks=kyverno answers, in the form of expect
      expect: {rule: pass}               # status, or {status, message, patched, generated}

``rule`` stands for a ClusterPolicy ``case`` with that one rule, named ``r`` and matching Pods where it does not say.
``expect`` names every rule that answers, and no other: a rule that gives no result is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent


@dataclass(frozen=True)
class Expected:
    status: str
    message: str | None = None
    patched: dict[str, Any] | None = None
    generated: list[dict[str, Any]] | None = None


@dataclass(frozen=True)
class Case:
    id: str
    policies: list[dict[str, Any]]
    resource: dict[str, Any]
    expect: dict[str, Expected]
    operation: str = "CREATE"
    old: dict[str, Any] | None = None
    user: dict[str, Any] | None = None
    namespace_labels: dict[str, str] | None = None
    values: dict[str, Any] = field(default_factory=dict)
    world: dict[str, Any] = field(default_factory=dict)
    params: tuple[dict[str, Any], ...] = ()
    namespace_object: dict[str, Any] | None = None
    kyverno: dict[str, Expected] | None = None


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: no dates, no ``=``."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regex) for tag, regex in resolvers if not tag.endswith((":timestamp", ":value"))]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), _Loader)


def cases() -> Iterator[Case]:
    for path in sorted(ROOT.glob("*/*.yaml")):
        document = read(path)
        policies = document.get("policies") or [whole_policy(document["rule"])]
        for i, case in enumerate(document["cases"]):
            yield Case(
                id=f"{path.parent.name}/{path.stem}/{case.get('name', i)}",
                policies=policies,
                resource=whole_resource(case.get("resource") or {}),
                expect={rule: expected(want) for rule, want in case["expect"].items()},
                operation=case.get("operation", "CREATE"),
                old=whole_resource(case["old"]) if "old" in case else None,
                user=case.get("user"),
                namespace_labels=case.get("namespaceLabels"),
                values=case.get("values") or {},
                world=case.get("world") or document.get("world") or {},
                params=tuple(case.get("params") or ()),
                namespace_object=case.get("namespaceObject"),
                kyverno={r: expected(w) for r, w in case["kyverno"].items()} if "kyverno" in case else None,
            )


def expected(want: Any) -> Expected:
    if isinstance(want, str):
        return Expected(want)
    patched = whole_resource(want["patched"]) if "patched" in want else None
    return Expected(want["status"], want.get("message"), patched, want.get("generated"))


def whole_policy(rule: dict[str, Any]) -> dict[str, Any]:
    named = {"name": "r", "match": {"any": [{"resources": {"kinds": ["Pod"]}}]}, **rule}
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "case"},
        "spec": {"background": False, "rules": [named]},
    }


def whole_resource(given: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "p", **(given.get("metadata") or {})}
    if given.get("kind") != "Namespace":
        metadata.setdefault("namespace", "default")
    return {"apiVersion": "v1", "kind": "Pod", **given, "metadata": metadata}
