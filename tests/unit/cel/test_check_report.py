"""Where the caret stands: the characters of a text in every style that YAML has."""

from __future__ import annotations

import pytest

from compiler.diagnostics import Reporter
from compiler.frontends.cel.checked import Problem
from compiler.frontends.cel.report import report
from compiler.source import load_documents

STYLES = [
    ("k: a b HERE\n", "/k"),
    ("k: a\n  b\n  HERE c\n", "/k"),
    ("k: 'it''s\n\n   HERE'\n", "/k"),
    ('k: "\\u00e9\\t\\\n   x HERE"\n', "/k"),
    ("k: |\n  a\n    b HERE\n", "/k"),
    ("k: |-\n  a\n\n\n  HERE\n", "/k"),
    ("k: >\n  a\n  b\n    c\n  HERE\n", "/k"),
    ("k: >+\n  a\n\n  HERE\n\n\n", "/k"),
    ("k: |2\n   a\n  HERE\n", "/k"),
    ("k: |1-\n   a\n HERE\n", "/k"),
    ("k: >4\n      a\n    HERE\n", "/k"),
    ("a:\n  k: |2 # two\n      a\n    HERE\n", "/a/k"),
    ("a:\n  - |2\n     a\n    HERE\n", "/a/0"),
    ("a:\n- |2\n   a\n  HERE\n", "/a/0"),
    ("a:\n  - k: |2\n       a\n      HERE\n", "/a/0/k"),
    ("a:\n  -   k: >2-\n         a\n        HERE\n", "/a/0/k"),
    ("a:\n  - - |3\n        a\n       HERE\n", "/a/0/0"),
    ("a:\n  k:\n    |3\n      a\n     HERE\n", "/a/k"),
    ("a:\n  k: &x !!str |2\n      a\n    HERE\n", "/a/k"),
    ('"a: - b": |2\n   a\n  HERE\n', "/a: - b"),
]


@pytest.mark.parametrize(("source", "pointer"), STYLES)
def test_the_caret_finds_the_word(source: str, pointer: str) -> None:
    reporter = Reporter()
    (document,) = load_documents(source, "p.yaml", reporter)
    value = document.value
    for step in pointer.split("/")[1:]:
        value = value[int(step) if step.isdecimal() else step]
    at = value.index("HERE")
    report([Problem("type", "m", (at, at + 4))], reporter, document.spans, pointer, value)
    span = reporter.diagnostics[-1].span
    assert span is not None
    line = source.split("\n")[span.line - 1]
    assert line[span.column - 1 : span.end_column - 1] == "HERE"


@pytest.mark.parametrize("source", ["k: |\n  a >\n\n", "k: >-\n  a >\n", "k: a >\n", "k: 'a >'\n", "k: |2\n  a >\n"])
def test_what_is_missing_at_the_end_is_missed_behind_the_last_word(source: str) -> None:
    reporter = Reporter()
    (document,) = load_documents(source, "p.yaml", reporter)
    text = document.value["k"]
    report([Problem("syntax", "m", (len(text), len(text)))], reporter, document.spans, "/k", text)
    span = reporter.diagnostics[-1].span
    assert span is not None
    lines = source.split("\n")
    assert lines[span.line - 1][: span.column - 1].endswith("a >")


@pytest.mark.parametrize(
    ("kind", "level", "code"),
    [
        ("syntax", "error", "T1210"),
        ("undeclared", "error", "T1211"),
        ("depth", "error", "T1216"),
        ("schema", "warning", "T1217"),
        ("always_false", "warning", "T1218"),
        ("quantity", "note", "T1219"),
    ],
)
def test_codes(kind: str, level: str, code: str) -> None:
    reporter = Reporter()
    (document,) = load_documents("k: a\n", "p.yaml", reporter)
    report([Problem(kind, "m", (0, 1), level)], reporter, document.spans, "/k", "a")  # type: ignore[arg-type]
    assert [(d.code, d.severity) for d in reporter.diagnostics] == [(code, level)]
