"""What the guide shows of a command line is what it prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from runtime.cli.main import main

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "cel.md"
BLOCKS = re.compile(r"```(yaml)?\n(.*?)```", re.DOTALL)
FILES = ("pod.yaml", "limits.yaml", "dear.yaml")
"""The files of the page, in order."""


def sessions(text: str) -> list[tuple[str, list[str]]]:
    """Each command behind a ``$`` with the lines under it."""
    found: list[tuple[str, list[str]]] = []
    for kind, block in BLOCKS.findall(text):
        if kind or not block.startswith("$ "):
            continue
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ thesmos "), []))
            else:
                found[-1][1].append(line)
    return found


def test_the_sessions_of_the_cel_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    files = [block for kind, block in BLOCKS.findall(text) if kind]
    for name, content in zip(FILES, files, strict=True):
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shown = sessions(text)
    assert len(shown) > 5
    for command, lines in shown:
        main(shlex.split(command))
        said = capsys.readouterr()
        printed = (said.err + said.out).splitlines()
        if "…" in lines:
            assert [line for line in lines if line != "…" and line not in printed] == [], command
        else:
            assert printed == lines, command


def test_the_policy_of_the_cel_page_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [block for kind, block in BLOCKS.findall(PAGE.read_text(encoding="utf-8")) if kind]
    pod, policy = tmp_path / "pod.yaml", tmp_path / "limits.yaml"
    pod.write_text(files[0], encoding="utf-8")
    policy.write_text(files[1], encoding="utf-8")
    assert main(["apply", str(policy), "-r", str(pod)]) == 0
    assert "pass: 1, fail: 0" in capsys.readouterr().out
    assert main(["compile", str(policy)]) == 0
    assert capsys.readouterr().err.count("note[T1219]") == 3


def test_the_policy_of_the_context_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (PAGE.parent / "contexts.md").read_text(encoding="utf-8")
    policy, recording = [block for kind, block in BLOCKS.findall(text) if kind]
    (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")
    (tmp_path / "recording.yaml").write_text(recording, encoding="utf-8")
    dump = tmp_path / "dump"
    dump.mkdir()
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: a, labels: {team: t}}\n"
    limits = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: team-limits, namespace: default}\ndata: {pods: '1'}\n"
    (dump / "all.yaml").write_text(f"{pod % 'there'}---\n{limits}", encoding="utf-8")
    (tmp_path / "pod.yaml").write_text(pod % "new", encoding="utf-8")
    command = ["apply", str(tmp_path / "policy.yaml"), "-r", str(tmp_path / "pod.yaml")]
    assert main([*command, "--cluster-dump", str(dump)]) == 1
    assert "team t runs 1 pods, 1 are allowed" in capsys.readouterr().out
    assert main([*command, "--replay", str(tmp_path / "recording.yaml")]) == 1
    assert 'Unknown key "limits" in path' in capsys.readouterr().out
    assert main([*command, "-s", "limits.data.pods=3,running=2"]) == 0
