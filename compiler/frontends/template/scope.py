"""What a front end must know to lower queries and templates: where locals go, which names may be used, whom to tell.

One :class:`Scope` serves one IR function; rules share everything but the builder (:meth:`Scope.inside`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from compiler.diagnostics import Reporter
from compiler.ir.build import FunctionBuilder
from compiler.ir.ops import Expr, Function
from compiler.source import SourceMap, Span

PLAIN_ROOTS = frozenset({"request", "serviceAccountName", "serviceAccountNamespace", "images"})
"""The names every query may start from; a rule adds those of its context entries."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A context entry that queries may name, and the function of role cell that computes its value."""

    name: str
    cell: str


@dataclass(slots=True)
class Scope:
    """The surroundings of a query or template.

    ``builder`` declares the locals of the function that the result becomes part of. ``roots`` are the names a query
    may start from (None: no check). ``names`` binds some of them to expressions instead of keys of the root
    (``element`` in a loop). ``base`` is the path of the document that queries look at, ``()`` for the root.
    ``standard`` chooses plain JMESPath functions where the policy dialect replaces them (``sum``).
    ``entries`` are the context entries that queries here may trigger, in the order in which they are declared; of two
    of one name the later is the value. ``functions`` receives the functions that are made on the way. ``here`` is the
    object that ``{{ @ }}`` looks into. ``quirks``: what is lowered answers as the reference where that is wrong.
    """

    builder: FunctionBuilder
    reporter: Reporter | None = None
    spans: SourceMap | None = None
    roots: frozenset[str] | None = None
    names: Mapping[str, Expr] = field(default_factory=dict)
    base: tuple[str, ...] = ()
    standard: bool = False
    entries: tuple[Entry, ...] = ()
    functions: list[Function] = field(default_factory=list)
    quirks: bool = False
    here: str = "request.object"

    def inside(self, builder: FunctionBuilder) -> Scope:
        """The same surroundings for another function. Expressions bound to names must be readable there."""
        return replace(self, builder=builder)

    def span(self, pointer: str, start: int = 0, end: int | None = None) -> Span | None:
        """The place of characters ``start`` to ``end`` of the text at a pointer, of the whole value without ``end``."""
        if self.spans is None:
            return None
        return self.spans.span(pointer) if end is None else self.spans.text_span(pointer, start, end)

    def error(self, code: str, pointer: str, message: str, *, at: tuple[int, int] | None = None, **more: str) -> None:
        """Reports an error at a value, or at some characters of a text."""
        if self.reporter is not None:
            span = self.span(pointer, *at) if at is not None else self.span(pointer)
            self.reporter.error(code, span, message, **more)

    def warning(self, code: str, pointer: str, message: str, *, at: tuple[int, int] | None = None, **more: str) -> None:
        """Reports a warning at a value, or at some characters of a text."""
        if self.reporter is not None:
            span = self.span(pointer, *at) if at is not None else self.span(pointer)
            self.reporter.warning(code, span, message, **more)

    @property
    def bound(self) -> Mapping[str, Expr]:
        """The names bound to expressions."""
        return self.names
