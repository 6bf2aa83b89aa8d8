"""Every policy of the public suites: read without a crash, refused only where the suites say so."""

from __future__ import annotations

import csv
import fnmatch
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_policies
from compiler.autogen import expand
from compiler.diagnostics import Reporter
from compiler.schema import read_policies
from compiler.schema.kinds import provider
from compiler.source import load_documents, load_values
from runtime.request import split_api_version

ROOT = Path(os.environ.get("THESMOS_CONFORMANCE") or Path(__file__).parents[4] / "shared" / "conformance")
SEED = ROOT.parent / "seed"

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason="no conformance data (set THESMOS_CONFORMANCE)")

NOT_BUILT = "T0901"


def _read(path: Path) -> tuple[list[Any], Reporter]:
    reporter = Reporter()
    policies, exceptions = read_policies(load_documents(path.read_text("utf-8"), path.name, reporter), reporter)
    return [*policies, *exceptions], reporter


def _compiles(path: Path) -> bool:
    documents = load_documents(path.read_text("utf-8"), path.name, Reporter())
    return compile_policies(documents).bundle is not None


def _slice_cases(name: str) -> Iterator[Path]:
    with (ROOT / "slices.tsv").open(encoding="utf-8") as f:
        wanted = next(r for r in csv.DictReader(f, delimiter="\t") if r["slice"] == name)["features"].split(",")
    with (ROOT / "INDEX.tsv").open(encoding="utf-8") as f:
        for row in csv.DictReader(f, delimiter="\t"):
            features = [x for x in row["features"].split(",") if x != "-"]
            if row["kind"] not in ("cli", "library") or {"oci-registry", "sigstore"} & set(row["needs"].split(",")):
                continue
            if all(any(fnmatch.fnmatchcase(x, w) for w in wanted) for x in features):
                yield ROOT / row["path"]


def test_every_policy_of_the_spine_is_accepted() -> None:
    count = 0
    for case in _slice_cases("spine"):
        for test in load_values(case.read_text("utf-8")):
            for name in test.get("policies") or ():
                path = case.parent / name
                for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
                    policies, reporter = _read(file)
                    assert not reporter.failed, (file, reporter.diagnostics)
                    assert policies
                    count += 1
    assert count > 150


def test_no_file_makes_the_reader_fail() -> None:
    count = 0
    for file in sorted(ROOT.rglob("*.yaml")):
        policies, reporter = _read(file)
        for p in policies:
            if hasattr(p, "rules") and hasattr(p, "annotations"):
                expand(p)
        if not (policies or reporter.diagnostics):  # entries of the global context are read, and make no policy
            values = load_values(file.read_text("utf-8"))
            assert all(v["kind"] == "GlobalContextEntry" for v in values), file
        count += 1
    assert count > 5000


def test_what_the_suites_refuse_is_refused() -> None:
    """Policies that a cluster case applies and expects an error for, where this version reads all their parts."""
    refused = 0
    accepted: list[str] = []
    for case in sorted(ROOT.glob("chainsaw/**/chainsaw-test.yaml")):
        for test in load_values(case.read_text("utf-8")):
            for file in _refused_files(test, case.parent):
                policies, reporter = _read(file)
                codes = {d.code for d in reporter.diagnostics if d.severity == "error"}
                if NOT_BUILT in codes or not (codes or policies):
                    continue
                if not codes and any(rule.mutate and rule.mutate.targets for p in policies for rule in p.rules):
                    continue  # Kyverno asks the cluster whether it may change the targets, and only that refuses these
                if (
                    not codes
                    and any(rule.generate for p in policies for rule in p.rules)
                    and _undecided(file, policies)
                ):
                    continue
                # What expressions say is checked when they are lowered, so that the whole compiler is asked.
                if policies and _compiles(file):
                    accepted.append(str(file.relative_to(ROOT)))
                refused += 1
    assert not accepted, accepted
    assert refused >= 15


def _undecided(file: Path, policies: list[Any]) -> bool:
    """Whether only a cluster can refuse these generate rules: by what it lets its controller do, by the policy as it
    was, or by a kind whose definition it has."""
    if "permissions" in file.parts or file.name.startswith("update-"):
        return True
    targets = [rule.generate.target for p in policies for rule in p.rules if rule.generate and rule.generate.target]
    known = provider()
    return any(t.kind and known.of_kind(*split_api_version(t.api_version), t.kind) is None for t in targets)


def _refused_files(test: dict[str, Any], folder: Path) -> Iterator[Path]:
    for step in test.get("spec", {}).get("steps") or ():
        for operation in step.get("try") or ():
            for verb in ("apply", "create"):
                action = operation.get(verb) or {}
                checks = action.get("expect") or ()
                fails = any((c.get("check") or {}).get("($error != null)") is True for c in checks)
                path = folder / str(action.get("file", ""))
                if fails and path.is_file() and re.search("^kind: (Cluster)?Policy$", path.read_text("utf-8"), re.M):
                    yield path


@pytest.mark.skipif(not SEED.is_dir(), reason="no guide cases beside the conformance data")
def test_every_policy_of_the_guide_is_read_or_refused_as_not_built() -> None:
    read = 0
    for file in sorted([*SEED.glob("*/policy.yaml"), *SEED.glob("*/exception.yaml")]):
        policies, reporter = _read(file)
        assert {d.code for d in reporter.diagnostics if d.severity == "error"} <= {NOT_BUILT}, file
        read += len(policies)
    assert read >= 20
