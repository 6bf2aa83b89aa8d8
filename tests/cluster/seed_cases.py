"""The user's example cases as a cluster meets them: which objects are refused, changed, reported on, or made.

A folder holds a policy, resources and a ``kyverno-test.yaml`` with the right results. :func:`load` gives what of that
can be seen from outside of a cluster; ``test_seed`` looks there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

Object = dict[str, Any]

UNASKED: Final = ("kube-system", "kyverno")
"""Namespaces whose objects the webhooks are not asked about (semantics §24)."""


DEFAULTED: Final = {
    ("17-fields-exist", "no-resources"): "the API server gives every container resources, empty ones here",
    ("23-enforce-resource-limits", "no-memory-request"): "the API server takes requests that are not there from limits",
}
"""Objects that break a rule as they are written and keep to it as the API server hands them on."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One result: the rule of a policy, what it says of an object, the objects that it makes, or the changed form."""

    policy: str
    rule: str
    kind: str
    namespace: str
    name: str
    result: str
    patched: Object | None
    made: tuple[Object, ...]

    def about(self, obj: Object) -> bool:
        metadata = obj["metadata"]
        if obj["kind"] != self.kind or metadata["name"] != self.name:
            return False
        return not self.namespace or metadata.get("namespace", "default") == self.namespace

    @property
    def policy_name(self) -> str:
        return self.policy.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class SeedCase:
    """``policies`` and ``exceptions`` are objects with what the files say of them, ``text`` the policy file itself."""

    folder: Path
    policies: tuple[Object, ...]
    exceptions: tuple[Object, ...]
    resources: tuple[Object, ...]
    expected: tuple[Expected, ...]

    def enforces(self, policy: str) -> bool:
        """Whether a policy of the case refuses what it finds wrong."""
        for obj in self.policies:
            if obj["metadata"]["name"] == policy:
                spec = obj["spec"]
                actions = [spec.get("validationFailureAction"), *(_action(rule) for rule in spec["rules"])]
                return any(str(a).lower() == "enforce" for a in actions if a)
        return False

    def of(self, obj: Object) -> list[Expected]:
        """What is expected of an object that is created."""
        if (self.folder.name, obj["metadata"]["name"]) in DEFAULTED:
            return [replace(e, result="pass") for e in self.expected if e.about(obj)]
        return [e for e in self.expected if e.about(obj)]

    def refusals(self, obj: Object) -> list[Expected]:
        """The results for which an object is refused."""
        if obj["metadata"].get("namespace") in UNASKED:
            return []
        return [e for e in self.of(obj) if e.result == "fail" and self.enforces(e.policy_name)]


def seed_folder() -> Path:
    """Where the cases are: beside the conformance data."""
    default = Path(__file__).resolve().parents[3] / "shared" / "conformance"
    return Path(os.environ.get("THESMOS_CONFORMANCE") or default).resolve().parent / "seed"


def folders() -> list[Path]:
    """The folders that have a test file, in order; none where the cases are absent."""
    return sorted(path.parent for path in seed_folder().glob("*/kyverno-test.yaml"))


def load(folder: Path) -> SeedCase:
    test = _documents(folder / "kyverno-test.yaml")[0]
    expected: list[Expected] = []
    for entry in test["results"]:
        if entry.get("operation", "CREATE") != "CREATE":
            continue
        patched = _documents(folder / entry["patchedResources"]) if "patchedResources" in entry else []
        named = entry.get("generatedResources") or [
            {"resource": entry[key]} for key in ("generatedResource",) if key in entry
        ]
        made = [obj for one in named for obj in _documents(folder / (one["resource"] if type(one) is dict else one))]
        for name in entry["resources"]:
            namespace, _, short = name.rpartition("/")
            change = next((o for o in patched if o["metadata"]["name"] == short), None)
            expected.append(
                Expected(
                    entry["policy"],
                    entry["rule"],
                    entry["kind"],
                    namespace,
                    short,
                    entry["result"],
                    change,
                    tuple(made),
                )
            )
    return SeedCase(
        folder,
        tuple(o for f in test["policies"] for o in _documents(folder / f)),
        tuple(o for f in test.get("exceptions", ()) for o in _documents(folder / f)),
        tuple(o for f in test["resources"] for o in _documents(folder / f)),
        tuple(expected),
    )


def contains(actual: Any, wanted: Any) -> bool:
    """Whether an object of the cluster says all that is wanted: the API server puts defaults beside it, and leaves
    empty lists of its own kinds out."""
    if isinstance(wanted, dict):
        return isinstance(actual, dict) and all(
            contains(actual[k], v) if k in actual else v == [] for k, v in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(actual, list) and len(actual) == len(wanted) and all(map(contains, actual, wanted))
    return bool(actual == wanted)


def _action(rule: Object) -> Any:
    return (rule.get("validate") or rule.get("validation") or {}).get("failureAction")


def _documents(path: Path) -> list[Object]:
    return [d for d in yaml.safe_load_all(path.read_text(encoding="utf-8")) if d]
