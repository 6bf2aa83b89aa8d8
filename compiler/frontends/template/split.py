"""Cuts a policy text into constant stretches and variables (semantics §6.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from grammar.loader import load

MAX_TEXT: Final = 1 << 20
LONGEST_KEPT: Final = 4096
"""Longer texts are not kept in caches: they may come from anyone's objects, so caches are bounded in bytes too."""

_REFERENCE: Final = re.compile(r"^\$\(.[^ ]*\)|[^\\]\$\(.[^ ]*\)")
_ESCAPED_REFERENCE: Final = re.compile(r"\\\$\(.[^ ]*\)")


@dataclass(frozen=True, slots=True)
class Variable:
    """``{{ body }}`` as it stands (``raw``, from ``start``). ``body`` is the query, which begins ``offset``
    characters into the text; ``shallow`` says that it was written ``{{-``."""

    raw: str
    start: int
    body: str
    offset: int
    shallow: bool


Piece = str | Variable


def split(text: str) -> tuple[Piece, ...]:
    """The pieces of a text in order, no two constant ones side by side; escapes stay as they are."""
    if "{{" not in text or len(text) > MAX_TEXT:
        return (text,) if text else ()
    return _split(text) if len(text) <= LONGEST_KEPT else _split.__wrapped__(text)


@lru_cache(maxsize=2048)
def _split(text: str) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    constant: list[str] = []
    for node in load("template").parse(text).children:
        token: Any = node.children[0]  # type: ignore[union-attr]
        kind = node.data  # type: ignore[union-attr]
        if kind in ("text", "escape"):
            constant.append(str(token))
            continue
        if constant:
            pieces.append("".join(constant))
            constant = []
        pieces.append(_variable(str(token), token.start_pos, kind == "shallow"))
    if constant:
        pieces.append("".join(constant))
    return tuple(pieces)


def _variable(raw: str, start: int, shallow: bool) -> Variable:
    lead = 3 if shallow else 2
    inner = raw[lead:-2].replace("{{", "").replace("}}", "")
    body = inner.strip()
    return Variable(raw, start, body, start + lead + len(inner) - len(inner.lstrip()), shallow)


def open_braces(text: str) -> int | None:
    """Where a ``{{`` stands that nothing closes, None when all are closed."""
    opened: list[int] = []
    at = 0
    while at < len(text) - 1:
        two = text[at : at + 2]
        if two == "{{" and (at == 0 or text[at - 1] != "\\"):
            opened.append(at)
            at += 2
        elif two == "}}" and opened:
            opened.pop()
            at += 2
        else:
            at += 1
    return opened[0] if opened else None


def has_variables(value: Any) -> bool:
    """Whether any text or map key of a value holds a variable, a reference or an escape of one."""
    stack = [value]
    while stack:
        x = stack.pop()
        if isinstance(x, str):
            if _changes(x):
                return True
        elif isinstance(x, dict):
            stack.extend(x)
            stack.extend(x.values())
        elif isinstance(x, list):
            stack.extend(x)
    return False


def _changes(text: str) -> bool:
    if "{{" in text and ("\\{{" in text or any(isinstance(p, Variable) for p in split(text))):
        return True
    return "$(" in text and bool(_REFERENCE.search(text) or _ESCAPED_REFERENCE.search(text))
