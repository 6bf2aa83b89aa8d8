"""The representative cases of the public cluster suites, by the suites' own runner; ``make chainsaw`` runs all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.chainsaw.__main__ import run, table, wrong
from tests.cluster.chainsaw.cases import cases, representative, root
from tests.cluster.controlplane.build import Assets

PLANES = 2
SECONDS = 45


def _data() -> None:
    if not cases():
        pytest.skip(f"no cases of the cluster suites below {root()}: THESMOS_CONFORMANCE names their folder")


def test_the_list_names_cases_that_there_are() -> None:
    _data()
    assert 55 <= len(representative()) <= 65
    assert all(case.reference == "pass" and not case.reason for case in representative())


def test_representative_cases_pass(assets: Assets, chainsaw: str, tmp_path: Path) -> None:
    _data()
    results = run(representative(), PLANES, SECONDS, tmp_path / "out")
    print(table(results))
    failed = [f"{result.case.path}\n{result.output[-2000:]}" for result in results if wrong(result)]
    assert not failed, "\n\n".join(failed)
