"""The public library as one set, on the objects of its own tests: fused code says what the exact VM says."""

from __future__ import annotations

from typing import Final

import pytest

from bench.library import library_objects, library_policies
from fuzz.tiers import Runs, answers_differ
from runtime.policyset import PolicySet
from runtime.request import Request
from tests.cases.engines import compiled
from tests.conformance.layout import default_root

EVERY: Final = 24
"""Of the objects every so many-th; with each of them some ninety rules are asked."""

pytestmark = pytest.mark.skipif(
    not (default_root() / "INDEX.tsv").is_file(),
    reason=f"no conformance data at {default_root()}: set THESMOS_CONFORMANCE to its folder",
)


def test_fused_code_agrees_on_the_library() -> None:
    bundle = compiled(list(library_policies())).bundle
    assert bundle is not None
    exact, fast = PolicySet.load(bundle, tier="1"), PolicySet.load(bundle, tier="2")
    tally = Runs()
    for _ in range(2):  # functions are fused for what has been asked about before
        for resource in library_objects()[::EVERY]:
            requests = [Request.from_resource(resource) for _ in range(2)]
            assert answers_differ(exact, fast, requests, tally) == ""
    assert tally.sure > 2_500
