"""Wildcard matching: ``*`` any run of characters, ``?`` exactly one, nothing else special, the whole text (semantics
§1).

Called by scalar patterns, conditions, kind selectors, label selectors and the match of rules. Texts come from
requests, so matching is linear in practice and never exponential: a pattern is split at its stars, and each piece is
looked for once, leftmost first, which is enough because a star may swallow anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache


def contains_wildcard(text: str) -> bool:
    """Whether a text holds ``*`` or ``?``."""
    return "*" in text or "?" in text


def match(pattern: str, text: str) -> bool:
    """Whether the whole text matches the pattern. An empty pattern matches the empty text only."""
    return matcher(pattern)(text)


def matcher(pattern: str) -> Callable[[str], bool]:
    """A predicate specialised for the shape of the pattern: exact, prefix, suffix, contains, or a general glob."""
    # Requests bring patterns too (a key may hold a star): only those of a usual length are kept.
    return _kept(pattern) if len(pattern) <= 256 else _made(pattern)


@lru_cache(maxsize=4096)
def _kept(pattern: str) -> Callable[[str], bool]:
    return _made(pattern)


def _made(pattern: str) -> Callable[[str], bool]:
    if not contains_wildcard(pattern):
        return pattern.__eq__
    pieces = pattern.split("*")
    if "?" in pattern:
        return _glob(pieces) if pattern.strip("*?") else _of_length(pattern.count("?"), more=len(pieces) > 1)
    first, last, inner = pieces[0], pieces[-1], [p for p in pieces[1:-1] if p]
    if not inner:
        if not first and not last:
            return lambda text: True
        if not last:
            return lambda text: text.startswith(first)
        if not first:
            return lambda text: text.endswith(last)
        least = len(first) + len(last)
        return lambda text: len(text) >= least and text.startswith(first) and text.endswith(last)
    if not first and not last and len(inner) == 1:
        needle = inner[0]
        return lambda text: needle in text
    return _glob(pieces)


def _of_length(least: int, *, more: bool) -> Callable[[str], bool]:
    """Texts of a number of characters, or of ``more``: what is made of ``?`` and ``*`` alone accepts no others."""
    return (lambda text: len(text) >= least) if more else (lambda text: len(text) == least)


def _glob(pieces: list[str]) -> Callable[[str], bool]:
    if len(pieces) == 1:
        only = pieces[0]
        size = len(only)
        return lambda text: len(text) == size and _at(only, text, 0)
    first, last, inner = pieces[0], pieces[-1], [p for p in pieces[1:-1] if p]
    least = len(first) + len(last) + sum(map(len, inner))

    def holds(text: str) -> bool:
        size = len(text)
        if size < least or not _at(first, text, 0) or not _at(last, text, size - len(last)):
            return False
        position, end = len(first), size - len(last)
        for piece in inner:
            position = _find(piece, text, position, end)
            if position < 0:
                return False
            position += len(piece)
        return True

    return holds


def _at(piece: str, text: str, position: int) -> bool:
    if "?" not in piece:
        return text.startswith(piece, position)
    return all(p in ("?", t) for p, t in zip(piece, text[position : position + len(piece)], strict=True))


def _find(piece: str, text: str, start: int, end: int) -> int:
    if "?" not in piece:
        return text.find(piece, start, end)
    for position in range(start, end - len(piece) + 1):
        if _at(piece, text, position):
            return position
    return -1
