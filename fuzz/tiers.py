"""The long run of the tiers: ``python -m fuzz.tiers --pairs N [--seed S] [--per-policy M] [--jobs J]``.

Half of the pairs are policies from seeds S, S+1, … (:mod:`fuzz.gen.rules`) on the objects made for them; the other half
are the same policies and objects bent: values of other kinds, missing keys and repeated elements anywhere. Each rule
runs on both tiers with all its fuel and with a little; status, message, patch, host calls and what is left of fuel and
of the CEL budget must be the same. Then the engine judges the object by both, once by fused code. Exit code 1 when some
pair differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Final, Self

from fuzz.gen.rules import Case, case
from fuzz.long import Tally, driven
from fuzz.pairs import OUTSIDE, user_of
from runtime.cli.offline import Offline
from runtime.engine import Engine, EngineResponse
from runtime.host import KEY as HOST
from runtime.policyset import FUEL, PolicySet, RulePlan
from runtime.request import Request, RequestError
from tests.cases.engines import compiled
from vm.host import HostCall, Meter, Outcome
from vm.values import Value, canonical_key

_ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 2.5, 1 << 70, "", "x", "1Gi", "*", "{{ request.object.kind }}", "{{", "0.1"),
    *([], [[]], {}, [None], [{}], {"name": "web"}, ["web", 1], {"a": {"a": {}}}),
)


@dataclass
class Runs(Tally):
    """``runs`` of rules on both tiers, of which the statuses are; ``sure``: passes that the engine told of."""

    runs: int = 0
    sure: int = 0

    def add(self, other: Self) -> None:
        Tally.add(self, other)
        self.runs += other.runs
        self.sure += other.sure


class Noting:
    """A host that writes down what it is asked."""

    __slots__ = ("_host", "asked")

    def __init__(self, host: Offline) -> None:
        self._host = host
        self.asked: list[Any] = []

    def ask(self, call: HostCall) -> Value:
        self.asked.append((call.kind, canonical_key(call.payload), call.scope))
        return self._host.ask(call)


def bent(rng: Random, v: Any, rate: float) -> Any:
    """The value with something else in a few places."""
    if rng.random() < rate:
        return rng.choice(_ODD)
    if type(v) is dict:
        return {k: bent(rng, x, rate) for k, x in v.items() if rng.random() >= rate}
    if type(v) is list:
        return [bent(rng, x, rate) for x in v] * rng.choice((1,) * 40 + (0, 2, 30))
    return v


def bent_case(rng: Random, made: Case) -> Case:
    """The case with odd things in the rules of its policy and in its objects; what makes an object one of a kind
    stays, since the API server sends no other."""
    policy, *others = made.documents
    spec = {**policy["spec"], "rules": [_bent_rule(rng, rule) for rule in policy["spec"]["rules"]]}
    return replace(
        made,
        documents=[{**policy, "spec": spec}, *others],
        resources=[_bent_object(rng, r) for r in made.resources],
        olds=[_bent_object(rng, r) for r in made.olds],
    )


def _bent_rule(rng: Random, rule: dict[str, Any]) -> dict[str, Any]:
    return {k: v if k in ("name", "match") else bent(rng, v, 0.01) for k, v in rule.items()}


def _bent_object(rng: Random, resource: dict[str, Any]) -> dict[str, Any]:
    whole: dict[str, Any] = bent(rng, {**resource, "kept": None}, 0.04) if rng.random() > 0.05 else rng.choice(_ODD)
    made = whole if type(whole) is dict else {"spec": whole}
    made.pop("kept", None)
    metadata = made.get("metadata")
    kept = {k: v for k, v in resource["metadata"].items() if k in ("name", "namespace")}
    made["metadata"] = {**metadata, **kept} if type(metadata) is dict else kept
    return {**made, "apiVersion": resource["apiVersion"], "kind": resource["kind"]}


def run_case(made: Case, seed: int) -> Runs:
    """One policy on its objects; at most one difference is told."""
    tally = Runs()
    bundle = compiled(made.documents).bundle
    if bundle is None:
        tally.refused = 1
        return tally
    exact, fast = PolicySet.load(bundle, tier="1"), PolicySet.load(bundle, tier="2")
    tally.policies = 1
    for at in range(len(made.resources)):
        try:
            requests = [_request(made, at) for _ in range(2)]
        except RequestError:
            continue
        tally.pairs += 1
        told = _rules_differ(exact, fast, requests, Random(seed + at), tally) or answers_differ(
            exact, fast, requests, tally
        )
        if told:
            documents = "\n".join(json.dumps(d) for d in made.documents)
            old = f"\nold: {json.dumps(made.olds[at])}" if made.olds else ""
            tally.found.append(f"{documents}\n{made.operation} {json.dumps(made.resources[at])}{old}\n{told}")
            break
    return tally


def _request(made: Case, at: int) -> Request:
    old = made.olds[at] if made.olds else None
    return Request.from_resource(made.resources[at], made.operation, old, user=user_of(made), namespace_labels={})


def _rules_differ(exact: PolicySet, fast: PolicySet, requests: list[Request], rng: Random, tally: Runs) -> str:
    """Runs every rule on both tiers, whether the index finds it or not."""
    for one, two in zip(exact.rules, fast.rules, strict=True):
        for fuel in (FUEL, rng.choice((0, 10, 40, 100, 300, 1_000))):
            seed = rng.getrandbits(32)
            sides = [_observed(p, r, fuel, seed) for p, r in zip((one, two), requests, strict=True)]
            tally.runs += 1
            status = sides[0][0]
            tally.statuses[status] = tally.statuses.get(status, 0) + 1
            if sides[0] != sides[1]:
                return f"rule {one.name}, fuel {fuel}\ntier 1: {sides[0]!r}\ntier 2: {sides[1]!r}"
    return ""


def _observed(plan: RulePlan, request: Request, fuel: int, seed: int) -> tuple[Any, ...]:
    """All that can be seen of a run."""
    host = Noting(Offline((), OUTSIDE))
    root = {**request.root_of(plan.name), HOST: host}
    meter = Meter(fuel)
    meter.dice = Random(seed)
    outcome: Outcome = plan.run(plan.entry, root, meter)
    status = outcome.status.name.lower()
    noted = canonical_key(list(meter.noted)) if meter.noted else None
    return status, outcome.message, canonical_key(outcome.patched), meter.left, meter.spent, noted, tuple(host.asked)


def answers_differ(exact: PolicySet, fast: PolicySet, requests: Sequence[Request], tally: Runs) -> str:
    """Judges the object by both sets: the fast one by fused code from the second object on."""
    for brief in (False, True):
        sides = []
        for policies, request in zip((exact, fast), requests, strict=True):
            request.root[HOST] = Offline((), OUTSIDE)
            engine = Engine(policies)
            engine.add_images(request)
            sides.append(_said(engine.evaluate(request, "validate", brief=brief)))
            found = policies.candidates(
                request.group, request.version, request.kind, request.subresource, request.operation, request.namespace
            )
            parts = [found] if found.narrowing is None else [found, *found.narrowing.parts]
            if any(part.fused.gave_up or part.fused_brief.gave_up for part in parts):
                return "fused code had a fault"
        tally.sure += len(sides[1][1])
        if sides[0] != sides[1]:
            return f"the engine, brief={brief}\ntier 1: {sides[0]!r}\ntier 2: {sides[1]!r}"
    return ""


def _said(response: EngineResponse) -> tuple[Any, ...]:
    results = [(r.policy_key, r.rule, r.status, r.message, r.action, dict(r.properties)) for r in response.results]
    return results, [(p.policy.key, p.name) for p in response.passed], [p.key for p in response.policies]


def run_seed(seed: int, per_policy: int, *, odd: bool) -> Runs:
    """The case of a seed, bent or not."""
    made = case(seed, resources=per_policy)
    try:
        return run_case(bent_case(Random(seed), made) if odd else made, seed)
    except Exception as error:
        return Runs(found=[f"seed {seed}, {'bent' if odd else 'typed'}: {type(error).__name__}: {error}"])


def _work(job: tuple[int, int, int, bool]) -> Runs:
    start, count, per_policy, odd = job
    tally = Runs()
    for seed in range(start, start + count):
        tally.add(run_seed(seed, per_policy, odd=odd))
    return tally


def _half(odd: bool, options: argparse.Namespace) -> Runs:
    """Runs pairs of one kind until there are enough."""
    # More than enough seeds in small lots: some policies are refused.
    seeds = range(options.seed, options.seed + 20 * (options.pairs // options.per_policy + 1), 10)
    jobs = [(start, 10, options.per_policy, odd) for start in seeds]
    return driven(_work, jobs, Runs(), options, partial(_line, odd))


def _line(odd: bool, total: Runs, seconds: float) -> str:
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(total.statuses.items()))
    return (
        f"{'bent' if odd else 'typed'}: {total.pairs:,} pairs over {total.policies:,} policies ({total.refused:,} "
        f"refused) in {seconds:.0f} s: {len(total.found)} differences; {total.runs:,} runs of rules: {statuses}; "
        f"{total.sure:,} passes said by the engine"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuzz.tiers", description="compares the tiers on many pairs")
    parser.add_argument("--pairs", type=int, default=10_000, help="pairs of policy and object of each half")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--per-policy", type=int, default=50, help="objects for each policy (default 50)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--stop-after", type=int, default=20, help="differences to tell before giving up (default 20)")
    options = parser.parse_args(arguments)
    if options.pairs < 1 or options.per_policy < 1 or options.jobs < 1:
        print("numbers must be above 0", file=sys.stderr)
        return 2
    return 1 if [half for half in (False, True) if _half(half, options).found] else 0


if __name__ == "__main__":
    sys.exit(main())
