"""Where the conformance data lies and which cases it holds: ``INDEX.tsv``, slices, reference answers."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
OUT_OF_SCOPE: Final = frozenset({"oci-registry", "sigstore", "network-http"})
NEVER_IN_SLICE: Final = frozenset({"oci-registry", "sigstore"})


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the index. ``expected`` is the number of its results, ``reference_cli`` what the reference counted."""

    path: str
    features: tuple[str, ...]
    needs: frozenset[str]
    expected: int
    reference_cli: str

    @property
    def out_of_scope(self) -> bool:
        return bool(self.needs & OUT_OF_SCOPE)

    @property
    def expected_to_fail(self) -> bool:
        return "expected-to-fail" in self.needs


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one run. ``slice_patterns`` is None when no slice was asked for."""

    root: Path
    seed: Path
    bugs: Path
    slice_patterns: tuple[str, ...] | None = None
    reference: str = field(default="reference")

    def cases(self, folder: str) -> list[Case]:
        """Cases with a test file below a folder of the root, in the slice when there is one."""
        return [
            case
            for case in index(self.root)
            if case.path.startswith(f"{folder}/") and case.path.endswith(".yaml") and self.in_slice(case)
        ]

    def in_slice(self, case: Case) -> bool:
        if self.slice_patterns is None:
            return True
        if case.needs & NEVER_IN_SLICE:
            return False
        return all(any(fnmatchcase(f, p) for p in self.slice_patterns) for f in case.features)

    def reference_answers(self, case: Case) -> list[dict[str, Any]] | None:
        """What the reference product answered for the case: policy, rule, resource, result, message. None: no file."""
        path = self.root / self.reference / f"{Path(case.path).parent}.json"
        try:
            answers: list[dict[str, Any]] = json.loads(path.read_text())["results"]
        except OSError:
            return None
        return answers


def default_root() -> Path:
    """``THESMOS_CONFORMANCE``, else the folder beside the repository's."""
    return Path(os.environ.get("THESMOS_CONFORMANCE") or REPOSITORY.parent / "shared" / "conformance")


@cache
def index(root: Path) -> tuple[Case, ...]:
    """Every command line and library case of ``INDEX.tsv``."""
    with (root / "INDEX.tsv").open(newline="", encoding="utf-8") as file:
        rows = [
            r for r in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if r["kind"] in ("cli", "library")
        ]
    return tuple(
        Case(r["path"], _split(r["features"]), frozenset(_split(r["needs"])), int(r["expected"]), r["reference_cli"])
        for r in rows
    )


def slice_patterns(root: Path, name: str) -> tuple[str, ...]:
    """The features of a slice of ``slices.tsv``, those of included slices among them. Raises ``KeyError``."""
    with (root / "slices.tsv").open(newline="", encoding="utf-8") as file:
        rows = {r["slice"]: r for r in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}
    found: list[str] = []
    todo = [name]
    while todo:
        row = rows[todo.pop()]
        found += _split(row["features"])
        todo += _split(row["includes"])
    return tuple(found)


def _split(text: str) -> tuple[str, ...]:
    return () if text in ("", "-") else tuple(text.split(","))
