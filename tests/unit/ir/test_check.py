"""The checker refuses each kind of bad IR with a sentence that names the fault."""

from __future__ import annotations

import pytest

from compiler.ir.check import Checker, CheckError, check, fresh_locals
from compiler.ir.ops import Block, Const, Do, Function, Invoke, Load, Local, Module, Op, Return, Set
from compiler.ir.parse import parse_module


def _function(body: str, head: str = "function f(x: V, l: L) -> B helper") -> Module:
    return parse_module(f"{head}\n" + "\n".join("  " + line for line in body.split("\n")) + "\n")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("return %y", "local y is not declared"),
        ("local y: V\nreturn is_map(%y)", "local y is read before it is set"),
        ("local y: V\nif is_map(%x)\n  y = 1\nreturn is_map(%y)", "local y is read before it is set"),
        (
            "local y: V\nif and(is_map(%x), is_map(block\n  y = 1\n  => %y\nend))\n  return true\nreturn is_map(%y)",
            "before it",
        ),
        ("local y: V\neach y in %l\n  next\nreturn is_map(%y)", "local y is read before it is set"),
        ("return %x", "the result has kind V, not B"),
        ("if %x\n  return true\nreturn false", "a condition has kind V, not B"),
        ("each x in %x\n  next\nreturn true", "what each goes over has kind V, not L"),
        ("if is_map(%x)\n  return true", "does not return on every path"),
        ("break", "break or next outside a loop"),
        ("do append(%l, 1)\nreturn true", "append would change what this function did not make"),
        ("return is_map(nothing(%x))", "no operation is called nothing"),
        ("return is_map(const(%x))", "no operation is called const"),
        ("return is_map(call g(%x))", "no function is called g"),
        ("return is_map(no.such(%x))", "no intrinsic is called no.such"),
        ("return is_null(pat.walk(%x))", "pat.walk takes 2 operands, not 1"),
        ("return is_map(%x, %x)", "is_map takes 1 operands, not 2"),
        ("return is_map(get(%x))", "get takes 1 constants, not 0"),
        ("return is_map(get[1](%x))", "get cannot take the constant 1"),
        ("return not(%x)", "an operand of not has kind V, not B"),
        ("return is_map(@)", "a load has no path"),
        ("local i: I\nlocal e: V\neach e, i in %l\n  i = 1\nreturn true", "i is bound by a loop around"),
        ("local e: B\neach e in %l\n  next\nreturn true", "element e has kind V, not B"),
        ("return equal(choose(is_map(%x), o_pass(), o_none()), 1)", "an operand of equal has kind O, not V"),
        ("return is_map(choose(is_map(%x), o_pass(), 1))", "the arms of a choice have kinds O and I"),
        ("return and(is_map(%x), %x)", "a term of a condition has kind V, not B"),
    ],
)
def test_a_fault_is_named(body: str, fault: str) -> None:
    with pytest.raises(CheckError) as caught:
        check(_function(body))
    assert fault in str(caught.value)
    assert caught.value.function == "f"


@pytest.mark.parametrize(
    "body",
    [
        "if is_map(%x)\n  return true\nelse\n  return false",
        "local y: V\nif is_map(%x)\n  y = 1\nelse\n  y = 2\nreturn is_map(%y)",
        "local y: V\nif is_map(%x)\n  return true\nelse\n  y = 2\nreturn is_map(%y)",
        "local r: L\nr = new_list()\neach x in %l\n  r = append(%r, %x)\n  break\nreturn is_empty(%r)",
        'local r: M\nr = put["k"](new_map(), 1)\ndo put_key(%r, "z", 2)\nreturn is_empty(%r)',
        "return and()",
        'return p_leaf["?*"](%x)',
    ],
)
def test_sound_functions_pass(body: str) -> None:
    check(_function(body))


def test_calls_must_not_meet_again() -> None:
    text = "function f() -> B helper\n  return call g()\n\nfunction g() -> B helper\n  return call f()\n"
    with pytest.raises(CheckError, match="calls f, which calls it"):
        check(parse_module(text))


def test_names_are_unique() -> None:
    text = "function f() -> B helper\n  return true\n"
    with pytest.raises(CheckError, match="two functions have this name"):
        check(parse_module(text + "\n" + text))


@pytest.mark.parametrize(
    ("head", "fault"),
    [
        ('policy "p" in null {}\n  rule "r" validate g {}', "no function is called g"),
        ('policy "p" in null {}\n  rule "r" validate f {}', "f is no function"),
        ('policy "p" in null {}\n  rule "r" audit f {}', "is of kind audit"),
        ('exemption "x" in "n" f [] {}', "f is no function"),
    ],
)
def test_rules_and_exceptions_name_their_entries(head: str, fault: str) -> None:
    with pytest.raises(CheckError, match=fault):
        check(parse_module(f"{head}\n\nfunction f(x: V) -> O entry\n  return o_pass()\n"))


def test_freshness_goes_through_copies_and_ends_at_foreign_values() -> None:
    fn = Function(
        "f",
        (),
        {"a": "L", "b": "L", "c": "L"},
        (
            Set("a", Op("new_list")),
            Set("b", Block((Do(Op("append", (Local("a"), Const(1)))),), Local("a"))),
            Set("c", Op("as_list", (Load(("x",)),))),
            Set("c", Op("new_list")),
            Return(Op("o_pass")),
        ),
        "O",
    )
    assert fresh_locals(fn) == {"a", "b"}


def test_a_function_that_stays_may_lose_what_it_calls() -> None:
    module = parse_module("function f() -> B helper\n  return call g()\n\nfunction g() -> B helper\n  return true\n")
    checker = Checker()
    checker.check(module)
    checker.check(module)
    with pytest.raises(CheckError, match="no function is called g"):
        checker.check(Module(module.functions[:1], ()))


def test_intrinsics_are_known_by_their_table() -> None:
    fn = Function("f", (), {}, (Return(Invoke("pat.sentence", (Const("a"),))),), "S")
    check(Module((fn,), ()))
