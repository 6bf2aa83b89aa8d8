"""A rule that the fused function says passes for sure, or has no result, does so on tier 1: random code, policies and
CEL expressions put together at random, policies of the benchmark on Pods with parts of other kinds than they should
be."""

from __future__ import annotations

from functools import cache, lru_cache
from random import Random
from time import monotonic
from typing import Any, Final

from bench.policies import generated_policies
from fuzz.gen import bytecode, cel_rules
from fuzz.gen.rules import case
from runtime.fusing import Verdict
from runtime.policyset import FUEL, PolicySet
from runtime.request import Request
from tests.cases.engines import compiled
from vm.code import Module, UnverifiedModule
from vm.disasm import disassemble
from vm.fused import Rule, covered, fuse
from vm.host import HostCall, Meter, Outcome, Program, Status
from vm.interp import interpret
from vm.values import Value
from vm.verify import VerifyError, verify

NAME: Final = "f17_fused_agrees"
PROPERTY: Final = "fused(rules, root) says pass or nothing of rule r => tier1(r, root) is pass or nothing"

_ROOTS: Final = 6
_POLICIES: Final = 6
_EXPRESSIONS: Final = 40
_SAFE: Final = {"privileged": False, "runAsNonRoot": True, "capabilities": {"add": ["CHOWN", "NET_BIND_SERVICE"]}}
_CONTAINER: Final = {
    "name": "c",
    "image": "ghcr.io/acme/app:1",
    "securityContext": _SAFE,
    "resources": {"limits": {"memory": "1Gi", "cpu": "500m"}},
    "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 0}],
}
_POD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "n", "labels": {"app.kubernetes.io/name": "a", "team": "t"}},
    "spec": {
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w"}],
        "securityContext": {"runAsNonRoot": True},
        "containers": [_CONTAINER, _CONTAINER],
        "initContainers": [_CONTAINER],
        "ephemeralContainers": [{"name": "e", "image": "bar.io/x"}],
    },
}
_ODD: Final[tuple[Any, ...]] = (None, True, False, 0, 2.5, "", "x", "{{ request.object.kind }}", [], [[]], {}, [None])
_MATCHED: Final[dict[str, Any]] = {
    "apiVersion": "kyverno.io/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "matched"},
    "spec": {
        "rules": [
            {
                "name": "named",
                "match": {"any": [{"resources": {"kinds": ["Pod"], "names": ["p*"], "namespaces": ["n"]}}]},
                "exclude": {"any": [{"resources": {"selector": {"matchLabels": {"team": "x"}}}}]},
                "validate": {"message": "m", "pattern": {"spec": {"=(hostNetwork)": "false"}}},
            }
        ]
    },
}


def run(seconds: float, seed: int) -> int:
    rng = Random(seed)
    end = monotonic() + seconds
    number = seed * 1_000_003
    runs = 0
    while monotonic() < end:
        for _ in range(20):
            module = bytecode.module(rng)
            for made in (module, *(bytecode.mutate(rng, module) for _ in range(4))):
                runs += code_agrees(made, rng)
        if not runs or rng.random() < 0.1:  # compiling takes most of the time
            cases = [case(n, resources=4) for n in range(number, number + _POLICIES)]
            bundles = [result.bundle for c in cases if (result := compiled(c.documents)).bundle is not None]
            runs += policies_agree(bundles, [r for c in cases for r in c.resources])
            number += _POLICIES
            result = compiled(cel_rules.policies(rng, _EXPRESSIONS))
            assert result.bundle is not None
            runs += policies_agree([result.bundle], [_POD, *(_bent(rng, _POD) for _ in range(20))])
        runs += policies_agree([_known()], [_bent(rng, _POD) for _ in range(10)])
    return runs


def code_agrees(m: Module, rng: Random) -> int:
    """Fuses all functions of a module that answer an outcome; how many answers were compared."""
    try:
        verified = verify(UnverifiedModule(m), bytecode.lent())
    except VerifyError:
        return 0
    entries = [fn.number for fn in verified.functions if not fn.params and fn.result == "O"]
    fused = fuse([Rule(verified, entry) for entry in entries], "CREATE", FUEL)
    if fused is None:
        return 0
    exact = interpret(verified)
    runs = 0
    for _ in range(_ROOTS):
        root = _created(bytecode.root(rng))
        failed, silent = fused.run(root, Meter(FUEL))
        for i in covered(fused.sure & ~failed):
            got = _exact(exact, entries[i], root)
            want = Status.NONE if silent >> i & 1 else Status.PASS
            agrees = isinstance(got, Outcome) and got.status is want and got.patched is None
            assert agrees, (
                f"function {entries[i]} on {root!r}\nfused: {want!r}\ntier 1: {got!r}\n{fused.source}\n{disassemble(m)}"
            )
            runs += 1
    return runs


def _created(root: dict[str, Any]) -> dict[str, Any]:
    """The root of a request that creates an object."""
    made = root["request"]["object"]
    return {
        **root,
        "request": {**root["request"], "operation": "CREATE"},
        "$operation": "CREATE",
        "$resource": made,
        "$object": made,
    }


def _exact(program: Program, entry: int, root: dict[str, Any]) -> Value | HostCall:
    """What tier 1 answers, or what it asks the host."""
    try:
        return next(program.start(entry, root, Meter(FUEL)))
    except StopIteration as stop:
        return stop.value


@cache
def _known() -> bytes:
    result = compiled([*generated_policies(27), _MATCHED])
    assert result.bundle is not None
    return result.bundle


@lru_cache(maxsize=2)
def _sets(*bundles: bytes) -> tuple[PolicySet, PolicySet]:
    return PolicySet.load(bundles, tier="2"), PolicySet.load(bundles, tier="1")


def _bent(rng: Random, v: Any) -> Any:
    """The value with something else in a few places."""
    if rng.random() < 0.02:
        return rng.choice(_ODD)
    if type(v) is dict:
        return {k: _bent(rng, x) for k, x in v.items() if rng.random() < 0.97}
    return [_bent(rng, x) for x in v] * rng.choice((1,) * 40 + (0, 30)) if type(v) is list else v


def policies_agree(bundles: list[bytes], resources: list[dict[str, Any]]) -> int:
    """Fuses the rules of several policies; how many answers were compared."""
    fused, exact = _sets(*bundles)
    twins = {id(plan): twin for plan, twin in zip(fused.rules, exact.rules, strict=True)}
    runs = 0
    for resource in resources:
        if type(resource) is not dict or type(resource.get("metadata")) is not dict:
            continue  # no API server sends that
        request = Request.from_resource(resource)
        found = fused.candidates(request.group, request.version, request.kind, "", request.operation, request.namespace)
        for rules in (found.fused, found.fused_brief):
            verdict = rules.judge(request.root, Meter(FUEL)) or rules.judge(request.root, Meter(FUEL))
            assert not rules.gave_up, f"fused code had a fault on {resource!r}"
            for plan, want in _said(verdict):
                twin = twins[id(plan)]
                got = twin.run(twin.entry, request.root, Meter(FUEL))
                plain = rules is found.fused or want is Status.NONE or got.message is None
                agrees = got.status is want and plain
                assert agrees, (
                    f"rule {plan.name} of {plan.policy.key} on {resource!r}\nfused: {want!r}\ntier 1: {got!r}"
                )
                runs += 1
    return runs


def _said(verdict: Verdict | None) -> list[tuple[Any, Status]]:
    if verdict is None:
        return []
    return [*((plan, Status.PASS) for plan in verdict.passed), *((plan, Status.NONE) for plan in verdict.silent)]
