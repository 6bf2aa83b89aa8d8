"""One figure of the benchmark, and the file and table that hold them all.

Parts (``bench.engine``, ``bench.webhook``, …) make figures of what they measured, ``bench.run`` writes them, and
``bench.check`` compares those of two runs that can be compared: counts, and times relative to something that was
measured beside them.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

FORMAT: Final = 1

Comparable = Literal["", "count", "ratio"]


@dataclass(frozen=True, slots=True)
class Figure:
    """``name`` is a path of words, ``part/what/which``. ``spread`` is the distance of the quartiles over the median.

    ``relative`` is the median of the figure over the yardstick that was measured in the same rounds. ``comparable``
    says what ``bench.check`` holds two runs together by: ``count`` figures hardly vary at all, of ``ratio`` ones
    ``relative`` is compared, or the figure itself where it is a ratio. ``target`` is an upper bound, or a lower one
    where ``more`` is better.
    """

    name: str
    unit: str
    median: float
    minimum: float
    spread: float
    rounds: int
    relative: float | None = None
    comparable: Comparable = ""
    target: float | None = None
    more: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the target is met, by the median; None without one."""
        if self.target is None:
            return None
        return self.median >= self.target if self.more else self.median <= self.target


def figure(
    name: str,
    unit: str,
    samples: Sequence[float],
    *,
    yardstick: Sequence[float] = (),
    comparable: Comparable = "",
    target: float | None = None,
    more: bool = False,
) -> Figure:
    """The figure of samples; ``yardstick`` are those of the yardstick, round by round."""
    median = statistics.median(samples)
    relative = statistics.median(s / y for s, y in zip(samples, yardstick, strict=True)) if yardstick else None
    return Figure(
        name=name,
        unit=unit,
        median=median,
        minimum=min(samples),
        spread=_spread(samples, median),
        rounds=len(samples),
        relative=relative,
        comparable=comparable,
        target=target,
        more=more,
    )


def _spread(samples: Sequence[float], median: float) -> float:
    if len(samples) < 4 or not median:
        return (max(samples) - min(samples)) / median if median else 0.0
    low, _, high = statistics.quantiles(samples, n=4)
    return (high - low) / median


def machine() -> dict[str, Any]:
    """What the figures were measured on, in one line's worth."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 2),
        "source": _source(),
    }


def _source() -> str:
    """The commit that was measured; empty where git does not know."""
    git = shutil.which("git")
    if git is None:
        return ""
    command = [git, "describe", "--always", "--dirty= with changes", "--exclude=*"]
    here = Path(__file__).parent
    return subprocess.run(command, cwd=here, capture_output=True, text=True, check=False).stdout.strip()


def machine_line(found: dict[str, Any]) -> str:
    source = f", source {found['source']}" if found.get("source") else ""
    where = f"{found['cores']} × {found['cpu']}, Python {found['python']}, {found['system']}"
    return f"{where}, load {found['load']}{source}"


def write(path: Path, figures: Iterable[Figure]) -> None:
    """Keeps the figures as JSON and, beside it, as a table in Markdown."""
    found, where = list(figures), machine()
    path.parent.mkdir(parents=True, exist_ok=True)
    keep(path, found, where)
    path.with_suffix(".md").write_text(markdown(found, where), encoding="utf-8")


def keep(path: Path, figures: Iterable[Figure], where: dict[str, Any]) -> None:
    """Keeps figures that were measured on some machine as JSON alone."""
    document = {"format": FORMAT, "machine": where, "figures": [asdict(f) for f in figures]}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(path: Path) -> tuple[list[Figure], dict[str, Any]]:
    """What :func:`write` kept. Raises ``ValueError`` for a file of another format."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if document.get("format") != FORMAT:
        raise ValueError(f"{path} is of another format: measure again")
    return [Figure(**f) for f in document["figures"]], document["machine"]


def merged(old: Iterable[Figure], new: Iterable[Figure]) -> list[Figure]:
    """The new figures with those old ones of parts that were not measured anew."""
    fresh = list(new)
    parts = {part_of(f) for f in fresh}
    return [*(f for f in old if part_of(f) not in parts), *fresh]


def part_of(found: Figure) -> str:
    return found.name.partition("/")[0]


def markdown(figures: Sequence[Figure], where: dict[str, Any]) -> str:
    """One table a part, after the line of the machine."""
    lines = [machine_line(where), ""]
    for part in dict.fromkeys(map(part_of, figures)):
        lines += [f"### {part}", "", *table([f for f in figures if part_of(f) == part]), ""]
    return "\n".join(lines)


def table(figures: Iterable[Figure]) -> list[str]:
    """The lines of a table of figures, which are of one part."""
    head = ("figure", "unit", "median", "minimum", "spread", "rounds", "× yardstick", "target", "")
    return [f"| {' | '.join(head)} |", "|---|---|---:|---:|---:|---:|---:|---:|---|", *map(_row, figures)]


def _row(f: Figure) -> str:
    relative = "" if f.relative is None else number(f.relative)
    target = "" if f.target is None else f"{'≥' if f.more else '≤'} {number(f.target)}"
    met = "" if f.met is None else "met" if f.met else "**missed**"
    name = f.name.partition("/")[2]
    cells = (name, f.unit, number(f.median), number(f.minimum), f"{f.spread:.0%}", str(f.rounds), relative, target, met)
    return f"| {' | '.join(cells)} |"


def number(value: float) -> str:
    """Three digits that say something."""
    size = abs(value)
    show: Callable[[float], str] = (
        "{:,.0f}".format if size >= 100 else "{:.1f}".format if size >= 10 else "{:.2f}".format
    )
    return show(value)
