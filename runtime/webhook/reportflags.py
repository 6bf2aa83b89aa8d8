"""The flags of ``thesmos serve`` that say what is reported, with Kyverno's names beside our own.

``runtime.webhook.serve`` adds them to its own and turns them into a part of the settings.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from runtime.reporting import RULES, STATUSES, Reporting


def add_report_arguments(
    parser: argparse.ArgumentParser,
    boolean: Callable[[str], bool],
    seconds: Callable[[str], float],
    count: Callable[[str], int],
) -> None:
    """``boolean``, ``seconds`` and ``count`` read the values of flags."""
    reports = parser.add_argument_group("reports")

    def add(flag: str, kyverno: str, **how: Any) -> None:
        reports.add_argument(flag, kyverno, dest=_place(flag), **how)

    for flag, kyverno, default, what_for in (
        ("--admission-reports", "--admissionReports", True, "report what requests came to"),
        ("--policy-reports", "--policyReports", True, "write reports at all"),
        ("--aggregate-reports", "--aggregateReports", True, "the same: there are no reports but those that stay"),
        ("--openreports", "--openreportsEnabled", False, "write reports of openreports.io"),
        ("--background-scan", "--backgroundScan", True, "scan the objects of the cluster"),
        (
            "--validating-admission-policy-reports",
            "--validatingAdmissionPolicyReports",
            False,
            'scan with ValidatingAdmissionPolicies that have the label reports.kyverno.io/enabled: "true"',
        ),
        ("--skip-resource-filters", "--skipResourceFilters", True, "scan what resource filters leave out too"),
    ):
        what = f"{what_for} ({str(default).lower()})"
        add(flag, kyverno, nargs="?", const=True, default=default, type=boolean, metavar="BOOL", help=what)
    add(
        "--enable-reporting", "--enableReporting", type=_list(RULES), default=frozenset(RULES), metavar="LIST",
        help=f"kinds of rules that are reported: {', '.join(RULES)} (all)",
    )  # fmt: skip
    add(
        "--allowed-results", "--allowedResults", type=_list(sorted(STATUSES)), default=STATUSES, metavar="LIST",
        help="results that are reported: pass, fail, error, warn, skip (all)",
    )  # fmt: skip
    add(
        "--background-scan-interval", "--backgroundScanInterval", type=seconds, default=3600.0, metavar="DURATION",
        help="how often every object is looked at, changed or not (1h)",
    )  # fmt: skip
    add(
        "--background-scan-workers", "--backgroundScanWorkers", type=count, default=2, metavar="N",
        help="kinds that are listed at a time (2)",
    )  # fmt: skip
    add(
        "--max-admission-reports", "--maxAdmissionReports", type=count, default=1000, metavar="N",
        help="objects that may wait for the results of requests, what more say is not reported (1000)",
    )  # fmt: skip
    add(
        "--max-background-reports", "--maxBackgroundReports", type=count, default=10_000, metavar="N",
        help="taken; a scan waits for room instead",
    )  # fmt: skip


def reporting_of(args: argparse.Namespace) -> Reporting:
    """The flags as settings."""
    return Reporting(
        admission=args.admission_reports,
        write=args.policy_reports and args.aggregate_reports,
        openreports=args.openreports,
        rules=args.enable_reporting,
        statuses=args.allowed_results,
        most=args.max_admission_reports,
        scan=args.background_scan,
        seconds=args.background_scan_interval,
        workers=args.background_scan_workers,
        filtered=not args.skip_resource_filters,
        native=args.validating_admission_policy_reports,
    )


def _list(known: Iterable[str]) -> Callable[[str], frozenset[str]]:
    names = tuple(known)

    def read(text: str) -> frozenset[str]:
        named = frozenset(part.strip() for part in text.split(",") if part.strip())
        if named <= set(names):
            return named
        wrong = ", ".join(sorted(named - set(names)))
        raise argparse.ArgumentTypeError(f"{wrong} is none of {', '.join(names)}")

    return read


def _place(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
