"""What tier 1 makes shorter: rows of neighbours become the quadruples they are meant to become, and answer as the code
does as its instructions have it."""

from __future__ import annotations

from typing import Any

import pytest

from fuzz.gen import bytecode
from vm import quads
from vm.asm import assemble
from vm.code import UnverifiedModule
from vm.host import Meter
from vm.interp import interpret
from vm.layout import Layout, frames_of
from vm.quads import Step
from vm.values import canonical_key
from vm.verify import VerifiedModule, verify

FIELDS = [
    {},
    {"x": None},
    {"x": 1},
    {"x": {}},
    {"x": {"a": None}},
    {"x": {"a": {"b": None}}},
    {"x": {"a": []}},
    {"x": {"a": {"b": 3}}},
    {"x": {"a": {"b": {"c": True}}}},
    {"x": [{"a": {"b": 1}}, {"a": 1}, 2, {}]},
    {"x": [{"a": {"b": {}}}]},
    {"x": [{"a": 1}, {"a": "1"}, {"a": [1]}]},
    {"x": [{"a": 1}, {"a": 2}, {"a": 1}]},
    {"x": ""},
    {"x": [{}, {"a": {}}, {"a": {"b": 1}}, {"a": {"b": "1"}}, {"a": {"b": 2}}]},
    {"x": [{"a": {"b": 1}}, {"a": None}, {"a": {"b": None}}]},
    {"x": [{"a": {"b": 3, "c": 4}}, {"a": {"b": "3", "c": "x"}}]},
    {"x": [{"a": {"b": 3, "c": 4}}, {"a": {"b": 3}}]},
    {"x": [{"a": {"b": 1}}, {"a": {"b": 1}}]},
]

FIELD = """path x
set 0
local_get 0 "a"
tee 1
is_missing
if 0
  const "missing"
  ret
end
local 1
is_map
if 0
  const "map"
  ret
end
local 1
ret"""

ELEMENTS = """null
set 1
null
set 2
path x
as_list
each 0
  local 0
  is_map
  if 0
    local_get 0 "a"
    get "b"
    set 1
  else
    local 0
    set 2
  end
end
new_list
local 1
append
local 2
append
ret"""

PROJECTION = """path x
set 2
new_list
set 3
local 2
as_list
each 0
  local_get 0 "a"
  get "b"
  absent_null
  tee 1
  is_null
  not
  if 0
    local 3
    local 1
    append
    pop
  end
end
local 3
ret"""

EVERY = """path x
as_list
each 0
  local_get 0 "a"
  p_leaf ["1", [[["=", "1"]]]]
  not
  if 0
    local 0
    ret
  end
end
true
ret"""

HAS = """path x
set 0
local 0
c_has "a"
tee 2
is_false
not
if 0
  local 2
  c_charge 3
  pop
  local 0
  c_select "a"
  c_has "b"
  c_and
  set 2
end
local 2
is_false
not
if 0
  local 2
  local 0
  c_select "a"
  c_select "b"
  c_has "c"
  c_and
  set 2
end
local 2
ret"""

FAILED = """path x
c_select "a"
tee 0
is_err
if 1
  true
else
  local 0
  is_true
end
ret"""

EMPTY = """path x
to_text
invoke pat.sentence
set 1
path x
tee 0
is_empty
if 0
  const "empty"
  ret
end
local 1
ret"""

KIND = """path x
const "DELETE"
equal
if 1
  c_charge 4
else
  c_charge 2
end
if 0
  const "over"
  ret
end
const "under"
ret"""


OR = """path x
tee 0
j_truthy
if 1
  local 0
else
  const "none"
end
set 1
local 1
const "DELETE"
equal
not
tee 2
if 0
  const "other"
  ret
end
new_list
local_get 0 "a"
absent_null
append
local_get 0 "b"
absent_null
append
ret"""

LIMITS = """path x
as_list
each 0
  local_get 0 "a"
  set 1
  local 1
  is_map
  not
  if 0
    local 0
    ret
  end
  local_get 1 "b"
  p_leaf ["3", [[["=", "3"]]]]
  not
  if 0
    local 1
    ret
  end
  local_get 1 "c"
  p_leaf ["*", [[["=", "*"]]]]
  not
  if 0
    true
    ret
  end
end
null
ret"""

OPTIONAL = """path x
tee 0
is_list
not
if 0
  const "no list"
  ret
end
local 0
is_empty
if 0
  const "empty"
  ret
end
local 0
as_list
each 1
  local 1
  is_map
  not
  if 0
    const "no map"
    ret
  end
  local_get 1 "a"
  tee 2
  is_missing
  not
  if 0
    local 2
    is_map
    not
    if 0
      local 2
      ret
    end
    local_get 2 "b"
    tee 3
    is_missing
    not
    if 0
      local 3
      p_leaf ["1", [[["=", "1"]]]]
      not
      if 0
        local 3
        ret
      end
    end
  end
end
true
ret"""


def verified(body: str, local: str) -> VerifiedModule:
    text = "".join(f"  {line}\n" for line in body.splitlines())
    return verify(UnverifiedModule(assemble(f'function f () locals "{local}" -> V\n{text}')), bytecode.lent())


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


@pytest.mark.parametrize(
    ("body", "local", "made"),
    [
        (FIELD, "VV", ["FIELD_MAP", "PATH_SET"]),
        (ELEMENTS, "VVV", ["NEXT_MAP", "WALK_SET"]),
        (PROJECTION, "VVVL", ["PROJECT"]),
        (EVERY, "V", ["EVERY", "RET_CONST"]),
        (HAS, "VVV", ["HAS_ROW"]),
        (FAILED, "V", ["TEE_SWITCH"]),
        (EMPTY, "VS", ["IF_EMPTY", "INVOKE"]),
        (KIND, "", ["IF_PATH_TEXT"]),
        (OR, "VVB", ["SET_LEAF", "EQUAL_SET_IF", "SELECT"]),
        (LIMITS, "VV", ["EVERY_LEAVES"]),
        (OPTIONAL, "VVVV", ["EVERY_OPTIONAL", "LIST_EACH"]),
    ],
    ids=["field", "elements", "projection", "every", "has", "failed", "empty", "kind", "or", "limits", "optional"],
)
def test_shorter_code_is_the_same_code(body: str, local: str, made: list[str]) -> None:
    m = verified(body, local)
    frames = frames_of(m)
    assert {getattr(quads, name) for name in made} <= numbers(frames[0].lay_out())
    short, long = interpret(m, frames), plain(m)
    for root in (*FIELDS, {"x": "DELETE"}):
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
    for root in FIELDS:
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
    for root in (*FIELDS, {"x": [{"a": [None]}, {"a": [None, 0]}, {"a": {}}]}, {"x": [{}, {"a": {}}]}):
        for fuel in (*range(0, 120, 5), 1000):
            answers = []
            for program in (short, long):
                meter = Meter(fuel)
                answers.append((canonical_key(program.run(0, root, meter)), meter.left))
            assert answers[0] == answers[1], (root, fuel)
