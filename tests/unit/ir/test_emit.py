"""Emitted code verifies, is the same each time, and does what the IR says; what does not fit is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.emit import EmitError, emit
from compiler.frontends.pattern import compile_scalar
from compiler.ir.build import FunctionBuilder
from compiler.ir.check import check
from compiler.ir.ops import And, Const, Expr, Function, If, Load, Local, Module, Op, Or, Return
from compiler.ir.parse import parse_module
from vm.code import MAX_CONSTANTS, UnverifiedModule
from vm.code import Module as Code
from vm.host import Imports, Meter, Outcome, Status
from vm.interp import interpret
from vm.structure import decode
from vm.values import MISSING, Err
from vm.verify import verify


def _no_text(text: str, *_: Any) -> Any:
    return Err("syntax", text)


IMPORTS = Imports(substitute=_no_text, pattern=compile_scalar, yaml=_no_text)


def _names(code: Code, function: int = 0) -> list[str]:
    return [instr.op.name for instr in decode(code.functions[function].code, "f")]


def _run(text: str, root: dict[str, Any]) -> Any:
    module = parse_module(text)
    check(module)
    program = interpret(verify(UnverifiedModule(emit(module)), IMPORTS))
    return program.run(0, root, Meter())


_AND_NOT_OR = "if and(is_map(@a), not(or(is_list(@b), is_text(@b))))\n  return true\nreturn false"
_BREAKS = "local x: V\neach x in as_list(@a)\n  if is_map(%x)\n    break\n  return true\nreturn false"
_PAIRS = "local k: S\nlocal v: V\npairs k, v in as_map(@a)\n  return equal(%v, 2)\nreturn false"


@pytest.mark.parametrize(
    ("body", "root", "want"),
    [
        ("return and(is_map(@a), is_list(@b))", {"a": {}, "b": []}, True),
        ("return and(is_map(@a), is_list(@b))", {"a": {}, "b": 1}, False),
        ("return or(is_map(@a), is_list(@b))", {"a": 1, "b": []}, True),
        ("return or()", {}, False),
        ("return and()", {}, True),
        (_AND_NOT_OR, {"a": {}, "b": 1}, True),
        (_AND_NOT_OR, {"a": {}, "b": []}, False),
        ("if not(or(is_list(@b), is_text(@b)))\n  return true\nreturn false", {"b": 1}, True),
        ("if not(or(is_list(@b), is_text(@b)))\n  return true\nreturn false", {"b": []}, False),
        ("local x: V\nx = @a\nif equal(%x, %x)\n  return is_map(%x)\nreturn false", {"a": {}}, True),
        ("local x: V\nx = @a\nreturn is_null(get[\"k\"](%x))", {"a": {"k": None}}, True),
        ("local x: V\neach x in as_list(@a)\n  if is_map(%x)\n    return true\nreturn false", {"a": [1, {}]}, True),
        (_BREAKS, {"a": [{}]}, False),
        (_PAIRS, {"a": {"b": 1, "a": 2}}, True),
        ("local x: V\nreturn is_map(choose(is_map(@a), block\n  x = @a\n  => %x\nend, 1))", {"a": {}}, True),
        ("return p_leaf[\"n*\"](@a)", {"a": ["no", "n"]}, True),
        ("return call g(@a, 2)\n\nfunction g(a: V, b: V) -> B helper\n  return equal(%a, %b)", {"a": 2}, True),
        ("return equal(#missing, @a)", {}, True),
        ("return err_code[\"type\"](#error[\"type\", \"t\", \"\"])", {}, True),
    ],
)  # fmt: skip
def test_code_does_what_the_ir_says(body: str, root: dict[str, Any], want: bool) -> None:
    lines = "\n".join(
        "  " + line if not line.startswith(("function", "  return equal(%a")) else line for line in body.split("\n")
    )
    assert _run(f"function f() -> B helper\n{lines}\n", root) is want


def test_outcomes() -> None:
    text = 'function f() -> O entry\n  return o_fail(concat[2]("no ", to_text(@a)))\n'
    assert _run(text, {"a": 1}) == Outcome(Status.FAIL, "no 1")


def test_a_value_that_is_read_next_stays_on_the_stack() -> None:
    text = "function f() -> B helper\n  local x: V\n  x = @a\n  if is_map(%x)\n    return true\n  return is_list(%x)\n"
    assert _names(emit(parse_module(text)))[:4] == ["path", "tee", "is_map", "if"]


def test_a_field_of_a_local_is_one_instruction() -> None:
    text = 'function f(x: V) -> V helper\n  return get["a"](%x)\n'
    assert _names(emit(parse_module(text))) == ["local_get", "ret"]


def test_equal_constants_of_different_kinds_stay_apart() -> None:
    terms = ", ".join(f"equal(@a, {c})" for c in ("1", "1.0", "1", "[1]", "[1.0]"))
    text = f"function f() -> B helper\n  return or({terms})\n"
    assert emit(parse_module(text)).constants == (1, 1.0, [1], [1.0])


def test_the_same_ir_gives_the_same_code() -> None:
    text = 'function f() -> B helper\n  return p_leaf["a | b"](@x.y)\n'
    assert emit(parse_module(text)) == emit(parse_module(text))


def test_spans_name_the_lines_of_the_policy() -> None:
    text = (
        'policy "p" in null {}\n  rule "r" validate f {}\n\n'
        "function f() -> O entry policy 0\n"
        '  if is_map(@a)  !"/spec/rules/0/match"\n'
        '    return o_pass()  !"/spec/rules/0/validate"\n'
        '  return o_none()  !"/nowhere"\n\n'
        'span 0 "/spec/rules/0/match" ["p.yaml", 2, 3]\nspan 0 "/spec/rules/0/validate" ["p.yaml", 4, 1]\n'
    )
    debug = emit(parse_module(text), texts={"p.yaml": "one\ntwo\nthree\nfour\n"}).debug
    assert debug is not None
    assert [(f.name, f.lines) for f in debug.files] == [("p.yaml", ((2, "two"), (4, "four")))]
    assert [(s.line, s.column) for s in debug.spans[0]] == [(2, 3), (4, 1)]
    assert debug.spans[0][0].pc == 0


def _nested(depth: int) -> Expr:
    expr: Expr = Load(("a",))
    for _ in range(depth):
        expr = Op("equal", (Const(1), expr))
    return expr


def test_a_stack_that_is_too_high_is_refused() -> None:
    fn = Function("deep", (), {}, (Return(_nested(300), "/spec"),), "B", 0)
    with pytest.raises(EmitError, match="deep: needs 301 values on the stack, more than 256") as caught:
        emit(Module((fn,), ()))
    assert (caught.value.at, caught.value.policy) == ("/spec", 0)


def test_code_that_is_too_long_is_refused() -> None:
    b = FunctionBuilder("long", params=[("x", "V")], result="B")
    for i in range(9000):
        b.emit(If(Op("equal", (Local("x"), Const(i))), (Return(Const(True)),)))
    b.ret(Const(False))
    with pytest.raises(EmitError, match="bytes of code, more than 65536"):
        emit(Module((b.function(),), ()))


def test_too_many_constants_are_refused() -> None:
    functions = []
    for n in range(10):
        b = FunctionBuilder(f"f{n}", params=[("x", "V")], result="B")
        for i in range(MAX_CONSTANTS // 9):
            if i % 1000 == 0:
                functions.append(b.function(Return(Const(False))))
                b = FunctionBuilder(f"f{n}.{i}", params=[("x", "V")], result="B")
            b.emit(If(Op("equal", (Local("x"), Const(f"{n}.{i}"))), (Return(Const(True)),)))
        functions.append(b.function(Return(Const(False))))
    with pytest.raises(EmitError, match="constants"):
        emit(Module(tuple(functions), ()))


def test_long_conjunctions_keep_within_the_nesting_limit() -> None:
    terms = tuple(Op("is_map", (Load((f"k{i}",)),)) for i in range(50))
    for cond in (And(terms), Or(terms), Op("not", (Or(terms),))):
        fn = Function("f", (), {}, (If(cond, (Return(Const(True)),)), Return(Const(False))), "B")
        verify(UnverifiedModule(emit(Module((fn,), ()))), IMPORTS)


def test_missing_is_not_null() -> None:
    assert _run("function f() -> V helper\n  return #missing\n", {}) is MISSING
