"""Texts between double quotes as Go's ``%q`` writes them, for error texts and ``format`` of Kubernetes."""

from __future__ import annotations

from typing import Final

_LETTERS: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def go_quote(s: str) -> str:
    """``"s"``: what cannot be printed as an escape."""
    if s.isprintable() and '"' not in s and "\\" not in s:
        return f'"{s}"'
    return f'"{"".join(map(_escaped, s))}"'


def _escaped(c: str) -> str:
    letter = _LETTERS.get(c)
    if letter is not None:
        return letter
    if c.isprintable():
        return c
    n = ord(c)
    if n < 0x80:
        return f"\\x{n:02x}"
    return f"\\u{n:04x}" if n < 0x10000 else f"\\U{n:08x}"
