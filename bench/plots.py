"""How figures grow with the number of policies, drawn as PNG (needs the extra ``bench``): on the left policies that all
match, on the right policies that cannot, beside the ten reference ones."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

from bench import figures
from bench.figures import Figure

_MATCH: Final = re.compile(r"engine/(\d+) generated/pass/(tier \d)$")
_OTHERS: Final = re.compile(r"engine/reference/with (\d+) of other kinds/(tier \d)$")

Lines = dict[str, list[tuple[int, float]]]


def draw(path: Path, out: Path | None = None) -> None:
    """Draws what the file has figures of into ``out``, by default ``growth.png`` beside it; says so where there are
    none, or where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("no plots: install the extra bench (pip install -e '.[bench]')", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    found, where = figures.read(path)
    matching, others = grown(found, _MATCH), grown(found, _OTHERS)
    if not matching:
        print("no plots: part engine has not been measured in several sizes", file=sys.stderr)
        return
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    _draw(left, matching, "policies, all of which match")
    targets = sorted((int(m[1]), f.target) for f in found if (m := _MATCH.match(f.name)) and f.target is not None)
    if targets:
        left.plot(*zip(*targets, strict=True), linestyle="--", color="grey", label="target")
    left.set_xscale("log")
    left.set_yscale("log")
    _draw(right, others, "policies of other kinds, beside ten that match")
    # From nothing: what is flat should look flat.
    right.set_ylim(0, 1.3 * max((µs for points in others.values() for _, µs in points), default=1.0))
    for axes in (left, right):
        axes.set_ylabel("µs of one admission, engine alone")
        axes.grid(True, which="both", alpha=0.3)
        axes.legend()
    figure.suptitle(figures.machine_line(where), fontsize=7)
    figure.savefig(out or path.with_name("growth.png"), dpi=90)
    pyplot.close(figure)


def grown(found: list[Figure], of: re.Pattern[str]) -> Lines:
    """By line: numbers of policies, and µs of one admission. ``of`` finds both in the name of a figure."""
    lines: Lines = {}
    for each in found:
        matched = of.match(each.name)
        if matched:
            lines.setdefault(matched[2], []).append((int(matched[1]), each.median))
    return {name: sorted(points) for name, points in lines.items()}


def _draw(axes: Any, lines: Lines, along: str) -> None:
    for name, points in sorted(lines.items()):
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set_xlabel(along)
