"""YAML to values and places: scalars as Kubernetes reads them, spans, aliases, hostile input."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from compiler.diagnostics import Reporter
from compiler.source import Document, SourceError, SourceMap, load_documents, load_values, pointer
from tests.support.golden import Golden, GoldenCase, golden_cases
from tests.unit.model.support import documents

SCALARS: list[tuple[str, Any]] = [
    # null
    ("", None),
    ("~", None),
    ("null", None),
    ("Null", None),
    ("NULL", None),
    ("nULL", "nULL"),
    ("none", "none"),
    # booleans of YAML 1.1
    *[(text, True) for text in ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")],
    *[(text, False) for text in ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")],
    ("yEs", "yEs"),
    ("tRUE", "tRUE"),
    ("oN", "oN"),
    # whole numbers
    ("0", 0),
    ("-0", 0),
    ("+5", 5),
    ("-17", -17),
    ("1_000", 1000),
    ("1__0", 10),
    ("_1", "_1"),
    ("0x1F", 31),
    ("0X1f", 31),
    ("-0x10", -16),
    ("0xG", "0xG"),
    ("0b101", 5),
    ("-0b11", -3),
    ("0b12", "0b12"),
    ("0o17", 15),
    ("017", 15),
    ("00", 0),
    ("08", 8),
    ("0_7", 7),
    ("9223372036854775807", 9223372036854775807),
    ("-9223372036854775808", -9223372036854775808),
    ("9223372036854775808", 9223372036854775808.0),
    ("123456789012345678901234567890", 1.2345678901234568e29),
    ("1" * 500, "1" * 500),
    # fractions
    ("1.5", 1.5),
    ("1.", 1),
    (".5", 0.5),
    ("-.5", -0.5),
    ("1.0", 1),
    ("1.50", 1.5),
    ("1e3", 1000),
    ("1E-2", 0.01),
    ("1e21", 1e21),
    ("1e400", "1e400"),
    ("1e", "1e"),
    ("+", "+"),
    (".", "."),
    ("1.2.3", "1.2.3"),
    # what looks like something else elsewhere
    ("2001-01-01", "2001-01-01"),
    ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
    ("1:30", "1:30"),
    ("190:20:30", "190:20:30"),
    ("=", "="),
    ("100m", "100m"),
    ("1Gi", "1Gi"),
    ("0x", "0x"),
    ("NaN", "NaN"),
    ("inf", "inf"),
    ("١٢", "١٢"),
    # quotes and tags decide
    ('"yes"', "yes"),
    ("'1'", "1"),
    ("!!str 1", "1"),
    ("!!str yes", "yes"),
    ('!!int "3"', 3),
    ("!!float 3", 3),
    ("!!float 3.5", 3.5),
    ("!!bool yes", True),
    ('!!null ""', None),
    ("!!timestamp 2001-01-01", "2001-01-01"),
    ("!!binary aGk=", "hi"),
    ("! 12", 12),
]


@pytest.mark.parametrize(("text", "value"), SCALARS, ids=[t[:24] or "empty" for t, _ in SCALARS])
def test_scalars_are_read_as_kubernetes_reads_them(text: str, value: Any) -> None:
    (loaded,) = load_values(f"a: {text}\n")
    assert loaded == {"a": value}
    assert type(loaded["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("on", "true"),
        ("no", "false"),
        ("1", "1"),
        ("0x10", "16"),
        ("1.5", "1.5"),
        ('"on"', "on"),
        ("2001-01-01", "2001-01-01"),
    ],
)
def test_keys_are_texts(text: str, key: str) -> None:
    assert load_values(f"{text}: x\n") == [{key: "x"}]


@pytest.mark.parametrize(
    "text", [".inf", "-.INF", ".NaN", "!!int x", "!!bool 1", "!!binary '%'", "!!null x", "!!timestamp x"]
)
def test_what_fits_no_json_value_is_refused(text: str) -> None:
    with pytest.raises(SourceError) as e:
        load_values(f"a: {text}\n")
    assert e.value.code == "T0112"


def test_documents_are_split_lists_unpacked_and_empty_ones_left_out() -> None:
    text = "---\n---\na: 1\n---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- b: 2\n"
    text += "- apiVersion: v1\n  kind: PodList\n  items:\n  - c: 3\n...\n"
    assert load_values(text) == [{"a": 1}, {"b": 2}, {"c": 3}]
    docs = documents(text)
    assert [(d.index, d.value) for d in docs] == [(0, {"a": 1}), (1, {"b": 2}), (2, {"c": 3})]
    assert docs[2].spans.span("/c").line == 14


def test_json_is_yaml() -> None:
    assert load_values('{"a": [1, 2.5, "x", null, true], "b": {"c": "\\u00e9"}}') == [
        {"a": [1, 2.5, "x", None, True], "b": {"c": "é"}}
    ]


def test_json_is_read_as_json() -> None:
    (value,) = load_values('{"a": "\\ud83d\\ude00", "b": 1.0, "c": 1}')
    assert value == {"a": "\U0001f600", "b": 1.0, "c": 1}
    assert type(value["b"]) is float
    assert load_values('{"apiVersion": "v1", "kind": "List", "items": [{"a": 1}, {"b": 2}]}') == [{"a": 1}, {"b": 2}]
    assert load_values("{a: 1}\n---\n{b: 2}\n") == [{"a": 1}, {"b": 2}]
    with pytest.raises(SourceError):
        load_values("[" * 250 + "]" * 250)


def test_documents_that_are_all_json_are_read_as_json() -> None:
    face = '{"a": "\\ud83d\\ude00"}'
    assert load_values(f'{face}\n---\n{{"b": 1.0}}\r\n--- \r\n[]\n') == [{"a": "\U0001f600"}, {"b": 1.0}, []]
    items = '{"apiVersion": "v1", "kind": "List", "items": [{"a": 1}, null]}'
    assert load_values(f"{items}\n---\nnull\n") == [{"a": 1}]
    # One that is YAML makes YAML of all of them.
    assert load_values('{"a": 1.0}\n---\nb: 1.0\n') == [{"a": 1}, {"b": 1}]
    assert load_values('{"a": "\\n---\\n"}\n---\n') == [{"a": "\n---\n"}]
    with pytest.raises(SourceError):
        load_values(f"{face}\n---\nb: 1\n")


def test_merge_keys_give_way_to_what_is_written() -> None:
    text = "base: &b {x: 1, v: 1}\nmore: &m {v: 2, z: 2}\nall:\n  <<: [*b, *m]\n  x: 9\nlate:\n  x: 9\n  <<: *b\n"
    (value,) = load_values(text)
    assert value["all"] == {"x": 9, "v": 1, "z": 2}
    assert value["late"] == {"x": 9, "v": 1}


def test_an_alias_has_the_place_of_what_it_names() -> None:
    (doc,) = documents("a: &x {k: v}\nb: *x\n")
    assert doc.value["b"] == {"k": "v"}
    assert doc.spans.span("/b/k").line == 1


HOSTILE = {
    "brackets": "[" * 100_000,
    "maps in brackets": "{a: " * 100_000,
    "dashes": "- " * 50_000,
    "question marks": "? " * 50_000,
    "block lists": "a:\n" + "".join(" " * i + "- \n" for i in range(2000)),
    "alias bomb": "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)),
    "merge bomb": "a0: &a0 {k: v}\n" + "".join(f"a{i}: &a{i} {{b: *a{i - 1}, c: *a{i - 1}}}\n" for i in range(1, 40)),
    "alias of deep": "a: &a " + "[" * 150 + "]" * 150 + "\nb: " + "[" * 100 + "*a" + "]" * 100 + "\n",
    "long number": "a: " + "9" * 1_000_000,
    "long escapes": 'a: "' + "\\" * 200_001 + '"',
    "nul": "a: \0",
    "surrogate": "a: \ud800",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_ends_soon_and_in_a_diagnostic(name: str) -> None:
    start = time.perf_counter()
    reporter = Reporter()
    load_documents(HOSTILE[name], "f", reporter)
    assert reporter.failed or name == "long number"
    assert time.perf_counter() - start < 2


def _place(doc: Document, at: str, part: str) -> str:
    value: Any = doc.value
    for step in at.split("/")[1:]:
        value = value[int(step)] if isinstance(value, list) else value[step]
    start = value.index(part)
    span = doc.spans.text_span(at, start, start + len(part))
    lines = doc.text.split("\n")
    if span.line == span.end_line:
        return lines[span.line - 1][span.column - 1 : span.end_column - 1]
    return lines[span.line - 1][span.column - 1 :] + "\n" + lines[span.end_line - 1][: span.end_column - 1]


@pytest.mark.parametrize(
    ("text", "part", "source"),
    [
        ("a: one {{ x }} two\n", "{{ x }}", "{{ x }}"),
        ("a: 'it''s {{ x }}'\n", "{{ x }}", "{{ x }}"),
        ("a: 'it''s'\n", "t's", "t''s"),
        ('a: "tab\\t {{ x }}"\n', "{{ x }}", "{{ x }}"),
        ('a: "\\u00e9\\x41 {{ x }}"\n', "A {{", "\\x41 {{"),
        ('a: "one\n  {{ x }}\n  two"\n', "{{ x }}", "{{ x }}"),
        ('a: "one \\\n   {{ x }}"\n', "{{ x }}", "{{ x }}"),
        ("a: one\n  {{ x }}\n\n  two\n", "{{ x }}", "{{ x }}"),
        ("a: |\n  one\n  {{ x }}\n", "{{ x }}", "{{ x }}"),
        ("a: |2-\n    one\n    {{ x }}\n", "{{ x }}", "{{ x }}"),
        ("a: >-\n  one\n  {{ x }}\n\n  two\n", "{{ x }}", "{{ x }}"),
        ("a: >\n  one\n    more {{ x }}\n  two\n", "{{ x }}", "{{ x }}"),
        ("a: |\r\n  one\r\n  {{ x }}\r\n", "{{ x }}", "{{ x }}"),
        ("a: &n !!str 'q {{ x }}'\n", "{{ x }}", "{{ x }}"),
    ],
)
def test_a_part_of_a_text_is_found_in_the_source(text: str, part: str, source: str) -> None:
    (doc,) = documents(text)
    assert _place(doc, "/a", part) == source


def test_pointers_escape_and_fall_back_to_the_nearest_place() -> None:
    (doc,) = documents("metadata:\n  labels:\n    a/b~c: x\n")
    at = pointer("metadata", "labels", "a/b~c")
    assert at == "/metadata/labels/a~1b~0c"
    assert doc.spans.span(at).column == 12
    assert doc.spans.key_span(at).column == 5
    assert doc.spans.span("/metadata/labels/gone/deeper").line == 3
    assert doc.spans.key_span("/metadata/gone") == doc.spans.key_span("/metadata")


def test_what_was_moved_is_found_where_it_was_written() -> None:
    (doc,) = documents("old:\n  x: 1\nother: 2\n")
    spans: SourceMap = doc.spans
    spans.move("/new", "/old")
    assert spans.key_span("/new/x").line == 2
    assert spans.span("/other").line == 3


@pytest.mark.parametrize("case", golden_cases("parse"))
def test_documents_with_their_places(case: GoldenCase, golden: Golden) -> None:
    lines: list[str] = []
    for doc in documents(case.input):
        lines.append(json.dumps(doc.value, ensure_ascii=False))
        lines += _table(doc, doc.value, "")
    golden(case, "\n".join(lines))


def _table(doc: Document, value: Any, at: str) -> list[str]:
    span = doc.spans.span(at)
    key = doc.spans.key_span(at)
    place = f"{span.line}:{span.column}-{span.end_line}:{span.end_column}"
    own = f" key {key.line}:{key.column}-{key.end_line}:{key.end_column}" if key != span else ""
    out = [f"{at or '/'} {place}{own}"]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, sub in items:
        out += _table(doc, sub, at + pointer(step))
    return out
