"""Reads a kind selector (``Pod``, ``apps/v1/Deployment``, ``Pod.status``, ``*/scale``; semantics §11) for ``match`` and
``exclude``. Called by the match front end, which makes both the test and the index keys of a rule from it."""

from __future__ import annotations

from functools import lru_cache

from compiler.ir.ops import KindKey
from grammar.errors import SyntaxProblem
from grammar.loader import parse


@lru_cache(maxsize=1024)
def parse_kind(selector: str) -> KindKey | None:
    """Group, version, kind and subresource, ``*`` where the selector does not say; None for no selector."""
    try:
        parts = [(str(t), t.type) for t in parse("kinds", selector, {}).children]
    except SyntaxProblem:
        return None
    versioned = parts[0][1] in ("VERSION", "STAR")
    texts = [text for text, _ in parts]
    match texts:
        case [kind]:
            return KindKey("*", "*", kind, "")
        case ["*", "*"]:
            return KindKey("*", "*", "*", "*")
        case ["*", sub] if sub == sub.lower():
            return KindKey("*", "*", "*", sub)
        case [version, kind] if versioned:
            return KindKey("*", version, kind, "")
        case [kind, sub]:
            return KindKey("*", "*", kind, sub)
        case ["*", "*", sub] if sub == sub.lower():
            return KindKey("*", "*", "*", sub)
        case [version, kind, sub] if versioned and not (version == "*" and parts[1][1] in ("VERSION", "STAR")):
            return KindKey("*", version, kind, sub)
        case [group, version, kind]:
            return KindKey(group, version, kind, "")
        case [group, version, kind, sub]:
            return KindKey(group, version, kind, sub)
    return None
