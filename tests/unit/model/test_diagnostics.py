"""What a person reads for every kind of mistake: golden files, and the renderer on odd lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler import catalogue, compile_policies
from compiler.diagnostics import Diagnostic, Reporter, render, render_all
from compiler.source import Span, load_documents
from tests.support.golden import ROOT, Golden, GoldenCase, golden_cases


@pytest.mark.parametrize("case", golden_cases("diag"))
def test_every_mistake_has_its_text(case: GoldenCase, golden: Golden) -> None:
    reporter = Reporter()
    reporter.extend(compile_policies(load_documents(case.input, "p.yaml", reporter)).diagnostics)
    code = case.name.split()[0]
    if code in catalogue.CODES:
        assert code in {d.code for d in reporter.diagnostics}
    golden(case, render_all(reporter.diagnostics, {"p.yaml": case.input}))


UNSHOWN = {
    "T2001": "needs a policy of a size that no golden file should have",
    "T2002": "says that the compiler itself is wrong",
}


@pytest.mark.parametrize("code", sorted(set(catalogue.CODES) - set(UNSHOWN)))
def test_every_code_is_shown(code: str) -> None:
    shown = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("**/*.test"))
    assert f"{catalogue.CODES[code].severity}[{code}]" in shown


def test_the_document_is_that_of_the_table() -> None:
    document = Path(catalogue.__file__).with_name("DIAGNOSTICS.md").read_text(encoding="utf-8")
    assert document == catalogue.document(), "run: python -m compiler.catalogue > compiler/DIAGNOSTICS.md"


def test_a_code_that_is_not_in_the_table_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        Reporter().error("T9999", None, "x")


def test_strict_makes_errors_of_warnings_but_not_of_notes() -> None:
    reporter = Reporter(strict=True)
    reporter.note("T0401", None, "a note")
    assert not reporter.failed
    reporter.warning("T0501", None, "a warning")
    assert reporter.failed


def test_the_same_finding_is_kept_once() -> None:
    reporter = Reporter()
    span = Span("f", 1, 1, 1, 2)
    for _ in range(2):
        reporter.error("T0201", span, "same")
    reporter.error("T0201", span, "other")
    assert [d.message for d in reporter.diagnostics] == ["same", "other"]
    assert reporter.errors == 2


@pytest.mark.parametrize(
    ("line", "column", "end", "shown", "caret"),
    [
        ("name: x", 7, 8, "name: x", "      ^"),
        ("名前: x", 5, 6, "名前: x", "      ^"),
        ("名前: x", 1, 3, "名前: x", "^^^^"),
        ("\tname: x", 2, 6, "    name: x", "    ^^^^"),
        ("e\u0301: x", 5, 6, "e\u0301: x", "   ^"),
        ("a\x1b[31m: x", 8, 9, "a?[31m: x", "       ^"),
        ("a\u202eb: x", 5, 6, "ab: x", "   ^"),
        ("short", 6, 6, "short", "     ^"),
        ("short", 40, 41, "short", "     ^"),
    ],
)
def test_the_caret_stands_under_what_it_means(line: str, column: int, end: int, shown: str, caret: str) -> None:
    text = render(Diagnostic("T0201", "error", Span("f", 1, column, 1, end), "m"), line + "\n")
    assert text.split("\n")[2:4] == [f"1 | {shown}", f"  | {caret}"]


def test_a_long_line_is_cut_around_the_mark() -> None:
    line = "x" * 500 + "HERE" + "y" * 500
    out = render(Diagnostic("T0201", "error", Span("f", 1, 501, 1, 505), "m"), line).split("\n")
    at = out[3].index("^")
    assert len(out[2]) < 200
    assert out[2][at : at + 4] == "HERE"
    assert out[3].count("^") == 4


def test_a_place_beyond_the_text_needs_no_line() -> None:
    assert render(Diagnostic("T0201", "error", Span("f", 9, 1, 9, 2), "m"), "one line\n") == "f:9:1: error[T0201]: m"


def test_colour_changes_nothing_but_colour() -> None:
    d = Diagnostic("T0201", "error", Span("f", 1, 1, 1, 3), "m", "this", "that")
    coloured = render(d, "ab\n", color=True)
    assert "\x1b[" in coloured
    plain = coloured
    for code in ("\x1b[1;31m", "\x1b[1;34m", "\x1b[1m", "\x1b[0m"):
        plain = plain.replace(code, "")
    assert plain == render(d, "ab\n")


def test_json_has_places_and_leaves_out_what_is_empty() -> None:
    d = Diagnostic("T0201", "error", Span("f", 1, 2, 3, 4), "m", "", "h")
    assert d.to_json() == {
        "code": "T0201",
        "severity": "error",
        "message": "m",
        "help": "h",
        "file": "f",
        "line": 1,
        "column": 2,
        "endLine": 3,
        "endColumn": 4,
    }
    assert Diagnostic("T0201", "error", None, "m").to_json() == {"code": "T0201", "severity": "error", "message": "m"}
