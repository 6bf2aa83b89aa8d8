"""Short ways from YAML text to documents, policies and diagnostics."""

from __future__ import annotations

from compiler.diagnostics import Reporter
from compiler.schema import read_policies
from compiler.schema.model import Policy
from compiler.source import Document, load_documents


def documents(text: str) -> list[Document]:
    reporter = Reporter()
    docs = load_documents(text, "p.yaml", reporter)
    assert not reporter.diagnostics
    return docs


def read(text: str) -> tuple[list[Policy], Reporter]:
    reporter = Reporter()
    policies, _ = read_policies(load_documents(text, "p.yaml", reporter), reporter)
    return policies, reporter


def policy(rules: str, spec: str = "", metadata: str = "") -> Policy:
    """A ClusterPolicy ``p`` of rules written at column 0; must be without errors."""

    def indented(block: str, by: int) -> str:
        return "".join(" " * by + line + "\n" for line in block.strip("\n").split("\n") if line.strip())

    text = (
        "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata:\n  name: p\n"
        + indented(metadata, 2)
        + "spec:\n"
        + indented(spec, 2)
        + "  rules:\n"
        + indented(rules, 2)
    )
    policies, reporter = read(text)
    assert not reporter.failed, [d.message for d in reporter.diagnostics]
    return policies[0]
