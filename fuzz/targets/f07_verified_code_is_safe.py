"""Whatever the verifier lets through runs to its end: no crash, no loop, no more fuel than was given.

A plain seeded mutator over small modules, since a property library is too slow to reach a hundred thousand bundles in
the time this target has. Each mutated module becomes a bundle with a digest that fits, is read, verified and run on
both tiers."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from random import Random
from time import monotonic
from typing import Any, Final

from fuzz.gen import bytecode
from fuzz.targets.f06_tiers_agree import observed
from vm.bundle import CODE, BundleError, encode_module, read_bundle
from vm.code import MODES, ROLES, Module, UnverifiedModule
from vm.disasm import disassemble
from vm.interp import interpret
from vm.packing import pack
from vm.tier2 import translate
from vm.verify import VerifiedModule, VerifyError, verify

NAME: Final = "f07_verified_code_is_safe"
WEIGHT: Final = 2  # inputs are cheap here and a miss costs most: 10⁵ of them in 600 s for all targets
PROPERTY: Final = "∀ bytes b: verify(read(b)) ⇒ run ends, raises nothing, 0 ≤ fuel used ≤ fuel given + one segment"

_FUEL: Final = 3_000
_SHARE_OF_TIER_2: Final = 0.2
"""How often tier 2 is asked too: compiling a mutant costs more than all else, and f06 holds the tiers together."""
_MUTANTS: Final = 60
"""Mutants made of one base module before the next one is made."""

tally: Counter[str] = Counter()
"""What became of the inputs: verified, refused by which code. For whoever wonders how deep the mutants get."""


def run(seconds: float, seed: int) -> int:
    rng = Random(seed)
    end = monotonic() + seconds
    runs = 0
    roots = [bytecode.root(rng) for _ in range(8)]
    while monotonic() < end:
        base = bytecode.small_module(rng)
        whole = encode_module(base)
        prefix = whole[: -len(code_section(base)) - _DIGEST]
        assert whole[len(prefix) : -_DIGEST] == code_section(base)
        for _ in range(_MUTANTS):
            mutant = bytecode.mutate(rng, base)
            body = prefix + code_section(mutant)
            check(body + sha256(body).digest(), mutant, rng, roots)
            runs += 1
    return runs


def code_section(m: Module) -> bytes:
    """The bytes of the CODE section alone, which comes last in a bundle without debug part."""
    functions = [
        [f.name, f.params, f.locals, f.result, MODES.index(f.mode), ROLES.index(f.role), f.max_stack, f.code]
        for f in m.functions
    ]
    return pack([CODE, 0, pack([functions, list(m.cells)], max_depth=9)], max_depth=9)


_DIGEST: Final = 32


def check(data: bytes, source: Module, rng: Random, roots: list[dict[str, Any]]) -> None:
    """Reads, verifies and runs one bundle. ``AssertionError`` when code that verified misbehaves."""
    try:
        read = read_bundle(data)
    except BundleError as problem:
        tally[f"read: {problem.code}"] += 1
        return
    try:
        verified = verify(read, bytecode.lent())
    except VerifyError as problem:
        tally[problem.code] += 1
        return
    tally["verified"] += 1
    try:
        _run(verified, rng, roots)
    except Exception as problem:
        raise AssertionError(f"verified code raised {problem!r}\n{disassemble(source)}") from problem


def _run(m: VerifiedModule, rng: Random, roots: list[dict[str, Any]]) -> None:
    fn = rng.choice([f for f in m.functions if not f.params])
    root = rng.choice(roots)
    dearest = max(f.cost for f in m.functions) + max((c for f in m.functions for c in f.loops.values()), default=0)
    replies = [None, {"image": ["a", 1]}]
    before = repr(root), repr(m.constants)
    programs = [interpret(m)]
    if rng.random() < _SHARE_OF_TIER_2:
        programs.append(translate(m))
    for program in programs:
        answer, left, calls = observed(program, fn.number, root, _FUEL, replies)
        bulk = left < -dearest and answer[:1] != ("outcome",)
        assert left <= _FUEL, "fuel came from nowhere"
        assert left >= 0 or _exhausted(answer), "ran on without fuel"
        assert not bulk or _exhausted(answer), "one segment cost more than it may"
        assert len(calls) <= _FUEL // 8, "asked the host more often than fuel allows"
    assert (repr(root), repr(m.constants)) == before, "changed the request or a constant"


def _exhausted(answer: Any) -> bool:
    return "used up its fuel" in str(answer)


def reproduce(text: str) -> None:
    """Runs a listing that a counterexample printed."""
    from vm.asm import assemble

    _run(verify(UnverifiedModule(assemble(text)), bytecode.lent()), Random(0), [bytecode.root(Random(0))])


__all__ = ["NAME", "PROPERTY", "WEIGHT", "check", "reproduce", "run", "tally"]
