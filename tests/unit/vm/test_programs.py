"""The two tiers as programs, the verified module, and what people see of generated code."""

from __future__ import annotations

import linecache
import re
import traceback
from random import Random
from time import process_time
from typing import Any

import pytest

from fuzz.gen import bytecode
from vm.asm import AsmError, assemble
from vm.code import Module, UnverifiedModule, read_uleb, uleb
from vm.disasm import disassemble, disassemble_function
from vm.host import HostCall, Meter, Outcome, Program, Status
from vm.interp import interpret
from vm.tier2 import translate
from vm.values import Err
from vm.verify import VerifiedModule, VerifyError, verify

TIERS = pytest.mark.parametrize("tier", [interpret, translate])


def verified(text: str) -> VerifiedModule:
    return verify(UnverifiedModule(assemble(text)), bytecode.lent())


RULE = """
function f () locals "VV" -> O entry
  path request.containers
  as_list
  each 0
    local_get 0 "image"
    p_leaf ["!*:latest", [[["!", "*:latest"]]]]
    not
    if 0
      const "no latest; __import__('os')"
      o_fail
      ret
    end
  end
  o_pass
  ret
policy {"name": "p", "rules": [{"name": "r", "entry": "f"}]}
debug {"files": [{"name": "p.yaml", "lines": [[3, "image: '!*:latest'"]]}],
 "spans": [[{"pc": 0, "file": 0, "line": 3, "column": 1}]]}
""".replace(',\n "spans"', ', "spans"')


def test_only_the_verifier_makes_verified_modules() -> None:
    with pytest.raises(TypeError):
        VerifiedModule(object(), UnverifiedModule(Module()), (), (), (), bytecode.lent(), None, ())


@TIERS
def test_run_answers_at_once(tier: Any) -> None:
    program: Program = tier(verified(RULE))
    good = {"request": {"containers": [{"image": "a:1"}, {}]}}
    assert program.run(0, good, Meter()).status is Status.FAIL
    assert program.run(0, {"request": {"containers": [{"image": "a:1"}]}}, Meter()).status is Status.PASS


@TIERS
def test_run_refuses_what_may_suspend(tier: Any) -> None:
    text = "cell c\nfunction c () -> V cell\n  null\n  await apicall\n  ret\nfunction f () -> V\n  cell 0\n  ret\n"
    program: Program = tier(verified(text))
    with pytest.raises(ValueError, match="may suspend"):
        program.run(1, {}, Meter())
    execution = program.start(1, {}, Meter())
    assert next(execution) == HostCall("apicall", None, None)
    execution.close()


@TIERS
def test_a_run_that_is_closed_leaves_nothing_behind(tier: Any) -> None:
    text = "cell c\nfunction c () -> V cell\n  path a\n  await apicall\n  ret\nfunction f () -> V\n  cell 0\n  ret\n"
    program: Program = tier(verified(text))
    abandoned = program.start(1, {"a": 1}, Meter())
    next(abandoned)
    abandoned.close()
    again = program.start(1, {"a": 2}, Meter())
    assert next(again).payload == 2
    with pytest.raises(StopIteration) as stop:
        again.send("reply")
    assert stop.value.value == "reply"


@TIERS
def test_functions_with_parameters_are_not_started(tier: Any) -> None:
    program: Program = tier(verified("function g (V) -> V\n  local 0\n  ret\n"))
    with pytest.raises(ValueError, match="parameters"):
        program.run(0, {}, Meter())


@TIERS
def test_the_request_is_not_changed(tier: Any) -> None:
    rng = Random(3)
    for _ in range(40):
        m = bytecode.module(rng)
        try:
            v = verify(UnverifiedModule(m), bytecode.lent())
        except VerifyError:
            continue
        program: Program = tier(v)
        root = bytecode.root(rng)
        before = repr(root), repr(v.constants)
        for fn in v.functions:
            if not fn.params:
                execution = program.start(fn.number, root, Meter(2000))
                try:
                    next(execution)
                    while True:
                        execution.send(Err("host", "no"))
                except StopIteration:
                    pass
        assert (repr(root), repr(v.constants)) == before


def test_generated_source_holds_no_text_of_a_policy() -> None:
    m = verified(RULE)
    source = translate(m).source(0)  # type: ignore[attr-defined]
    assert "latest" not in source
    assert "os" not in source.replace("MISSING", "")
    assert "'" not in source
    words = set(re.findall(r"[A-Za-z_]\w*", source))
    allowed = {"def", "for", "in", "if", "else", "return", "raise", "type", "is", "dict", "list", "not", "get"}
    allowed |= {"meter", "cells", "left", "root", "OutOfFuel", "MISSING", "PASSED", "or", "str", "endswith"}
    names = {w for w in words - allowed if not re.fullmatch(r"[ltkpqifh]\d+|[rv]\d+_\d+|s_\w+", w)}
    assert names == set()


def test_generated_code_has_no_builtins() -> None:
    program: Any = translate(verified(RULE))
    program.run(0, {}, Meter())
    assert program._globals["f0"].__globals__["__builtins__"] == {}
    assert not {"eval", "open", "__import__"} & program._globals.keys()


def test_a_traceback_through_generated_code_shows_instructions_and_policy_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    m = verified(RULE)

    def broken(value: Any) -> bool:
        raise RuntimeError("a bug in a predicate")

    monkeypatch.setattr(m, "leaf", lambda n: broken)
    try:
        translate(m).run(0, {"request": {"containers": [{"image": 1}]}}, Meter())
    except RuntimeError as problem:
        shown = "".join(traceback.format_exception(problem))
    assert "<thesmos:f@" in shown
    assert "if 0  ; p.yaml:3" in shown


@TIERS
@pytest.mark.parametrize("name", ["a\\u0000b", "line\\nbreak", "'>\\\"", ""])
def test_any_name_of_a_function_will_do(tier: Any, name: str) -> None:
    assert tier(verified(f'function "{name}" () -> V\n  const 5\n  ret\n')).run(0, {}, Meter()) == 5


def test_listings_go_with_the_module() -> None:
    m = verified(RULE.replace("function f", "function g").replace('"f"', '"g"'))
    translate(m).run(0, {}, Meter())
    assert any(name.startswith("<thesmos:g@") for name in linecache.cache)
    del m
    assert not any(name.startswith("<thesmos:g@") for name in linecache.cache)


def test_the_disassembly_stands_under_the_policy_lines() -> None:
    m = assemble(RULE)
    lines = disassemble_function(m, 0).splitlines()
    assert lines[0] == 'function f () locals "VV" -> O stack 16 entry propagate'
    assert lines[1].strip() == "; p.yaml:3:1  image: '!*:latest'"
    assert lines[2] == "  0000: path request.containers"
    assert lines[5] == '  0005:   local_get 0 "image"'
    assert "p.yaml" not in disassemble(m, source=False).partition("\nfunction")[2].partition("\npolicy")[0]


def test_broken_code_can_be_looked_at() -> None:
    m = assemble("function f () -> V\n  null\n  bytes ff00\n")
    assert "bytes ff00" in disassemble(m)
    assert assemble(disassemble(m)) == m


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nonsense 1", 1),
        ("function f () -> V\n  jump 3", 2),
        ("function f () -> V\n  local x", 2),
        ("function f () -> V\n  null 1", 2),
        ("function f () -> V\n  call g", 2),
        ("function f -> V", 1),
        ("function f () -> V entry helper", 1),
        ("function f () -> V\n\n  const {", 3),
        ("function f () -> V\n  await moon", 2),
    ],
)
def test_assembly_errors_name_the_line(text: str, line: int) -> None:
    with pytest.raises(AsmError) as caught:
        assemble(text)
    assert caught.value.line == line


@pytest.mark.parametrize("n", [0, 1, 127, 128, 300, 16383, 16384, 2**32 - 1])
def test_numbers_have_one_form(n: int) -> None:
    assert read_uleb(b"x" + uleb(n), 1) == (n, 1 + len(uleb(n)))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80\x00", b"\xff\x00", b"\xff" * 6])
def test_other_forms_of_numbers_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="number is"):
        read_uleb(data, 0)


def chain(n: int) -> str:
    parts = [f"function f{i} () -> V\n  call f{i + 1}\n  ret\n" for i in range(n - 1)]
    return "".join([*parts, f"function f{n - 1} () -> V\n  const 7\n  ret\n"])


@TIERS
def test_calls_may_go_64_deep_and_no_deeper(tier: Any) -> None:
    assert tier(verified(chain(64))).run(0, {}, Meter()) == 7
    with pytest.raises(VerifyError) as caught:
        verified(chain(65))
    assert caught.value.code == "recursion"


def nested(kind: str, n: int) -> str:
    opened = {"if": "true\nif 0\n", "each": "path l\nas_list\neach {i}\n"}[kind]
    body = "".join(opened.replace("{i}", str(i)) for i in range(n)) + "nop\n" + "end\n" * n + "null\nret\n"
    return f'function f () locals "{"V" * n}" -> V\n' + "".join(f"  {line}\n" for line in body.splitlines())


@TIERS
@pytest.mark.parametrize(("kind", "most"), [("if", 64), ("each", 18)])
def test_nesting_up_to_the_limit_compiles(tier: Any, kind: str, most: int) -> None:
    assert tier(verified(nested(kind, most))).run(0, {"l": [1]}, Meter()) is None
    with pytest.raises(VerifyError) as caught:
        verified(nested(kind, most + 1))
    assert caught.value.code == "nesting"


@TIERS
def test_long_chains_of_pure_code_compile(tier: Any) -> None:
    text = "function f () -> V\n  path a\n  is_true\n" + "  not\n" * 3000 + "  ret\n"
    assert tier(verified(text)).run(0, {"a": True}, Meter()) is True


@TIERS
def test_a_shared_part_is_paid_for_each_time_it_is_walked(tier: Any) -> None:
    """Twenty lists of two, each within the next: two to the twentieth leaves, which must not be walked for free."""
    wrap = "  new_list\n  local 0\n  append\n  local 0\n  append\n  set 0\n" * 20
    for last in ("to_text", "invoke jmes.to_string", "local 0\n  equal"):
        text = f'function f () locals "L" -> V\n  new_list\n  set 0\n{wrap}  local 0\n  {last}\n  ret\n'
        answer = tier(verified(text)).run(0, {}, Meter(5000))
        if last.endswith("equal"):
            assert answer is True  # the very same list needs no walk
        else:
            assert isinstance(answer, Err)
            assert answer.code == "fuel"


@TIERS
def test_outcomes_without_data_are_shared(tier: Any) -> None:
    program: Program = tier(verified("function f () -> O\n  o_pass\n  ret\nfunction g () -> O\n  o_none\n  ret\n"))
    assert program.run(0, {}, Meter()) is program.run(0, {}, Meter())
    assert program.run(1, {}, Meter()) == Outcome(Status.NONE)


def test_debug_spans_that_do_not_fit_are_dropped_with_a_warning() -> None:
    m = verified(RULE.replace('"pc": 0', '"pc": 999'))
    assert m.debug is None
    assert len(m.warnings) == 1


def test_the_fixpoint_of_loops_in_loops_is_soon_found() -> None:
    """Eighteen of them, each round of which hands an owner down a row of locals: done anew for each round of the loop
    around it, this would take for ever."""
    depth, row = 18, 7
    locals_ = "V" * depth + "L" * (row + 1)
    body = "".join(f"new_list\nset {depth + i}\n" for i in range(row + 1))
    for i in range(depth):
        body += f"path l\nas_list\neach {i}\n" + "".join(
            f"local {depth + n}\nset {depth + n + 1}\n" for n in reversed(range(row))
        )
        body += f"new_list\nset {depth}\n"
    body += "end\n" * depth + "null\nret\n"
    text = f'function f () locals "{locals_}" -> V\n' + "".join(f"  {x}\n" for x in body.splitlines())
    start = process_time()
    verified(text)
    assert process_time() - start < 5


def test_many_owners_and_many_arms_are_soon_verified() -> None:
    slots = 1500
    made = "".join(f"  new_list\n  set {i}\n" for i in range(slots))
    arms = "".join(f"  path a\n  is_true\n  if 0\n    new_list\n    set {i}\n  end\n" for i in range(slots))
    start = process_time()
    verified(f'function f () locals "{"L" * slots}" -> V\n{made}{arms}  null\n  ret\n')
    assert process_time() - start < 20


def test_tier_1_answers_until_the_generated_code_is_ready() -> None:
    m = verified(RULE)
    jobs: list[Any] = []
    program = translate(m, meanwhile=interpret(m), later=jobs.append)
    alone = translate(m)
    root = {"request": {"containers": [{"image": "web:1"}, {"image": "web:latest"}]}}
    seen = []
    for run in range(5):
        meter, same = Meter(), Meter()
        seen.append(program.run(0, root, meter))
        assert alone.run(0, root, same) == seen[-1]
        assert meter.left == same.left
        if run < 3:
            assert len(jobs) == min(run, 1), "handed over at the second run, once"
            assert program._direct[0] is None  # type: ignore[attr-defined]
        if run == 2:
            jobs.pop()()
    assert program._direct[0] is not None  # type: ignore[attr-defined]
    assert len(set(map(repr, seen))) == 1
