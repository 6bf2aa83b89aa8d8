"""``make bench``: measures part by part and writes ``build/bench.json`` and, as a table, ``build/bench.md``.

Parts: ``engine`` (one admission by the engine alone), ``cel`` (the CEL corpus beside cel-go), ``webhook`` (TLS, full
and paced load), ``process`` (start, memory, ``apply``, scan) and ``api`` (through a real API server). Parts that are
not asked for keep the figures of the run before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import figures
from bench.figures import Figure
from bench.policies import reference_folder


@dataclass(frozen=True, slots=True)
class Plan:
    """What the parts are given: the folder of the reference work, a folder for their files, sizes of generated sets,
    rounds in process, seconds of each load."""

    folder: Path
    scratch: Path
    sizes: tuple[int, ...]
    rounds: int
    seconds: float


def _engine(plan: Plan) -> Iterator[Figure]:
    from bench import engine

    return engine.measured(plan.folder, plan.scratch, plan.sizes, plan.rounds)


def _cel(plan: Plan) -> Iterator[Figure]:
    from bench import cel

    return cel.measured(plan.scratch)


def _webhook(plan: Plan) -> Iterator[Figure]:
    from bench import webhook

    return webhook.measured(plan.folder, plan.scratch, plan.seconds)


def _process(plan: Plan) -> Iterator[Figure]:
    from bench import process

    return process.measured(plan.folder, plan.scratch)


def _api(plan: Plan) -> Iterator[Figure]:
    from bench import through

    return through.measured(plan.folder, plan.scratch, plan.seconds)


PARTS: Final[Mapping[str, Callable[[Plan], Iterator[Figure]]]] = {
    "engine": _engine,
    "cel": _cel,
    "webhook": _webhook,
    "process": _process,
    "api": _api,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--only", type=_parts, default=tuple(PARTS), metavar="PARTS", help=f"of {','.join(PARTS)}")
    parser.add_argument(
        "--sizes", type=_sizes, default=(10, 100, 1000), help="sizes of the generated sets, with commas"
    )
    parser.add_argument("--rounds", type=int, default=9, help="rounds of what is measured in process")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each load on a server")
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"), help="the file of the figures")
    parser.add_argument(
        "--plots", action="store_true", help="also draw how figures grow, as growth.png beside the file"
    )
    args = parser.parse_args(argv)
    folder = reference_folder()
    if not folder.is_dir():
        print(f"no reference work at {folder}: set THESMOS_BENCH to its folder", file=sys.stderr)
        return 2
    for part in args.only:
        start = time.monotonic()
        print(f"measuring {part}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            found = _told(PARTS[part](Plan(folder, Path(scratch), args.sizes, args.rounds, args.seconds)), start)
        # After each part: what comes next may end the run.
        before = figures.read(args.out)[0] if args.out.exists() else []
        figures.write(args.out, figures.merged(before, found))
        print(figures.markdown(found, figures.machine()), flush=True)
        print(f"{part}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    if args.plots:
        from bench import plots

        plots.draw(args.out)
    return 0


def _told(measured: Iterator[Figure], start: float) -> list[Figure]:
    """The figures; each is told as it comes, so that one sees how far a long run is."""
    found = []
    for each in measured:
        found.append(each)
        said = f"{each.name}: {figures.number(each.median)} {each.unit}"
        print(f"  {time.monotonic() - start:5.0f} s  {said}", file=sys.stderr, flush=True)
    return found


def _parts(text: str) -> tuple[str, ...]:
    wanted = tuple(text.split(","))
    if unknown := [part for part in wanted if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"no part {', '.join(unknown)}, there are {', '.join(PARTS)}")
    return wanted


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(","))


if __name__ == "__main__":
    raise SystemExit(main())
