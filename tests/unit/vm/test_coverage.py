"""The program that notes what it reaches: the places of a run, and that it is otherwise the exact VM."""

from __future__ import annotations

from random import Random
from typing import Any

from fuzz.gen import bytecode
from vm.asm import assemble
from vm.code import UnverifiedModule
from vm.coverage import watched
from vm.host import Meter, Program
from vm.interp import interpret
from vm.values import Err
from vm.verify import VerifiedModule, VerifyError, verify

RULE = """
function f () locals "V" -> O entry
  path a
  is_true
  if 0
    path b
    set 0
    const "no"
    o_fail
    ret
  else
    nop
  end
  call g
  ret
function g () -> O
  o_pass
  ret
debug {"files": [{"name": "p.yaml", "lines": []}], "spans": [%s, [{"pc": 0, "file": 0, "line": 9, "column": 2}]]}
"""


def verified(text: str) -> VerifiedModule:
    return verify(UnverifiedModule(assemble(text)), bytecode.lent())


def module(*pcs: int) -> VerifiedModule:
    spans = ", ".join(f'{{"pc": {pc}, "file": 0, "line": {pc + 1}, "column": 1}}' for pc in pcs)
    return verified(RULE % f"[{spans}]")


def test_an_arm_counts_when_it_is_taken() -> None:
    m = module(0, 5)
    assert m.debug is not None
    program, reached = watched(m)
    assert reached.places == {("p.yaml", 1, 1), ("p.yaml", 6, 1), ("p.yaml", 9, 2)}
    assert reached.run() == set()
    program.run(0, {"a": False}, Meter())
    assert reached.run() == {("p.yaml", 1, 1), ("p.yaml", 9, 2)}
    program.run(0, {"a": True}, Meter())
    assert reached.run() == reached.places


def test_without_a_debug_section_there_is_no_place() -> None:
    program, reached = watched(verified(RULE.partition("debug")[0]))
    program.run(0, {"a": True}, Meter())
    assert (reached.places, reached.run()) == (frozenset(), set())


def outcome(program: Program, fn: int, root: dict[str, Any]) -> tuple[str, int]:
    meter = Meter(3000)
    execution = program.start(fn, root, meter)
    try:
        next(execution)
        while True:
            execution.send(Err("host", "no"))
    except StopIteration as stop:
        return repr(stop.value), meter.left


def test_it_answers_as_the_exact_vm_does_at_the_same_cost() -> None:
    rng = Random(11)
    compared = 0
    while compared < 200:
        try:
            m = verify(UnverifiedModule(bytecode.module(rng)), bytecode.lent())
        except VerifyError:
            continue
        program, _ = watched(m)
        for fn in m.functions:
            if not fn.params:
                root = bytecode.root(rng)
                assert outcome(program, fn.number, root) == outcome(interpret(m), fn.number, root)
                compared += 1
