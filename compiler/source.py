"""YAML text to documents whose every value knows its place; called by the command line, the runtime and the facade.

``load_documents`` is for policies (spans, strict about mistakes), ``load_values`` for resources (values only). Both
read scalars as the Kubernetes YAML library does (:mod:`compiler.scalars`). Aliases share values: nobody may change what
is loaded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from compiler.textmap import text_offsets
from compiler.yaml_events import MAX_DEPTH, Builder, Node, SourceError, Span, Text, type_name
from vm.patch.diff import escape

if TYPE_CHECKING:
    from compiler.diagnostics import Reporter

__all__ = ["Document", "SourceError", "SourceMap", "Span", "load_documents", "load_values", "pointer", "type_name"]


class SourceMap:
    """JSON pointers (RFC 6901) of one document to spans; one that is not there answers for the nearest one above."""

    __slots__ = ("_moves", "_root", "_source")

    def __init__(self, source: Text, root: Node) -> None:
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

    def ranges(self, pointer: str) -> tuple[tuple[int, int] | None, tuple[int, int]] | None:
        """The offsets of a value's key (None for list elements and the root) and of the value itself, for those who
        edit the text; None when the pointer is not there."""
        node, key, exact = self._find(pointer)
        return (key, (node[0], node[1])) if exact else None

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
    return "".join("/" + escape(str(s)) for s in steps)


def load_documents(text: str, origin: str, reporter: Reporter) -> list[Document]:
    """Every document of a YAML text, Lists unpacked, empty ones left out.

    Mistakes go to the reporter (T01xx): after broken syntax the documents before it are still answered, a document that
    is no map is left out.
    """
    source = Text(text, origin)

    def report(e: SourceError) -> None:
        reporter.error(e.code, e.span, e.message, e.expected, e.help)

    docs: list[Document] = []
    builder = Builder(source, report)
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

    Raises ``SourceError`` on the first mistake. A text whose documents are all JSON is read as JSON, as Kubernetes
    tools do: YAML has no surrogate pairs, and JSON's ``1.0`` stays a fraction. It is read thirty times as fast, too.
    """
    if text.lstrip()[:1] in ("{", "["):
        # JSON has no line break inside a text, so that a line of dashes can only stand between two documents.
        found = [_json(document) for document in _BETWEEN.split(text)]
        if None not in found:
            return [v for one in found if one is not None for v in _items(one[0]) if v is not None]
    builder = Builder(Text(text, origin), _raise)
    builder.run()
    return [v for value, node in builder.documents for v, _ in _unpack(value, node) if v is not None]


_BETWEEN: Final = re.compile(r"\r?\n---[ \t]*\r?\n")


def _json(text: str) -> tuple[Any] | None:
    """The value of a JSON text, None when it is no JSON or nested too deeply (the YAML reader then says so)."""
    try:
        value = orjson.loads(text)
    except ValueError:
        return None
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            return None
        level = [
            sub
            for v in level
            for sub in (v.values() if type(v) is dict else v if type(v) is list else ())
            if type(sub) is dict or type(sub) is list
        ]
    return (value,)


def _items(value: Any) -> list[Any]:
    """The items of a List, or the value itself."""
    return [found for item in value["items"] for found in _items(item)] if _is_list(value) else [value]


def _is_list(value: Any) -> bool:
    if type(value) is not dict or "apiVersion" not in value or type(value.get("items")) is not list:
        return False
    kind = value.get("kind")
    return type(kind) is str and kind.endswith("List")


def _raise(e: SourceError) -> None:
    raise e


def _unpack(value: Any, node: Node) -> list[tuple[Any, Node]]:
    """The items of a List with their nodes, or the value itself."""
    if not _is_list(value):
        return [(value, node)]
    places = node[3]["items"][2][3]
    return [found for item, place in zip(value["items"], places, strict=True) for found in _unpack(item, place)]
