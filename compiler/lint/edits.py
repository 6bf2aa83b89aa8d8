"""Edits of a YAML text at offsets, which leave every comment and the layout of the rest as they are.

:mod:`compiler.lint.fixes` builds them. Everything here gives None where the text is laid out in a way that an edit of
lines cannot keep (a map in braces, a key behind a dash): such a place is left to people.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compiler.source import Document
from compiler.source import pointer as pointer_of


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters ``start`` to ``end`` of the text become ``text``."""

    start: int
    end: int
    text: str


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with edits that do not overlap; insertions at one place keep their order."""
    out, at = [], 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        out += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*out, text[at:]])


class Layout:
    """Where things stand in the lines of a document."""

    __slots__ = ("_doc", "_text")

    def __init__(self, doc: Document) -> None:
        self._doc = doc
        self._text = doc.text

    def value(self, pointer: str, new: str) -> Edit | None:
        """Writes another text for a scalar, with the quotes that it has."""
        found = self._doc.spans.ranges(pointer)
        if found is None:
            return None
        start, end = found[1]
        old = self._text[start:end]
        quote = old[:1] if old[:1] in ("'", '"') else ""
        return Edit(start, end, quote + new + quote) if "\n" not in old else None

    def key(self, pointer: str, new: str) -> Edit | None:
        """Writes another name for a key."""
        found = self._doc.spans.ranges(pointer)
        return Edit(*found[0], new) if found is not None and found[0] is not None else None

    def lines(self, pointer: str) -> tuple[int, int] | None:
        """The offsets of the whole lines of an entry of a map that has them for itself."""
        found = self._doc.spans.ranges(pointer)
        if found is None or found[0] is None:
            return None
        start = self._text.rfind("\n", 0, found[0][0]) + 1
        if self._text[start : found[0][0]].strip(" "):
            return None
        last = found[1][0] + len(self._text[found[1][0] : found[1][1]].rstrip())
        end = self._text.find("\n", max(last, found[0][1]))
        end = len(self._text) if end < 0 else end + 1
        behind = self._text[max(last, found[0][1]) : end].strip()
        return (start, end) if not behind or behind.startswith(("#", ":")) else None

    def removed(self, pointer: str) -> Edit | None:
        """Takes an entry with its lines out; not the only one of its map, which would become null."""
        lines = self.lines(pointer)
        siblings = self._at(pointer.rpartition("/")[0])
        if lines is None or not isinstance(siblings, dict) or len(siblings) < 2:
            return None
        return Edit(*lines, "")

    def entry(self, pointer: str) -> list[str] | None:
        """The lines of an entry, as they would stand at the left margin."""
        lines = self.lines(pointer)
        if lines is None:
            return None
        text = self._text[lines[0] : lines[1]].rstrip("\n")
        indent = len(text) - len(text.lstrip(" "))
        rows = text.split("\n")
        if any(row[:indent].strip(" ") for row in rows):
            return None
        return [row[indent:] for row in rows]

    def added(self, pointer: str, rows: list[str]) -> Edit | None:
        """Puts entries first into the map at a pointer."""
        at = self.inside(pointer)
        if at is None:
            return None
        place, indent = at
        return Edit(place, place, "".join(f"{' ' * indent}{row}".rstrip() + "\n" for row in rows))

    def inside(self, pointer: str) -> tuple[int, int] | None:
        """Where the first line of a map begins, and the column of its keys."""
        found, value = self._doc.spans.ranges(pointer), self._at(pointer)
        if found is None or found[0] is None or not isinstance(value, dict) or not value:
            return None
        first = self._doc.spans.ranges(pointer + pointer_of(next(iter(value))))
        end = self._text.find("\n", found[0][1])
        if first is None or first[0] is None or end < 0 or first[0][0] < end:
            return None
        column = first[0][0] - self._text.rfind("\n", 0, first[0][0]) - 1
        if self._text[first[0][0] - column : first[0][0]].strip(" ") or self._text[found[1][0]] in "{[&*":
            return None
        return end + 1, column

    def _at(self, pointer: str) -> object:
        value: object = self._doc.value
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict):
                value = value.get(name)
            elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            else:
                return None
        return value
