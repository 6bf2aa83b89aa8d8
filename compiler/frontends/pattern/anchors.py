"""Reads a key of a pattern map: an anchor (``=(name)``) or a plain key (semantics §3.1). Lowering calls it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grammar.loader import load


@dataclass(frozen=True, slots=True)
class Key:
    """``anchor`` is ``""`` in a conditional ``(name)``, else ``=``, ``X``, ``^``, ``<`` or ``+``; a plain key: None."""

    anchor: str | None
    name: str


def parse_key(key: str) -> Key:
    """The key as written, or the name within its anchor. Any text is a key."""
    if not key.endswith(")") and not key.endswith(" "):
        return Key(None, key)
    tokens: list[Any] = load("anchor").parse(key).children
    if tokens[0].type == "PLAIN":
        return Key(None, key)
    modifier, _, rest = str(tokens[0]).strip().partition("(")
    return Key(modifier, rest[:-1])
