"""``make bench-check``: measures what can be compared with another run, and fails where it is clearly worse.

Compared are counts (bytecode instructions, memory) and ratios (times over the yardstick or a peer that was measured
beside them), never bare times: those depend on the machine and on what else it does. The other run is
``bench/stored.json``; ``--store`` makes the run that was just measured the stored one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from bench import figures, run
from bench.figures import Figure, number

STORED: Final = Path(__file__).parent / "stored.json"
MEASURED: Final = Path("build/bench-check.json")
COUNTS: Final = 0.05
"""What a count may grow by: other versions of a library cost a little more or less."""
RATIOS: Final = 0.30
"""What a ratio may grow by, beside the spread of both runs: on a machine that others use the same code was found up to
a quarter slower over the yardstick, for want of cache."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.check", description=__doc__)
    parser.add_argument("--only", default="engine", metavar="PARTS", help="parts to measure (engine)")
    parser.add_argument("--sizes", default="10,100", help="sizes of the generated sets")
    parser.add_argument("--against", type=Path, default=STORED, help="the run to compare with")
    parser.add_argument("--measured", type=Path, help="take this run instead of measuring")
    parser.add_argument("--store", action="store_true", help="keep the run as the one to compare with from now on")
    args = parser.parse_args(argv)
    path = args.measured
    if path is None:
        path = MEASURED
        path.unlink(missing_ok=True)
        code = run.main(["--only", args.only, "--sizes", args.sizes, "--out", str(path)])
        if code:
            return code
    now, where = figures.read(path)
    if args.store:
        figures.keep(STORED, [f for f in now if f.comparable], where)
        return 0
    if not args.against.exists():
        print(f"nothing to compare with: {args.against.name} is not there, make it with --store", file=sys.stderr)
        return 2
    before, other = figures.read(args.against)
    if where["python"].rpartition(".")[0] != other["python"].rpartition(".")[0]:
        print(f"counts are not compared: the stored run is of Python {other['python']}")
        before = [f for f in before if f.comparable != "count"]
    lost = losses(before, now)
    for line in lost:
        print(line)
    compared = sum(1 for _ in pairs(before, now))
    print(f"{compared} figures compared, {len(lost)} clearly worse")
    return 1 if lost or not compared else 0


def losses(before: Iterable[Figure], now: Iterable[Figure]) -> list[str]:
    """A line for each figure that is clearly worse than it was."""
    found = []
    for old, new in pairs(before, now):
        was, is_now = compared_value(old), compared_value(new)
        allowed = COUNTS if new.comparable == "count" else RATIOS + (old.spread + new.spread) / 2
        worse = was / is_now if new.more else is_now / was
        if worse > 1 + allowed:
            found.append(f"{new.name}: {number(was)} before, {number(is_now)} now, {allowed:.0%} is allowed")
    return found


def pairs(before: Iterable[Figure], now: Iterable[Figure]) -> list[tuple[Figure, Figure]]:
    """The comparable figures that both runs have."""
    known = {f.name: f for f in before}
    both = [(known[f.name], f) for f in now if f.comparable and f.name in known]
    return [(old, new) for old, new in both if compared_value(old) > 0 and compared_value(new) > 0]


def compared_value(found: Figure) -> float:
    return found.median if found.relative is None else found.relative


if __name__ == "__main__":
    raise SystemExit(main())
