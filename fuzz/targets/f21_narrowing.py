"""Rules that an object's name, namespace and labels leave out would have said nothing, and leaving them out changes no
order."""

from __future__ import annotations

import json
from random import Random
from time import monotonic
from typing import Any, Final

from fuzz.targets.f09_index import policy_set
from runtime.engine import Engine
from runtime.policyset import PolicySet
from runtime.request import OPERATIONS, Request

NAME: Final = "f21_narrowing"
PROPERTY: Final = "engine(narrowed(rules, o), o) ≡ engine(rules, o): results, passes and policies in their order"

_WORDS: Final = ("a", "ab", "b", "web-1", "")
_PATTERNS: Final = (*_WORDS[:-1], "*", "a*", "?", "web-?", "*b")
_KEYS: Final = ("app", "team", "example.com/x")
_ODD: Final[tuple[Any, ...]] = (None, 0, True, [], {}, ["a"], {"a": "b"}, "*")


def run(seconds: float, seed: int) -> int:
    end = monotonic() + seconds
    rng = Random(seed)
    runs = 0
    while not runs or monotonic() < end:
        policies = [_policy(rng, number) for number in range(rng.randint(1, 5))]
        exact, fast = policy_set(policies, tier="1"), policy_set(policies, tier="2")
        if exact is None or fast is None:
            continue  # a rule that excludes all that it matches is refused
        for _ in range(25):
            resource, operation = _object(rng), rng.choice(OPERATIONS)
            for brief in (False, True):
                want, got = (_said(p, resource, operation, brief) for p in (exact, fast))
                assert want == got, (
                    f"policies: {json.dumps(policies)}\nobject: {json.dumps(resource)}, {operation}, brief={brief}\n"
                    f"all: {want}\nnarrowed: {got}"
                )
                runs += 1
    return runs


def _said(policies: PolicySet, resource: dict[str, Any], operation: str, brief: bool) -> Any:
    request = Request.from_resource(json.loads(json.dumps(resource)), operation, kind=("", "v1", "Pod", ""))
    response = Engine(policies).evaluate(request, "validate", brief=brief)
    results = [(r.policy_key, r.rule, r.status, r.message) for r in response.results]
    return results, [(p.policy.key, p.name) for p in response.passed], [p.key for p in response.policies]


def _policy(rng: Random, number: int) -> dict[str, Any]:
    rules = []
    for n in range(rng.randint(1, 3)):
        rule: dict[str, Any] = {"name": f"r{n}", "match": _match(rng)}
        if rng.random() < 0.2:
            rule["exclude"] = _match(rng)
        pattern = {"metadata": {"=(annotations)": {"=(note)": rng.choice(("a*", "?*", "b"))}}}
        validate = rng.choice(({"pattern": pattern}, {"pattern": pattern}, {"deny": {}}))
        rules.append({**rule, "validate": {"message": f"no {n}", **validate}})
    spec = {"background": rng.random() < 0.7, "applyRules": rng.choice(("All", "All", "One")), "rules": rules}
    metadata: dict[str, Any] = {"name": f"p{number}"}
    kind = "ClusterPolicy"
    if rng.random() < 0.2:
        kind, metadata["namespace"] = "Policy", rng.choice(("a", "ab"))
        for rule in rules:
            for block in (rule["match"], rule.get("exclude", {})):
                for one in block.get("any", block.get("all", ())):
                    one["resources"].pop("namespaces", None)
    return {"apiVersion": "kyverno.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _match(rng: Random) -> dict[str, Any]:
    return {rng.choice(("any", "all")): [{"resources": _filter(rng)} for _ in range(rng.choice((1, 1, 1, 2)))]}


def _filter(rng: Random) -> dict[str, Any]:
    made: dict[str, Any] = {"kinds": ["Pod"]}
    if rng.random() < 0.4:
        made["names"] = rng.sample(_PATTERNS, rng.randint(1, 3))
    if rng.random() < 0.4:
        made["namespaces"] = rng.sample(_PATTERNS, rng.randint(1, 2))
    if rng.random() < 0.4:
        keys = rng.sample((*_KEYS, "t*"), rng.randint(1, 2))
        made["selector"] = {"matchLabels": {key: rng.choice(("a", "b", "a*", "?", "")) for key in keys}}
        if rng.random() < 0.3:
            operator = rng.choice(("Exists", "DoesNotExist"))
            made["selector"]["matchExpressions"] = [{"key": rng.choice(_KEYS), "operator": operator}]
    if rng.random() < 0.2:
        made["operations"] = rng.sample(OPERATIONS, 2)
    return made


def _object(rng: Random) -> dict[str, Any]:
    labels: Any = {key: _odd(rng, rng.choice(("a", "b", "ab", ""))) for key in rng.sample(_KEYS, rng.randint(0, 3))}
    metadata: Any = {
        "name": _odd(rng, rng.choice(_WORDS)),
        "namespace": _odd(rng, rng.choice(_WORDS)),
        "labels": _odd(rng, labels),
        "annotations": {"note": rng.choice(("a", "b", ""))},
    }
    if rng.random() < 0.2:
        metadata["generateName"] = _odd(rng, rng.choice(_WORDS))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _odd(rng, metadata, 0.02)}


def _odd(rng: Random, value: Any, chance: float = 0.08) -> Any:
    return rng.choice(_ODD) if rng.random() < chance else value
