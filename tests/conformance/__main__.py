"""``python -m tests.conformance``: runs sets of the conformance data and compares with the known failures."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from runtime.cli.offline import Machine
from tests.conformance.bugcases import run_bugs
from tests.conformance.by_reference import ByReference
from tests.conformance.cel_spec import run_cel_spec
from tests.conformance.layout import Layout, default_root, slice_patterns
from tests.conformance.suites import Runner, run_messages, run_seed, run_suite
from tests.conformance.tables import run_jmespath, run_quantity
from tests.conformance.tally import Tally, judge, load_expected, reasons, write_expected

SETS: Final = ("seed", "bugs", "kyverno-cli", "policies", "jmespath", "quantity", "messages", "cel-spec")


def run_sets(layout: Layout, sets: Sequence[str], runner: Runner) -> list[Tally]:
    """Runs the sets in order and times each."""
    tallies: list[Tally] = []
    for name in sets:
        start = time.perf_counter()
        found = _runs(layout, runner)[name]()
        for tally in found:
            tally.seconds = time.perf_counter() - start
        tallies += found
    return tallies


def _runs(layout: Layout, runner: Runner) -> dict[str, Callable[[], list[Tally]]]:
    return {
        "seed": lambda: [run_seed(layout, runner)],
        "bugs": lambda: [run_bugs(layout, runner.backend)],
        "kyverno-cli": lambda: [run_suite(layout, runner, "kyverno-cli")],
        "policies": lambda: [run_suite(layout, runner, "policies")],
        "jmespath": lambda: [run_jmespath(layout)],
        "quantity": lambda: [run_quantity(layout)],
        "messages": lambda: list(run_messages(layout, runner)),
        "cel-spec": lambda: [run_cel_spec(layout, *_machine(runner))],
    }


def _machine(runner: Runner) -> tuple[int, str]:
    """The level and the tier of the expressions; the other engine has no say in them."""
    backend = runner.backend
    return (backend.level, backend.tier) if isinstance(backend, Machine) else (2, "2")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description="Run the conformance data. Exit code 0: no failure beyond expected.toml, 1: there is, 2: usage.",
    )
    parser.add_argument("--root", type=Path, help="the conformance folder (default: THESMOS_CONFORMANCE)")
    parser.add_argument("--seed", type=Path, help="the folder of the user's guide (default: seed beside the root)")
    parser.add_argument("--bugs", type=Path, help="the folder of bug cases (default: bugs beside the root)")
    parser.add_argument("--set", dest="sets", action="append", choices=SETS, help="a set to run (default: all)")
    parser.add_argument("--slice", dest="slice_name", help="keep the cases of a slice of slices.tsv")
    parser.add_argument("--json", type=Path, help="write the outcome to this file")
    parser.add_argument("--tier", choices=("1", "2", "check"), default="2", help="which tier of the VM runs")
    parser.add_argument("-O", dest="level", type=int, choices=(0, 1, 2), default=2, help="optimisation level")
    parser.add_argument("--engine", choices=("vm", "reference"), default="vm", help="reference: the slow evaluator")
    parser.add_argument("--verbose", action="store_true", help="print every failure")
    parser.add_argument("--write-expected", action="store_true", help="rewrite expected.toml from this run")
    args = parser.parse_args(argv)
    root = (args.root or default_root()).resolve()
    if not (root / "INDEX.tsv").is_file():
        print(f"{root}: no conformance data there (INDEX.tsv is missing)", file=sys.stderr)
        return 2
    patterns = None
    if args.slice_name:
        try:
            patterns = slice_patterns(root, args.slice_name)
        except (KeyError, OSError):
            print(f"{root}: slices.tsv has no slice {args.slice_name}", file=sys.stderr)
            return 2
    layout = Layout(root, args.seed or root.parent / "seed", args.bugs or root.parent / "bugs", patterns)
    backend = ByReference() if args.engine == "reference" else Machine(args.tier, args.level)
    runner = Runner(backend)
    tallies = run_sets(layout, args.sets or SETS, runner)
    if args.write_expected:
        write_expected(tallies)
    if args.json:
        args.json.write_text(json.dumps({"sets": {t.name: t.to_json() for t in tallies}}, indent=1) + "\n")
    verdict = judge(tallies, load_expected())
    for tally in tallies:
        print(tally.summary())
        if args.verbose:
            for failure in tally.failures():
                print(f"  {failure.case} [{failure.detail}] want {failure.want}, got {failure.got}")
        else:
            for line in reasons(tally):
                print(f"  {line}")
    mismatches = runner.mismatches()
    for text in mismatches:
        print(f"the tiers differ: {text}")
    for name, case in verdict.unexpected[:40]:
        print(f"unexpected failure: {name} {case}")
    if len(verdict.unexpected) > 40:
        print(f"… and {len(verdict.unexpected) - 40} more")
    for name, case in verdict.recovered:
        print(f"listed as a known failure, but passes: {name} {case}")
    return 0 if verdict.ok and not mismatches else 1


if __name__ == "__main__":
    sys.exit(main())
