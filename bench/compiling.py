"""Policies to bundles for the parts of the benchmark, in this process. The parts themselves run in processes that know
no compiler, as a server does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.policies import Policy, to_text


@dataclass(frozen=True, slots=True)
class Compiled:
    """A bundle, and how many policies it holds."""

    policies: int
    data: bytes


def compiled(text: str, origin: str) -> Compiled | None:
    """The bundle of a text of policies; None when they do not compile."""
    from compiler import compile_policies, load_documents
    from compiler.diagnostics import Reporter

    reporter = Reporter()
    documents = load_documents(text, origin, reporter)
    result = compile_policies(documents)
    if reporter.failed or result.bundle is None:
        return None
    return Compiled(len(documents), result.bundle)


def write_bundle(path: Path, policies: list[Policy]) -> Path:
    """Compiles policies into a file, the text of them beside it. Ends the benchmark when they do not compile."""
    text = to_text(policies)
    path.with_suffix(".yaml").write_text(text, encoding="utf-8")
    found = compiled(text, path.stem)
    if found is None:
        raise SystemExit(f"{path.stem}: the policies do not compile")
    path.write_bytes(found.data)
    return path
