"""Admission policies of the API server on the command line: bindings and parameters in files of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.cli.main import main

MATCH = """
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
"""
LIMIT = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: limit}}
spec:
  paramKind: {{apiVersion: v1, kind: ConfigMap}}
{MATCH}
  matchConditions: [{{name: for-us, expression: "params.data.app == object.metadata.labels.app"}}]
  validations: [{{expression: "object.spec.priority <= int(params.data.max)"}}]
"""
ADD = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: add}}
spec:
  reinvocationPolicy: Never
  paramKind: {{apiVersion: v1, kind: ConfigMap}}
{MATCH}
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: "[JSONPatch{{op: 'add', path: '/spec/seen/-', value: params.metadata.name}}]"
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default, labels: {app: web}}
spec: {priority: 3, seen: []}
"""


def binding(kind: str, policy: str, ref: str) -> str:
    return (
        f"apiVersion: admissionregistration.k8s.io/v1\nkind: {kind}AdmissionPolicyBinding\nmetadata: {{name: b}}\n"
        f"spec: {{policyName: {policy}, paramRef: {ref}}}\n"
    )


def param(name: str, app: str, most: int) -> str:
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default, labels: {{for: limit}}}}\n"
        f'data: {{app: {app}, max: "{most}"}}\n'
    )


def apply(folder: Path, policy: str, bound: str, params: list[str]) -> int:
    for name, text in (("policy", policy), ("z-binding", bound)):
        (folder / "policies").mkdir(exist_ok=True)
        (folder / "policies" / f"{name}.yaml").write_text(text)
    (folder / "pod.yaml").write_text(POD)
    (folder / "params.yaml").write_text("---\n".join(params))
    given = ["--param-resource", str(folder / "params.yaml")] if params else []
    return main(["apply", str(folder / "policies"), "-r", str(folder / "pod.yaml"), *given, "--remove-color"])


ALL = "{selector: {matchLabels: {for: limit}}, parameterNotFoundAction: Deny}"


@pytest.mark.parametrize(
    ("params", "summary", "code"),
    [
        # A parameter whose conditions are not met has no say, whatever its place.
        ([param("a", "db", 1), param("b", "web", 3)], "pass: 1, fail: 0, warn: 0, error: 0, skip: 0", 0),
        ([param("a", "db", 1), param("b", "web", 2)], "pass: 0, fail: 1, warn: 0, error: 0, skip: 0", 1),
        ([param("a", "web", 3), param("b", "db", 1)], "pass: 1, fail: 0, warn: 0, error: 0, skip: 0", 0),
        ([param("a", "db", 1)], "pass: 0, fail: 0, warn: 0, error: 0, skip: 1", 0),
        ([], "pass: 0, fail: 0, warn: 0, error: 1, skip: 0", 1),
    ],
)
def test_each_parameter_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], params: list[str], summary: str, code: int
) -> None:
    assert apply(tmp_path, LIMIT, binding("Validating", "limit", ALL), params) == code
    assert summary in capsys.readouterr().out


def test_no_parameter_is_an_error_in_the_words_of_the_api_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    apply(tmp_path, LIMIT, binding("Validating", "limit", ALL), [])
    words = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    assert words in capsys.readouterr().out


def test_no_parameter_is_nothing_where_the_binding_or_the_policy_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply(tmp_path, LIMIT, binding("Validating", "limit", ALL.replace("Deny", "Allow")), []) == 0
    ignoring = LIMIT.replace("spec:\n", "spec:\n  failurePolicy: Ignore\n")
    assert apply(tmp_path, ignoring, binding("Validating", "limit", ALL), []) == 0
    assert "error: 0" in capsys.readouterr().out


def test_a_mutation_runs_once_for_each_parameter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    params = [param("b", "web", 1), param("a", "web", 1)]
    assert apply(tmp_path, ADD, binding("Mutating", "add", ALL), params) == 0
    assert "  seen:\n  - a\n  - b\n" in capsys.readouterr().out


def test_a_mutation_that_reads_items_sees_all_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = ADD.replace("params.metadata.name", "params.items[0].metadata.name + params.items[1].metadata.name")
    params = [param("b", "web", 1), param("a", "web", 1)]
    assert apply(tmp_path, policy, binding("Mutating", "add", ALL), params) == 0
    assert "  seen:\n  - ba\n" in capsys.readouterr().out


def test_a_test_finds_a_policy_and_its_binding_in_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.yaml").write_text(LIMIT)
    (tmp_path / "binding.yaml").write_text(binding("Validating", "limit", "{name: a}"))
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "param.yaml").write_text(param("a", "web", 2))
    (tmp_path / "kyverno-test.yaml").write_text(
        "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\npolicies: [binding.yaml, policy.yaml]\n"
        "resources: [pod.yaml]\nparamResources: [param.yaml]\nresults:\n"
        "- {policy: limit, kind: Pod, resources: [p], result: fail, isValidatingAdmissionPolicy: true}\n"
    )
    assert main(["test", str(tmp_path), "--strict", "--remove-color"]) == 0
    assert "1 tests passed and 0 tests failed" in capsys.readouterr().out


def test_a_binding_alone_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "b.yaml").write_text(binding("Validating", "lost", "{name: a}"))
    assert main(["compile", str(tmp_path / "b.yaml")]) == 0
    assert "T1260" in "".join(capsys.readouterr())


def test_a_bundle_holds_policy_and_binding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "all.yaml").write_text(f"{LIMIT}---\n{binding('Validating', 'limit', '{name: a}')}")
    out = tmp_path / "out.bundle"
    assert main(["compile", str(tmp_path / "all.yaml"), "-o", str(out)]) == 0
    assert main(["inspect", str(out)]) == 0
    assert "limit" in capsys.readouterr().out
