"""YAML text to documents whose every value knows its place; called by the command line, the runtime and ``compile_policies``.

``load_documents`` is for policies (spans, strict about mistakes), ``load_values`` for resources (fast, values only). Both
read scalars as the Kubernetes YAML library does: see :mod:`compiler.scalars`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compiler.diagnostics import Reporter


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a file; lines and columns count from 1, columns in characters, the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


class SourceMap:
    """JSON pointers (RFC 6901) of one document to spans; a pointer that is not there answers for the nearest one above."""

    def span(self, pointer: str) -> Span:
        """The span of the value at a pointer."""
        raise NotImplementedError

    def key_span(self, pointer: str) -> Span:
        """The span of the key under which the value stands (of the value itself for list elements and the root)."""
        raise NotImplementedError

    def text_span(self, pointer: str, start: int, end: int) -> Span:
        """The span of characters ``start`` to ``end`` of the text at a pointer, escapes, folding and indentation allowed for."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document (or one item of a List). ``index`` counts within the file; ``text`` is the whole file."""

    value: Any
    origin: str
    index: int
    spans: SourceMap
    text: str


def load_documents(text: str, origin: str, reporter: Reporter) -> list[Document]:
    """Every document of a YAML text, Lists unpacked, empty ones left out; mistakes go to the reporter."""
    raise NotImplementedError


def load_values(text: str) -> list[Any]:
    """The values of every document of a YAML text, Lists unpacked; raises ``SourceError`` (``.diagnostic``) on bad YAML."""
    raise NotImplementedError
