"""Pages that repeat a table agree with it."""

from __future__ import annotations

import re
from pathlib import Path

from runtime.observe.metrics import METRICS

ROOT = Path(__file__).resolve().parents[2]


def test_the_metrics_page_lists_the_table() -> None:
    page = (ROOT / "docs/guide/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \| (\w+) \|$", page, re.MULTILINE)
    assert rows == [(m.name, m.kind, ", ".join(m.labels), m.help, m.origin) for m in METRICS]


def test_links_of_the_pages_lead_somewhere() -> None:
    broken = [
        (page.relative_to(ROOT).as_posix(), link)
        for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md"))
        for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert broken == []


def test_the_first_page_of_the_guide_leads_to_every_other() -> None:
    guide = ROOT / "docs/guide"
    linked = set(re.findall(r"\]\(([\w-]+\.md)", (guide / "README.md").read_text(encoding="utf-8")))
    assert linked == {page.name for page in guide.glob("*.md")} - {"README.md"}


def test_the_list_of_decisions_is_complete() -> None:
    records = ROOT / "docs/adr"
    listed = re.findall(r"^\| \[\d{4}\]\(([\w-]+\.md)\)", (records / "README.md").read_text(encoding="utf-8"), re.M)
    assert listed == sorted(page.name for page in records.glob("[0-9]*.md"))
