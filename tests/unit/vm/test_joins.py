"""What tier 1 makes shorter: rows of neighbours become the quadruples they are meant to become, and answer as the code
does as its instructions have it."""

from __future__ import annotations

from typing import Any

import pytest

from fuzz.gen import bytecode
from fuzz.gen.rows import ROOTS, ROWS, text
from vm import quads
from vm.asm import assemble
from vm.code import UnverifiedModule
from vm.host import Meter
from vm.interp import interpret
from vm.layout import Layout, frames_of
from vm.quads import Step
from vm.values import canonical_key
from vm.verify import VerifiedModule, verify


def verified(body: str, local: str) -> VerifiedModule:
    return verify(UnverifiedModule(assemble(text(body, local))), bytecode.lent())


def numbers(first: Step) -> set[int]:
    found: dict[int, Step] = {}
    todo = [first]
    while todo:
        step = todo.pop()
        if id(step) not in found:
            found[id(step)] = step
            todo += (step.next, step.then, step.other)
    return {step.op for step in found.values()}


def plain(m: VerifiedModule) -> Any:
    return interpret(m, frames_of(m, lambda fn, frames: Layout(m, fn, frames)))


@pytest.mark.parametrize("name", ROWS)
def test_shorter_code_is_the_same_code(name: str) -> None:
    body, local, made = ROWS[name]
    m = verified(body, local)
    frames = frames_of(m)
    assert {getattr(quads, name) for name in made} <= numbers(frames[0].lay_out())
    short, long = interpret(m, frames), plain(m)
    for root in (*ROOTS, {"x": "DELETE"}):
        for fuel in (*range(0, 60, 7), 1000):
            answers = []
            for program in (short, long):
                meter = Meter(fuel, cost_limit=3)
                answer = program.run(0, root, meter)
                answers.append((canonical_key(answer), meter.left, meter.cost))
            assert answers[0] == answers[1], (root, fuel)


def test_a_jump_into_a_row_keeps_it_apart() -> None:
    body = """path x
set 0
path x
is_list
if 1
  null
else
  local_get 0 "a"
end
set 1
local 1
is_missing
if 0
  const "missing"
  ret
end
local 1
ret"""
    m = verified(body, "VV")
    for root in ROOTS:
        assert interpret(m).run(0, root, Meter()) == plain(m).run(0, root, Meter()), root


CALLED = """
function f () locals "VV" -> V
  path x
  set 0
  const "below"
  call g
  if 1
    call g
  else
    local 0
  end
  set 1
  pop
  local 1
  ret
function g () locals "VV" -> B
  path x
  as_list
  each 0
    local_get 0 "a"
    tee 1
    is_map
    if 0
      %s
      true
      ret
    end
    local 1
    as_list
    each 1
      local 1
      is_null
      not
      if 0
        false
        ret
      end
    end
  end
  path x
  is_map
  ret
"""


@pytest.mark.parametrize("left", ["nop", "const 5"], ids=["nothing left", "a value left on the stack"])
def test_a_function_in_the_place_of_its_call_is_the_call(left: str) -> None:
    m = verify(UnverifiedModule(assemble(CALLED % left)), bytecode.lent())
    frames = frames_of(m)
    assert (quads.CALL in numbers(frames[0].lay_out())) == (left != "nop")
    short, long = interpret(m, frames), plain(m)
    for root in (*ROOTS, {"x": [{"a": [None]}, {"a": [None, 0]}, {"a": {}}]}, {"x": [{}, {"a": {}}]}):
        for fuel in (*range(0, 120, 5), 1000):
            answers = []
            for program in (short, long):
                meter = Meter(fuel)
                answers.append((canonical_key(program.run(0, root, meter)), meter.left))
            assert answers[0] == answers[1], (root, fuel)
