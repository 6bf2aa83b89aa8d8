"""Rules that are CEL expressions in the fused function: what is followed of them, and the bound on what they cost."""

from __future__ import annotations

import marshal
from typing import Any

import pytest

from fuzz.gen import bytecode
from tests.cases.engines import compiled
from tests.unit.vm.test_fused import FUEL, TAGGED, asked, fused, of, root
from vm.asm import assemble
from vm.bundle import read_bundle
from vm.code import UnverifiedModule
from vm.fused import Kept, Rule, bind, fuse
from vm.host import Meter, Status
from vm.interp import interpret
from vm.verify import VerifiedModule, verify

CEL = """
function tagged () locals "VVIVVVVI" -> O entry
  c_open
  set 7
  c_charge 4
  pop
  c_path $object.spec.containers
  invoke cel.build.range.1
  tee 0
  is_list
  if 0
    true
    set 3
    local 0
    as_list
    each_index 1 2
      c_charge 3
      if 0
        break
      end
      local 1
      c_select "image"
      const ":latest"
      invoke cel.endsWith.2
      c_not
      tee 4
      is_true
      not
      if 0
        local 4
        is_false
        if 0
          false
          set 3
          break
        else
          local 3
          local 4
          c_and
          set 3
        end
      end
    end
    local 3
    set 5
  else
    local 0
    set 5
  end
  local 5
  local 7
  c_close
  tee 6
  is_true
  if 0
    o_pass
    ret
  end
  const "no"
  o_fail
  ret
"""
CEL_IMPORTS = "import cel.build.range.1 1\nimport cel.endsWith.2 1\n"
CEL_GOLDEN = """\
 t3 = t2.get(k7, MISSING)
 if type(t3) is dict:
  t4 = t3.get(k8, MISSING)
  if type(t4) is list:
   if len(t4) > 512: u |= 1
   else:
    for t5 in t4:
     if type(t5) is dict:
      t6 = t5.get(k9, MISSING)
      if t6 is MISSING:
       u |= 1
      else:
       if type(t6) is str:
        if len(t6) > 4000: u |= 1
        if t6.endswith(k10):
         u |= 1
       else:
        u |= 1
     else:
      u |= 1
  else:
   u |= 1
 else:
  u |= 1
 return u, s & ~u
"""


def test_cel_is_followed_with_a_bound_on_what_it_costs() -> None:
    made = fused(CEL_IMPORTS + CEL)
    assert made is not None
    assert made.source.partition("u = s = 0\n")[2] == CEL_GOLDEN
    assert asked(made, root({"image": "a:1"}, {"image": "b:2"})) == (0, 0)
    assert asked(made, root({"image": "a:latest"})) == (1, 0)
    assert asked(made, root({"image": "a" * 4_000})) == (0, 0)
    assert asked(made, root({"image": "a" * 4_001})) == (1, 0)
    for strange in ("no map", {}, {"image": None}, {"image": 3}):
        assert asked(made, root(strange)) == (1, 0)


def test_cel_goes_through_the_lists_that_other_rules_go_through() -> None:
    made = fused(CEL_IMPORTS + CEL, TAGGED)
    assert made is not None
    assert made.source.count("for ") == 1


def test_cost_is_counted_from_where_an_expression_begins_only() -> None:
    assert fused(CEL_IMPORTS + CEL.replace("  c_open\n", "  const 0\n")) is None


def of_expression(text: str) -> tuple[VerifiedModule, int]:
    """The code of one expression on Pods."""
    cel = {"expressions": [{"expression": text, "message": "m"}]}
    rule = {"name": "r", "match": {"any": [{"resources": {"kinds": ["Pod"]}}]}, "validate": {"cel": cel}}
    meta = {"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}}
    data = compiled([{**meta, "spec": {"rules": [rule]}}]).bundle
    assert data is not None
    unverified = read_bundle(data)
    return verify(unverified, bytecode.lent()), unverified.module.policies[0].rules[0].entry


@pytest.mark.parametrize(
    ("expression", "passes", "fails"),
    [
        ("object.a == 'x'", [{"a": "x"}], [{"a": "y"}, {"a": 1}, {}]),
        ("object.a != true", [{"a": False}], [{"a": True}, {}]),
        ("object.a == 1", [{"a": 1}, {"a": 1.0}], [{"a": True}, {"a": 2}]),
        ("object.a <= 3", [{"a": 3}], [{"a": 4}, {"a": 3.5}, {"a": float("nan")}, {"a": True}]),
        ("!(object.a > 3)", [{"a": 3}], [{"a": 4}, {"a": float("nan")}]),
        ("object.a == []", [{"a": []}], [{"a": [1]}]),
        ("object.a in ['x', 'y']", [{"a": "y"}], [{"a": "z"}, {"a": []}]),
        ("'x' in object.a", [{"a": {"x": 1}}, {"a": ["y", "x"]}], [{"a": {}}, {"a": [0]}, {"a": "x"}]),
        ("size(object.a) < 2", [{"a": "x"}, {"a": [1]}, {"a": {}}], [{"a": "xy"}, {"a": 1}]),
        ("object.a.contains('b')", [{"a": "abc"}], [{"a": "c"}, {"a": ["b"]}]),
        ("object.a.matches('^b+$')", [{"a": "bb"}], [{"a": "bc"}, {"a": "b" * 4_000}]),
        ("object.?a.?b.orValue(1) == 1", [{"a": {"b": 1}}, {"a": {}}, {}], [{"a": {"b": 2}}]),
        ("object.?a.hasValue() || object.b", [{"a": 1}, {"b": True}], [{"b": 1}, {}]),
        ("has(object.a) ? object.a == true : true", [{"a": True}, {}], [{"a": False}, {"a": 1}]),
        ("(object.a + object.b).all(x, x == 'x')", [{"a": ["x"], "b": []}], [{"a": ["x"], "b": ["y"]}, {"a": []}]),
        ("object.a.all(x, x.all(y, y == 1))", [{"a": [[1], []]}], [{"a": [[1], [2]]}, {"a": [1]}]),
    ],
)
def test_expressions(expression: str, passes: list[dict[str, Any]], fails: list[dict[str, Any]]) -> None:
    m, entry = of_expression(expression)
    made, exact = fuse([Rule(m, entry)], "CREATE", FUEL), interpret(m)
    assert [exact.run(entry, of(x), Meter(FUEL)).status for x in passes] == [Status.PASS] * len(passes)
    assert [asked(made, of(x)) for x in passes] == [(0, 0)] * len(passes)
    assert [asked(made, of(x)) for x in fails] == [(1, 0)] * len(fails)


@pytest.mark.parametrize(
    "expression", ["object.a.exists(x, x == 1)", "object.a.map(x, x + 1) == [2]", "object.a < object.b"]
)
def test_what_is_not_plain_is_left_to_the_exact_code(expression: str) -> None:
    assert fuse([Rule(*of_expression(expression))], "CREATE", FUEL) is None


def test_a_kept_function_answers_as_the_one_that_was_kept() -> None:
    m = verify(UnverifiedModule(assemble(CEL_IMPORTS + CEL)), bytecode.lent())
    made = fuse([Rule(m, 0)], "CREATE", FUEL)
    assert made is not None
    kept = marshal.loads(marshal.dumps((made.kept.sure, made.kept.code, made.kept.recipes)))
    again = bind(Kept(*kept), [Rule(m, 0)])
    for where in (root({"image": "a:1"}), root({"image": "a:latest"}), root("x")):
        assert again.run(where, Meter(FUEL)) == made.run(where, Meter(FUEL))
