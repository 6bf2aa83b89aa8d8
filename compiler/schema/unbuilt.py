"""Parts of the language that are known and not built yet: refused by name with their position, never run by halves.

``read_policies`` asks before it decodes, so that no later stage meets such a part.
"""

from __future__ import annotations

from typing import Any, Final

from compiler.diagnostics import Reporter
from compiler.source import Document

KINDS: Final = frozenset(
    (
        "ValidatingPolicy",
        "MutatingPolicy",
        "GeneratingPolicy",
        "DeletingPolicy",
        "ImageValidatingPolicy",
        "NamespacedValidatingPolicy",
        "NamespacedMutatingPolicy",
        "NamespacedGeneratingPolicy",
        "NamespacedDeletingPolicy",
        "NamespacedImageValidatingPolicy",
    )
)
"""Kinds of policies that a later version runs."""

_RULE: Final = ("verifyImages",)
_VALIDATE: Final = ("manifests", "assert")


def refuse_kind(doc: Document, kind: str, reporter: Reporter) -> None:
    reporter.error("T0901", doc.spans.span("/kind"), f"not built yet: kind {kind}")


def refuse_parts(doc: Document, spec: dict[str, Any], reporter: Reporter) -> None:
    """Reports every part of a normalised spec that is not built yet (T0901)."""

    def refuse(value: Any, at: str, name: str) -> None:
        # An empty list or map of such a part asks for nothing.
        if value not in (None, [], {}, False):
            reporter.error("T0901", doc.spans.key_span(at), f"not built yet: {name}")

    for i, rule in enumerate(spec["rules"]):
        at = f"/spec/rules/{i}"
        for name in _RULE:
            refuse(rule.get(name), f"{at}/{name}", name)
        validate = rule.get("validate") or {}
        for name in _VALIDATE:
            refuse(validate.get(name), f"{at}/validate/{name}", f"validate.{name}")
