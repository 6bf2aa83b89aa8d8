"""The checker on the tests of the CEL specification that ask for a type."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from tests.conformance.cel_spec import outcome

ROOT = Path(os.environ.get("THESMOS_CONFORMANCE") or Path(__file__).parents[4] / "shared" / "conformance") / "cel-spec"

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason="no conformance data (set THESMOS_CONFORMANCE)")


def test_the_types_are_those_of_the_specification() -> None:
    with (ROOT / "test_messages.tsv").open(newline="", encoding="utf-8") as file:
        beyond = {(r["section"], r["test"]) for r in csv.DictReader(file, delimiter="\t") if "type_" in r["file"]}
    found = {
        (section["name"], test["name"]): outcome(test, 2, "1")
        for section in json.loads((ROOT / "type_deduction.json").read_text(encoding="utf-8"))["section"]
        for test in section["test"]
        if (section["name"], test["name"]) not in beyond
    }
    assert len(found) >= 26
    assert {name: pair for name, pair in found.items() if pair[0] != pair[1]} == {}
