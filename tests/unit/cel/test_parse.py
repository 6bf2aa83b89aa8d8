"""The CEL parser beyond its golden cases: whole corpora, limits, hostile texts, and the way back to text."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontends.cel.ast import Call, Ident, ListLit, Literal, Loop, Node, Select, children
from compiler.frontends.cel.parse import MAX_LENGTH, parse
from compiler.frontends.cel.unparse import unparse
from fuzz.gen.cel import VARIABLES, Texts, bindings, expressions, trees
from fuzz.targets.f01_cel import shape
from grammar.errors import SyntaxProblem

CONFORMANCE = Path(os.environ.get("THESMOS_CONFORMANCE") or Path(__file__).parents[4] / "shared" / "conformance")
SPEC = CONFORMANCE / "cel-spec"


def nodes(root: Node) -> list[Node]:
    found = [root]
    for node in found:
        found.extend(children(node))
    return found


def spec_tests() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(SPEC.glob("*.json")):
        for section in json.loads(path.read_text(encoding="utf-8")).get("section", ()):
            for test in section.get("test", ()):
                yield path.stem, test


@pytest.mark.skipif(not SPEC.is_dir(), reason="no conformance data (set THESMOS_CONFORMANCE)")
def test_every_expression_of_the_specification_parses_and_comes_back() -> None:
    count = 0
    for stem, test in spec_tests():
        block, macros = stem == "block_ext", not test.get("disable_macros", False)
        node = parse(test["expr"], block=block, macros=macros)
        text = unparse(node)
        assert shape(parse(text, block=block, macros=macros)) == shape(node), test["expr"]
        found = nodes(node)
        assert len({n.id for n in found}) == len(found), test["expr"]
        assert all(0 <= n.at[0] < n.at[1] <= len(test["expr"]) for n in found), test["expr"]
        count += 1
    assert count > 2000


def test_macros_can_be_left_alone() -> None:
    assert parse("has(a.b)", macros=False) == Call("has", (Select(Ident("a"), "b"),))
    assert parse("a.all(x, x)", macros=False) == Call("all", (Ident("x"), Ident("x")), Ident("a"))


def test_block_is_a_plain_call_elsewhere() -> None:
    assert parse("cel.block([1], 2)") == Call("block", (ListLit((Literal(1),)), Literal(2)), Ident("cel"))


def test_a_name_in_parentheses_is_no_namespace_of_a_message() -> None:
    with pytest.raises(SyntaxProblem, match=r"unexpected '\{'"):
        parse("(a.b){}")
    with pytest.raises(SyntaxProblem, match=r"unexpected '\{'"):
        parse("a.`b`{}")


def test_reserved_words_may_begin_a_message_or_be_fields() -> None:
    assert unparse(parse("package.x{}")) == "package.x{}"
    assert parse("a.package.while()") == Call("while", (), Select(Ident("a"), "package"))
    for text in ("package", "package.x", "package()", "while + 1", ".for"):
        with pytest.raises(SyntaxProblem, match="reserved identifier"):
            parse(text)


@pytest.mark.parametrize("word", ["in", "true", "false", "null"])
def test_words_that_are_no_names(word: str) -> None:
    for text in (f"a.{word}", f"a.{word}()", f"A{{{word}: 1}}", f"a.{word}{{}}"):
        with pytest.raises(SyntaxProblem):
            parse(text)
    assert parse(f"a.`{word}`") == Select(Ident("a"), word)


def test_in_needs_no_spaces_but_is_no_part_of_a_name() -> None:
    assert parse("1 in[2]") == Call("@in", (Literal(1), ListLit((Literal(2),))))
    with pytest.raises(SyntaxProblem):
        parse("1 in2")


def test_line_ends_of_a_string_are_one_character() -> None:
    assert parse("'''a\r\nb\rc\nd'''") == Literal("a\nb\nc\nd")
    assert parse('r"""\r\n\\"""') == Literal("\n\\")


DEEP: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: "(" * n + "1" + ")" * n,
    "selects": lambda n: "a" + ".b" * n,
    "sums": lambda n: "+".join(["1"] * (n + 1)),
    "relations": lambda n: "<".join(["1"] * (n + 1)),
    "lists": lambda n: "[" * n + "]" * n,
    "calls": lambda n: "f(" * n + "1" + ")" * n,
    "indexes": lambda n: "a" + "[0]" * n,
    "conditions": lambda n: "a?b:" * n + "c",
    "maps": lambda n: "{1:" * n + "1" + "}" * n,
    "methods": lambda n: "a" + ".f()" * n,
    "loops": lambda n: "[1].all(x," * n + "true" + ")" * n,
    "signs in parentheses": lambda n: "!(" * n + "a" + ")" * n,
}


@pytest.mark.parametrize("kind", DEEP)
def test_depth_is_limited_where_it_is_in_kubernetes(kind: str) -> None:
    assert parse(DEEP[kind](248))
    assert unparse(parse(DEEP[kind](248)))
    with pytest.raises(SyntaxProblem, match="expression recursion limit exceeded: 250") as caught:
        parse(DEEP[kind](260))
    assert caught.value.code == "depth"


def test_terms_of_and_and_signs_do_not_nest() -> None:
    assert len(nodes(parse("&&".join(["a"] * 5000)))) == 5001
    assert parse("!" * 5000 + "a") == Ident("a")
    assert parse("-" * 5001 + "a") == Call("-_", (Ident("a"),))


def test_brackets_in_strings_and_comments_do_not_nest() -> None:
    brackets = "([{" * 100
    for text in (f"'{brackets}'", f'r"{brackets}"', f"'''\n{brackets}'''", f"1 // {brackets}", f'b"\\"{brackets}"'):
        assert isinstance(parse(text), Literal)


def test_long_tokens_are_not_shown_whole() -> None:
    with pytest.raises(SyntaxProblem) as caught:
        parse("a '" + "b" * 5000 + "'")
    assert len(caught.value.message) < 80
    assert (caught.value.start, caught.value.end) == (2, 5004)


def test_length_is_limited() -> None:
    assert parse("'" + "a" * (MAX_LENGTH - 2) + "'")
    with pytest.raises(SyntaxProblem) as caught:
        parse("'" + "a" * (MAX_LENGTH - 1) + "'")
    assert caught.value.code == "length"


HOSTILE = (
    *("!", "-", "(", "[", "{", "a.", "a+", "a<", "f(", "a?b:", "a[", "{a:", "[1].map(x,", "a(b).", "1,", "'", '"', "a"),
    *(
        "'\"'",
        '"""',
        "r'",
        "`",
        "\\",
        "/",
        "_ ",
        " ",
        "9",
        "a ",
        "? ",
        "'\\'",
        '"\\"\\"',
        '\\"',
        "//",
        "\n'",
        "é",
        "{{",
    ),
    *("''''", "\ud800"),
)


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("tail", ["", "\\", "1§"])
def test_hostile_texts_end_soon(piece: str, tail: str) -> None:
    text = (piece * (10_000 // len(piece))) + tail
    for hostile in (text, '"' + text, "(" * 251 + text):
        start = time.monotonic()
        try:
            parse(hostile)
        except SyntaxProblem as problem:
            inside = 0 <= problem.start <= problem.end <= len(hostile)
        else:
            inside = True
        assert inside
        assert time.monotonic() - start < 5


@given(st.text(st.sampled_from("ab1.,:?!-+*/%<>=&|()[]{}'\"`\\ \n\r\tinxuUre0é\U0001f600\ud800"), max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_text_is_an_expression_or_a_problem(text: str) -> None:
    try:
        node = parse(text)
    except SyntaxProblem as problem:
        inside = 0 <= problem.start <= problem.end <= len(text)
    else:
        inside = shape(parse(unparse(node))) == shape(node)
    assert inside


@given(trees)
@settings(max_examples=200, deadline=None)
def test_trees_come_back_from_their_texts(node: Node) -> None:
    assert shape(parse(unparse(node))) == shape(node)


@given(expressions)
@settings(max_examples=100, deadline=None)
def test_made_expressions_parse(pair: tuple[str, dict[str, Any]]) -> None:
    text, values = pair
    assert parse(text)
    assert values.keys() == VARIABLES.keys()


def test_made_expressions_are_fast_and_small() -> None:
    texts = Texts(Random(1))
    start = time.process_time()
    made = [texts.pair()[0] for _ in range(3000)]
    assert time.process_time() - start < 1
    assert max(map(len, made)) < 4000
    assert len(set(made)) > 2000


def test_groups_leave_out_parts_of_the_language() -> None:
    texts = Texts(Random(2), ("standard",))
    whole = Texts(Random(2))
    made = " ".join(texts.expression() for _ in range(2000))
    all_made = " ".join(whole.expression() for _ in range(4000))
    for word in ("optional.", "cel.bind", "math.", "quantity", "transformMap", "upperAscii", "base64", "sets."):
        assert word not in made
        assert word in all_made


def test_made_variables_are_known() -> None:
    """Each name of an expression is a variable, a type, a namespace, or of a loop around it."""
    rng = Random(3)
    texts = Texts(rng)
    known = VARIABLES.keys() | {"int", "string", "list", "type", "null_type", "google"}
    known |= {"optional", "cel", "math", "strings", "lists", "sets", "base64", "regex", "format", "ip"}
    for _ in range(1000):
        node = parse(texts.expression())
        own = {v for n in nodes(node) if isinstance(n, Loop) for v in (n.var, n.var2)}
        own |= {n.var for n in nodes(node) if hasattr(n, "var") and not isinstance(n, Loop)}
        names = {n.name for n in nodes(node) if isinstance(n, Ident)}
        assert names <= known | own
    assert bindings(rng).keys() == VARIABLES.keys()


def test_a_typical_expression_is_parsed_within_a_millisecond_or_two() -> None:
    text = 'object.spec.containers.all(c, c.image.startsWith("reg/") && (!has(c.x) || size(c.y[?0].z) >= -3 + 4 * 2))'
    parse(text)
    best = 1.0
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(10):
            parse(text)
        best = min(best, (time.perf_counter() - start) / 10)
    assert best < 0.003
