"""Checks of ``mutate``: its patches, its loops at any depth, and its targets (T0311, T0314, T0317, T0318, T1330 to
T1336); called by policy_rules on normalised rules.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.schema import condition_rules, patch_rules, structural
from compiler.source import Document

Json: TypeAlias = Any

_PATCHES: Final = ("patchStrategicMerge", "patchesJson6902", "foreach")
_ELEMENT: Final = re.compile(r"\{\{-?\s*elementIndex\d*\s*\}\}")
_DEEPEST: Final = 10
"""Loops around one another: the index of each has a name of its own, and nobody needs more."""


def check(doc: Document, kind: str, mutate: dict[str, Json], at: str, reporter: Reporter) -> None:
    """Reports what is wrong with the mutate part of a rule of a policy of this kind."""
    spans = doc.spans
    given = [k for k in _PATCHES if mutate.get(k) not in (None, "", [])]
    if not given:
        reporter.error(
            "T0317", spans.key_span(at), "mutate changes nothing", "one of patchStrategicMerge, patchesJson6902"
        )
    elif len(given) > 1:
        reporter.error(
            "T0318",
            spans.key_span(f"{at}/{given[1]}"),
            f"mutate has several patches: {' and '.join(given)}",
            "one of them",
            "make a rule of each",
        )
    if patches := mutate.get("patchesJson6902"):
        patch_rules.check(doc, patches, at + "/patchesJson6902", reporter)
    _loops(doc, mutate.get("foreach") or [], at + "/foreach", reporter)
    namespace = _namespace(doc) if kind == "Policy" else None
    for i, target in enumerate(mutate.get("targets") or ()):
        _target(doc, target, f"{at}/targets/{i}", namespace, reporter)


def _loops(doc: Document, loops: list[dict[str, Json]], at: str, reporter: Reporter, depth: int = 1) -> None:
    if depth > _DEEPEST:
        reporter.error("T1330", doc.spans.key_span(at), f"more than {_DEEPEST} loops within one another")
        return
    for i, loop in enumerate(loops):
        place = f"{at}/{i}"
        given = [k for k in _PATCHES if loop.get(k) not in (None, "", [])]
        if not given:
            expected = f"one of {', '.join(_PATCHES)}"
            reporter.error("T1331", doc.spans.key_span(f"{place}/list"), "the loop changes nothing", expected)
        elif len(given) > 1:
            reporter.error(
                "T1331",
                doc.spans.key_span(f"{place}/{given[1]}"),
                f"the loop has several patches: {' and '.join(given)}",
                "one of them",
                "make a loop of each over the same list",
            )
        _conditions(doc, loop, place, reporter)
        if text := loop.get("patchesJson6902"):
            patch_rules.check(doc, text, f"{place}/patchesJson6902", reporter, in_loop=True)
            _removals(doc, loop, place, reporter)
        inner: list[dict[str, Json]] = loop.get("foreach") or []
        if structural.check_parts(doc, inner, "MutateLoop", f"{place}/foreach", "the loop", reporter):
            _loops(doc, inner, f"{place}/foreach", reporter, depth + 1)


def _conditions(doc: Document, part: dict[str, Json], at: str, reporter: Reporter) -> None:
    if (conditions := part.get("preconditions")) is not None:
        condition_rules.check(doc, conditions, at + "/preconditions", reporter)


def _removals(doc: Document, loop: dict[str, Json], at: str, reporter: Reporter) -> None:
    """Warns of elements that are removed by their index from the front: each removal moves those behind it."""
    if loop.get("order") == "Descending":
        return
    for operation in patch_rules.operations(loop["patchesJson6902"]):
        path = operation.get("path")
        if operation.get("op") == "remove" and type(path) is str and _ELEMENT.search(path.rpartition("/")[2]):
            reporter.warning(
                "T1332",
                doc.spans.span(at + "/patchesJson6902"),
                "elements are removed by their index from the front, which moves those behind them",
                "",
                "add order: Descending",
            )
            return


def _target(doc: Document, target: dict[str, Json], at: str, namespace: str | None, reporter: Reporter) -> None:
    spans = doc.spans
    for key in ("apiVersion", "kind"):
        if not target.get(key):
            reporter.error("T1333", spans.span(at), f"the target has no {key}", f"{key}: …")
    if target.get("uid") and not target.get("name"):
        reporter.warning("T1334", spans.key_span(at + "/uid"), "the uid is asked of every object of the kind", "a name")
    _conditions(doc, target, at, reporter)
    wanted = target.get("namespace")
    if namespace is not None and wanted and "{{" not in wanted and wanted != namespace:
        reporter.error(
            "T1335",
            spans.span(at + "/namespace"),
            f"a policy of the namespace {namespace} changes no objects of {wanted}",
            namespace,
        )


def _namespace(doc: Document) -> str:
    metadata = doc.value.get("metadata")
    found = metadata.get("namespace") if type(metadata) is dict else None
    return found if type(found) is str and found else "default"
