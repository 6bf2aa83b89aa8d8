"""What ``thesmos apply`` prints and writes: failures in Kyverno's words, tables, reports, mutated resources."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runtime.bundles import reason
from runtime.cli.files import identity
from runtime.cli.generated_exceptions import generated, ttl_text
from runtime.cli.offline import Answer
from runtime.cli.output import (
    junit,
    markdown,
    policy_reports,
    resource_label,
    sarif,
    table,
    to_yaml,
    use_colour,
)
from runtime.cli.problem import Problem


@dataclass(slots=True)
class Counts:
    """Results by status, as the last line shows them."""

    passed: int = 0
    failed: int = 0
    warned: int = 0
    errors: int = 0
    skipped: int = 0

    def add(self, status: str) -> None:
        match status:
            case "pass":
                self.passed += 1
            case "fail":
                self.failed += 1
            case "warn":
                self.warned += 1
            case "error":
                self.errors += 1
            case _:
                self.skipped += 1

    def line(self) -> str:
        return (
            f"\npass: {self.passed}, fail: {self.failed}, warn: {self.warned}, error: {self.errors}, "
            f"skip: {self.skipped} "
        )

    def exit_code(self, warn_code: int, warn_no_pass: bool) -> int:
        if self.failed or self.errors:
            return 1
        if self.warned and warn_code:
            return warn_code
        return warn_code if warn_no_pass and not self.passed else 0


class Writer:
    """Where mutated resources go: stdout, one file, or a file for each resource in a folder."""

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        if self._path is not None and not self._folder:
            self._put(self._path, "", append=False)

    @property
    def _folder(self) -> bool:
        return self._path is not None and (self._path.is_dir() or not self._path.suffix)

    def mutation(self, answer: Answer, *, stdin: bool) -> None:
        """Prints or writes what a policy made of a resource."""
        text = to_yaml(answer.patched)
        _, kind, namespace, name = identity(answer.resource)
        if self._path is None:
            if not stdin:
                print(f"\npolicy {answer.policy.name} applied to {namespace}/{kind}/{name}:", end="")
            print(f"\n{text}\n---")
        elif self._folder:
            self._path.mkdir(parents=True, exist_ok=True)
            self._put(self._path / f"{name}-mutated.yaml", f"{text}\n---\n\n", append=True)
        else:
            self._put(self._path, f"{text}\n---\n\n", append=True)
        if not stdin:
            print("\nMutation:\nMutation has been applied successfully.")

    def generated(self, answer: Answer, *, stdin: bool) -> None:
        """Prints or writes the objects that a policy makes because of a resource."""
        _, kind, namespace, name = identity(answer.resource)
        texts = [(identity(o)[3], to_yaml(o)) for rule in answer.made.values() for o in rule]
        if self._path is None:
            if not stdin:
                print(f"\npolicy {answer.policy.name} applied to {namespace}/{kind}/{name}:", end="")
            for _, text in texts:
                print(f"\n{text}\n---")
        elif self._folder:
            self._path.mkdir(parents=True, exist_ok=True)
            for made, text in texts:
                self._put(self._path / f"{made}-generated.yaml", f"{text}\n---\n\n", append=True)
        else:
            for _, text in texts:
                self._put(self._path, f"{text}\n---\n\n", append=True)
        if not stdin:
            print("\nGenerate:\nResource generated successfully.")

    def _put(self, path: Path, text: str, *, append: bool) -> None:
        try:
            with path.open("a" if append else "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise Problem(f"{path}: {reason(error)}") from None


def show(args: argparse.Namespace, answers: list[Answer], counts: Counts) -> None:
    """Prints the results in the form that the flags ask for."""
    form = args.output_format
    if args.generate_exceptions:
        for made in generated(answers, ttl_text(args.generated_exception_ttl), audit_warn=args.audit_warn):
            print("---\n" + (json.dumps(made) + "\n" if form == "json" else to_yaml(made)), end="")
    elif form == "junit":
        print(junit(_junit_suites(answers, args.audit_warn)))
    elif form == "sarif":
        print(sarif(answers, audit_warn=args.audit_warn))
    elif args.policy_report or form in ("yaml", "json"):
        reports = policy_reports(answers, audit_warn=args.audit_warn)
        if form == "json":
            print(json.dumps(reports[0] if len(reports) == 1 else reports, indent=2, ensure_ascii=False))
        else:
            print("---\n".join(to_yaml(report) for report in reports), end="")
    elif args.table or form == "table":
        headings, rows = _rows(args, answers)
        print(table(headings, rows, status=4, colour=use_colour(args.remove_color)))
    elif form == "markdown":
        print(markdown(*_rows(args, answers)))
        print(counts.line().rstrip())
    elif not args.stdin:
        for line in [*_lines(answers, audit_warn=args.audit_warn), *_gone(answers)]:
            print(line)
        print(counts.line())


def _rows(args: argparse.Namespace, answers: list[Answer]) -> tuple[list[str], list[list[str]]]:
    """The headings of a table, and a row for each result."""
    headings = ["ID", "POLICY", "RULE", "RESOURCE", "RESULT", *(["MESSAGE"] if args.detailed_results else [])]
    rows: list[list[str]] = []
    for answer in answers:
        for result in answer.results:
            status = result.report_status(audit_warn=args.audit_warn).capitalize()
            row = [str(len(rows) + 1), answer.policy.key, result.rule, resource_label(answer.resource), status]
            rows.append([*row, result.message] if args.detailed_results else row)
    return headings, rows


def _lines(answers: Iterable[Answer], *, audit_warn: bool) -> Iterator[str]:
    """The failures, policy by policy and resource by resource, in Kyverno's words."""
    for answer in answers:
        _, kind, namespace, name = identity(answer.resource)
        where = f"{namespace}/{kind}/{name}"
        policy = answer.policy.name
        for result in answer.results:
            if result.kind == "mutate" and result.status == "skip":
                yield f"\nskipped mutate policy {policy} -> resource {where}"
            elif result.kind == "mutate" and result.status == "error":
                yield f"\nerror while applying mutate policy {policy} -> resource {where} \nerror:  {result.message}"
        broken = [r for r in answer.results if r.status == "fail" or (r.status == "error" and r.kind != "mutate")]
        if not broken:
            continue
        warning = audit_warn and all(r.action == "Audit" for r in broken)
        yield f"policy {policy} -> resource {where} failed{' as audit warning' if warning else ''}:"
        for number, result in enumerate(broken, 1):
            yield f"{number} - {result.rule} {result.message}"
        yield ""


def _gone(answers: Iterable[Answer]) -> Iterator[str]:
    """The objects that cleanup policies and rules remove, policy by policy."""
    policies: dict[str, dict[str, None]] = {}
    for answer in answers:
        if answer.removed:
            policies.setdefault(answer.policy.key, {})[resource_label(answer.resource)] = None
    for policy, objects in policies.items():
        yield f"\npolicy {policy}: these would go:"
        yield from (f"- {label}" for label in objects)


def _junit_suites(answers: Iterable[Answer], audit_warn: bool) -> Iterator[tuple[str, list[tuple[str, str, str, str]]]]:
    suites: dict[str, list[tuple[str, str, str, str]]] = {}
    for answer in answers:
        for result in answer.results:
            status = result.report_status(audit_warn=audit_warn)
            outcome = "pass" if status == "warn" else status
            case = (result.rule, resource_label(answer.resource), outcome, result.message)
            suites.setdefault(answer.policy.key, []).append(case)
    yield from suites.items()
