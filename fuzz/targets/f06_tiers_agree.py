"""Tier 2 answers what tier 1 answers, with the same fuel left and the same questions to the host in the same order."""

from __future__ import annotations

from random import Random
from time import monotonic
from typing import Any, Final

from fuzz.gen import bytecode
from vm.code import Module, UnverifiedModule
from vm.disasm import disassemble
from vm.host import Meter, Outcome, Program
from vm.interp import interpret
from vm.tier2 import translate
from vm.values import Err, Value, canonical_key
from vm.verify import VerifiedModule, VerifyError, verify

NAME: Final = "f06_tiers_agree"
PROPERTY: Final = "tier2(m, root, fuel) ≡ tier1(m, root, fuel), fuel left and host calls included"

_FUEL: Final = (0, 5, 25, 60, 150, 400, 5_000)


def entries(m: VerifiedModule) -> list[int]:
    """Functions that may be started from outside."""
    return [fn.number for fn in m.functions if not fn.params]


def observed(program: Program, fn: int, root: dict[str, Any], fuel: int, replies: list[Value]) -> tuple[Any, ...]:
    """(answer, fuel left, host calls): all that can be seen of a run."""
    meter = Meter(fuel)
    calls: list[Any] = []
    execution = program.start(fn, root, meter)
    waiting = list(replies)
    try:
        call = next(execution)
        while True:
            calls.append((call.kind, key(call.payload), call.scope))
            call = execution.send(waiting.pop() if waiting else Err("host", "no reply"))
    except StopIteration as stop:
        return key(stop.value), meter.left, tuple(calls)


def key(v: Any) -> Any:
    """A comparable form of an answer."""
    if isinstance(v, Outcome):
        return ("outcome", int(v.status), v.message, canonical_key(v.patched))
    return canonical_key(v)


def check(m: Module, rng: Random) -> int:
    """Runs every entry of a module on both tiers; answers how many runs it compared, 0 when the module does not
    verify."""
    try:
        verified = verify(UnverifiedModule(m), bytecode.lent())
    except VerifyError:
        return 0
    one, two = interpret(verified), translate(verified)
    runs = 0
    for fn in entries(verified):
        for fuel in (1_000_000, rng.choice(_FUEL)):
            root = bytecode.root(rng)
            replies = [bytecode.value(rng, 2) for _ in range(3)]
            first = observed(one, fn, root, fuel, replies)
            second = observed(two, fn, root, fuel, replies)
            assert first == second, (
                f"function {m.functions[fn].name} with fuel {fuel} on {root!r}\ntier 1: {first!r}\ntier 2: {second!r}\n"
                + disassemble(m)
            )
            runs += 1
    return runs


def run(seconds: float, seed: int) -> int:
    rng = Random(seed)
    end = monotonic() + seconds
    runs = 0
    while monotonic() < end:
        m = bytecode.module(rng)
        runs += check(m, rng)
        for _ in range(4):
            runs += check(bytecode.mutate(rng, m), rng)
    return runs
