"""The engine in a process of its own, that has loaded bundles and nothing of the compiler: ``bench.engine`` starts it.

Standard input is the JSON of :class:`Asked`, standard output that of what came of it. All calls run in turns with the
yardstick.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from bench import measure
from runtime.bundles import load_files
from runtime.engine import Engine
from runtime.request import Request
from vm import interp

YARDSTICK = "yardstick"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to be timed: ``tier`` evaluates the objects of a JSON file by the rules of a bundle. ``failing`` is how
    many rules must fail (None: as many as will); all others of the bundle for the kind must pass, but for those that
    are ``silent``."""

    name: str
    bundle: str
    tier: str
    objects: str
    failing: int | None = None
    silent: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """``cases`` in turns, ``rounds`` times, each at least ``seconds`` a round. ``compiled``: the exact machine must be
    machine code, else it must be Python."""

    cases: list[Case]
    rounds: int
    seconds: float
    compiled: bool = False

    def text(self) -> str:
        return json.dumps(asdict(self))


def main() -> int:
    asked = json.load(sys.stdin)
    if interp.__file__.endswith(".py") == asked["compiled"]:
        raise SystemExit(f"the exact machine is {interp.__file__}")
    cases = [Case(**case) for case in asked["cases"]]
    engines = {
        key: Engine(load_files([key[0]], tier=key[1]))  # type: ignore[arg-type]
        for key in dict.fromkeys((case.bundle, case.tier) for case in cases)
    }
    calls: dict[str, Callable[[], object]] = {YARDSTICK: measure.yardstick()}
    share = {YARDSTICK: 1}
    for case in cases:
        engine = engines[case.bundle, case.tier]
        with open(case.objects, encoding="utf-8") as file:
            requests = [Request.from_resource(each) for each in json.load(file)]
        _check(case, engine, requests[0])
        share[case.name] = len(requests)
        calls[case.name] = (
            partial(engine.evaluate, requests[0], "validate") if len(requests) == 1 else partial(_all, engine, requests)
        )
    # What was loaded stays: a server has it out of the collector's sight too, and here it would be paid for by chance.
    gc.collect()
    gc.freeze()
    samples = measure.in_turns(calls, rounds=asked["rounds"], at_least=asked["seconds"])
    # Tracing is some fifty times as slow: not for many objects.
    opcodes = {name: measure.opcodes(call) for name, call in calls.items() if share[name] == 1}
    shared = {name: [s / share[name] for s in found] for name, found in samples.items()}
    json.dump({"samples": shared, "opcodes": opcodes}, sys.stdout)
    return 0


def _all(engine: Engine, requests: list[Request]) -> None:
    for request in requests:
        engine.evaluate(request, "validate")


def _check(case: Case, engine: Engine, request: Request) -> None:
    """Ends the run when the engine does not answer what the figure is said to be of."""
    if case.failing is None:
        return
    answer = engine.evaluate(request, "validate")
    statuses = [result.status for result in answer.results]
    expected = sum(len(rules) for _, rules in _candidates(engine, request).validate)
    expected -= case.failing + case.silent
    if statuses != ["fail"] * case.failing or len(answer.passed) != expected:
        raise SystemExit(f"{case.name}: {len(answer.passed)} rules pass, the others say {statuses}")


def _candidates(engine: Engine, request: Request) -> Any:
    return engine.policies.candidates(
        request.group, request.version, request.kind, request.subresource, request.operation, request.namespace
    )


if __name__ == "__main__":
    raise SystemExit(main())
