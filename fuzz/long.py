"""The long run: ``python -m fuzz.long --pairs N [--seed S] [--per-policy M] [--jobs J] [--kinds a,b]``.

Policies of every kind of rule are made from seeds S, S+1, …, each run on M objects by the VM (O0, O1, O2), by tier 2,
and by the reference evaluator; every answer must be the same. Prints progress, each difference reduced to what it
needs, and the figures at the end. Exit code 1 when some pair differs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from fuzz.gen.rules import KINDS, case
from fuzz.pairs import ENGINES, differences, ready, reduced, told


@dataclass
class Tally:
    """What was run so far. ``refused``: policies that the compiler does not accept."""

    pairs: int = 0
    policies: int = 0
    refused: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)

    def add(self, other: Self) -> None:
        self.pairs += other.pairs
        self.policies += other.policies
        self.refused += other.refused
        self.found += other.found
        for status, count in other.statuses.items():
            self.statuses[status] = self.statuses.get(status, 0) + count


J = TypeVar("J")
T = TypeVar("T", bound=Tally)


def run_seed(seed: int, kinds: frozenset[str], per_policy: int, engines: tuple[str, ...]) -> Tally:
    """One policy on its objects; at most one difference is told."""
    tally = Tally()
    made = case(seed, kinds=kinds, resources=per_policy)
    try:
        compiled = ready(made, engines)
        if compiled is None:
            tally.refused = 1
            return tally
        tally.policies = 1
        tally.pairs = len(made.resources)
        first = next(differences(made, compiled, tally.statuses), None)
    except Exception as error:
        tally.found.append(f"seed {seed}: {type(error).__name__}: {error}")
        return tally
    if first is not None:
        tally.found.append(f"seed {seed}\n{told(reduced(first))}")
    return tally


def _work(job: tuple[int, int, frozenset[str], int, tuple[str, ...]]) -> Tally:
    start, count, kinds, per_policy, engines = job
    tally = Tally()
    for seed in range(start, start + count):
        tally.add(run_seed(seed, kinds, per_policy, engines))
    return tally


def _jobs(
    seed: int, pairs: int, kinds: frozenset[str], per_policy: int, engines: tuple[str, ...]
) -> Iterator[tuple[int, int, frozenset[str], int, tuple[str, ...]]]:
    """Seeds in small lots, more than enough of them: some policies are refused."""
    lot = 10
    for start in range(seed, seed + 20 * (pairs // per_policy + 1), lot):
        yield start, lot, kinds, per_policy, engines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuzz.long", description="compares product and reference on many pairs")
    parser.add_argument("--pairs", type=int, default=10_000, help="pairs of policy and object to run (default 10000)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--per-policy", type=int, default=50, help="objects for each policy (default 50)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--kinds", default=",".join(sorted(KINDS)), help="kinds of rules, separated by commas")
    parser.add_argument("--engines", default=",".join(ENGINES), help="engines, separated by commas")
    parser.add_argument("--stop-after", type=int, default=20, help="differences to tell before giving up (default 20)")
    options = parser.parse_args(arguments)
    kinds = frozenset(options.kinds.split(","))
    if not kinds <= KINDS or options.pairs < 1 or options.per_policy < 1:
        print(f"kinds are {', '.join(sorted(KINDS))}; numbers must be above 0", file=sys.stderr)
        return 2
    jobs = _jobs(options.seed, options.pairs, kinds, options.per_policy, tuple(options.engines.split(",")))
    return 1 if driven(_work, jobs, Tally(), options, _line).found else 0


def driven(
    work: Callable[[J], T], jobs: Iterable[J], total: T, options: argparse.Namespace, line: Callable[[T, float], str]
) -> T:
    """Adds up what comes of jobs in ``options.jobs`` processes, until there are ``options.pairs`` pairs or
    ``options.stop_after`` differences. Tells of each difference, of progress by a ``line``, and of the figures."""
    began = last = time.monotonic()
    with multiprocessing.Pool(options.jobs) as pool:
        for tally in pool.imap_unordered(work, jobs):
            total.add(tally)
            for text in tally.found:
                print(text, end="\n\n", flush=True)
            if time.monotonic() - last > 10:
                last = time.monotonic()
                print(line(total, last - began), file=sys.stderr, flush=True)
            if total.pairs >= options.pairs or len(total.found) >= options.stop_after:
                pool.terminate()
                break
    print(line(total, time.monotonic() - began), flush=True)
    return total


def _line(total: Tally, seconds: float) -> str:
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(total.statuses.items()))
    return (
        f"{total.pairs:,} pairs over {total.policies:,} policies ({total.refused:,} refused) in {seconds:.0f} s: "
        f"{len(total.found)} differences; results: {statuses}"
    )


if __name__ == "__main__":
    sys.exit(main())
