"""Code whose steps tier 1 joins (``vm.joins``), what runs over it, and a bent form of it.

``tests.unit.vm.test_joins`` runs it as it is, ``fuzz.targets.f20_joined_steps`` bent: with locals that are used again,
so that an answer takes the place of what it was found in.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any, Final

ROOTS: Final[tuple[dict[str, Any], ...]] = (
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
)

_FIELD = """path x
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

_ELEMENTS = """null
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

_PROJECTION = """path x
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

_EVERY = """path x
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

_HAS = """path x
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

_FAILED = """path x
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

_EMPTY = """path x
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

_KIND = """path x
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


_OR = """path x
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

_LIMITS = """path x
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

_OPTIONAL = """path x
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


_HAS_IN_PLACE = """path x
set 0
local 0
c_has "a"
tee 0
is_false
not
if 0
  local 0
  local 0
  c_select "a"
  c_has "b"
  c_and
  set 0
end
local 0
ret"""

ROWS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "field": (_FIELD, "VV", ("FIELD_MAP", "PATH_SET")),
    "elements": (_ELEMENTS, "VVV", ("NEXT_MAP", "WALK_SET")),
    "projection": (_PROJECTION, "VVVL", ("PROJECT",)),
    "every": (_EVERY, "V", ("EVERY", "RET_CONST")),
    "has": (_HAS, "VVV", ("HAS_ROW",)),
    "failed": (_FAILED, "V", ("TEE_SWITCH",)),
    "empty": (_EMPTY, "VS", ("IF_EMPTY", "INVOKE")),
    "kind": (_KIND, "", ("IF_PATH_TEXT",)),
    "or": (_OR, "VVB", ("SET_LEAF", "EQUAL_SET_IF", "SELECT")),
    "limits": (_LIMITS, "VV", ("EVERY_LEAVES",)),
    "optional": (_OPTIONAL, "VVVV", ("EVERY_OPTIONAL", "LIST_EACH")),
    "has_in_place": (_HAS_IN_PLACE, "V", ()),
}
"""Bodies in assembly, kinds of their locals, and what some of their steps become together."""

_OF_LOCAL: Final = re.compile(r"(?m)^( *(?:local|local_get|set|tee|each)) (\d+)")


def text(body: str, local: str) -> str:
    """A function of a body."""
    lines = "".join(f"  {line}\n" for line in body.splitlines())
    return f'function f () locals "{local}" -> V\n{lines}'


def bent(rng: Random) -> str:
    """The function of one of the bodies with other locals; not all of them verify."""
    body, local, _ = ROWS[rng.choice(tuple(ROWS))]
    places = {str(n): str(rng.randrange(len(local))) for n in range(len(local))}
    return text(_OF_LOCAL.sub(lambda found: f"{found[1]} {places[found[2]]}", body), local)


def root(rng: Random) -> dict[str, Any]:
    """One of the roots, or a list of what stands in some of them."""
    if rng.random() < 0.5:
        return rng.choice(ROOTS)
    found = [rng.choice(ROOTS).get("x") for _ in range(rng.randrange(4))]
    return {"x": [y for x in found for y in (x if isinstance(x, list) else [x])]}
