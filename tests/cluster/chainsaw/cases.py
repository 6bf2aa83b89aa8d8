"""The cases of the public cluster suites, what the reference made of each, and which of them cannot run here."""

from __future__ import annotations

import csv
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LISTED: Final = Path(__file__).resolve().parent / "chainsaw.toml"

SUITES: Final = (
    *("validate", "mutate", "generate", "exceptions", "autogen", "filter", "policy-validation", "webhooks"),
    *("background-only", "reports", "events", "cleanup", "ttl", "rbac", "globalcontext", "deferred"),
    *("rangeoperators", "webhook-configurations"),
)
"""The suites without the CEL policy kinds and without image signatures."""

CEL_KINDS: Final = ("ValidatingPolicy", "MutatingPolicy", "GeneratingPolicy", "DeletingPolicy", "ImageValidatingPolicy")


@dataclass(frozen=True, slots=True)
class ClusterCase:
    """``path`` is the folder below the suites' root; ``reference`` is ``pass`` or ``fail``, what the reference product
    itself came to in such an environment; ``reason`` is why it cannot run here, empty where it can."""

    path: str
    reference: str
    reason: str

    @property
    def suite(self) -> str:
        return self.path.split("/", 1)[0]


def root() -> Path:
    """The folder of the conformance data."""
    default = Path(__file__).resolve().parents[4] / "shared" / "conformance"
    return Path(os.environ.get("THESMOS_CONFORMANCE") or default).resolve()


def cases(suites: tuple[str, ...] = SUITES, names: tuple[str, ...] = ()) -> list[ClusterCase]:
    """The cases of suites; with ``names`` those whose path holds one of them. Empty where the data is absent."""
    results = root() / "reference_cluster.tsv"
    if not results.is_file():
        return []
    listed = tomllib.loads(LISTED.read_text(encoding="utf-8"))
    reasons = {path: entry["reason"] for entry in listed.get("cannot-run", ()) for path in entry["cases"]}
    cel = _cel_cases()
    found = []
    with results.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            path = row["path"].removeprefix("chainsaw/").removesuffix("/chainsaw-test.yaml")
            case = ClusterCase(path, row["result"], reasons.get(path, ""))
            if case.suite in suites and row["path"] not in cel and (not names or any(n in path for n in names)):
                found.append(case)
    return found


def representative() -> list[ClusterCase]:
    """The cases that every run of the cluster tests makes."""
    listed = tomllib.loads(LISTED.read_text(encoding="utf-8"))
    wanted = set(listed.get("representative", {}).get("cases", ()))
    return [case for case in cases() if case.path in wanted]


def _cel_cases() -> set[str]:
    with (root() / "INDEX.tsv").open(encoding="utf-8", newline="") as file:
        return {
            row["path"]
            for row in csv.DictReader(file, delimiter="\t")
            if any(kind.endswith(CEL_KINDS) for kind in row["policy_kinds"].split(","))
        }
