"""How ``thesmos test`` prints checks: tables, JSON, YAML, JUnit and Markdown, and coverage below them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from typing import Any

from runtime.cli.coverage import RuleCoverage
from runtime.cli.coverage_report import document, lines, summary
from runtime.cli.output import junit, markdown, resource_label, table, to_yaml, use_colour
from runtime.cli.problem import counted
from runtime.cli.testfile import Check, TestRun


def holds(check: Check, strict: bool) -> bool:
    """Whether a check counts as passed.

    Right here: a policy that was refused was not evaluated, so only ``skip`` is met by it (the reference counts any
    expectation as met). What was merely excluded counts as in the reference, unless ``strict``.
    """
    if check.state == "refused" or (strict and check.state == "excluded"):
        return check.entry.result == "skip"
    return check.passed


def show(args: argparse.Namespace, runs: list[TestRun], rules: list[RuleCoverage] | None) -> None:
    """Prints the checks in the form that the flags ask for, and what they exercise with ``--coverage``."""
    shown = [(ran, [c for c in ran.checks if not (args.fail_only and holds(c, args.strict))]) for ran in runs]
    passed = sum(holds(c, args.strict) for ran in runs for c in ran.checks)
    failed = sum(len(ran.checks) for ran in runs) - passed
    match args.output_format:
        case "json" | "yaml":
            rows: Any = [_row_json(ran, c, args.strict) for ran, cs in shown for c in cs]
            if rules is not None and args.coverage:
                rows = {"checks": rows, "coverage": document(rules)}
            print(to_yaml(rows) if args.output_format == "yaml" else json.dumps(rows, indent=2) + "\n", end="")
        case "junit":
            _print_junit(shown, args.strict)
            if rules is not None and args.coverage:
                print(*lines(rules), sep="\n", file=sys.stderr)
        case "markdown":
            headings = _headings(args.detailed_results)
            for ran, checks in shown:
                print(f"### {ran.document.name}\n")
                print(markdown(headings, _rows(checks, args)), end="\n\n")
            print(f"{passed} tests passed and {failed} tests failed")
            if rules is not None and args.coverage:
                print(f"\n{summary(rules)}")
        case _:
            _print_tables(args, shown, passed, failed)
            if rules is not None and args.coverage:
                print()
                print(*lines(rules), sep="\n")


def _print_tables(
    args: argparse.Namespace, shown: Iterable[tuple[TestRun, list[Check]]], passed: int, failed: int
) -> None:
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
