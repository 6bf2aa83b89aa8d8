"""The reference pages agree with the tables they repeat, and the program starts fast."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.cli.docs import PAGES
from runtime.cli.main import COMMANDS, main

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", PAGES)
def test_page_is_what_its_table_makes(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name](), "run thesmos docs"


def test_check_says_which_page_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").touch()
    assert main(["docs", "--check", "--root", str(tmp_path)]) == 1
    assert "vm/ISA.md: differs" in capsys.readouterr().out
    assert main(["docs", "--root", str(tmp_path)]) == 0
    assert main(["docs", "--check", "--root", str(tmp_path)]) == 0


def test_outside_a_checkout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "--root", str(tmp_path)]) == 2
    assert "is no checkout" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"thesmos {command}" in capsys.readouterr().out


def test_help_imports_nothing_heavy() -> None:
    heavy = ("lark", "yaml", "aiohttp", "kubernetes", "rich", "cryptography", "msgpack", "orjson", "compiler")
    code = (
        "import sys; from runtime.cli.main import main; main(['--help'])\n"
        f"print(sorted(set({heavy!r}) & set(sys.modules)))"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    seconds = time.perf_counter() - start
    assert done.stdout.rstrip().endswith("[]")
    assert seconds < 1.0, "0.15 s on a quiet machine; this bound only catches a heavy import"


def test_a_bug_is_one_line_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(args: object) -> int:
        raise ZeroDivisionError("by nothing")

    monkeypatch.delenv("THESMOS_DEBUG", raising=False)
    monkeypatch.setattr("runtime.cli.crds.run", broken)
    assert main(["crds"]) == 2
    assert capsys.readouterr().err == "error: internal error: by nothing (set THESMOS_DEBUG=1 for where)\n"
    monkeypatch.setenv("THESMOS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["crds"])
