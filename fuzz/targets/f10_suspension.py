"""Rules that ask the outside end the same however the answers come: at once, one at a time after a fresh start, all
known before; and an evaluation given up at any question leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Final

from fuzz.explore import Counterexample, numbers
from fuzz.gen.rules import Case, case
from fuzz.pairs import OUTSIDE, by_product, ready
from runtime.cli.offline import Offline
from runtime.host import MAX_QUESTIONS, Pending, Table, settle
from runtime.policyset import PolicySet
from tests.reference.evaluate import Result
from vm.host import HostCall
from vm.values import Value

NAME: Final = "f10_suspension"
PROPERTY: Final = (
    "outcome(eager) = outcome(late, one by one) = outcome(known before, any order) = outcome(after close())"
)

_EAGER: Final = Offline((), OUTSIDE)
_TIERS: Final = ("O2", "tier 2")


class _Recording:
    """Answers at once, and remembers what was asked."""

    def __init__(self) -> None:
        self.calls: list[HostCall] = []

    def ask(self, call: HostCall) -> Value:
        self.calls.append(call)
        return _EAGER.ask(call)


class _GivingUp:
    """Answers so many questions; at the next one the evaluation is given up."""

    def __init__(self, questions: int) -> None:
        self.left = questions

    def ask(self, call: HostCall) -> Value:
        if self.left == 0:
            raise Pending(call)
        self.left -= 1
        return _EAGER.ask(call)


def run(seconds: float, seed: int) -> int:
    count = 0
    for number in numbers(seconds, seed):
        made = case(number, resources=2)
        compiled = ready(made, _TIERS)
        if compiled is None:
            continue
        for policies in compiled.sets.values():
            for at in range(len(made.resources)):
                count += _holds(policies, made, at, Random(number))
    return count


def _holds(policies: PolicySet, made: Case, at: int, rng: Random) -> int:
    """Whether the property holds for one object; answers 1 when something was asked."""
    first = _Recording()
    want = by_product(policies, made, at, first)
    if not first.calls or len(first.calls) > MAX_QUESTIONS:
        return 0

    async def late(call: HostCall) -> Value:
        await asyncio.sleep(0)
        return _EAGER.ask(call)

    def whole(table: Table) -> list[Result]:
        found = by_product(policies, made, at, table)
        table.complete()
        return found

    got = asyncio.run(settle(whole, late))
    _equal(want, got, "answers that come late", made, at)
    known = Table()
    for call in rng.sample(first.calls, len(first.calls)):
        known.learn(call, _EAGER.ask(call))
    _equal(want, whole(known), "answers that are known before", made, at)
    for questions in range(len(first.calls)):
        try:
            by_product(policies, made, at, _GivingUp(questions))
        except Pending:
            pass
        else:
            raise Counterexample(f"question {questions} was not asked again\n{_shown(made, at)}")
        again = _Recording()
        _equal(want, by_product(policies, made, at, again), f"a start after giving up at {questions}", made, at)
        if again.calls != first.calls:
            raise Counterexample(f"after giving up at {questions} other questions are asked\n{_shown(made, at)}")
    return 1


def _equal(want: list[Result], got: list[Result], how: str, made: Case, at: int) -> None:
    if want != got:
        raise Counterexample(f"{how}: {got}\nat once: {want}\n{_shown(made, at)}")


def _shown(made: Case, at: int) -> str:
    return f"policies: {json.dumps(made.documents)}\n{made.operation} {json.dumps(made.resources[at])}"
