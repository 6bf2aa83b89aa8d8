"""Counts of a run, the list of known failures, and how both are shown."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

EXPECTED: Final = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True, slots=True)
class Result:
    """One judged result of a case. ``excluded`` marks a pass by silence, counted apart."""

    case: str
    detail: str
    ok: bool
    want: str = ""
    got: str = ""
    excluded: bool = False


@dataclass(slots=True)
class Tally:
    """What one set came to."""

    name: str
    results: list[Result] = field(default_factory=list)
    out_of_scope: int = 0
    seconds: float = 0.0

    def add(self, result: Result) -> None:
        self.results.append(result)

    @property
    def passed(self) -> int:
        return sum(r.ok for r in self.results)

    @property
    def excluded(self) -> int:
        return sum(r.excluded for r in self.results)

    def cases(self) -> dict[str, bool]:
        """Each case, and whether all its results are right."""
        found: dict[str, bool] = {}
        for result in self.results:
            found[result.case] = found.get(result.case, True) and result.ok
        return found

    def failures(self) -> Iterator[Result]:
        return (r for r in self.results if not r.ok)

    def to_json(self) -> dict[str, Any]:
        cases = self.cases()
        return {
            "cases": {"passed": sum(cases.values()), "total": len(cases)},
            "results": {"passed": self.passed, "total": len(self.results)},
            "excluded": self.excluded,
            "out_of_scope": self.out_of_scope,
            "failures": [{"case": r.case, "detail": r.detail, "want": r.want, "got": r.got} for r in self.failures()],
        }

    def summary(self) -> str:
        cases = self.cases()
        share = f" ({100 * self.passed / len(self.results):.1f} %)" if self.results else ""
        return (
            f"{self.name}: cases {sum(cases.values())}/{len(cases)}, results {self.passed}/{len(self.results)}{share},"
            f" excluded {self.excluded}, out of scope {self.out_of_scope}, {self.seconds:.1f} s"
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run against the list of known failures: both lists must be empty for the run to pass."""

    unexpected: tuple[tuple[str, str], ...]
    """(set, case) pairs that fail and are not listed."""
    recovered: tuple[tuple[str, str], ...]
    """(set, case) pairs that are listed and pass."""

    @property
    def ok(self) -> bool:
        return not self.unexpected and not self.recovered


def load_expected(path: Path = EXPECTED) -> dict[str, dict[str, str]]:
    """Known failures: set, then case, then reason. A case without a reason is an error of the file."""
    if not path.exists():
        return {}
    known: dict[str, dict[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))
    for name, cases in known.items():
        for case, reason in cases.items():
            if type(reason) is not str or not reason.strip():
                raise ValueError(f"{path.name}: {name} {case} has no reason")
    return known


def judge(tallies: Iterable[Tally], known: dict[str, dict[str, str]]) -> Verdict:
    """Compares a run with the known failures, by set and case."""
    unexpected: list[tuple[str, str]] = []
    recovered: list[tuple[str, str]] = []
    for tally in tallies:
        listed = known.get(tally.name, {})
        for case, ok in tally.cases().items():
            if ok and case in listed:
                recovered.append((tally.name, case))
            elif not ok and case not in listed:
                unexpected.append((tally.name, case))
    return Verdict(tuple(unexpected), tuple(recovered))


def write_expected(tallies: Iterable[Tally], path: Path = EXPECTED) -> None:
    """Rewrites the list from a run over everything, keeping the reasons that are there.

    A new entry takes the product's own answer as its reason, so it must be read before it is kept.
    """
    known = load_expected(path)
    lines = [
        "# Known failures by set and case, each with a reason. A case that is listed and passes fails the run.",
        "# Written by python -m tests.conformance --write-expected; reasons edited by hand are kept.",
    ]
    for tally in tallies:
        reasons: dict[str, str] = {}
        for result in tally.failures():
            old = known.get(tally.name, {}).get(result.case)
            reasons.setdefault(result.case, old or _reason(result))
        if reasons:
            lines += ["", f'["{tally.name}"]']
            lines += [f"{_toml(case)} = {_toml(reason)}" for case, reason in sorted(reasons.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _reason(result: Result) -> str:
    _, refused, part = result.got.partition("not built yet: ")
    if refused:
        return f"{part.replace(f'; {refused}', ', ')} is not built yet"
    return f"{result.detail}: want {result.want}, got {result.got}"


def _toml(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    printable = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped)
    return f'"{printable[:300]}"'


def reasons(tally: Tally, limit: int = 12) -> list[str]:
    """The commonest ways in which results of a set fail, most frequent first."""
    counts = Counter(f"want {r.want}, got {r.got}"[:160] for r in tally.failures())
    return [f"{n:5d} x {text}" for text, n in counts.most_common(limit)]
