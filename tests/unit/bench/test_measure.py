"""Whole commands as the benchmark measures them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench import measure


def test_a_command_tells_of_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.py").write_text("import os, sys\nsys.exit(int(sys.argv[1]) + len(os.environ['MORE']))\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    large = b"x" * (200 << 20)
    (run,) = measure.commands("small", ["3"], rounds=1, more={"MORE": "four"})
    assert run.code == 7
    assert 1 < run.memory < len(large) / 2**20
    assert run.cpu > 0


def test_modules_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("OTHER", "x")
    found = measure.as_installed()
    assert "PYTHONDONTWRITEBYTECODE" not in found
    assert found["OTHER"] == "x"
    assert "PYTHONDONTWRITEBYTECODE" in os.environ
