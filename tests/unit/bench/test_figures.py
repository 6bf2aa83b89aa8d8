"""What is said of samples, what counts as a loss between two runs, and what the page of figures shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench import check, figures, table
from bench.figures import Figure, figure
from bench.plots import _MATCH, grown

ROOT = Path(__file__).resolve().parents[3]
WHERE = {"cpu": "x", "cores": 2, "python": "3.11.7", "system": "Linux 6", "load": 0.1, "source": "abc"}


def test_a_figure_is_of_its_samples_and_relative_round_by_round() -> None:
    found = figure("engine/x", "µs", [10.0, 30.0, 20.0, 40.0], yardstick=[1.0, 2.0, 2.0, 4.0], target=25.0)
    assert (found.median, found.minimum, found.rounds, found.relative) == (25.0, 10.0, 4, 10.0)
    assert found.met
    assert not replace(found, target=24.0).met
    assert replace(found, target=24.0, more=True).met
    assert replace(found, target=None).met is None


def test_a_row_says_whether_the_target_is_met() -> None:
    slow = figure("engine/reference/pass", "µs", [21.3], target=15.0)
    fast = figure("webhook/rate", "1/s", [9000.0], target=8000.0, more=True)
    assert figures.table([slow])[-1] == "| reference/pass | µs | 21.3 | 21.3 | 0% | 1 |  | ≤ 15.0 | **missed** |"
    assert figures.table([fast])[-1] == "| rate | 1/s | 9,000 | 9,000 | 0% | 1 |  | ≥ 8,000 | met |"


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    kept = [figure("engine/x", "µs", [1.0, 2.0], comparable="ratio"), figure("cel/y", "ns", [3.0])]
    path = tmp_path / "build/bench.json"
    figures.write(path, kept)
    found, where = figures.read(path)
    assert found == kept
    assert where["python"].startswith("3.")
    assert "### engine" in path.with_suffix(".md").read_text(encoding="utf-8")


def test_parts_that_were_not_measured_anew_stay() -> None:
    old = [figure("engine/x", "µs", [1.0]), figure("engine/gone", "µs", [1.0]), figure("cel/y", "ns", [3.0])]
    new = [figure("engine/x", "µs", [2.0])]
    assert [(f.name, f.median) for f in figures.merged(old, new)] == [("cel/y", 3.0), ("engine/x", 2.0)]


def _of(**values: float) -> list[Figure]:
    return [
        figure("a/count", "instructions", [values.get("count", 100.0)], comparable="count"),
        figure("a/ratio", "ratio", [values.get("ratio", 1.0)], comparable="ratio"),
        figure("a/rate", "ratio", [values.get("rate", 1.0)], comparable="ratio", more=True),
        figure("a/over", "µs", [values.get("over", 10.0)], yardstick=[2.0], comparable="ratio"),
        figure("a/bare", "µs", [values.get("bare", 1.0)]),
    ]


@pytest.mark.parametrize(
    ("now", "lost"),
    [
        ({}, []),
        ({"count": 104.0, "ratio": 1.29, "rate": 0.8, "over": 12.9}, []),
        ({"count": 90.0, "ratio": 0.1, "rate": 5.0, "over": 1.0}, []),
        ({"bare": 100.0}, []),
        ({"count": 106.0}, ["a/count"]),
        ({"ratio": 1.31}, ["a/ratio"]),
        ({"rate": 0.7}, ["a/rate"]),
        ({"over": 13.1}, ["a/over"]),
    ],
)
def test_losses_are_of_counts_and_ratios_alone(now: dict[str, float], lost: list[str]) -> None:
    assert [line.partition(":")[0] for line in check.losses(_of(), _of(**now))] == lost


def test_a_run_in_other_phases_of_the_machine_is_allowed_its_spread() -> None:
    noisy = [figure("a/ratio", "ratio", [0.5, 1.0, 1.0, 1.5], comparable="ratio")]
    assert check.losses(noisy, [replace(noisy[0], median=1.5)]) == []


def test_the_check_fails_where_a_figure_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, now = tmp_path / "before.json", tmp_path / "now.json"
    figures.write(before, _of())
    figures.write(now, _of(count=200.0))
    assert check.main(["--against", str(before), "--measured", str(before)]) == 0
    assert check.main(["--against", str(before), "--measured", str(now)]) == 1
    assert "a/count: 100 before, 200 now, 5% is allowed" in capsys.readouterr().out


def test_growth_is_read_off_the_names() -> None:
    found = [figure(f"engine/{n} generated/pass/tier {t}", "µs", [n * t]) for n in (100, 10) for t in (1, 2)]
    assert grown(found, _MATCH) == {"tier 1": [(10, 10), (100, 100)], "tier 2": [(10, 20), (100, 200)]}


def test_the_page_has_room_for_the_figures_of_a_run() -> None:
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    found = [figure("engine/x", "µs", [1.0], target=2.0), figure("engine/y", "µs", [3.0], target=2.0)]
    put = table.put(page, found, WHERE)
    assert "1 of 2 targets are met." in put
    assert "| x | µs | 1.00 |" in put
    assert table.put(put, found, WHERE) == put
    assert put.partition(table.BEGIN)[0] == page.partition(table.BEGIN)[0]
    assert put.partition(table.END)[2] == page.partition(table.END)[2]


def test_a_page_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no <!-- end"):
        table.put(f"# Page\n{table.BEGIN}\n", [], WHERE)


def test_the_page_shows_targets_and_what_is_looked_at_beside_them() -> None:
    names = ["engine/reference/pass/tier 1", "engine/reference/pass/tier 1/bytecodes", "cel/x is true, tier 2"]
    found = [figure(name, "µs", [1.0]) for name in names] + [figure("cel/mean", "ratio", [0.4], target=0.5)]
    assert [f.name for f in table.chosen(found)] == ["engine/reference/pass/tier 1", "cel/mean"]
