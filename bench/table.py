"""``python -m bench.table``: puts the figures of a run into ``docs/performance.md``, in place of those before.

Of the run those that have a target are taken, and those that one wants to see beside them. The curves of growth are
drawn anew too, where matplotlib is installed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from bench import figures, plots
from bench.figures import Figure

PAGE: Final = Path("docs/performance.md")
BEGIN: Final = "<!-- figures of a run: python -m bench.table -->"
END: Final = "<!-- end of the figures -->"
_BESIDE: Final = re.compile(
    r"engine/\d+ generated/pass/tier \d$|engine/reference/(pass|deny of one)/tier [\w ]+$|engine/library.*tier \d$"
    r"|webhook/.*(processor time an answer|do-nothing.*)$|webhook/two workers|api/.*(p50|rate)$"
    r"|process/.*(resident memory|peak memory|wall)$"
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.table", description=__doc__)
    parser.add_argument("--of", type=Path, default=Path("build/bench.json"), help="the run")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page, which has the two marks")
    args = parser.parse_args(argv)
    if not args.of.exists():
        print(f"no figures at {args.of}: `make bench` measures", file=sys.stderr)
        return 2
    found, where = figures.read(args.of)
    page = args.page.read_text(encoding="utf-8")
    args.page.write_text(put(page, chosen(found), where), encoding="utf-8")
    plots.draw(args.of, args.page.with_name("growth.png"))
    return 0


def chosen(found: Iterable[Figure]) -> list[Figure]:
    """What the page shows of a run."""
    return [f for f in found if f.target is not None or _BESIDE.match(f.name)]


def put(page: str, found: Sequence[Figure], where: dict[str, Any]) -> str:
    """The page with the figures between its marks. Raises ``ValueError`` for a page without them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN if not begin else END}")
    aimed = [f for f in found if f.met is not None]
    met = f"{sum(1 for f in aimed if f.met)} of {len(aimed)} targets are met."
    return f"{before}{begin}\n\n{met}\n\n{figures.markdown(found, where).rstrip()}\n\n{end}{after}"


if __name__ == "__main__":
    raise SystemExit(main())
