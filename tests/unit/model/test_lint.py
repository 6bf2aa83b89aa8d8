"""What linting says beyond the compiler, and what it costs: golden files, explain pages, and the public library."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from compiler import catalogue, compile_policies
from compiler.diagnostics import Reporter, render_all
from compiler.explain import findings, page_of
from compiler.lint import lint
from compiler.schema import read_policies
from compiler.schema.update_rules import check_update
from compiler.source import load_documents
from tests.support.golden import Golden, GoldenCase, golden_cases

ROOT = Path(os.environ.get("THESMOS_CONFORMANCE") or Path(__file__).parents[4] / "shared" / "conformance")

NO_EXAMPLE = {
    "T2001": "needs a policy of a size that no page should have",
    "T2002": "says that the compiler itself is wrong",
    "T1411": "needs the policy as it was, too",
    "T1412": "needs the policy as it was, too",
}


@pytest.mark.parametrize("case", golden_cases("lint"))
def test_advice_has_its_text(case: GoldenCase, golden: Golden) -> None:
    reporter = Reporter()
    documents = load_documents(case.input, "p.yaml", reporter)
    reporter.extend(lint(documents))
    code = case.name.split()[0]
    if code in catalogue.CODES and " none" not in case.name:
        assert code in {d.code for d in reporter.diagnostics}
    assert not any(d.severity == "advice" for d in compile_policies(documents).diagnostics)
    golden(case, render_all(reporter.diagnostics, {"p.yaml": case.input}))


@pytest.mark.parametrize("case", golden_cases("lint_against"))
def test_updates_of_generate_rules(case: GoldenCase, golden: Golden) -> None:
    reporter = Reporter()
    (old,), _ = read_policies(load_documents(case.files["old.yaml"], "old.yaml", reporter), reporter)
    (new,), _ = read_policies(load_documents(case.input, "p.yaml", reporter), reporter)
    reporter.diagnostics.clear()
    check_update(old, new, reporter)
    golden(case, render_all(reporter.diagnostics, {"p.yaml": case.input}))


@pytest.mark.parametrize("code", sorted(catalogue.CODES))
def test_every_code_has_a_page(code: str) -> None:
    page = page_of(code)
    assert page is not None, f"write compiler/pages/{code}.md: how to mend it, then an example in a yaml fence"
    assert page.fix
    if code in NO_EXAMPLE:
        assert not page.example
    else:
        assert f"{code}]: " in findings(page), "the example of the page does not lead to its code"


@pytest.mark.skipif(not ROOT.is_dir(), reason="no conformance data (set THESMOS_CONFORMANCE)")
def test_the_library_is_linted_fast_and_without_false_errors() -> None:
    start, count = time.perf_counter(), 0
    odd: list[str] = []
    for path in sorted((ROOT / "policies").rglob("*.yaml")):
        text = path.read_text("utf-8")
        # Folders with a dot hold tests, whose policies are parts of policies to compare with.
        if "kind: ClusterPolicy" not in text or any(part.startswith(".") for part in path.relative_to(ROOT).parts):
            continue
        reporter = Reporter()
        documents = [d for d in load_documents(text, path.name, reporter) if d.value.get("kind") == "ClusterPolicy"]
        reporter.extend(lint(documents))
        count += 1
        if any(d.severity == "error" and d.code != "T0901" for d in reporter.diagnostics):
            odd.append(path.name)
    # One policy of the library writes its variables as texts, which the API server refuses as well.
    assert odd == ["schedule-based-quotas.yaml"]
    assert count > 300
    assert time.perf_counter() - start < 60, "7 s on a quiet machine; this bound only catches a fall in speed"
