"""The dependency direction, and what must start without heavy imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_import_linter_finds_no_broken_contract() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [str(linter), "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("vm.interp", {"lark", "yaml", "aiohttp", "kubernetes", "compiler"}),
        ("vm.tier2", {"lark", "yaml", "aiohttp", "kubernetes", "compiler"}),
        ("compiler", {"aiohttp", "kubernetes", "runtime"}),
        ("runtime.cli.main", {"aiohttp", "kubernetes", "lark", "yaml", "cryptography", "rich"}),
        ("runtime.webhook.app", {"kubernetes", "lark"}),
    ],
)
def test_what_a_module_pulls_in(module: str, forbidden: set[str]) -> None:
    """The linter reads import statements; this looks at what is really loaded."""
    code = f"import sys, {module}; print(*sorted(set(m.split('.')[0] for m in sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert set(done.stdout.split()) & forbidden == set()


def test_no_module_is_over_700_lines() -> None:
    folders = ("grammar", "vm", "compiler", "runtime", "tests", "fuzz", "bench")
    long = {
        str(path.relative_to(ROOT)): lines
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 700
    }
    assert long == {}
