"""The page of a diagnostic code: what it means, an example that leads to it, how to mend it.

Meanings stand in :mod:`compiler.catalogue`, examples and mends in one file a code, ``pages/T1204.md``: a paragraph or
more, then the example in a fence. ``thesmos explain`` prints the pages, and SARIF logs quote the mends. A test holds
that every code has a page and that its example leads to the code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import Final

from compiler.catalogue import CODES

_FENCE: Final = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """``fix`` says how to mend it; ``example`` is a policy file, empty for the codes that no small file leads to."""

    code: str
    fix: str
    example: str


def page_of(code: str) -> Page | None:
    """The page of a code; None when there is none."""
    file = resources.files("compiler") / "pages" / f"{code}.md"
    if code not in CODES or not file.is_file():
        return None
    text = file.read_text(encoding="utf-8")
    found = _FENCE.search(text)
    fix = text[: found.start()] if found is not None else text
    return Page(code, " ".join(fix.split()), found[1] if found is not None else "")


def findings(page: Page) -> str:
    """What compiling, or linting, says of the example: the findings of the page's code alone."""
    from compiler import compile_policies
    from compiler.diagnostics import Reporter, render_all
    from compiler.lint import lint
    from compiler.source import load_documents

    reporter = Reporter()
    documents = load_documents(page.example, "policy.yaml", reporter)
    reporter.extend(lint(documents))
    if CODES[page.code].severity != "advice" and not any(d.code == page.code for d in reporter.diagnostics):
        reporter.extend(compile_policies(documents).diagnostics)
    return render_all([d for d in reporter.diagnostics if d.code == page.code], {"policy.yaml": page.example})
