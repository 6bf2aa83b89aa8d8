"""Policies and resources out of ``.tar.gz`` archives."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from runtime.cli import archives
from runtime.cli.files import read_policies, read_resources
from runtime.cli.main import main
from runtime.cli.problem import Problem

POLICY = """apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: named}
spec:
  rules:
  - name: app
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {message: name the app, pattern: {metadata: {labels: {app: "?*"}}}}
"""
OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: d}\n"


def packed(path: Path, **files: str | bytes) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            data = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def test_policies_and_resources_are_found_in_one_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = packed(tmp_path / "all.tar.gz", **{"b/object.yaml": OBJECT % "x", "a/policy.yaml": POLICY, "README.md": "#"})
    assert main(["apply", str(path), "-r", str(path)]) == 1
    assert "d/ConfigMap/x failed" in capsys.readouterr().out


def test_members_come_in_order_and_hidden_ones_stay_out(tmp_path: Path) -> None:
    path = packed(
        tmp_path / "all.tgz", **{"./b.yaml": OBJECT % "b", "a.json": "{}", ".git/c.yaml": "c", "d/.e.yml": "e"}
    )
    assert [member.name for member in archives.members(path)] == ["a.json", "b.yaml"]
    assert [str(member) for member in archives.members(path)] == [f"{path}!a.json", f"{path}!b.yaml"]


def test_a_broken_policy_is_told_by_archive_and_member(tmp_path: Path) -> None:
    path = packed(tmp_path / "all.tar.gz", **{"policy.yaml": POLICY.replace("spec:", "spec: [")})
    _, diagnostics, texts = read_policies([path])
    assert [d.span and d.span.file for d in diagnostics] == [f"{path}!policy.yaml"]
    assert list(texts) == [f"{path}!policy.yaml"]


@pytest.mark.parametrize("cut", [0, 20, 60])
def test_a_damaged_archive_is_a_problem(tmp_path: Path, cut: int) -> None:
    path = packed(tmp_path / "all.tar.gz", **{"object.yaml": OBJECT % "x"})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(Problem, match=r"all\.tar\.gz: (cannot be read as an archive|the archive holds no)"):
        read_resources([path])


def test_text_that_is_no_utf8_is_a_problem(tmp_path: Path) -> None:
    path = packed(tmp_path / "all.tar.gz", **{"object.yaml": b"\xff"})
    with pytest.raises(Problem, match=r"object\.yaml is no UTF-8 text \(byte 0\)"):
        read_resources([path])


def test_what_unpacks_to_too_much_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 1024)
    path = packed(tmp_path / "all.tar.gz", **{"object.yaml": "a: 1\n" * 1000})
    with pytest.raises(Problem, match="unpacks to more than"):
        read_resources([path])


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_what_stands_in_headers_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: int) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 64 * 1024)
    path = tmp_path / "all.tar.gz"
    with tarfile.open(path, "w:gz", format=form) as archive:
        archive.addfile(tarfile.TarInfo("n" * 1_000_000))
    with pytest.raises(Problem, match="unpacks to more than"):
        read_resources([path])


def test_an_archive_without_files_to_read_is_a_problem(tmp_path: Path) -> None:
    path = packed(tmp_path / "all.tar.gz", **{"README.md": "#"})
    with pytest.raises(Problem, match=r"the archive holds no \.yaml"):
        read_resources([path])


def test_an_archive_without_policies_is_a_problem(tmp_path: Path) -> None:
    path = packed(tmp_path / "all.tar.gz", **{"object.yaml": OBJECT % "x"})
    with pytest.raises(Problem, match="none of its files holds a policy"):
        read_policies([path])
