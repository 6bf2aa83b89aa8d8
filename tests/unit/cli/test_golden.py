"""Whole commands against golden output: what people and scripts see of ``thesmos``."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from runtime.cli.main import main
from tests.support.golden import ROOT, Golden, GoldenCase, golden_cases

FIXTURES = ROOT / "cli" / "fixtures"

MASKS = (
    (re.compile(r"sha256 [0-9a-f]+"), "sha256 <digest>"),
    (re.compile(r"\b\d+ bytes"), "<n> bytes"),
    (re.compile(r"\b\d+ ms\b"), "<n> ms"),
    (re.compile(r"^((?:sections|counts): ).*$", re.MULTILINE), r"\1<sizes>"),
    (re.compile(r"^imports: .*$", re.MULTILINE), "imports: <names>"),
    (re.compile(r"seconds: \d+"), "seconds: <now>"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
)


@pytest.mark.parametrize("case", golden_cases("cli"))
def test_commands(
    case: GoldenCase,
    golden: Golden,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    work = tmp_path / "work"
    shutil.copytree(FIXTURES, work)
    for name, text in case.files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(work)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("sys.argv", ["thesmos"])
    shown = []
    for line in filter(None, case.input.splitlines()):
        code = main(shlex.split(line))
        said = capsys.readouterr()
        shown.append(f"$ thesmos {line}\n{said.out}{said.err}(exit {code})\n")
    text = "".join(shown)
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    golden(case, text)
