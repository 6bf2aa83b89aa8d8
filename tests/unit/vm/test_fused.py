"""The fused function: what it looks like, what it takes for granted, and where it leaves a rule to the exact code."""

from __future__ import annotations

import marshal
from typing import Any

import pytest

from fuzz.gen import bytecode
from vm.asm import assemble
from vm.code import UnverifiedModule
from vm.decisions import FAIL, Facts
from vm.fused import Fused, Kept, Rule, bind, fuse, name_of
from vm.host import Meter
from vm.structure import Structure
from vm.verify import VerifiedFunction, verify

FUEL = 1_000_000

TAGGED = """
function tagged () locals "VV" -> O entry
  path $resource.spec.containers
  tee 1
  is_list
  not
  if 0
    const "no list"
    o_fail
    ret
  end
  local 1
  as_list
  each 0
    local_get 0 "image"
    p_scalar ["*:*", [[["=", "*:*"]]]]
    not
    if 0
      const "no tag; __import__('os')"
      o_fail
      ret
    end
  end
  o_pass
  ret
"""
NAMED = """
function named () locals "VV" -> O entry
  path $operation
  const "DELETE"
  equal
  if 0
    o_none
    ret
  end
  path $resource.spec.containers
  as_list
  each 0
    local_get 0 "name"
    is_missing
    if 0
      const "no name"
      o_fail
      ret
    end
  end
  const "all have names"
  o_pass_text
  ret
"""
GOLDEN = """\
def fused(root, meter):
 t1 = root.get(k0, MISSING)
 if type(t1) is not dict: return 3, 0
 t2 = root.get(k1, MISSING)
 if type(t2) is not dict: return 3, 0
 if root.get(k2, MISSING) != k3: return 3, 0
 if t1.get(k4, MISSING) != k3: return 3, 0
 if root.get(k5, MISSING) is not t2: return 3, 0
 if t1.get(k6, MISSING) is not t2: return 3, 0
 u = s = 0
 t3 = t2.get(k7, MISSING)
 if type(t3) is dict:
  t4 = t3.get(k8, MISSING)
  if type(t4) is list:
   if len(t4) > 512: u |= 3
   else:
    for t5 in t4:
     if type(t5) is dict:
      t6 = t5.get(k10, MISSING)
      if not (v11 in t6 if type(t6) is str else q9(t6)):
       u |= 1
      if k12 not in t5:
       u |= 2
     else:
      u |= 3
  else:
   u |= 1
 else:
  u |= 1
 return u, s & ~u
"""
POLICY = 'policy {"name": "p", "rules": [{"name": "r", "entry": 0}]}\n'


def fused(*texts: str, operation: str = "CREATE", fuel: int = FUEL, said: bool = True) -> Fused | None:
    m = verify(UnverifiedModule(assemble("".join(texts))), bytecode.lent())
    return fuse([Rule(m, n) for n in range(len(texts))], operation, fuel, texts=said)


def root(*containers: Any, operation: str = "CREATE") -> dict[str, Any]:
    made = {"spec": {"containers": list(containers)}}
    return {
        "$operation": operation,
        "$resource": made,
        "$object": made,
        "request": {"operation": operation, "object": made},
    }


def asked(made: Fused | None, where: dict[str, Any]) -> tuple[int, int]:
    assert made is not None
    return made.run(where, Meter(FUEL))


def test_rules_share_guards_loads_and_walks() -> None:
    made = fused(TAGGED, NAMED)
    assert made is not None
    assert made.source == GOLDEN


def test_no_text_of_a_policy_is_in_the_source() -> None:
    made = fused(TAGGED)
    assert made is not None
    assert not any(word in made.source for word in ("import", "image", "containers", "CREATE"))


def test_a_bit_for_each_rule_that_does_not_surely_pass() -> None:
    made = fused(TAGGED, NAMED)
    assert asked(made, root({"image": "a:1", "name": "c"})) == (0, 0)
    assert asked(made, root({"image": "a", "name": "c"})) == (1, 0)
    assert asked(made, root({"image": "a:1"})) == (2, 0)
    assert asked(made, root("no map")) == (3, 0)


def test_rules_without_a_result_are_told_apart() -> None:
    made = fused(NAMED, operation="DELETE")
    assert asked(made, root(operation="DELETE")) == (0, 1)


def test_nothing_is_sure_of_a_request_that_is_not_what_was_taken_for_granted() -> None:
    made = fused(TAGGED, NAMED)
    good = root({"image": "a:1", "name": "c"})
    other = {**good["$resource"]}
    for strange in (
        {**good, "$operation": "UPDATE"},
        {**good, "request": None},
        {**good, "request": {**good["request"], "operation": "DELETE"}},
        {**good, "request": {**good["request"], "object": other}},
        {**good, "$object": other},
        {**good, "$resource": None},
    ):
        assert asked(made, strange) == (3, 0)


def test_lists_beyond_the_bound_are_left_to_the_exact_code() -> None:
    container = {"image": "a:1", "name": "c"}
    assert asked(fused(TAGGED), root(*[container] * 512)) == (0, 0)
    assert asked(fused(TAGGED), root(*[container] * 513)) == (1, 0)


def test_the_less_fuel_the_shorter_the_lists() -> None:
    container = {"image": "a:1", "name": "c"}
    assert asked(fused(TAGGED, fuel=1_000), root(*[container] * 100)) == (1, 0)
    assert asked(fused(TAGGED, fuel=1_000), root(*[container] * 64)) == (0, 0)
    assert fused(TAGGED, fuel=100) is None


def test_a_rule_that_says_something_of_a_pass_is_unsure_where_that_matters() -> None:
    assert fused(NAMED, said=False) is None
    assert fused(NAMED) is not None


@pytest.mark.parametrize(
    "code",
    [
        "  path $resource.a\n  await apicall\n  is_true\n",
        '  const "a"\n  path $resource.a\n  to_text\n  concat 2\n  is_empty\n',
        '  new_map\n  path $resource.a\n  put "k"\n  is_empty\n',
    ],
    ids=["host", "text", "map"],
)
def test_what_is_not_plain_is_left_to_the_exact_code(code: str) -> None:
    rule = (
        f'function f () locals "" -> O entry\n{code}  if 0\n    o_pass\n    ret\n  end\n  const ""\n  o_fail\n  ret\n'
    )
    assert fused(rule + POLICY) is None


def test_texts_that_patterns_were_asked_about_are_forgotten_in_time() -> None:
    patterns = "".join(
        f'    local_get 0 "image"\n    p_scalar ["*{n}*", [[["=", "*{n}*"]]]]\n    not\n    if 0\n      const ""\n'
        "      o_fail\n      ret\n    end\n"
        for n in range(3)
    )
    rule = (
        'function f () locals "V" -> O entry\n  path $resource.spec.containers\n  as_list\n  each 0\n'
        f"{patterns}  end\n  o_pass\n  ret\n"
    )
    made = fused(rule)
    for n in range(3_000):
        assert asked(made, root({"image": f"012/{n}"})) == (0, 0)
        assert asked(made, root({"image": f"12/{n:x}".replace("0", "o")})) == (1, 0)


FLAT = """
function flat () locals "VV" -> O entry
  path $resource.list
  tee 0
  is_list
  not
  if 0
    o_none
    ret
  end
  local 0
  invoke jmes.flatten
  is_list
  if 0
    o_pass
    ret
  end
  const ""
  o_fail
  ret
"""
FLAT_OR_NOT = """
function flat_or_not () locals "VV" -> O entry
  path $resource.list
  invoke jmes.flatten
  is_list
  if 0
    o_pass
    ret
  end
  const ""
  o_fail
  ret
"""


def test_what_one_rule_knows_of_a_value_is_not_taken_for_granted_by_another() -> None:
    text = "import jmes.flatten 1\n"
    for value, answer in ((3, (2, 1)), ([[1]], (0, 0)), (None, (2, 1))):
        made = {"list": value}
        where = {**root(), "$resource": made, "$object": made, "request": {"operation": "CREATE", "object": made}}
        assert asked(fused(text + FLAT, FLAT_OR_NOT), where) == answer


def test_a_rule_that_fails_and_one_without_a_result_are_not_the_same() -> None:
    rule = """
function f () locals "" -> O entry
  path $resource.a
  is_true
  if 0
    path $resource.b
    is_text
    if 0
      o_none
      ret
    end
    const ""
    o_fail
    ret
  end
  o_pass
  ret
"""
    made = fused(rule)
    for value, answer in (({}, (0, 0)), ({"a": True, "b": "x"}, (0, 1)), ({"a": True}, (1, 0))):
        where = {**root(), "$resource": value, "$object": value, "request": {"operation": "CREATE", "object": value}}
        assert asked(made, where) == answer


def test_texts_put_together_leave_the_stack_as_it_is() -> None:
    rule = """
function f () locals "" -> O entry
  path $resource.a
  is_true
  const "a"
  const "b"
  concat 2
  pop
  if 0
    o_pass
    ret
  end
  const ""
  o_fail
  ret
"""
    made = fused(rule)
    assert asked(made, root()) == (1, 0)
    where = {"a": True}
    good = {**root(), "$resource": where, "$object": where, "request": {"operation": "CREATE", "object": where}}
    assert asked(made, good) == (0, 0)


def of(value: dict[str, Any]) -> dict[str, Any]:
    """The root of a request that creates an object."""
    return {**root(), "$resource": value, "$object": value, "request": {"operation": "CREATE", "object": value}}


def test_a_loop_that_asks_nothing_has_a_bound_too() -> None:
    rule = """
function f () locals "V" -> O entry
  path $resource.list
  as_list
  each 0
    nop
  end
  o_pass
  ret
"""
    made = fused(rule)
    assert asked(made, of({"list": [0] * 512})) == (0, 0)
    assert asked(made, of({"list": [0] * 513})) == (1, 0)


def test_loops_within_loops_have_a_lower_bound() -> None:
    rule = """
function f () locals "VV" -> O entry
  path $resource.lists
  as_list
  each 0
    local 0
    as_list
    each 1
      local 1
      is_null
      if 0
        const ""
        o_fail
        ret
      end
    end
  end
  o_pass
  ret
"""
    made = fused(rule)
    assert asked(made, of({"lists": [[0] * 64] * 512})) == (0, 0)
    assert asked(made, of({"lists": [[0] * 65]})) == (1, 0)
    assert asked(made, of({"lists": [[0] * 64] * 513})) == (1, 0)


def test_a_call_whose_answer_nobody_wants_is_paid_for() -> None:
    rule = """
import jmes.compact 1
function f () locals "" -> O entry
  path $resource.list
  invoke jmes.compact
  pop
  o_pass
  ret
"""
    made = fused(rule)
    assert asked(made, of({"list": [0] * 25_600})) == (0, 0)
    assert asked(made, of({"list": [0] * 30_000})) == (1, 0)


OFTEN = """
import cond.any_not_in 1
function f () locals "" -> O entry
  path $resource.list
  const ["a", "b*"]
  invoke cond.any_not_in
  if 0
    const ""
    o_fail
    ret
  end
  o_pass
  ret
"""


def test_what_was_found_of_a_list_holds_for_equal_lists_alone() -> None:
    made = fused(OFTEN)
    assert made is not None
    for _ in range(2):
        for value, answer in (
            (["a"], 0),
            (["bc", "a"], 0),
            (["c"], 1),
            ("a", 0),
            (["a", ["a"]], 1),
            (["a", {}], 1),
            ([True], 1),
            ([1], 1),
            ([], 0),
        ):
            exact = int(bool(answer))
            assert asked(made, of({"list": value})) == (exact, 0), value
    for n in range(3_000):
        assert asked(made, of({"list": [f"b{n}"]})) == (0, 0)


@pytest.mark.parametrize("texts", [(TAGGED, NAMED), (OFTEN,)], ids=["rules", "lists"])
def test_a_kept_function_answers_as_the_one_that_was_kept(texts: tuple[str, ...]) -> None:
    m = verify(UnverifiedModule(assemble("".join(texts))), bytecode.lent())
    rules = [Rule(m, n) for n in range(len(texts))]
    made = fuse(rules, "CREATE", FUEL)
    assert made is not None
    data = marshal.dumps((made.kept.sure, made.kept.code, made.kept.recipes))
    again = bind(Kept(*marshal.loads(data)), rules)
    for where in (root({"image": "a:1", "name": "c"}), root({"image": "a"}), root("x"), of({"list": ["a", "c"]})):
        assert again.run(where, Meter(FUEL)) == made.run(where, Meter(FUEL))


def test_the_name_of_a_kept_function_tells_all_that_it_depends_on() -> None:
    one, other = (verify(UnverifiedModule(assemble(text), digest), bytecode.lent()) for text, digest in _TWO)
    names = [
        name_of([Rule(one, 0)], "CREATE", FUEL),
        name_of([Rule(other, 0)], "CREATE", FUEL),
        name_of([Rule(one, 0, 2)], "CREATE", FUEL),
        name_of([Rule(one, 0)], "UPDATE", FUEL),
        name_of([Rule(one, 0)], "CREATE", FUEL - 1),
        name_of([Rule(one, 0)], "CREATE", FUEL, texts=False),
    ]
    assert len(set(names)) == len(names)
    assert names[0] == name_of([Rule(one, 0)], "CREATE", FUEL)


_TWO = ((TAGGED, b"1"), (NAMED, b"2"))


def test_functions_that_call_one_another_twice_are_looked_at_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 14
    chain = [f"function f{i} () -> V\n  call f{i - 1}\n  call f{i - 1}\n  equal\n  ret\n" for i in range(1, count)]
    head = f"function entry () -> O entry\n  call f{count - 1}\n  is_true\n"
    entry = f"{head}  if 0\n    o_pass\n    ret\n  end\n  o_none\n  ret\n"
    m = verify(
        UnverifiedModule(assemble("".join([entry, "function f0 () -> V\n  path $resource.spec\n  ret\n", *chain]))),
        bytecode.lent(),
    )
    looked = 0
    structure = Facts.structure

    def counted(self: Facts, fn: VerifiedFunction) -> Structure:
        nonlocal looked
        looked += 1
        return structure(self, fn)

    monkeypatch.setattr(Facts, "structure", counted)
    monkeypatch.setattr("vm.fused.questions", lambda *_: (FAIL,))
    assert fuse([Rule(m, 0)], "CREATE", FUEL) is None
    assert looked <= 4 * (count + 1)  # for each of the limits that are tried


@pytest.mark.parametrize(("times", "sure"), [(6, True), (12, False)])
def test_what_is_made_of_itself_again_and_again_is_left_to_the_exact_code(times: int, sure: bool) -> None:
    code = "  path $resource.spec\n  set 0\n" + "  local 0\n  local 0\n  equal\n  set 0\n" * times
    end = "  local 0\n  is_true\n  if 0\n    o_pass\n    ret\n  end\n  o_none\n  ret\n"
    assert (fused(f'function made () locals "V" -> O entry\n{code}{end}') is not None) == sure
