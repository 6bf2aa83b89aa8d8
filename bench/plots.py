"""How figures grow with the number of policies, drawn as PNG beside the file of figures (needs the extra ``bench``)."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

from bench import figures
from bench.figures import Figure

_SET: Final = re.compile(r"engine/(\d+) generated/pass/tier (\d)$")


def draw(path: Path) -> None:
    """Draws what the file has figures of; says so where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("no plots: install the extra bench (pip install -e '.[bench]')", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    found, where = figures.read(path)
    lines = grown(found)
    if not lines:
        print("no plots: part engine has not been measured in several sizes", file=sys.stderr)
        return
    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for tier, points in sorted(lines.items()):
        axes.plot(*zip(*points, strict=True), marker="o", label=f"tier {tier}")
    targets = sorted((size, f.target) for f, size, tier in _of_sets(found) if f.target is not None)
    if targets:
        axes.plot(*zip(*targets, strict=True), linestyle="--", color="grey", label="target")
    _finish(axes, where)
    figure.savefig(path.with_name("growth.png"), dpi=120, bbox_inches="tight")
    pyplot.close(figure)


def grown(found: list[Figure]) -> dict[str, list[tuple[int, float]]]:
    """By tier: numbers of policies that all match, and µs of one admission."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for each, size, tier in _of_sets(found):
        lines.setdefault(tier, []).append((size, each.median))
    return {tier: sorted(points) for tier, points in lines.items()}


def _of_sets(found: list[Figure]) -> list[tuple[Figure, int, str]]:
    matched = [(f, _SET.match(f.name)) for f in found]
    return [(f, int(m[1]), m[2]) for f, m in matched if m]


def _finish(axes: Any, where: dict[str, Any]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("policies, all of which match")
    axes.set_ylabel("µs of one admission, engine alone")
    axes.set_title(figures.machine_line(where), fontsize=7)
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
