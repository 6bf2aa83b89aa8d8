"""libyaml's events to values and places, for one text: the inside of :mod:`compiler.source`.

One pass without a node tree, which would cost more than all the rest. Depth and aliases are bounded, so that hostile
texts end soon; scalars are read by :mod:`compiler.scalars`.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined]
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from compiler.scalars import YAML_TAG, ScalarError, key_text, resolve_plain, resolve_tagged

MAX_DEPTH: Final = 200
"""Maps and lists inside each other; a JSON encoder downstream stops at 254."""
MAX_ALIASED: Final = 100_000
"""Values that the aliases of one document may unfold to."""

Node: TypeAlias = tuple[int, int, str | None, Any]
"""Start, end (offsets in the text), scalar style (``"{"`` for maps, ``"["`` for lists), children.

Children of a map: key text to ``(key start, key end, node)``; of a list: nodes; of a scalar: None.
"""


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a file; lines and columns count from 1, columns in characters, the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


class SourceError(ValueError):
    """A YAML text that cannot be read; ``code``, ``span``, ``expected`` and ``help`` are those of the diagnostic."""

    def __init__(self, code: str, span: Span, message: str, expected: str = "", help: str = "") -> None:
        super().__init__(f"{span.file}:{span.line}:{span.column}: {message}")
        self.code = code
        self.span = span
        self.message = message
        self.expected = expected
        self.help = help


class Text:
    """A source text with its line starts, by which offsets become lines and columns."""

    __slots__ = ("_starts", "name", "text")

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self._starts: list[int] | None = None

    def span(self, start: int, end: int) -> Span:
        if self._starts is None:
            starts, at = [0], self.text.find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = self.text.find("\n", at + 1)
            self._starts = starts
        end = max(start, end)
        a = bisect.bisect_right(self._starts, start) - 1
        b = bisect.bisect_right(self._starts, end) - 1
        return Span(self.name, a + 1, start - self._starts[a] + 1, b + 1, end - self._starts[b] + 1)


def type_name(value: Any) -> str:
    """What people call the type of a JSON value, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "a map"


class _Frame:
    """An open map or list."""

    __slots__ = ("anchor", "before", "height", "key", "key_at", "kids", "merges", "start", "value")

    def __init__(self, value: dict[str, Any] | list[Any], start: int, anchor: str | None, before: int) -> None:
        self.value: Any = value
        self.kids: Any = {} if type(value) is dict else []
        self.start = start
        self.anchor = anchor
        self.before = before
        self.key: str | None = None
        self.key_at = (0, 0)
        self.height = 1
        self.merges: list[tuple[Any, Node]] = []


_MERGE: Final = "\0<<"
"""Stands for a plain ``<<`` key while its value is read; no YAML text holds a NUL."""


class Builder:
    """Events of one text to values and span nodes."""

    def __init__(self, source: Text, report: Callable[[SourceError], None]) -> None:
        self._source = source
        self._report = report
        self.documents: list[tuple[Any, Node]] = []

    def run(self) -> None:
        """Reads every document. Raises ``SourceError`` when nothing after the mistake can be read."""
        try:
            parser = CParser(self._source.text)
            try:
                self._read(parser.get_event)
            finally:
                parser.dispose()
        except yaml.MarkedYAMLError as e:
            raise self._syntax(e) from None
        except yaml.reader.ReaderError as e:
            at = _reader_offset(self._source.text, e)
            raise SourceError(
                "T0109",
                self._source.span(at, at + 1),
                "a character that YAML does not allow",
                "printable text in UTF-8",
            ) from None
        except UnicodeEncodeError as e:
            raise SourceError(
                "T0109", self._source.span(e.start, e.start + 1), "half of a surrogate pair", "text in UTF-8"
            ) from None

    def _read(self, get_event: Callable[[], Any]) -> None:
        stack: list[_Frame] = []
        anchors: dict[str, tuple[Any, Node, int, int] | None] = {}
        count = aliased = 0
        while True:
            e = get_event()
            kind = type(e)
            if kind is ScalarEvent:
                count += 1
                height = 0
                start, end = e.start_mark.index, e.end_mark.index
                style: str | None = e.style
                if e.implicit[0]:
                    text = e.value
                    if stack and text == "<<" and type(stack[-1].value) is dict and stack[-1].key is None:
                        value: Any = _MERGE
                    else:
                        try:
                            value = resolve_plain(text)
                        except ScalarError as problem:
                            self._bad_scalar(problem, start, end)
                            value = None
                else:
                    value = e.value if e.implicit[1] else self._tagged(e.tag, e.value, e.style, start, end)
                node: Node = (start, end, style, None)
                if e.anchor is not None:
                    anchors[e.anchor] = (value, node, 1, 0)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                count += 1
                if len(stack) >= MAX_DEPTH:
                    self._too_deep(e.start_mark.index)
                if e.anchor is not None:
                    anchors[e.anchor] = None
                stack.append(_Frame({} if kind is MappingStartEvent else [], e.start_mark.index, e.anchor, count))
                continue
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                frame = stack.pop()
                end = e.end_mark.index
                kids = frame.kids
                if e.start_mark.index == end and kids:
                    # A block collection ends where the next token begins; its last child says where its text ends.
                    last = kids[-1] if type(kids) is list else next(reversed(kids.values()))[2]
                    end = max(last[1], frame.start)
                if frame.merges:
                    self._merge(frame)
                value, height = frame.value, frame.height
                node = (frame.start, end, "{" if kind is MappingEndEvent else "[", kids)
                if frame.anchor is not None:
                    anchors[frame.anchor] = (value, node, count - frame.before + 1, height)
            elif kind is AliasEvent:
                start, end = e.start_mark.index, e.end_mark.index
                found = self._alias(anchors, e.anchor, start, end)
                value, node, size, height = found
                count += size
                aliased += size
                if aliased > MAX_ALIASED:
                    raise SourceError(
                        "T0106",
                        self._source.span(start, end),
                        f"the aliases of this document unfold to more than {MAX_ALIASED} values",
                        "",
                        "write the values out, or use fewer aliases of aliases",
                    )
                if len(stack) + height > MAX_DEPTH:
                    self._too_deep(start)
            elif kind is DocumentStartEvent:
                anchors.clear()
                count = aliased = 0
                continue
            elif kind is StreamEndEvent:
                return
            else:
                continue
            if not stack:
                self.documents.append((value, node))
                continue
            frame = stack[-1]
            if height >= frame.height:
                frame.height = height + 1
            if type(frame.value) is list:
                frame.value.append(value)
                frame.kids.append(node)
            elif frame.key is None:
                frame.key = value if type(value) is str else self._key(value, node)
                frame.key_at = (node[0], node[1])
            else:
                self._put(frame, value, node)
                frame.key = None

    def _put(self, frame: _Frame, value: Any, node: Node) -> None:
        """Puts a value under the key that was read before it; the first of two equal keys stays."""
        key = frame.key
        if key == _MERGE:
            frame.merges.append((value, node))
            return
        kids = frame.kids
        if (first := kids.get(key)) is not None:
            a, b = self._source.span(first[0], first[1]), self._source.span(*frame.key_at)
            self._report(
                SourceError(
                    "T0102",
                    b,
                    f'the key "{key}" is given twice: in line {a.line} and again in line {b.line}',
                    "each key once",
                    f"remove one of the two, or join their values under line {a.line}",
                )
            )
            return
        frame.value[key] = value
        kids[key] = (frame.key_at[0], frame.key_at[1], node)

    def _key(self, value: Any, node: Node) -> str:
        key = key_text(value)
        if key is not None:
            return key
        raise SourceError(
            "T0103",
            self._source.span(node[0], node[1]),
            f"a key must be a text, this one is {type_name(value)}",
            "a text",
            'a value that begins with "{{" must be in quotes' if type(value) is dict else "put the key in quotes",
        )

    def _merge(self, frame: _Frame) -> None:
        """Adds what ``<<`` brings: keys that are written out win, and of several maps the earlier ones."""
        for value, node in frame.merges:
            maps = value if type(value) is list else [value]
            nodes = node[3] if type(value) is list else [node]
            for m, n in zip(maps, nodes, strict=True):
                if type(m) is not dict:
                    raise SourceError(
                        "T0108",
                        self._source.span(node[0], node[1]),
                        f"<< takes a map or a list of maps, this is {type_name(m)}",
                        "a map or a list of maps",
                    )
                for k, v in m.items():
                    if k not in frame.value:
                        frame.value[k] = v
                        frame.kids[k] = n[3][k]

    def _alias(
        self, anchors: dict[str, tuple[Any, Node, int, int] | None], name: str, start: int, end: int
    ) -> tuple[Any, Node, int, int]:
        found = anchors.get(name)
        if found is not None:
            return found
        span = self._source.span(start, end)
        if name in anchors:
            raise SourceError("T0105", span, f"the alias *{name} stands inside the value it names")
        raise SourceError(
            "T0104",
            span,
            f"no anchor &{name} before this alias",
            "",
            "a text that begins with * must be in quotes",
        )

    def _tagged(self, tag: str, text: str, style: str | None, start: int, end: int) -> Any:
        if not tag.startswith(YAML_TAG):
            shown = self._source.text[start:end]
            self._report(
                SourceError(
                    "T0111",
                    self._source.span(start, end),
                    f'"{tag}" is read as a YAML tag, not as part of the text',
                    "a plain value",
                    f"put it in quotes: {_quoted(shown)}" if style == "" or style is None else "remove the tag",
                )
            )
            return text
        try:
            return resolve_tagged(tag, text)
        except ScalarError as problem:
            self._bad_scalar(problem, start, end)
            return None

    def _bad_scalar(self, problem: ScalarError, start: int, end: int) -> None:
        self._report(
            SourceError("T0112", self._source.span(start, end), str(problem), "", "put it in quotes to make it a text")
        )

    def _too_deep(self, at: int) -> None:
        raise SourceError(
            "T0107", self._source.span(at, at + 1), f"maps and lists are nested deeper than {MAX_DEPTH} levels"
        )

    def _syntax(self, e: yaml.MarkedYAMLError) -> SourceError:
        mark = e.problem_mark or e.context_mark
        if e.context_mark is not None and e.problem == "found unexpected end of stream":
            # A quote that is not closed: where it opens says more than where the file ends.
            mark = e.context_mark
        at = mark.index if mark is not None else 0
        text = self._source.text
        if at >= len(text):
            # The end of the file is no place to look at: its last line with text is.
            at = max(len(text.rstrip()) - 1, 0)
        problem = (e.problem or "the text cannot be read").rstrip(".")
        context = ""
        if e.context and e.context_mark is not None and e.context_mark.index < at:
            line = self._source.span(e.context_mark.index, e.context_mark.index).line
            context = f" {e.context.rstrip('.')} that begins in line {line}"
        return SourceError(
            "T0101", self._source.span(at, at + 1), f"not YAML: {problem}{context}", "", _syntax_help(problem, text, at)
        )


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_SYNTAX_HELP: Final = (
    ("found a tab character", "indent with spaces, not with tabs"),
    ("did not find expected node content", "a value is missing, or a list or map in brackets is not closed"),
    ("mapping values are not allowed", 'a value that holds ": " must be in quotes; else look at the indentation'),
    (
        "did not find expected key",
        "look at the indentation of this line and the one before, and for a quote not closed",
    ),
    ("could not find expected ':'", "a key needs a colon and a space after it"),
    ("did not find expected ',' or", "a list or map in brackets is not closed, or a comma is missing"),
    ("did not find expected '-'", "look at the indentation of this list"),
    ("block sequence entries are not allowed", "look at the indentation of this list"),
    ("found unexpected end of stream", "a quote is not closed"),
    ("found unknown escape character", "in double quotes write \\\\ for a backslash, or use single quotes"),
    ("while scanning an alias", "a text that begins with * must be in quotes"),
    ("did not find expected alphabetic or numeric", "a text that begins with * or & must be in quotes"),
    ("did not find expected whitespace", "a text that begins with ! must be in quotes"),
    ("did not find URI", "a text that begins with ! must be in quotes"),
    ("undefined tag handle", "a text that begins with ! must be in quotes"),
    ("did not find the expected ", "a text that begins with ! must be in quotes"),
)


def _syntax_help(problem: str, text: str, at: int) -> str:
    if "cannot start any token" in problem:
        c = text[at : at + 1]
        return "indent with spaces, not with tabs" if c == "\t" else f'a text that begins with "{c}" must be in quotes'
    return next((help for words, help in _SYNTAX_HELP if words in problem), "")


def _reader_offset(text: str, e: yaml.reader.ReaderError) -> int:
    """Where the character stands that the reader refused: libyaml counts bytes, the rest of the compiler characters."""
    code = e.character if isinstance(e.character, int) else ord(str(e.character)[:1] or "\0")
    at = text.find(chr(code)) if 0 <= code < 0x110000 else -1
    return at if at >= 0 else min(int(e.position or 0), max(len(text) - 1, 0))
