"""Coverage of tests: what counts as exercised, and the file in the form of lcov."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.cli.main import main

POLICY = """apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: demo}
spec:
  rules:
  - name: latest
    match: {any: [{resources: {kinds: [Pod]}}]}
    preconditions:
      all:
      - {key: "{{ request.operation }}", operator: NotEquals, value: DELETE}
      - {key: "{{ request.object.metadata.name }}", operator: NotEquals, value: skipped}
    validate:
      message: no latest
      foreach:
      - list: request.object.spec.containers
        deny:
          conditions:
            any:
            - {key: "{{ element.name }}", operator: Equals, value: bad}
            - {key: "{{ element.image }}", operator: Equals, value: "*:latest"}
"""
TEST = """apiVersion: cli.kyverno.io/v1alpha1
kind: Test
metadata: {name: demo}
policies: [policy.yaml]
resources: [pods.yaml]
results:
"""


def pod(name: str, *containers: str) -> str:
    listed = ", ".join(containers)
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{listed}]}}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "policy.yaml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lcov(folder: Path, pods: str, results: str, *flags: str) -> tuple[int, list[str]]:
    (folder / "pods.yaml").write_text(pods)
    (folder / "kyverno-test.yaml").write_text(TEST + results)
    code = main(["test", ".", "--coverage-file", "lcov.info", *flags])
    return code, (folder / "lcov.info").read_text().splitlines()


def test_a_clause_that_no_element_reaches_is_a_line_without_hits(folder: Path) -> None:
    found = lcov(
        folder,
        pod("broken", "{name: bad, image: a}"),
        "- {policy: demo, rule: latest, kind: Pod, resources: [broken], result: fail}\n",
    )
    assert found == (
        0,
        [
            "TN:",
            "SF:policy.yaml",
            "FN:6,demo/latest",
            "FNDA:1,demo/latest",
            "FNF:1",
            "FNH:1",
            "BRDA:6,0,0,0",
            "BRDA:6,0,1,1",
            "BRDA:6,0,2,0",
            "BRF:3",
            "BRH:1",
            "DA:6,1",
            "DA:7,1",
            "DA:10,1",
            "DA:11,1",
            "DA:15,1",
            "DA:19,1",
            "DA:20,0",
            "LF:7",
            "LH:6",
            "end_of_record",
        ],
    )


def test_everything_exercised_meets_a_threshold_of_a_hundred(folder: Path) -> None:
    pods = [
        pod("broken", "{name: bad, image: a}", "{name: b, image: 'a:latest'}"),
        pod("good", "{name: a, image: 'a:1'}"),
        pod("skipped"),
    ]
    expected = {"broken": "fail", "good": "pass", "skipped": "skip"}
    results = "".join(
        f"- {{policy: demo, rule: latest, kind: Pod, resources: [{name}], result: {status}}}\n"
        for name, status in expected.items()
    )
    code, found = lcov(folder, "---\n".join(pods), results, "--coverage-threshold", "100")
    assert code == 0
    assert not [line for line in found if line.startswith(("DA:", "BRDA:")) and line.endswith(",0")]


def test_what_no_check_looks_at_is_no_outcome(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = "---\n".join([pod("good", "{name: a, image: 'a:1'}"), pod("skipped")])
    code, found = lcov(
        folder,
        pods,
        "- {policy: demo, rule: latest, kind: Pod, resources: [good], result: pass}\n",
        "--coverage-threshold",
        "95%",
    )
    assert code == 1
    assert "FNDA:1,demo/latest" in found
    assert "less than 95 %" in capsys.readouterr().err


def test_a_controller_exercises_the_rule_that_it_was_made_from(folder: Path) -> None:
    deployment = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
        "spec: {template: {metadata: {name: web}, spec: {containers: [{name: a, image: 'a:latest'}]}}}\n"
    )
    code, found = lcov(
        folder, deployment, "- {policy: demo, rule: latest, kind: Deployment, resources: [web], result: fail}\n"
    )
    assert code == 0
    assert "FNDA:1,demo/latest" in found
    assert {"DA:15,1", "DA:19,1", "DA:20,1"} <= set(found)


def test_answers_are_those_of_an_ordinary_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = "---\n".join([pod("broken", "{name: bad, image: a}"), pod("good", "{name: a, image: b}"), pod("skipped")])
    (folder / "pods.yaml").write_text(pods)
    (folder / "kyverno-test.yaml").write_text(TEST + "- {policy: demo, rule: latest, kind: Pod, result: pass}\n")
    shown = []
    for flags in ([], ["--coverage-threshold", "0"]):
        main(["test", ".", "-o", "json", *flags])
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert "no latest" in shown[0]


def test_each_expression_of_a_cel_rule_counts_by_itself(folder: Path) -> None:
    (folder / "policy.yaml").write_text(
        """apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: demo}
spec:
  rules:
  - name: cel
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    celPreconditions:
    - {name: named, expression: "object.metadata.name != 'other'"}
    validate:
      cel:
        expressions:
        - {expression: "has(object.data)", message: give it data}
        - {expression: "size(object.data) < 3", message: less data}
"""
    )
    _, found = lcov(
        folder,
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: empty}\n",
        "- {policy: demo, rule: cel, kind: ConfigMap, resources: [empty], result: fail}\n",
    )
    assert {"DA:9,1", "DA:13,1", "DA:14,0", "BRDA:6,0,2,0"} <= set(found)
