"""The match index loses no rule: every rule run by brute force answers as the rules that the index finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from compiler import Options, compile_policies
from compiler.diagnostics import Reporter
from compiler.source import Document, load_documents
from runtime.policyset import PolicySet, Tier
from runtime.request import OPERATIONS, Request
from vm.host import NOTHING, Meter

NAME: Final = "f09_index"
PROPERTY: Final = "for each rule r and request q: run(O0(r), q) = run(O2(r), q) if r in index(q) else nothing"

_FUEL: Final = 1_000_000
_CHUNK: Final = 25

_GROUPS: Final = ("", "apps", "batch", "example.com")
_VERSIONS: Final = ("v1", "v1beta1", "v2")
_KINDS: Final = ("Pod", "Deployment", "PodTemplate", "Job", "Namespace")
_SUBRESOURCES: Final = ("", "", "", "status", "ephemeralcontainers", "exec", "scale")
_SELECTORS: Final = (
    *("Pod", "Deployment", "P*", "?ob", "*", "*/*", "Pod/*", "Pod/status", "Pod.status", "Pod/ephemeralcontainers"),
    *(
        "v1/Pod",
        "*/Pod",
        "v1*/Deployment",
        "apps/v1/Deployment",
        "apps/*/*",
        "*/v1/Pod/exec",
        "apps/v1/Deployment/scale",
    ),
    *("*/ephemeralcontainers", "example.com/v1/Pod", "Deployment/scale", "batch/v?/Job", "Namespace"),
)


@st.composite
def _filters(draw: st.DrawFn) -> dict[str, Any]:
    made: dict[str, Any] = {"kinds": draw(st.lists(st.sampled_from(_SELECTORS), min_size=1, max_size=3))}
    if draw(st.integers(0, 1)):
        made["operations"] = draw(st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=3, unique=True))
    if draw(st.integers(0, 3)) == 0:
        made["names"] = [draw(st.sampled_from(("a*", "b", "*")))]
    if draw(st.integers(0, 3)) == 0:
        made["namespaces"] = [draw(st.sampled_from(("default", "n*", "*")))]
    return {"resources": made}


@st.composite
def _matches(draw: st.DrawFn) -> dict[str, Any]:
    mode = draw(st.sampled_from(("any", "all", "direct")))
    if mode == "direct":
        return draw(_filters())
    return {mode: draw(st.lists(_filters(), min_size=1, max_size=3))}


@st.composite
def _policies(draw: st.DrawFn) -> dict[str, Any]:
    rules = []
    for number in range(draw(st.integers(1, 3))):
        rule: dict[str, Any] = {"name": f"r{number}", "match": draw(_matches())}
        if draw(st.integers(0, 2)) == 0:
            rule["exclude"] = draw(_matches())
        # On DELETE a pattern has nothing to say, so that the body is one that always has.
        rule["validate"] = {"message": "no", "deny": {}}
        rules.append(rule)
    metadata: dict[str, Any] = {"name": "p"}
    kind = draw(st.sampled_from(("ClusterPolicy", "ClusterPolicy", "Policy")))
    if kind == "Policy":
        metadata["namespace"] = draw(st.sampled_from(("default", "other")))
    spec = {"background": False, "rules": rules}
    return {"apiVersion": "kyverno.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


_REQUESTS: Final = st.tuples(
    st.tuples(*map(st.sampled_from, (_GROUPS, _VERSIONS, _KINDS, _SUBRESOURCES))),
    st.sampled_from(OPERATIONS),
    st.sampled_from(("a", "ab", "b")),
    st.sampled_from(("", "default", "nine")),
)


def run(seconds: float, seed: int) -> int:
    """Answers the number of requests that were asked."""
    end = monotonic() + seconds
    count = 0
    number = seed * 1_000_003
    while True:

        @settings(
            max_examples=_CHUNK,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )
        @seeded(number)
        @given(_policies(), st.lists(_REQUESTS, min_size=4, max_size=12))
        def once(policy: dict[str, Any], requests: list[Any]) -> None:
            nonlocal count
            count += index_holds(policy, requests)

        once()
        if monotonic() >= end:
            return count
        number += 1


def index_holds(policy: dict[str, Any], requests: list[Any]) -> int:
    """Asks each request of every rule and of the rules that the index finds. Answers the number of requests asked."""
    plain, best = policy_set([policy], level=0), policy_set([policy])
    if plain is None or best is None:
        assert plain is best, f"the level decides whether the policy compiles\npolicy: {json.dumps(policy)}"
        return 0
    for kind, operation, name, namespace in requests:
        request = _request(kind, operation, name, namespace)
        group, version, named, subresource = kind
        found = best.candidates(group, version, named, subresource, operation, request.namespace)
        reached = {plan.name: plan for _, plans in found.validate for plan in plans}
        for rule in plain.rules:
            want = rule.run(rule.entry, request.root, Meter(_FUEL))
            plan = reached.get(rule.name)
            got = NOTHING if plan is None else plan.run(plan.entry, request.root, Meter(_FUEL))
            assert got == want, (
                f"rule {rule.name} answers {want} by itself and {got} through the index\n"
                f"policy: {json.dumps(policy)}\nrequest: {json.dumps([kind, operation, name, namespace])}"
            )
    return len(requests)


def _request(kind: tuple[str, str, str, str], operation: str, name: str, namespace: str) -> Request:
    group, version, named, _ = kind
    metadata: dict[str, Any] = {"name": name}
    if namespace and named != "Namespace":
        metadata["namespace"] = namespace
    api_version = f"{group}/{version}" if group else version
    resource = {"apiVersion": api_version, "kind": named, "metadata": metadata}
    return Request.from_resource(resource, operation, kind=kind)


def policy_set(policies: Sequence[dict[str, Any]], *, level: int = 2, tier: Tier = "1") -> PolicySet | None:
    """The set of some policies; None where one does not compile."""
    reporter = Reporter()
    text = "\n---\n".join(map(json.dumps, policies))
    documents: list[Document] = load_documents(text, "p.yaml", reporter)
    result = compile_policies(documents, options=Options(level=level))
    return None if result.bundle is None else PolicySet.load(result.bundle, tier=tier)
