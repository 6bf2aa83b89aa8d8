"""The policies that pages of the guide show compile as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compiler import compile_policies, load_documents
from compiler.diagnostics import Reporter
from vm.intrinsics.pod_security_checks import CHECKS

GUIDE = Path(__file__).resolve().parents[2] / "docs/guide"
SHOWN = [
    pytest.param(text, id=f"{page}-{i}")
    for page in ("pod-security", "exceptions", "contexts", "loops", "mutation", "generate", "cleanup", "rollout")
    for i, text in enumerate(
        re.findall(r"^```yaml\n(apiVersion: kyverno.*?)^```$", (GUIDE / f"{page}.md").read_text("utf-8"), re.M | re.S)
    )
]


def test_there_are_examples() -> None:
    assert len(SHOWN) >= 3


@pytest.mark.parametrize("text", SHOWN)
def test_what_the_guide_shows_compiles(text: str) -> None:
    reporter = Reporter()
    result = compile_policies(load_documents(text, "guide.yaml", reporter))
    found = [d for d in (*reporter.diagnostics, *result.diagnostics) if d.severity != "note"]
    assert [d.message for d in found] == []
    assert result.bundle is not None


def test_the_page_on_pod_security_lists_every_control() -> None:
    rows = re.findall(
        r"^\| `([^`]+)` \| (baseline|restricted|both)", (GUIDE / "pod-security.md").read_text("utf-8"), re.M
    )
    levels: dict[str, set[str]] = {}
    for check in CHECKS:
        if check.id != "procMount_restricted":  # told in words
            levels.setdefault(check.control, set()).add(check.level)
    assert dict(rows) == {c: "both" if len(known) > 1 else known.pop() for c, known in levels.items()}
