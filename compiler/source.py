"""YAML text to documents whose every value knows its place; called by the command line, the runtime and the facade.

``load_documents`` is for policies (spans, strict about mistakes), ``load_values`` for resources (values only). Both
make values from libyaml's events in one pass, since a node tree in between costs more than all the rest; scalars are
read as the Kubernetes YAML library reads them (:mod:`compiler.scalars`). Aliases share values: nobody may change what
is loaded.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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
from compiler.textmap import text_offsets

if TYPE_CHECKING:
    from compiler.diagnostics import Reporter

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


class _Text:
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


class SourceMap:
    """JSON pointers (RFC 6901) of one document to spans; one that is not there answers for the nearest one above."""

    __slots__ = ("_moves", "_root", "_source")

    def __init__(self, source: _Text, root: Node) -> None:
        self._source = source
        self._root = root
        self._moves: list[tuple[str, str]] = []

    def move(self, new: str, old: str) -> None:
        """Notes that what now stands at ``new`` was written at ``old`` (a normalised form of the guide)."""
        self._moves.append((new, old))

    def span(self, pointer: str) -> Span:
        """The span of the value at a pointer."""
        node = self._find(pointer)[0]
        return self._source.span(node[0], node[1])

    def key_span(self, pointer: str) -> Span:
        """The span of the key under which the value stands (of the value itself for list elements and the root)."""
        node, key, exact = self._find(pointer)
        if key is None or not exact:
            return self._source.span(*(key if key is not None else node[:2]))
        return self._source.span(*key)

    def text_span(self, pointer: str, start: int, end: int) -> Span:
        """The span of characters ``start`` to ``end`` of the text at a pointer.

        Escapes, folded lines and the indentation of block scalars are allowed for. The whole value when it is no text.
        """
        node, _, exact = self._find(pointer)
        if not exact or node[2] in ("{", "["):
            return self._source.span(node[0], node[1])
        offsets = text_offsets(self._source.text, node[0], node[1], node[2])
        if not offsets:
            return self._source.span(node[0], node[1])
        last = len(offsets) - 1
        first = offsets[min(max(start, 0), last)]
        if start > last:
            return self._source.span(offsets[last][1], offsets[last][1] + 1)
        return self._source.span(first[0], offsets[min(max(end - 1, start), last)][1])

    def source_text(self, pointer: str) -> str:
        """What stands in the source for the value at a pointer."""
        node = self._find(pointer)[0]
        return self._source.text[node[0] : node[1]]

    def _find(self, pointer: str) -> tuple[Node, tuple[int, int] | None, bool]:
        """The node at a pointer or above it, the place of its key, and whether the pointer is there exactly."""
        for new, old in reversed(self._moves):
            if pointer == new or pointer.startswith(new + "/"):
                pointer = old + pointer[len(new) :]
        node, key = self._root, None
        for step in pointer.split("/")[1:]:
            kids = node[3]
            if type(kids) is dict:
                name = step.replace("~1", "/").replace("~0", "~") if "~" in step else step
                found = kids.get(name)
                if found is None:
                    return node, key, False
                key = (found[0], found[1])
                node = found[2]
            elif type(kids) is list and step.isdecimal() and int(step) < len(kids):
                key = None
                node = kids[int(step)]
            else:
                return node, key, False
        return node, key, True


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document (or one item of a List). ``index`` counts within the file; ``text`` is the whole file."""

    value: Any
    origin: str
    index: int
    spans: SourceMap
    text: str


def pointer(*steps: str | int) -> str:
    """An RFC 6901 pointer of its steps."""
    return "".join("/" + str(s).replace("~", "~0").replace("/", "~1") for s in steps)


def load_documents(text: str, origin: str, reporter: Reporter) -> list[Document]:
    """Every document of a YAML text, Lists unpacked, empty ones left out.

    Mistakes go to the reporter (T01xx): after broken syntax the documents before it are still answered, a document that
    is no map is left out.
    """
    source = _Text(text, origin)

    def report(e: SourceError) -> None:
        reporter.error(e.code, e.span, e.message, e.expected, e.help)

    docs: list[Document] = []
    builder = _Builder(source, report)
    try:
        builder.run()
    except SourceError as e:
        report(e)
    for value, node in builder.documents:
        for item, place in _unpack(value, node):
            if type(item) is dict:
                docs.append(Document(item, origin, len(docs), SourceMap(source, place), text))
            elif item is not None:
                report(
                    SourceError(
                        "T0110",
                        source.span(place[0], place[1]),
                        f"the document is {type_name(item)}, not an object",
                        "a map with apiVersion, kind and metadata",
                    )
                )
    return docs


def load_values(text: str, origin: str = "<input>") -> list[Any]:
    """The values of every document of a YAML (or JSON) text, Lists unpacked, empty documents left out.

    Raises ``SourceError`` on the first mistake.
    """
    builder = _Builder(_Text(text, origin), _raise)
    builder.run()
    return [v for value, node in builder.documents for v, _ in _unpack(value, node) if v is not None]


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


def _raise(e: SourceError) -> None:
    raise e


def _unpack(value: Any, node: Node) -> list[tuple[Any, Node]]:
    """The items of a List with their nodes, or the value itself."""
    if type(value) is not dict:
        return [(value, node)]
    kind, items = value.get("kind"), value.get("items")
    if type(kind) is not str or not kind.endswith("List") or type(items) is not list or "apiVersion" not in value:
        return [(value, node)]
    places = node[3]["items"][2][3]
    return [found for item, place in zip(items, places, strict=True) for found in _unpack(item, place)]


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


class _Builder:
    """Events of one text to values and span nodes."""

    def __init__(self, source: _Text, report: Callable[[SourceError], None]) -> None:
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
