"""The wheel holds the four packages with their data, and nothing of tests, fuzzing or examples."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"compiler", "grammar", "runtime", "vm"}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("wheel")
    # The build back end itself: it is a development dependency, so that no network is needed.
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_top_level_names_are_the_four_packages(names: list[str]) -> None:
    top = {name.split("/")[0] for name in names}
    assert {t for t in top if not t.endswith(".dist-info")} == PACKAGES


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_packages_are_typed(names: list[str], package: str) -> None:
    assert f"{package}/py.typed" in names


def test_every_data_file_of_the_tree_is_inside(names: list[str]) -> None:
    wanted = {
        path.relative_to(ROOT).as_posix()
        for pattern in ("grammar/*.lark", "compiler/schema/crds/*.yaml", "compiler/schema/kinds/*.jsonl")
        for path in ROOT.glob(pattern)
    }
    assert any(w.endswith(".lark") for w in wanted)
    assert any(w.endswith(".yaml") for w in wanted)
    assert any(w.endswith(".jsonl") for w in wanted)
    assert wanted <= set(names)


def test_the_commands_and_the_licence_are_inside(names: list[str]) -> None:
    assert any(name.endswith(".dist-info/entry_points.txt") for name in names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
