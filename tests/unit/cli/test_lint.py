"""``thesmos lint`` and ``thesmos explain`` as commands: formats, choice of codes, exit codes, mends of files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from runtime.cli.main import main

HEAD = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n"
RULE = """  rules:
  - name: r
    match: {any: [{resources: {kinds: [%s]}}]}
    validate: {message: names are needed, pattern: {metadata: {name: "?*"}}}
"""
CLEAN = HEAD + RULE % "Pod"
DOUBTFUL = HEAD + "  validationFailureAction: Audit\n" + RULE % "Pod,Deploymnet"
BROKEN = HEAD + RULE % "Pod" + "  nothing: 1\n"


def lint(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["lint", *words])
    out = capsys.readouterr()
    return code, out.out, out.err


def written(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return str(folder)


def test_text_has_carets_and_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = lint(capsys, written(tmp_path, p=DOUBTFUL))
    assert code == 0
    assert "warning[T0502]" in out
    assert "^^^^^^^" in out
    assert err == "1 file, 1 policy: 0 errors, 2 warnings, 0 notes, 0 advice\n"


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        (CLEAN, (), 0),
        (DOUBTFUL, (), 0),
        (DOUBTFUL, ("--strict",), 1),
        (DOUBTFUL, ("--strict", "--ignore", "warning"), 0),
        (DOUBTFUL, ("--strict", "--select", "T03,advice"), 0),
        (BROKEN, (), 1),
        (BROKEN, ("--ignore", "T0201"), 0),
    ],
)
def test_exit_codes(
    text: str, words: tuple[str, ...], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lint(capsys, written(tmp_path, p=text), *words)[0] == code


def test_json_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = lint(capsys, written(tmp_path, p=DOUBTFUL, q=CLEAN), "--format", "json")
    found = json.loads(out)
    assert {k: found[k] for k in ("version", "files", "policies")} == {"version": 1, "files": 2, "policies": 2}
    assert found["counts"] == {"error": 0, "warning": 2, "note": 0, "advice": 0}
    assert [(f["code"], f["line"]) for f in found["findings"]] == [("T0502", 5), ("T1402", 8)]


def test_sarif_has_the_shape_of_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = lint(capsys, written(tmp_path, p=DOUBTFUL, q=BROKEN), "--format", "sarif")
    log = json.loads(out)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "thesmos"
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
    assert len(run["results"]) == 3
    for result in run["results"]:
        _check_result(result, driver["rules"])


def _check_result(result: dict[str, Any], rules: list[dict[str, Any]]) -> None:
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert result["level"] in ("none", "note", "warning", "error")
    assert result["message"]["text"]
    (location,) = result["locations"]
    place = location["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith(".yaml")
    region = place["region"]
    assert all(type(region[k]) is int and region[k] >= 1 for k in ("startLine", "startColumn", "endLine", "endColumn"))
    assert (region["startLine"], region["startColumn"]) <= (region["endLine"], region["endColumn"])


def test_annotations_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a,b"
    folder.mkdir()
    _, out, _ = lint(capsys, written(folder, p=BROKEN), "--format", "github")
    (line,) = out.splitlines()
    assert line.startswith("::error file=")
    assert "a%2Cb" in line
    assert "title=T0201 unknown field" in line
    assert line.endswith('::spec has no field "nothing"')


def test_what_is_no_policy_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = written(tmp_path, p=CLEAN, q="a: [\n", r="kind: NetworkPolicy\napiVersion: networking.k8s.io/v1\n")
    assert lint(capsys, folder)[0] == 0
    (tmp_path / "p.yaml").unlink()
    code, _, err = lint(capsys, folder)
    assert (code, "holds no policy" in err) == (2, True)


def test_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(BROKEN))
    code, out, _ = lint(capsys, "-")
    assert code == 1
    assert out.startswith("stdin:9:3: error[T0201]")


def test_fix_writes_what_it_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = DOUBTFUL.replace(
        '    validate: {message: names are needed, pattern: {metadata: {name: "?*"}}}\n',
        '    validate:\n      message: m of it\n      pattern: {metadata: {name: "?*"}}\n',
    )
    path = tmp_path / "p.yaml"
    path.write_text(text, encoding="utf-8")
    assert lint(capsys, str(path), "--fix", "--ignore", "T0502")[2].endswith("0 advice\n")
    assert path.read_text(encoding="utf-8") == text
    _, out, err = lint(capsys, str(path), "--fix")
    assert "T0502" not in out
    assert err.endswith("; 1 mend written\n")
    mended = path.read_text(encoding="utf-8")
    assert "  validationFailureAction" not in mended
    assert "    validate:\n      failureAction: Audit\n      message: m of it\n" in mended


def test_a_code_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = lint(capsys, written(tmp_path, p=CLEAN), "--select", "X9")
    assert code == 2
    assert "X9: is no code" in err


def test_bindings_may_be_in_another_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = "apiVersion: admissionregistration.k8s.io/v1\n"
    policy = group + (
        "kind: ValidatingAdmissionPolicy\nmetadata: {name: v}\nspec:\n  matchConstraints:\n    resourceRules:\n"
        "    - {apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}\n"
        "  validations: [{expression: 'true'}]\n"
    )
    binding = group + (
        "kind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\n"
        "spec: {policyName: v, validationActions: [Deny]}\n"
    )
    written(tmp_path, b=binding)
    assert "T1260" in lint(capsys, str(tmp_path))[1]
    assert "T1260" not in lint(capsys, written(tmp_path, p=policy))[1]


def test_explain_shows_example_answer_and_mend(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "t1204"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("T1204: existence anchor without list (error)\n")
    assert "How to mend it:" in out
    assert "error[T1204]" in out
    assert main(["explain"]) == 0
    assert "T2002" in capsys.readouterr().out
    assert main(["explain", "T1205"]) == 2
    assert "did you mean T" in capsys.readouterr().err
