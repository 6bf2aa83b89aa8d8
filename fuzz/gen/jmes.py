"""JMESPath queries: made for a document, so that they find something (typed), or from the grammar alone (untyped)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from fuzz.gen import resource as res

_FUNCTIONS_OF_ONE = (
    "length",
    "type",
    "keys",
    "values",
    "sort",
    "to_string",
    "to_number",
    "to_array",
    "reverse",
    "not_null",
)
_COMPARATORS = ("==", "!=", "<", "<=", ">", ">=")
_WORD = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def field(name: str) -> str:
    """A field name, quoted where JMESPath asks for it."""
    if name and set(name) <= _WORD and not name[0].isdigit():
        return name
    return json.dumps(name)


def literal(value: Any) -> str:
    """A JSON literal between backticks."""
    return "`" + json.dumps(value).replace("`", "\\`") + "`"


literals = st.one_of(
    res.scalars.map(literal),
    st.sampled_from(("'web'", "'1Gi'", "'it\\'s'", "''", "`[]`", "`{}`", '`["a", "b"]`', '`{"a": 1}`')),
)


@st.composite
def queries_for(draw: st.DrawFn, document: Any) -> str:
    """A query along a path that the document has, extended by projections, filters, pipes and functions."""
    path = draw(st.sampled_from(res.paths_of(document)))
    text = ""
    for step in path:
        if isinstance(step, int):
            text = (text or "@") + draw(st.sampled_from((f"[{step}]", "[*]", "[]", "[-1]", "[0:2]", "[?@]")))
        else:
            text = f"{text}.{field(step)}" if text else field(step)
    text = text or "@"
    for _ in range(draw(st.integers(0, 2))):
        text = draw(_extensions(text))
    return text


@st.composite
def _extensions(draw: st.DrawFn, text: str) -> str:
    other = draw(literals)
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return f"{text} | {draw(st.sampled_from(('@', '[0]', 'length(@)', 'name')))}"
    if kind == 1:
        return f"{draw(st.sampled_from(_FUNCTIONS_OF_ONE))}({text})"
    if kind == 2:
        return f"{text} || {other}"
    if kind == 3:
        return f"({text}) && {other}"
    if kind == 4:
        return f"({text}) {draw(st.sampled_from(_COMPARATORS))} {other}"
    if kind == 5:
        return f"!({text})"
    if kind == 6:
        return f"({text})[?name {draw(st.sampled_from(_COMPARATORS))} {other}]"
    if kind == 7:
        return f"[{text}, {other}]"
    if kind == 8:
        return f"{{a: {text}, b: {other}}}"
    return f"({text}).{field(draw(st.sampled_from(('name', 'missing', 'app.kubernetes.io/name'))))}"


_atoms = st.one_of(st.sampled_from(("@", "a", "spec", '"x.y"', "name", "request")), literals)

queries = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: f"{p[0]} | {p[1]}"),
        st.tuples(inner, st.sampled_from(("||", "&&", *_COMPARATORS)), inner).map(
            lambda p: f"({p[0]}) {p[1]} ({p[2]})"
        ),
        inner.map(lambda q: f"!({q})"),
        inner.map(lambda q: f"({q})[*]"),
        inner.map(lambda q: f"({q})[]"),
        inner.map(lambda q: f"({q}).name"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]})[?{p[1]}]"),
        st.tuples(inner, inner).map(lambda p: f"[{p[0]}, {p[1]}]"),
        st.tuples(inner, inner).map(lambda p: f"{{a: {p[0]}, b: {p[1]}}}"),
        st.tuples(st.sampled_from(_FUNCTIONS_OF_ONE), inner).map(lambda p: f"{p[0]}({p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"sort_by({p[0]}, &{p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"map(&{p[0]}, {p[1]})"),
        st.tuples(inner, st.integers(-2, 2), st.integers(-2, 2)).map(lambda p: f"({p[0]})[{p[1]}:{p[2]}]"),
    ),
    max_leaves=6,
)
"""A well-formed query over nothing in particular: the untyped twin."""

texts = st.one_of(queries, st.text("ab.[]{}()*@&|!<>='`\"\\0 ,:?-", max_size=20))
"""Query texts, most of the second kind not well-formed: for parsers."""
