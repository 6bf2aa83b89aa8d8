"""Each fuzz target for a short while with a fixed seed, and the driver around them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import yaml

from fuzz import run
from fuzz.explore import Counterexample, Skipped

MODULES = run.modules()


@pytest.mark.parametrize("module", MODULES, ids=[m.NAME for m in MODULES])
def test_target(module: ModuleType) -> None:
    try:
        assert module.run(2.0, 1) > 0
    except Skipped as reason:
        pytest.skip(str(reason))


def test_names_and_properties() -> None:
    for module in MODULES:
        assert module.__name__.endswith(module.NAME)
        assert module.PROPERTY


def test_readme_is_up_to_date() -> None:
    assert run.README.read_text(encoding="utf-8") == run.readme(), "run: python -m fuzz.run --readme"


def test_unknown_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["1", "--only", "f99_nothing"]) == 2
    assert "no such target: f99_nothing" in capsys.readouterr().out


def _failing(error: Exception) -> ModuleType:
    module = ModuleType("failing")

    def fail(seconds: float, seed: int) -> int:
        raise error

    module.__dict__.update(NAME="f98_failing", PROPERTY="none holds", run=fail)
    return module


def test_counterexamples_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "CASES", tmp_path / "found")
    monkeypatch.setattr(run, "CORPUS", tmp_path / "corpus")
    report = run.run_target(_failing(Counterexample("wrong", {"note": "n", "cases": []})), 1, 7)
    assert report.state == "counterexample"
    assert yaml.safe_load(run.save(report, 7).read_text(encoding="utf-8")) == {"note": "n", "cases": []}
    other = run.save(run.run_target(_failing(ValueError("odd")), 1, 7), 7).read_text(encoding="utf-8")
    assert other.startswith("# python -m fuzz.run 1 --only f98_failing --seed 7\n")
    assert "ValueError: odd" in other


def test_a_failing_target_fails_the_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run, "modules", lambda: [_failing(ValueError("odd"))])
    assert run.main(["1", "--seed", "3"]) == 1
    shown = capsys.readouterr()
    assert "counterexample" in shown.out
    assert "ValueError: odd" in shown.err


def test_a_target_that_cannot_run_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "modules", lambda: [_failing(Skipped("no judge here"))])
    assert run.main(["1", "--seed", "3"]) == 0
    shown = capsys.readouterr()
    assert "skipped" in shown.out
    assert "no judge here" in shown.err
