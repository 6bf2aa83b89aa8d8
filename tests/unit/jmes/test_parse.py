"""The JMESPath grammar: shape of trees, places of errors, limits, and the way back to text."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from compiler.frontends.jmes.ast import (
    Call,
    Current,
    Each,
    Field,
    Flatten,
    Index,
    Literal,
    Not,
    Or,
    Pipe,
    unparse,
)
from compiler.frontends.jmes.check import check, constant_problems, root_names
from compiler.frontends.jmes.functions import FUNCTIONS
from compiler.frontends.jmes.parse import parse
from grammar import loader
from grammar.errors import SyntaxProblem

C = Current()


def f(name: str) -> Field:
    return Field(C, name)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a.b", Field(f("a"), "b")),
        ("a[*].b[0]", Each(f("a"), Index(Field(C, "b"), 0))),
        ("a[*].b[]", Flatten(Each(f("a"), Field(C, "b")), C)),
        ("a[*].b | [0]", Pipe((Each(f("a"), Field(C, "b")), Index(C, 0)))),
        ("(a[*].b)[0]", Index(Each(f("a"), Field(C, "b")), 0)),
        ("!a.b", Field(Not(f("a")), "b")),
        ("!a[0]", Not(Index(f("a"), 0))),
        ("!a[*].b", Not(Each(f("a"), Field(C, "b")))),
        ("!!a", Not(Not(f("a")))),
        ("a || b || c", Or((f("a"), f("b"), f("c")))),
        ("'it\\'s'", Literal("it's")),
        ("'a\\b'", Literal("a\\b")),
        ('`"a\\`b"`', Literal("a`b")),
        ('"a\\u0062"', f("ab")),
        ("length(a)", Call(C, "length", (f("a"),))),
    ],
)
def test_tree(text: str, tree: object) -> None:
    assert parse(text) == tree
    assert parse(unparse(parse(text))) == tree


@pytest.mark.parametrize(
    ("text", "code", "start", "end"),
    [
        ("a..b", "token", 2, 3),
        ("a.", "end", 2, 2),
        ("", "end", 0, 0),
        ("a # b", "character", 2, 3),
        ("a[", "end", 2, 2),
        ("a `x`", "token", 2, 5),
        ("`{a}`", "literal", 0, 5),
        ("a[99999999999999999999]", "literal", 1, 23),
    ],
)
def test_place_of_a_problem(text: str, code: str, start: int, end: int) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        parse(text)
    problem = caught.value
    assert (problem.code, problem.start, problem.end) == (code, start, end)
    assert (problem.moved(3).start, problem.moved(3).end) == (start + 3, end + 3)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("foo(a)", "name", "unknown function foo"),
        ("lenght(a)", "name", "unknown function lenght"),
        ("abs()", "arity", "function abs takes 1 argument, not 0"),
        ("not_null()", "arity", "function not_null takes at least 1 argument, not 0"),
        ("abs(&a)", "type", "argument 1 of abs must be number, not an expression"),
        ("sort_by(a, b)", "type", "argument 2 of sort_by must be an expression (&…), not a value"),
        ("a[?length(@, @) == `1`]", "arity", "function length takes 1 argument, not 2"),
    ],
)
def test_calls_that_cannot_work(text: str, code: str, words: str) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        check(parse(text))
    assert caught.value.code == code
    assert caught.value.message == words


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("to_upper(`1`)", "`1`", "argument 1 of to_upper must be string, not number"),
        ("a || contains(`{}`, 'x')", "`{}`", "argument 1 of contains must be array|string, not object"),
        ("merge(a, b, `[]`)", "`[]`", "argument 3 of merge must be object, not array"),
        ("max('a')", "'a'", "argument 1 of max must be array[number]|array[string], not string"),
        ("regex_match('(', a)", "'('", "cannot compile '(': missing ): ("),
    ],
)
def test_constant_arguments_that_can_never_do(text: str, place: str, words: str) -> None:
    tree = parse(text)
    check(tree)
    (problem,) = constant_problems(tree)
    assert text[problem.start : problem.end] == place
    assert problem.message == words


@pytest.mark.parametrize("text", ["to_upper('a')", "regex_match('[a-z]', `1`)", "type(`null`)", "max(`[1]`)", "abs(a)"])
def test_constant_arguments_that_do(text: str) -> None:
    assert list(constant_problems(parse(text))) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a.b[?c == d]", ["a"]),
        ("a || b && !c", ["a", "b", "c"]),
        ("length(a) | b", ["a"]),
        ("[a, b.c].d", ["a", "b"]),
        ("a.[b, c]", ["a"]),
        ("a.{x: b}", ["a"]),
        ("map(&x, a)", ["a"]),
        ("@", []),
        ("'a'", []),
        ("a.length(b)", ["a"]),
    ],
)
def test_root_names(text: str, names: list[str]) -> None:
    assert sorted(name for name, _ in root_names(parse(text))) == names


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000,
        "(" * 10_000 + "a" + ")" * 10_000,
        "[" * 10_000,
        "!" * 10_000 + "a",
        "a" + ".b" * 10_000,
        "a" + "[*]" * 10_000,
        "a" + "[]" * 10_000,
        "abs(" * 5_000 + "a" + ")" * 5_000,
        "a[?" * 5_000 + "a" + "]" * 5_000,
        "`" + "[" * 10_000 + "]" * 10_000 + "`",
        "a" * 100_000,
        "{a:" * 5_000 + "b" + "}" * 5_000,
    ],
    ids=lambda t: t[:6],
)
def test_bombs_are_refused_quickly(text: str) -> None:
    start = time.monotonic()
    with pytest.raises(SyntaxProblem):
        parse(text)
    assert time.monotonic() - start < 5


def test_long_flat_queries_are_fine() -> None:
    assert isinstance(parse(" || ".join(["a"] * 2000)), Or)


@pytest.mark.parametrize("name", sorted(p.stem for p in Path(loader.__file__).parent.glob("*.lark")))
def test_grammars_have_no_conflicts(name: str) -> None:
    pytest.importorskip("interegular")
    loader.build(name, strict=True)


def test_unknown_grammar() -> None:
    with pytest.raises(KeyError):
        loader.load("nothing")


def test_every_function_has_its_intrinsic() -> None:
    from vm.functions import INTRINSICS, resolve

    for function in FUNCTIONS.values():
        entry = INTRINSICS[function.intrinsic]
        assert len(entry.params) == (1 if function.high is None else function.high), function.signature
        assert callable(resolve(function.intrinsic))
