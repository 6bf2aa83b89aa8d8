"""``thesmos test``: runs ``kyverno-test.yaml`` files and prints what passed, by the reference's rules."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.cli.crdfiles import add_crd_flag, read_crds
from runtime.cli.problem import Problem
from runtime.cli.unbuilt import accept_registry, refuse

if TYPE_CHECKING:
    from runtime.cli.coverage import RuleCoverage, Watching
    from runtime.cli.testfile import Selector, TestDocument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``test``, by Kyverno's names."""
    parser.epilog = (
        "Exit code 0 when every check holds, 1 when one fails, 2 when a test cannot be loaded. A rule that gives no "
        "response for a resource counts as excluded, which passes whatever was expected, as in Kyverno; --strict "
        "passes it only where a skip was expected. A policy that does not compile meets an expected skip only."
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="test files, or folders to search")
    parser.add_argument("-f", "--file-name", default="kyverno-test.yaml", help="name of test files in folders")
    parser.add_argument(
        "-t",
        "--test-case-selector",
        default="",
        metavar="TEXT",
        help='run some results only: "policy=NAME, rule=NAME, resource=NAME", with wildcards',
    )
    parser.add_argument("--fail-only", action="store_true", help="print failing checks only")
    parser.add_argument("--detailed-results", action="store_true", help="show the message of each result")
    parser.add_argument(
        "-o",
        "--output-format",
        choices=("table", "json", "yaml", "junit", "markdown"),
        default="table",
        help="form of the output",
    )
    parser.add_argument("--require-tests", action="store_true", help="fail when no test is found")
    parser.add_argument("--strict", action="store_true", help="a rule without a response passes only an expected skip")
    parser.add_argument("--cel-strict", action="store_true", help="plain CEL: quantities are texts")
    parser.add_argument(
        "--quirks", choices=("kyverno",), default="", help="give Kyverno's answers where they are known to be wrong"
    )
    add_crd_flag(parser)
    parser.add_argument("--remove-color", action="store_true", help="print no colours")
    parser.add_argument(
        "--tier", choices=("1", "2", "check"), default="2", help="1: exact VM, 2: generated code, check"
    )
    parser.add_argument(
        "--coverage", action="store_true", help="show which rules, clauses and outcomes the tests exercise"
    )
    parser.add_argument("--coverage-file", metavar="FILE", help="write that in the form of lcov")
    parser.add_argument(
        "--coverage-threshold", type=_percent, metavar="N", help="exit with 1 when less than N per cent is exercised"
    )
    accept_registry(parser)
    refuse(parser, [("-b", "--git-branch")], [])


def run(args: argparse.Namespace) -> int:
    from runtime.cli.offline import Machine
    from runtime.cli.progress import progress
    from runtime.cli.test_output import holds, show
    from runtime.cli.testfile import Selector, find_test_files, load_tests, run_test

    selector = Selector.parse(args.test_case_selector)
    documents = [d for path in find_test_files(args.paths, args.file_name) for d in load_tests(path)]
    documents = [d for d in (_selected(d, selector) for d in documents) if d is not None]
    if not documents:
        if args.require_tests:
            raise Problem(f"no {args.file_name} found, and --require-tests asks for one")
        print("No test yamls available")
        return 0
    watching = _watching(args)
    machine = Machine(args.tier, cel_strict=args.cel_strict, quirks=args.quirks, crds=read_crds(args.crds))
    runs = []
    problems: list[Problem] = []
    for document in progress(documents, "tests"):
        try:
            runs.append(run_test(document, machine if watching is None else watching))
        except Problem as problem:
            problems.append(problem)
            continue
        if watching is not None:
            watching.note(runs[-1])
    rules = watching.rules() if watching is not None else None
    show(args, runs, rules)
    for ran in runs:
        for warning in ran.warnings:
            print(f"warning: {warning}", file=sys.stderr)
    if problems:
        for other in problems[:-1]:
            print(*filter(None, (other.details, f"error: {other}")), sep="\n", file=sys.stderr)
        raise problems[-1]
    mismatched = sum(ran.policies.loaded.mismatches.count for ran in runs)
    if mismatched:
        raise Problem(f"the tiers differ in {mismatched} answers")
    covered = _covered(args, rules)
    return 1 if not covered or any(not holds(c, args.strict) for ran in runs for c in ran.checks) else 0


def _selected(document: TestDocument, selector: Selector) -> TestDocument | None:
    entries = tuple(e for e in map(selector.admits, document.entries) if e is not None)
    return replace(document, entries=entries) if entries or not document.entries else None


def _percent(text: str) -> float:
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{text}: expected a number from 0 to 100")
    return number


def _watching(args: argparse.Namespace) -> Watching | None:
    """What notes coverage, when any of its flags asks for it."""
    if not (args.coverage or args.coverage_file or args.coverage_threshold is not None):
        return None
    from runtime.cli.coverage import Watching

    return Watching(cel_strict=args.cel_strict, quirks=args.quirks, crds=read_crds(args.crds))


def _covered(args: argparse.Namespace, rules: list[RuleCoverage] | None) -> bool:
    """Writes the file of coverage, and says whether the threshold is met."""
    if rules is None:
        return True
    from runtime.cli.coverage_report import percent, write_lcov

    if args.coverage_file:
        write_lcov(args.coverage_file, rules)
    if args.coverage_threshold is None or percent(rules) >= args.coverage_threshold:
        return True
    print(f"error: coverage is {percent(rules):.1f} %, less than {args.coverage_threshold:g} %", file=sys.stderr)
    return False
