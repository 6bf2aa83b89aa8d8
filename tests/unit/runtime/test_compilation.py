"""A policy object is shown as YAML that reads back as the same object; problems are texts, never exceptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.source import load_values
from runtime.controllers.compilation import CompileProblem, compile_files, compile_text, object_text, origin_of
from vm.verify import VerifyError

GOOD = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: labelled}
spec:
  rules:
  - name: label
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {message: no label, pattern: {metadata: {labels: {team: "?*"}}}}
"""

TRICKY = [
    "yes",
    "No",
    "on",
    "y",
    "~",
    "null",
    "1e3",
    "0x1F",
    "0o17",
    "1_000",
    ".5",
    "12:30",
    "2026-12-02",
    "!*:latest",
    "<=2Gi",
    "{{ request.object }}",
    "a: b",
    "a #b",
    "",
    " lead",
    "trail ",
    "line\nline\n",
    "line\n\n  more",
    "\ttab",
    "é\u0085x",
    "-",
    "?*",
    "&x",
    "*x",
    "%",
    "@",
    "`",
    "'",
    '"',
    "\\",
    "\U0001f600",
    "\u2028",
]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(TRICKY)
    | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(TRICKY) | st.text("abc<>(+)^=*", min_size=1, max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values)
@settings(max_examples=200, deadline=None)
def test_object_text_reads_back_as_the_same_object(value: Any) -> None:
    obj = {"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}, "spec": {"x": value}}
    (read,) = load_values(object_text(obj))
    assert _typed(read) == _typed(obj)


def _typed(value: Any) -> Any:
    """With types, since Python takes 1 and True for the same. 1 and 1.0 are one number in JSON."""
    if isinstance(value, dict):
        return {k: _typed(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_typed(v) for v in value]
    return ("number" if type(value) in (int, float) else type(value).__name__, value)


def test_object_text_leaves_out_what_the_api_server_added() -> None:
    obj = {
        "apiVersion": "kyverno.io/v1",
        "kind": "Policy",
        "metadata": {
            "name": "p",
            "namespace": "n",
            "uid": "u",
            "managedFields": [{}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "1"},
        },
        "spec": {},
        "status": {"ready": True},
    }
    (read,) = load_values(object_text(obj))
    assert read["metadata"] == {"name": "p", "namespace": "n", "annotations": {"mine": "1"}}
    assert "status" not in read
    assert origin_of(obj) == "Policy/n/p"


def test_files_that_cannot_be_read_or_compiled(tmp_path: Path) -> None:
    with pytest.raises(CompileProblem, match="no such file"):
        compile_files([tmp_path / "missing.yaml"])
    with pytest.raises(CompileProblem, match="no policy files"):
        compile_files([tmp_path])
    (tmp_path / "bad.yaml").write_bytes(b"\xff")
    with pytest.raises(CompileProblem, match="no UTF-8"):
        compile_files([tmp_path / "bad.yaml"])
    (tmp_path / "bad.yaml").write_text("kind: [")
    with pytest.raises(CompileProblem, match=r"bad\.yaml:1:"):
        compile_files([tmp_path])


def test_a_failed_compilation_has_a_report_and_a_line() -> None:
    compiled = compile_text(
        "{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: 7}}", "p.yaml"
    )
    assert compiled.bundle is None
    assert "^" in compiled.report
    assert "\n" not in compiled.summary
    assert compiled.summary.startswith("p.yaml:1:")


def test_the_same_text_is_compiled_once_and_another_is_not_taken_for_it() -> None:
    text = "{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: 7}}"
    first = compile_text(text, "a")
    assert compile_text(text, "a") is first
    assert compile_text(text, "b") is not first
    assert compile_text(text, "a", quirks="kyverno") is not first
    assert compile_text(text + " ", "a") is not first


def test_what_the_verifier_refuses_is_refused_before_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise VerifyError("depth", "would build more than 128 containers around one another", "p0.r0", 7)

    monkeypatch.setattr("compiler.compilation.verify", refuse)
    compiled = compile_text(GOOD, "never compiled before.yaml")
    assert compiled.bundle is None
    assert "function p0.r0 at 7: would build more than 128 containers" in compiled.summary
    assert "error[T2001]" in compiled.report
