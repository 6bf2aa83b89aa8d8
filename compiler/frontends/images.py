"""Makes ``images`` of a rule with ``imageExtractors`` a cell of its own: the images where the extractors say, computed
when a query first names them (semantics §28).

Called by :mod:`compiler.lower` before the rule's context, whose entries may name ``images`` too. Rules without
extractors read the ``images`` that the engine puts into the root.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from compiler.frontends.rule import RESOURCE, RuleFrame
from compiler.frontends.template import Entry, lower_query
from compiler.ir.build import FunctionBuilder
from compiler.ir.ops import Const, Invoke, Load, Op

NAME: Final = "images"
_REGISTRY: Final = Load(("$registry",))


def register_images(frame: RuleFrame) -> None:
    """Binds ``images`` in the scope of a rule that has extractors."""
    extractors = frame.rule.image_extractors
    if not extractors:
        return
    at = frame.at("imageExtractors")
    _check(frame, extractors, at)
    scope = frame.scope
    cell = f"{scope.builder.name}.{NAME}"
    builder = FunctionBuilder(cell, result="V", policy=scope.builder.policy, role="cell")
    builder.ret(Invoke("images.extract", (RESOURCE, Const(extractors), _REGISTRY)), at)
    scope.functions.append(builder.function())
    frame.scope = replace(
        scope,
        names={**scope.names, NAME: Op("cell", (), (cell,))},
        entries=(*scope.entries, Entry(NAME, cell)),
    )


def _check(frame: RuleFrame, extractors: dict[str, Any], at: str) -> None:
    for kind, entries in extractors.items():
        for i, entry in enumerate(entries):
            place = f"{at}/{kind}/{i}"
            if not any(part.strip() for part in entry["path"].split("/")):
                frame.scope.error("T1346", f"{place}/path", "the path leads nowhere", expected="/spec/image")
            if query := entry.get("jmesPath"):
                # It runs on the text of the image alone; lowering it here tells what is wrong with it.
                lower_query(query, replace(frame.scope, roots=None, names={}, entries=()), f"{place}/jmesPath")
