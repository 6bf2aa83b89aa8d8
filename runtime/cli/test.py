"""``thesmos test``: runs ``kyverno-test.yaml`` files and prints what passed, by the reference's rules."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runtime.cli.crdfiles import add_crd_flag, read_crds
from runtime.cli.problem import Problem, counted
from runtime.cli.unbuilt import accept_registry, refuse

if TYPE_CHECKING:
    from runtime.cli.testfile import Check, Selector, TestDocument, TestRun


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
        choices=("table", "json", "junit", "markdown"),
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
    accept_registry(parser)
    refuse(parser, [("-b", "--git-branch")], [])


def run(args: argparse.Namespace) -> int:
    from runtime.cli.offline import Machine
    from runtime.cli.testfile import Selector, find_test_files, load_tests, run_test

    selector = Selector.parse(args.test_case_selector)
    documents = [d for path in find_test_files(args.paths, args.file_name) for d in load_tests(path)]
    documents = [d for d in (_selected(d, selector) for d in documents) if d is not None]
    if not documents:
        if args.require_tests:
            raise Problem(f"no {args.file_name} found, and --require-tests asks for one")
        print("No test yamls available")
        return 0
    machine = Machine(args.tier, cel_strict=args.cel_strict, quirks=args.quirks, crds=read_crds(args.crds))
    runs = []
    problems: list[Problem] = []
    for document in documents:
        try:
            runs.append(run_test(document, machine))
        except Problem as problem:
            problems.append(problem)
    _print(args, runs)
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
    return 1 if any(not holds(c, args.strict) for ran in runs for c in ran.checks) else 0


def holds(check: Check, strict: bool) -> bool:
    """Whether a check counts as passed.

    Right here: a policy that was refused was not evaluated, so only ``skip`` is met by it (the reference counts any
    expectation as met). What was merely excluded counts as in the reference, unless ``strict``.
    """
    if check.state == "refused" or (strict and check.state == "excluded"):
        return check.entry.result == "skip"
    return check.passed


def _selected(document: TestDocument, selector: Selector) -> TestDocument | None:
    entries = tuple(e for e in map(selector.admits, document.entries) if e is not None)
    return replace(document, entries=entries) if entries or not document.entries else None


def _print(args: argparse.Namespace, runs: list[TestRun]) -> None:
    shown = [(ran, [c for c in ran.checks if not (args.fail_only and holds(c, args.strict))]) for ran in runs]
    passed = sum(holds(c, args.strict) for ran in runs for c in ran.checks)
    failed = sum(len(ran.checks) for ran in runs) - passed
    match args.output_format:
        case "json":
            print(json.dumps([_row_json(ran, c, args.strict) for ran, cs in shown for c in cs], indent=2))
        case "junit":
            _print_junit(shown, args.strict)
        case "markdown":
            from runtime.cli.output import markdown

            headings = _headings(args.detailed_results)
            for ran, checks in shown:
                print(f"### {ran.document.name}\n")
                print(markdown(headings, _rows(checks, args)), end="\n\n")
            print(f"{passed} tests passed and {failed} tests failed")
        case _:
            _print_tables(args, shown, passed, failed)


def _print_tables(
    args: argparse.Namespace, shown: Iterable[tuple[TestRun, list[Check]]], passed: int, failed: int
) -> None:
    from runtime.cli.output import table, use_colour

    colour = use_colour(args.remove_color)
    for ran, checks in shown:
        if args.fail_only and not checks:
            continue
        print(f"Loading test  ( {ran.document.path} ) ...")
        applied = counted(len(ran.policies.loaded.policies), "policy", "policies")
        print(f"  Applying {applied} to {counted(_resources(ran), 'resource')} ...")
        for refused in ran.policies.refused:
            print(f"  {refused.kind} {refused.name} is left out: {refused.reason}")
        print(table(_headings(args.detailed_results), _rows(checks, args), status=4, colour=colour))
        print()
    if args.fail_only:
        print(f"Test Summary: {failed} out of {passed + failed} tests failed")
    else:
        print(f"Test Summary: {passed} tests passed and {failed} tests failed")


def _resources(ran: TestRun) -> int:
    return len({id(answer.resource) for answer in ran.answers})


def _headings(detailed: bool) -> list[str]:
    return ["ID", "POLICY", "RULE", "RESOURCE", "RESULT", "REASON", *(["MESSAGE"] if detailed else [])]


def _rows(checks: list[Check], args: argparse.Namespace) -> list[list[str]]:
    rows = []
    for number, check in enumerate(checks, 1):
        result = "Pass" if holds(check, args.strict) else "Fail"
        row = [str(number), check.entry.policy, check.entry.rule, _resource(check), result, check.reason]
        rows.append([*row, check.message] if args.detailed_results else row)
    return rows


def _resource(check: Check) -> str:
    if check.responses:
        from runtime.cli.output import resource_label

        return resource_label(check.responses[0][0].resource)
    return "/".join(part for part in (check.entry.kind, check.resource) if part)


def _row_json(ran: TestRun, check: Check, strict: bool) -> dict[str, Any]:
    return {
        "test": ran.document.name,
        "file": str(ran.document.path),
        "policy": check.entry.policy,
        "rule": check.entry.rule,
        "resource": _resource(check),
        "expected": check.entry.result,
        "got": [result.report_status() for _, result in check.responses],
        "result": "pass" if holds(check, strict) else "fail",
        "reason": check.reason,
        "message": check.message,
    }


def _print_junit(shown: Iterable[tuple[TestRun, list[Check]]], strict: bool) -> None:
    from runtime.cli.output import junit

    print(
        junit(
            (
                ran.document.name,
                [
                    (
                        f"{c.entry.policy}/{c.entry.rule}",
                        _resource(c),
                        "pass" if holds(c, strict) else "fail",
                        c.message or c.reason,
                    )
                    for c in checks
                ],
            )
            for ran, checks in shown
        )
    )
