"""What the disassembler prints, the assembler reads back as the same module: sound modules, and damaged ones."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from time import monotonic
from typing import Final

from fuzz.gen import bytecode
from vm.asm import assemble
from vm.bundle import BundleError, encode_module
from vm.code import Module
from vm.disasm import disassemble

NAME: Final = "f02_assembly"
PROPERTY: Final = "assemble ∘ disassemble = id"


def check(m: Module) -> None:
    try:
        before = encode_module(m)
    except BundleError:
        return  # no bundle could hold it: nothing to compare by
    text = disassemble(m)
    after = encode_module(assemble(text))
    assert before == after, f"assembled to another module:\n{text}\nthen\n{disassemble(assemble(text))}"


def odd(rng: Random, m: Module) -> Module:
    """The module with tables no compiler would make: entries twice, unused ones, names that need quotes."""
    functions = tuple(
        replace(f, name=rng.choice((f.name, "", "a b", 'q"uote', "é", "x\ny", f.name + ";", "#1"))) for f in m.functions
    )
    return replace(
        m,
        constants=(*m.constants, *rng.choices(m.constants, k=2), {"a;b": ["\n", "\\"]}),
        paths=(*m.paths, *rng.choices(m.paths, k=1), ("a.b", "c d"), ("",)),
        imports=(*m.imports, *rng.choices(m.imports, k=1)),
        functions=functions,
        extra=rng.choice(((), ((77, b"\x01"),))),
        index=rng.choice((m.index, m.index[1:])),
    )


def run(seconds: float, seed: int) -> int:
    rng = Random(seed)
    end = monotonic() + seconds
    runs = 0
    while monotonic() < end:
        m = bytecode.module(rng)
        check(m)
        check(odd(rng, m))
        check(bytecode.mutate(rng, m))
        runs += 3
    return runs
