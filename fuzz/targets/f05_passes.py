"""No pass and no level changes what a policy answers, and what a proving function proves, the walk confirms."""

from __future__ import annotations

import json
from random import Random
from time import monotonic
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from compiler.diagnostics import Reporter
from compiler.dynamic import make_imports
from compiler.emit import emit
from compiler.ir import ops as ir
from compiler.ir.check import check
from compiler.ir.print import print_module
from compiler.lower import lower
from compiler.pipeline import PASSES, optimise
from compiler.schema import read_policies
from compiler.source import load_documents
from fuzz.gen import functions
from fuzz.gen import pattern as patterns
from fuzz.gen import policy as policies
from fuzz.gen import resource as resources
from runtime.match_index import reaches
from runtime.request import Request
from vm.code import UnverifiedModule
from vm.host import NOTHING, Meter, Program
from vm.interp import interpret
from vm.intrinsics.pattern_walk import walk
from vm.values import canonical_key
from vm.verify import verify

NAME: Final = "f05_passes"
PROPERTY: Final = "run(O0(m)) = run(O1(m)) = run(O2(m)) = run(pass(m)) for each pass; proof(p, r) => walk(p, r) = null"

_IMPORTS: Final = make_imports()
_FUEL: Final = 10_000_000
_CHUNK: Final = 25


def run(seconds: float, seed: int) -> int:
    """Takes turns between whole policies, bare patterns and code by chance. Answers the number of inputs."""
    end = monotonic() + seconds
    count = 0

    def examples(strategy: st.SearchStrategy[Any], holds: Any, number: int) -> None:
        @settings(
            max_examples=_CHUNK,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )
        @seeded(number)
        @given(strategy)
        def once(case: Any) -> None:
            nonlocal count
            count += 1
            holds(*case)

        once()

    number = seed * 1_000_003
    while True:
        for offset in range(_CHUNK):
            count += 1
            module_holds(functions.modules(Random(number + offset)))
        if monotonic() >= end:
            return count
        examples(_pattern_cases(), pattern_holds, number)
        if monotonic() >= end:
            return count
        examples(_policy_cases(), policy_holds, number + 1)
        if monotonic() >= end:
            return count
        number += _CHUNK


@st.composite
def _pattern_cases(draw: st.DrawFn) -> tuple[Any, Any]:
    resource = draw(resources.resources)
    pattern = draw(patterns.patterns_for(resource))
    if draw(st.integers(0, 2)) == 0:
        resource = draw(resources.resources)
    return pattern, resource


@st.composite
def _policy_cases(draw: st.DrawFn) -> tuple[Any, Any]:
    """Policies as they come, most of them led to the resource, so that their bodies have something to say."""
    policy, resource = draw(policies.cases())
    for rule in policy["spec"]["rules"]:
        if draw(st.integers(0, 3)):
            rule["match"] = {"any": [{"resources": {"kinds": [resource["kind"]]}}]}
            rule.pop("exclude", None)
        for block in (rule.get("preconditions"), rule.get("validate", {}).get("deny", {}).get("conditions")):
            _complete(block)
    if draw(st.integers(0, 3)):
        policy["kind"] = "ClusterPolicy"
        policy["metadata"].pop("namespace", None)
    return policy, resource


def _complete(block: Any) -> None:
    """Puts a text in place of each null key and value of conditions, which no policy may have."""
    for conditions in block.values() if isinstance(block, dict) else [block or []]:
        for condition in conditions:
            condition.update({k: "" for k in ("key", "value") if condition[k] is None})


def policy_holds(policy: dict[str, Any], resource: dict[str, Any]) -> None:
    """All levels and single passes answer alike. A policy that the compiler refuses says nothing here."""
    reporter = Reporter()
    documents = load_documents(json.dumps(policy), "p.yaml", reporter)
    found, exceptions = read_policies(documents, reporter)
    if reporter.failed or not found:
        return
    module = lower(found, exceptions, reporter)
    if reporter.failed:
        return
    case = f"policy: {json.dumps(policy)}\nresource: {json.dumps(resource)}"
    _variants_hold(module, Request.from_resource(resource).root, case)


def module_holds(module: ir.Module) -> None:
    """All levels and single passes leave the meaning of a module made by chance alone."""
    check(module)
    _variants_hold(module, functions.ROOT, print_module(module))


def _variants_hold(module: ir.Module, root: dict[str, Any], case: str) -> None:
    want = _answers(module, root)
    variants = {f"O{level}": optimise(module, level) for level in (1, 2)}
    for step in PASSES:
        changed = step.run(module)
        check(changed)
        variants[step.name] = changed
    for name, variant in variants.items():
        got = _answers(variant, root)
        assert got == want, f"{name} changes the meaning\n{case}\nwant: {want}\ngot: {got}\n{print_module(variant)}"


def pattern_holds(pattern: Any, resource: Any) -> None:
    """The specialised code answers as the walk does, and its proving function is never wrong."""
    result = ir.Local("r")
    body: tuple[ir.Stmt, ...] = (
        ir.Set("r", ir.Invoke("pat.walk", (ir.Load(("$resource",)), ir.Const(pattern)))),
        ir.If(ir.Op("is_null", (result,)), (ir.Return(ir.Op("o_pass")),)),
        ir.Return(ir.Op("o_fail", (ir.Invoke("pat.text", (result,)),))),
    )
    entry = ir.Function("rule", (), {"r": "V"}, body, "O", 0, "entry")
    key = ir.MatchKey(ir.KindKey("*", "*", "*", "*"))
    rule = ir.Rule("rule", "rule", "validate", (key,), {})
    module = ir.Module((entry,), (ir.Policy("p", None, (rule,), {}),))
    best = optimise(module)
    program, names = _program(best)
    root = {"$resource": resource}
    passes = walk(_IMPORTS, Meter(_FUEL), resource, pattern) is None
    case = f"\npattern: {json.dumps(pattern)}\nresource: {json.dumps(resource)}\n{print_module(best)}"
    if "rule.sure" in names and program.run(names["rule.sure"], root, Meter(_FUEL)):
        assert passes, f"the proof is wrong{case}"
    assert (program.run(names["rule"], root, Meter(_FUEL)).status.name == "PASS") is passes, f"the rule is wrong{case}"


def _program(module: ir.Module) -> tuple[Program, dict[str, int]]:
    verified = verify(UnverifiedModule(emit(module)), _IMPORTS)
    return interpret(verified), {fn.name: number for number, fn in enumerate(verified.functions)}


def _answers(module: ir.Module, root: dict[str, Any]) -> list[Any]:
    """What every rule answers. A rule that no key lets the request reach has nothing to say, as its code would."""
    verified = verify(UnverifiedModule(emit(module)), _IMPORTS)
    program = interpret(verified)
    answers: list[Any] = []
    for policy in verified.policies:
        for rule in policy.rules:
            reached = any(reaches(key, root["$kind"], root["$operation"]) for key in rule.keys)
            outcome = program.run(rule.entry, root, Meter(_FUEL)) if reached else NOTHING
            answers.append((outcome.status.name, outcome.message, canonical_key(outcome.patched)))
    return answers
