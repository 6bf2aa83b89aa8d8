"""``thesmos why``: the clause and the line that it names are those that decided."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest
import yaml

from runtime.bundles import make_imports
from runtime.cli.files import read_policies, read_resources
from runtime.cli.main import main
from runtime.cli.offline import evaluate, grouped, load_policies
from runtime.cli.values import NO_VALUES, load_values_file
from runtime.cli.why import as_json, tell, text
from runtime.request import OPERATIONS
from runtime.tracing import trace_documents
from tests.support.golden import Golden, GoldenCase, golden_cases
from vm.bundle import read_bundle
from vm.host import Meter
from vm.interp import interpret
from vm.trace import FIRST, LAST, Event, Trace, traced
from vm.verify import verify

_PLACE = re.compile(r"^    (\S+):(\d+) \| ", re.MULTILINE)
MARK = "# decides"
_DATA = Path(os.environ.get("THESMOS_CONFORMANCE") or Path(__file__).parents[4] / "shared" / "conformance")
BUGS = _DATA.parent / "bugs"


@pytest.mark.parametrize("case", golden_cases("why"))
def test_rules(
    case: GoldenCase,
    golden: Golden,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, written in case.files.items():
        (tmp_path / name).write_text(written, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    code = main(shlex.split(case.input))
    said = capsys.readouterr()
    golden(case, f"{said.out}{said.err}(exit {code})\n")
    lines = case.files["policy.yaml"].splitlines()
    marked = [n for n, line in enumerate(lines, 1) if MARK in line]
    if "--output json" in case.input:
        named = [told["decided"].get("line") for told in json.loads(said.out)]
    else:
        named = [int(number) for _, number in _PLACE.findall(said.out)]
    assert named == marked
    assert "otherwise" not in said.out


def test_an_unknown_rule_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text(_POLICY)
    (tmp_path / "r.yaml").write_text(_POD)
    assert main(["why", str(tmp_path / "p.yaml"), "lables", str(tmp_path / "r.yaml")]) == 2
    assert "there is no rule lables: did you mean labels?" in capsys.readouterr().err
    (tmp_path / "r.yaml").write_text("")
    assert main(["why", str(tmp_path / "p.yaml"), "labels", str(tmp_path / "r.yaml")]) == 2
    assert "holds no resource" in capsys.readouterr().err


def test_apply_explains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text(_POLICY)
    (tmp_path / "r.yaml").write_text(_POD)
    assert main(["apply", str(tmp_path / "p.yaml"), "-r", str(tmp_path / "r.yaml"), "--explain"]) == 1
    said = capsys.readouterr().out
    assert "decided by: validate.pattern.metadata.labels does not hold" in said
    bundle = tmp_path / "p.thb"
    assert main(["compile", str(tmp_path / "p.yaml"), "-o", str(bundle)]) == 0
    assert main(["apply", str(bundle), "-r", str(tmp_path / "r.yaml"), "--explain", "-p"]) == 1
    said = capsys.readouterr().err
    assert "p/labels on v1/Pod/shop/web (CREATE): fail" in said
    assert f"{tmp_path / 'p.yaml'}:10 |" in said


def test_a_traced_run_answers_as_any_other() -> None:
    from compiler import Options, compile_policies, load_documents
    from compiler.diagnostics import Reporter

    bundle = compile_policies(load_documents(_POLICY, "p.yaml", Reporter()), options=Options(parts=True)).bundle
    assert bundle is not None
    module = verify(read_bundle(bundle), make_imports())
    program, trace = traced(module)
    root = {"$resource": yaml.safe_load(_POD), "$kind": ["", "v1", "Pod", ""], "$operation": "CREATE", "request": {}}
    plain, recorded = Meter(), Meter()
    entry = read_bundle(bundle).module.policies[0].rules[0].entry
    assert interpret(module).run(entry, root, plain) == program.run(entry, root, recorded)
    assert plain.left == recorded.left
    assert [e.name for e in trace.take() if e.kind == "invoke" and e.name.startswith("pat.walk")]
    assert trace.take() == []


def test_a_long_run_keeps_its_beginning_and_its_end() -> None:
    trace = Trace()
    for n in range(FIRST + LAST + 10):
        trace.add(Event(0, n, "set", "set", (), None))
    kept = trace.take()
    assert len(kept) == FIRST + LAST
    assert (kept[0].pc, kept[FIRST].pc, kept[-1].pc) == (0, FIRST + 10, FIRST + LAST + 9)


@pytest.mark.skipif(not BUGS.is_dir(), reason="no cases of reported bugs (set THESMOS_CONFORMANCE)")
def test_reported_bugs() -> None:
    """Every case of public bug reports that is a policy here: no crash, the same answer as ordinary code, and a line
    within the rule."""
    explained = 0
    for path in sorted(BUGS.glob("*/expect.yaml")):
        folder, expect = path.parent, yaml.safe_load(path.read_text())
        if not any(kind in (folder / "policy.yaml").read_text() for kind in ("kind: ClusterPolicy", "kind: Policy")):
            continue
        files = read_policies([folder / "policy.yaml"])[0]
        exceptions = read_policies([folder / "exception.yaml"])[0] if (folder / "exception.yaml").exists() else []
        documents = [d for f in (*files, *exceptions) for d in f.documents]
        ordinary = load_policies(files, exceptions=[d for f in exceptions for d in f.documents])
        if ordinary.refused or not documents:
            continue
        values = load_values_file(folder / "values.yaml") if (folder / "values.yaml").exists() else NO_VALUES
        operation = expect.get("operation") if expect.get("operation") in OPERATIONS else None
        policies = trace_documents(grouped(documents))
        for resource in read_resources([folder / "resource.yaml"]):
            answers = evaluate(ordinary.loaded, resource, values=values, operation=operation)
            for told in tell(policies, resource, answers, values, None, operation):
                explained += 1
                assert told.ordinary == "", folder.name
                assert text(told)
                json.dumps(as_json(told))
                decided = told.explanation.decided
                assert decided is not None, folder.name
                if decided.part != "exception" and told.explanation.status != "none":
                    assert decided.place is not None, folder.name
                    assert decided.place.pointer.startswith("/spec"), folder.name
    assert explained > 40


_POLICY = """apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  rules:
    - name: labels
      match: {any: [{resources: {kinds: [Pod]}}]}
      validate:
        pattern:
          metadata:
            labels:
              team: "?*"
"""
_POD = """apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: a, image: b}]}
"""
