"""What linting says beyond the compiler, and what it costs: golden files, explain pages, and the public library."""

from __future__ import annotations

import json
import os
import time
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest

from compiler import Options, catalogue, compile_policies
from compiler.diagnostics import Reporter, render_all
from compiler.explain import findings, page_of
from compiler.lint import lint
from compiler.lint.fixes import fix
from compiler.schema import read_policies
from compiler.schema.update_rules import check_update
from compiler.source import SourceError, load_documents, load_values
from tests.support.golden import ROOT as GOLDEN
from tests.support.golden import Golden, GoldenCase, golden_cases, read_cases
from vm.functions import resolve
from vm.host import Meter

ROOT = Path(os.environ.get("THESMOS_CONFORMANCE") or Path(__file__).parents[4] / "shared" / "conformance")

NO_EXAMPLE = {
    "T2001": "needs a policy of a size that no page should have",
    "T2002": "says that the compiler itself is wrong",
    "T1232": "is about a file of CustomResourceDefinitions",
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


@pytest.mark.parametrize("case", golden_cases("lint_fix"))
def test_mends_keep_comments_and_layout(case: GoldenCase, golden: Golden) -> None:
    mended, count = fix(case.input, "p.yaml", lambda code, severity: True)
    assert fix(mended, "p.yaml", lambda code, severity: True) == (mended, 0)
    assert (count > 0) == (mended != case.input)
    golden(case, mended)


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
        built = (d for d in reporter.diagnostics if d.code != "T0901")
        if any(d.severity == "error" for d in built):
            odd.append(path.name)
    # One policy of the library writes its variables as texts, which the API server refuses as well.
    assert odd == ["schedule-based-quotas.yaml"]
    assert count > 300
    assert time.perf_counter() - start < 60, "7 s on a quiet machine; this bound only catches a fall in speed"


ODD: list[Any] = [None, True, 0, 1.5, "", "x", "{{ x }}", "*", ">1 & <0", [], {}, [None], [{}], {"a": 1}, [[1]]]


@pytest.mark.parametrize("seed", range(3))
def test_whatever_stands_in_a_policy_is_linted_and_mended_without_a_crash(seed: int) -> None:
    random = Random(seed)
    files = [path for folder in ("diag", "lint", "lint_fix") for path in sorted((GOLDEN / folder).glob("*.test"))]
    inputs = [case.input for path in files for case in read_cases(path)]
    for _ in range(60):
        try:
            values = load_values(random.choice(inputs))
        except SourceError:
            continue
        for _ in range(random.randint(1, 3)):
            places = [place for value in values for place in _places(value)]
            if places:
                holder, key = random.choice(places)
                holder[key] = deepcopy(random.choice([*ODD, *(h[k] for h, k in places)]))
        text = "\n---\n".join(json.dumps(v) for v in values)
        lint(load_documents(text, "p.yaml", Reporter()))
        fix(text, "p.yaml", lambda code, severity: True)


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, sub in items:
        found += [(value, key), *_places(sub)]
    return found


KEYS: list[object] = ["CREATE", "UPDATE", "DELETE", "", "kube-system", "8", "1Gi", "1h", "a*", "5-9", "true", "[]"]
"""What one text may be: the mends of set operators are for keys that are one text."""


@pytest.mark.parametrize(("old", "new"), [("in", "any_in"), ("not_in", "any_not_in")])
def test_a_mended_set_operator_says_the_same(old: str, new: str) -> None:
    before, after = resolve(f"cond.{old}"), resolve(f"cond.{new}")
    for key in KEYS:
        for values in (["CREATE"], ["CREATE", "UPDATE"], ["kube-system", "8"], ["1024Mi"], ["60m"], [], ["true", ""]):
            assert before(Meter(1000), key, values) == after(Meter(1000), key, values), (key, values)


@pytest.mark.parametrize("name", ["greater", "greater_or_equals", "less", "less_or_equals"])
def test_a_mended_operator_on_durations_says_the_same(name: str) -> None:
    before, after = resolve(f"cond.duration_{name}"), resolve(f"cond.{name}")
    for key in ("24h0m0s", "0s", "-3h0m0s", "23h59m59s", "24h0m0.5s", "720h0m0s"):
        for value in ("24h", "1m", "0s", "1h30m", "1.5h"):
            assert before(key, value) == after(key, value), (key, value)


def test_quirks_are_told_by_the_bundle() -> None:
    assert Options(quirks="kyverno", cel_strict=True).fingerprint == "O2 cel-strict quirks=kyverno"
    assert Options().fingerprint == "O2"
