"""Checks of the loops of validate rules, at any depth (semantics §10); called by policy_rules on normalised rules.

Loops within loops are free maps in the schemas, since that of a CustomResourceDefinition cannot hold itself: their
structure is checked here.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.schema import condition_rules, pattern_rules, structural
from compiler.source import Document

Json: TypeAlias = Any

_CHECKS: Final = ("pattern", "anyPattern", "deny", "foreach")
_DEEPEST: Final = 10
"""Loops within one another: names of elements carry the depth, and nobody needs more."""


def check(doc: Document, loops: list[dict[str, Json]], at: str, reporter: Reporter, depth: int = 1) -> None:
    """Reports loops that check nothing (T1300) or several things (T1301), loops too deep within others (T1302), a
    scope that no pattern uses (T1304), and what is wrong in conditions and patterns."""
    spans = doc.spans
    if loops and depth > _DEEPEST:
        reporter.error("T1302", spans.key_span(at), f"more than {_DEEPEST} loops within one another")
        return
    for i, loop in enumerate(loops):
        place = f"{at}/{i}"
        given = [k for k in _CHECKS if loop.get(k) is not None and (loop[k] or k != "foreach")]
        if not given:
            where = spans.key_span(f"{place}/list")
            reporter.error("T1300", where, "the loop checks nothing", f"one of {', '.join(_CHECKS)}")
        elif len(given) > 1:
            reporter.error(
                "T1301",
                spans.key_span(f"{place}/{given[1]}"),
                f"the loop has several checks: {' and '.join(given)}",
                "one of them",
                "make a loop of each over the same list",
            )
        elif loop.get("elementScope") is not None and given[0] in ("deny", "foreach"):
            where = spans.key_span(f"{place}/elementScope")
            help = f"remove elementScope: {given[0]} sees the element and the object alike"
            reporter.warning("T1304", where, "elementScope is for patterns", "", help)
        _parts(doc, loop, place, reporter)
        inner: list[dict[str, Json]] = loop.get("foreach") or []
        if structural.check_parts(doc, inner, "ValidateLoop", f"{place}/foreach", "the loop", reporter):
            check(doc, inner, f"{place}/foreach", reporter, depth + 1)


def _parts(doc: Document, loop: dict[str, Json], at: str, reporter: Reporter) -> None:
    if (conditions := loop.get("preconditions")) is not None:
        condition_rules.check(doc, conditions, f"{at}/preconditions", reporter)
    if (conditions := (loop.get("deny") or {}).get("conditions")) is not None:
        condition_rules.check(doc, conditions, f"{at}/deny/conditions", reporter)
    if (pattern := loop.get("pattern")) is not None:
        pattern_rules.check(doc, pattern, f"{at}/pattern", reporter)
    if (patterns := loop.get("anyPattern")) is not None:
        pattern_rules.check_any(doc, patterns, f"{at}/anyPattern", reporter)
