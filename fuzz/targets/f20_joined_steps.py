"""Tier 1 with its steps joined against the code as its instructions have it, on code in which locals are used again."""

from __future__ import annotations

from random import Random
from time import monotonic
from typing import Final

from fuzz.gen import bytecode, rows
from vm.asm import assemble
from vm.code import UnverifiedModule
from vm.host import Meter
from vm.interp import interpret
from vm.layout import Layout, frames_of
from vm.structure import VerifyError
from vm.values import canonical_key
from vm.verify import verify

NAME: Final = "f20_joined_steps"
PROPERTY: Final = "joined(p)(root, fuel) ≡ p(root, fuel), locals of p used again: value, fuel left, CEL spent"


def run(seconds: float, seed: int) -> int:
    end = monotonic() + seconds
    rng = Random(seed)
    runs = 0
    while not runs or monotonic() < end:
        source = rows.bent(rng)
        try:
            m = verify(UnverifiedModule(assemble(source)), bytecode.lent())
        except VerifyError:
            continue
        programs = interpret(m), interpret(m, frames_of(m, lambda fn, frames, m=m: Layout(m, fn, frames)))
        for _ in range(20):
            root, fuel, limit = rows.root(rng), rng.choice((1000, rng.randrange(120))), rng.choice((2, 1000))
            answers = []
            for program in programs:
                meter = Meter(fuel, cost_limit=limit)
                answers.append((canonical_key(program.run(0, root, meter)), meter.left, meter.cost))
            assert answers[0] == answers[1], f"{source}\non {root} with {fuel}: {answers}"
            runs += 1
    return runs
