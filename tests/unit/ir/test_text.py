"""The text of IR: read back it is the same module, and bad text is refused with its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.ir.ops import (
    And,
    Block,
    Break,
    Call,
    Choose,
    Const,
    Do,
    Each,
    EachPair,
    Exemption,
    Expr,
    Function,
    If,
    Invoke,
    KindKey,
    Load,
    Local,
    MatchKey,
    Module,
    Next,
    Op,
    Or,
    Policy,
    Return,
    Rule,
    Set,
    Stmt,
)
from compiler.ir.parse import ParseError, parse_expr, parse_module
from compiler.ir.print import print_expr, print_module
from vm.values import MISSING, Err, canonical_key

_TEXTS = st.one_of(
    st.sampled_from(("spec", "$resource", "a.b", "true", "each", "x y", '"', "", "end", "=>")),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
_NAMES = _TEXTS.filter(bool)
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 300), st.sampled_from((0.5, -1e30)), _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(_TEXTS, inner, max_size=2)),
    max_leaves=4,
)
_CONSTANTS = st.one_of(_JSON, st.just(MISSING), st.builds(Err, _TEXTS, _TEXTS, _TEXTS))
_LEAVES = st.one_of(
    st.builds(Const, _CONSTANTS),
    st.builds(Local, _NAMES),
    st.builds(Load, st.lists(_TEXTS, max_size=3).map(tuple)),
)


def _compound(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    some = st.lists(inner, max_size=2).map(tuple)
    body = st.lists(_statements(inner), max_size=2).map(tuple)
    return st.one_of(
        st.builds(Op, st.sampled_from(("not", "equal", "true", "null")), some),
        st.builds(Op, st.sampled_from(("get", "p_leaf")), some, st.tuples(_CONSTANTS)),
        st.builds(Invoke, st.sampled_from(("pat.walk", "match.kinds")), some),
        st.builds(Call, _NAMES, some),
        st.builds(Choose, inner, inner, inner),
        st.builds(And, some),
        st.builds(Or, some),
        st.builds(Block, body, inner),
    )


def _statements(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Stmt]:
    at = st.one_of(st.none(), _TEXTS)
    flat = st.one_of(
        st.builds(Set, _NAMES, inner, at),
        st.builds(Return, inner, at),
        st.builds(Do, inner, at),
        st.builds(Break),
        st.builds(Next),
    )
    body = st.lists(flat, max_size=2).map(tuple)
    return st.one_of(
        flat,
        st.builds(If, inner, body, body, at),
        st.builds(Each, _NAMES, inner, body, st.one_of(st.none(), _NAMES), at),
        st.builds(EachPair, _NAMES, _NAMES, inner, body, at),
    )


_EXPRESSIONS = st.recursive(_LEAVES, _compound, max_leaves=5)
_KEYS = st.builds(MatchKey, st.builds(KindKey, _TEXTS, _TEXTS, _TEXTS, _TEXTS), st.lists(_TEXTS, max_size=2).map(tuple))
_RULES = st.builds(
    Rule,
    _TEXTS,
    _NAMES,
    st.sampled_from(("validate", "mutate")),
    st.lists(_KEYS, max_size=2).map(tuple),
    st.dictionaries(_TEXTS, _JSON, max_size=1),
)


@given(_EXPRESSIONS)
def test_expressions_come_back(expr: Expr) -> None:
    text = print_expr(expr)
    back = parse_expr(text)
    assert back == expr
    assert print_expr(back) == text


@given(
    st.lists(_statements(_EXPRESSIONS), max_size=3).map(tuple),
    st.dictionaries(_NAMES, st.sampled_from("VBISLMEO"), max_size=3),
    st.lists(_RULES, max_size=2).map(tuple),
)
def test_modules_come_back(body: tuple[Stmt, ...], kinds: dict[str, str], rules: tuple[Rule, ...]) -> None:
    fn = Function("f", tuple(kinds)[:1], kinds, body, "V", 0, "entry")
    module = Module(
        (fn,), (Policy("p", None, rules, {}),), (Exemption("e", "n", ((None, "r"), ("p", "*")), "f", {"a": 1}),)
    )
    text = print_module(module)
    back = parse_module(text)
    assert back == module
    assert print_module(back) == text


def test_constants_keep_their_kind() -> None:
    for value in (1, 1.0, True, "1", MISSING, Err("type", "t")):
        back = parse_expr(print_expr(Const(value)))
        assert isinstance(back, Const)
        assert canonical_key(back.value) == canonical_key(value)


def test_the_policy_text_a_statement_came_from_is_kept() -> None:
    text = 'function f() -> B helper\n  return true  !"/spec/rules/0"\n\nspan 0 "/spec/rules/0" ["p.yaml", 3, 5]\n'
    module = parse_module(text)
    stmt = module.functions[0].body[0]
    assert isinstance(stmt, Return)
    assert stmt.at == "/spec/rules/0"
    assert module.spans == {(0, "/spec/rules/0"): ("p.yaml", 3, 5)}
    assert print_module(module) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fun f() -> B helper\n", "line 1: expected policy, exemption, function or span"),
        ("function f() -> X helper\n", "line 1: expected a kind at 'X helper'"),
        ("function f() -> B helper\n  return\n", "line 2: expected an expression"),
        ("function f() -> B helper\n  return is_map(@a\n", "line 2: expected ,"),
        ("function f() -> B helper\n  return true x\n", "line 2: expected the end of the line at 'x'"),
        ("function f() -> B helper\n      return true\n", "line 2: expected a statement at 2 spaces"),
        ("function f() -> B helper\n  return [1,\n", "line 2: expected a JSON value"),
        ("function f() -> B helper\n  x = block\n    y = 1\n", "end of text: expected =>"),
        ("function f() -> B helper\n  frobnicate %x\n", "line 2: expected a statement"),
    ],
)
def test_bad_text_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    assert str(caught.value).startswith(message)
