"""Shows what tests exercised: a table that fits the terminal, JSON, and a file in the form of lcov."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from runtime.bundles import reason
from runtime.cli.coverage import OUTCOMES, RuleCoverage
from runtime.cli.problem import Problem

LEAST_WIDTH: Final = 60


def percent(rules: Iterable[RuleCoverage]) -> float:
    """Points exercised of all (rules, outcomes that they should be seen with, clauses) in per cent; 100 of none."""
    points = [rule.points for rule in rules]
    total = sum(of for _, of in points)
    return 100 * sum(hit for hit, _ in points) / total if total else 100.0


def lines(rules: Sequence[RuleCoverage]) -> list[str]:
    """The table, under each rule what no test exercises, and a line of totals."""
    width = max(LEAST_WIDTH, shutil.get_terminal_size((100, 24)).columns)
    fixed = [7, *(5 for _ in OUTCOMES)]
    longest = max((len(_name(r)) for r in rules), default=0)
    widths = [min(max(longest, len("RULE")), width - sum(fixed) - 2 * len(fixed)), *fixed]
    rule_off = "─" * (sum(widths) + 2 * len(fixed))
    out = [_line(["RULE", "CLAUSES", *(o.upper() for o in OUTCOMES)], widths), rule_off]
    for rule in rules:
        clauses = rule.clauses()
        ratio = f"{sum(hit for _, hit in clauses)}/{len(clauses)}"
        out.append(_line([_name(rule), ratio, *(str(rule.outcomes[o]) for o in OUTCOMES)], widths))
        missing = f"not exercised: {', '.join(rule.missing)}" if rule.missing else ""
        out += textwrap.wrap(missing, width, initial_indent="    ", subsequent_indent="      ")
    return [*out, rule_off, summary(rules)]


def summary(rules: Sequence[RuleCoverage]) -> str:
    """The totals in one line."""
    clauses = [hit for rule in rules for _, hit in rule.clauses()]
    outcomes = [bool(rule.outcomes[o]) for rule in rules for o in rule.wanted]
    return (
        f"Coverage: {percent(rules):.1f} % (rules {sum(r.exercised for r in rules)}/{len(rules)}, "
        f"clauses {sum(clauses)}/{len(clauses)}, outcomes {sum(outcomes)}/{len(outcomes)})"
    )


def document(rules: Sequence[RuleCoverage]) -> dict[str, Any]:
    """The same for programs; the form is told in the guide of the command line."""
    return {
        "percent": round(percent(rules), 1),
        "rules": [
            {
                "file": rule.file,
                "line": rule.rule.line,
                "policy": rule.policy,
                "rule": rule.rule.name,
                "outcomes": {o: rule.outcomes[o] for o in OUTCOMES},
                "wanted": list(rule.wanted),
                "clauses": [{"clause": c.label, "line": c.line, "exercised": hit} for c, hit in rule.clauses()],
            }
            for rule in rules
        ],
    }


def write_lcov(path: str, rules: Sequence[RuleCoverage]) -> None:
    """Writes lcov's tracefile: a rule is a function, a clause a line, an outcome that a rule should have a branch."""
    files: dict[str, list[RuleCoverage]] = {}
    for rule in rules:
        files.setdefault(rule.file, []).append(rule)
    text = "".join(f"{line}\n" for file, own in files.items() for line in _record(file, own))
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Problem(f"{path}: {reason(error)}") from None


def _record(file: str, rules: Sequence[RuleCoverage]) -> list[str]:
    out = ["TN:", f"SF:{file}"]
    named = [(rule, f"{rule.policy}/{rule.rule.name}".rstrip("/")) for rule in rules]
    out += [f"FN:{rule.rule.line},{name}" for rule, name in named]
    out += [f"FNDA:{rule.outcomes.total()},{name}" for rule, name in named]
    out += [f"FNF:{len(rules)}", f"FNH:{sum(rule.exercised for rule in rules)}"]
    branches = [(rule, n, o) for rule in rules for n, o in enumerate(rule.wanted)]
    for rule, n, outcome in branches:
        # lcov's "-" says that the rule itself was never run.
        out.append(f"BRDA:{rule.rule.line},0,{n},{rule.outcomes[outcome] if rule.exercised else '-'}")
    out += [f"BRF:{len(branches)}", f"BRH:{sum(bool(rule.outcomes[o]) for rule, _, o in branches)}"]
    found: dict[int, int] = {}
    for rule in rules:
        found[rule.rule.line] = rule.outcomes.total()
        for clause, hit in rule.clauses():
            # Several clauses may begin on one line: it counts as run when all of them were.
            found[clause.line] = min(found.get(clause.line, 1 << 30), int(hit))
    out += [f"DA:{line},{count}" for line, count in sorted(found.items())]
    return [*out, f"LF:{len(found)}", f"LH:{sum(map(bool, found.values()))}", "end_of_record"]


def _name(rule: RuleCoverage) -> str:
    return f"{rule.policy}/{rule.rule.name}".rstrip("/")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers = zip(cells, widths, strict=True)
    return "  ".join([_cut(*name).ljust(name[1]), *(cell.rjust(width) for cell, width in numbers)])


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
