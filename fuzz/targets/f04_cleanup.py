"""What a cleanup policy removes, says the product as the reference does."""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

from fuzz.explore import Counterexample, numbers
from fuzz.gen.rules import Rules
from fuzz.pairs import OUTSIDE, WORLD
from runtime.cleanup import removal
from runtime.cli.offline import Offline
from runtime.engine import Engine
from runtime.host import KEY as HOST
from runtime.policyset import PolicySet
from runtime.request import Request
from tests.cases.engines import compiled
from tests.reference.conditions import ConditionError
from tests.reference.generation import removed

NAME: Final = "f04_cleanup"
PROPERTY: Final = "removed(cleanup policy, object) = reference(cleanup policy, object): goes, stays, or error"


def run(seconds: float, seed: int) -> int:
    count = 0
    for number in numbers(seconds, seed):
        maker = Rules(Random(number))
        about = maker.pod()
        policy = maker.cleanup_policy(about)
        bundle = compiled([policy], 2).bundle
        if bundle is None:
            continue
        engine = Engine(PolicySet.load(bundle, tier="1"))
        for resource in (about, maker.near(about), maker.near(about), maker.resource()):
            count += 1
            got, want = _by_product(engine, resource), _by_reference(policy, resource)
            if got != want:
                raise Counterexample(
                    f"policy: {json.dumps(policy)}\nresource: {json.dumps(resource)}\nreference: {want}\nproduct: {got}"
                )
    return count


def _by_product(engine: Engine, resource: dict[str, Any]) -> str:
    request = Request.from_resource(resource, "CREATE", namespace_labels={})
    request.root[HOST] = Offline((), OUTSIDE)
    found = [removal(engine, plan, request) for plan in engine.policies.rules]
    statuses = [one.result.status for one in found if one is not None]
    return {"pass": "goes"}.get(statuses[0], statuses[0]) if statuses else "stays"


def _by_reference(policy: dict[str, Any], resource: dict[str, Any]) -> str:
    try:
        return "goes" if removed(policy, [resource], WORLD) else "stays"
    except ConditionError:
        return "error"
