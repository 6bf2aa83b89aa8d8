"""Where each character of a YAML scalar's value stands in its source text; used by ``SourceMap.text_span``.

Works per diagnostic, never while loading. Each style is decoded a second time with positions; the caller compares
lengths with the value by clamping, so a wrong guess can move a caret but never fail.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Offsets: TypeAlias = list[tuple[int, int]]
"""For each character of the value the start and the end of what it was written as."""

_ESCAPES: Final = frozenset('0abt\tnvfre "/\\N_LP')
_HEX: Final = {"x": 2, "u": 4, "U": 8}


def text_offsets(text: str, start: int, end: int, style: str | None) -> Offsets:
    """The offsets of a scalar at ``text[start:end]``; ``style`` is None or empty (plain), a quote, ``|`` or ``>``."""
    match style:
        case "'" | '"':
            start = _opening(text, start, end, style)
            return _flow(text, start + 1, max(end - 1, start + 1), style)
        case "|" | ">":
            return _block(text, start, end, style == ">")
        case _:
            return _flow(text, start, end, "")


def _opening(text: str, start: int, end: int, quote: str) -> int:
    """Where the quote opens: a tag or an anchor may stand before it."""
    at = text.find(quote, start, end)
    return at if at >= 0 else start


def _flow(text: str, i: int, end: int, quote: str) -> Offsets:
    out: Offsets = []
    hard = 0  # characters of ``out`` that folding may not take back (escaped ones)
    while i < end:
        c = text[i]
        if c in "\r\n":
            while len(out) > hard and text[out[-1][0]] in " \t":
                out.pop()
            at, breaks = i, 0
            while i < end and text[i] in " \t\r\n":
                breaks += text[i] == "\n" or (text[i] == "\r" and text[i + 1 : i + 2] != "\n")
                i += 1
            out.extend([(at, at + 1)] * max(1, breaks - 1))
            hard = len(out)
        elif quote == "'" and c == "'" and text[i + 1 : i + 2] == "'":
            out.append((i, i + 2))
            i += 2
        elif quote == '"' and c == "\\":
            nxt = text[i + 1 : i + 2]
            if nxt in ("\n", "\r"):
                i += 2
                while i < end and text[i] in " \t\r\n":
                    i += 1
                hard = len(out)
                continue
            width = 2 + _HEX.get(nxt, 0)
            if nxt not in _HEX and nxt not in _ESCAPES:
                width = 1
            out.append((i, i + width))
            hard = len(out)
            i += width
        else:
            out.append((i, i + 1))
            i += 1
    return out


def _block(text: str, start: int, end: int, folded: bool) -> Offsets:
    at = text.find("\n", start, end)
    if at < 0:
        return []
    header = text[start:at]
    explicit = next((int(c) for c in header.split("#")[0] if c in "123456789"), 0)
    at += 1
    indent = _indent(text, at, end)
    if explicit:
        indent = _parent_column(text, start) + explicit
    out: Offsets = []
    leading: Offsets = []
    trailing: Offsets = []
    leading_blank = False
    while at < end:
        stop = text.find("\n", at, end)
        stop = end if stop < 0 else stop
        first = at + indent
        if first >= stop or text[at:first].strip(" ") or (text[first:stop] == "\r"):
            if text[at:stop].strip():
                break
            trailing.append((stop, min(stop + 1, end)))
            at = stop + 1
            continue
        blank = text[first] in " \t"
        if folded and leading and not leading_blank and not blank:
            if not trailing:
                out.append(leading[0])
        else:
            out.extend(leading)
        out.extend(trailing)
        trailing.clear()
        leading_blank = blank
        last = stop - 1 if text[stop - 1] == "\r" else stop
        out.extend((i, i + 1) for i in range(first, last))
        leading = [(stop, min(stop + 1, end))]
        at = stop + 1
    return out + leading + trailing


def _parent_column(text: str, start: int) -> int:
    """The indentation that an indicator counts from: the column of the innermost collection that the scalar is in: that
    of its key, or of the dash when it is an element of a list."""
    line = text.rfind("\n", 0, start) + 1
    before = text[line:start]
    while not before.strip() and line > 0:
        # The header stands on a line of its own: its key or dash is in one above.
        line, end = text.rfind("\n", 0, line - 1) + 1, line - 1
        before = text[line:end]
    column = len(before) - len(before.lstrip(" "))
    rest = before[column:]
    while rest[:1] in ("-", "?", ":") and rest[1:2] in (" ", "\t", ""):
        inner = rest[1:].lstrip(" \t")
        if all(word[0] in "!&" for word in inner.split()):
            return column
        column += len(rest) - len(inner)
        rest = inner
    return column


def _indent(text: str, at: int, end: int) -> int:
    """The indentation of the first line of a block that has text."""
    while at < end:
        stop = text.find("\n", at, end)
        stop = end if stop < 0 else stop
        line = text[at:stop]
        if line.strip():
            return len(line) - len(line.lstrip(" "))
        at = stop + 1
    return 0
