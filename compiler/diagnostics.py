"""Diagnostics: what the compiler says about a policy text, collected by a ``Reporter`` and shown with a caret.

Every part of the compiler reports through :class:`Reporter`; the command line renders, the webhook answers with
the same text. Codes come from the closed table in :mod:`compiler.catalogue`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from compiler.catalogue import CODES, Severity
from compiler.source import Span

_MARK = {"error": "^", "warning": "^", "note": "-", "advice": "-"}
_COLOUR = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "note": "\x1b[1;36m", "advice": "\x1b[1;35m"}
_BLUE, _BOLD, _RESET = "\x1b[1;34m", "\x1b[1m", "\x1b[0m"
_TAB = 4
_MAX_LINE = 160
"""Columns of source shown at most: a policy may be one line of JSON."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: ``message`` is lower case without a full stop, ``expected`` and ``help`` may be empty."""

    code: str
    severity: Severity
    span: Span | None
    message: str
    expected: str = ""
    help: str = ""

    def to_json(self) -> dict[str, Any]:
        """The stable JSON form: code, severity, message, then file and positions when there is a span."""
        out: dict[str, Any] = {"code": self.code, "severity": self.severity, "message": self.message}
        if self.expected:
            out["expected"] = self.expected
        if self.help:
            out["help"] = self.help
        if (s := self.span) is not None:
            out |= {
                "file": s.file,
                "line": s.line,
                "column": s.column,
                "endLine": s.end_line,
                "endColumn": s.end_column,
            }
        return out


@dataclass(slots=True)
class Reporter:
    """Collects diagnostics. ``strict`` makes errors of warnings. The same finding at the same place is kept once."""

    strict: bool = False
    diagnostics: list[Diagnostic] = field(default_factory=list)
    _seen: set[Diagnostic] = field(default_factory=set, repr=False)
    _errors: int = field(default=0, repr=False)

    @property
    def failed(self) -> bool:
        return self._errors > 0

    @property
    def errors(self) -> int:
        """How many errors so far: compare before and after to learn whether one part went well."""
        return self._errors

    def error(self, code: str, span: Span | None, message: str, expected: str = "", help: str = "") -> None:
        self._add(Diagnostic(code, "error", span, message, expected, help))

    def warning(self, code: str, span: Span | None, message: str, expected: str = "", help: str = "") -> None:
        self._add(Diagnostic(code, "error" if self.strict else "warning", span, message, expected, help))

    def note(self, code: str, span: Span | None, message: str, expected: str = "", help: str = "") -> None:
        self._add(Diagnostic(code, "note", span, message, expected, help))

    def advice(self, code: str, span: Span | None, message: str, expected: str = "", help: str = "") -> None:
        self._add(Diagnostic(code, "advice", span, message, expected, help))

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        for d in diagnostics:
            self._add(d)

    def _add(self, d: Diagnostic) -> None:
        if d.code not in CODES:
            raise KeyError(d.code)
        if d in self._seen:
            return
        self._seen.add(d)
        self.diagnostics.append(d)
        if d.severity == "error":
            self._errors += 1


def render(diag: Diagnostic, text: str | None = None, color: bool = False) -> str:
    """``file:line:col: severity[code]: message``, then the source line with a caret, then ``expected`` and ``help``.

    ``text`` is the whole file; without it (or without a span) the source line is left out. No newline at the end.
    """
    paint = (lambda s, c: f"{c}{s}{_RESET}") if color else (lambda s, c: s)
    s = diag.span
    head = paint(f"{diag.severity}[{diag.code}]", _COLOUR[diag.severity]) + ": " + paint(diag.message, _BOLD)
    out = [head if s is None else f"{s.file}:{s.line}:{s.column}: {head}"]
    width = len(str(s.line)) if s is not None else 1
    bar = paint("|", _BLUE)
    if s is not None and text is not None and (line := _line(text, s.line)) is not None:
        shown, start, end = _excerpt(line, s)
        out.append(f"{' ' * width} {bar}")
        out.append(f"{paint(str(s.line), _BLUE)} {bar} {shown}".rstrip())
        caret = " " * start + _MARK[diag.severity] * max(1, end - start)
        out.append(f"{' ' * width} {bar} " + " " * start + paint(caret[start:], _COLOUR[diag.severity]))
    eq = paint("=", _BLUE)
    if diag.expected:
        out.append(f"{' ' * width} {eq} expected: {diag.expected}")
    if diag.help:
        first, *rest = diag.help.split("\n")
        out.append(f"{' ' * width} {eq} help: {first}")
        out.extend(f"{' ' * width}         {x}".rstrip() for x in rest)
    return "\n".join(out)


def render_all(diagnostics: Iterable[Diagnostic], texts: dict[str, str], color: bool = False) -> str:
    """Every diagnostic, a blank line between two; ``texts`` maps file names to their text."""
    return "\n\n".join(render(d, texts.get(d.span.file) if d.span else None, color) for d in diagnostics)


def _line(text: str, number: int) -> str | None:
    """Line ``number`` (from 1) by the line breaks YAML knows, so that numbers agree with the parser's."""
    at = 0
    for _ in range(number - 1):
        at = text.find("\n", at) + 1
        if at == 0:
            return None
    end = text.find("\n", at)
    return (text[at:] if end < 0 else text[at:end]).rstrip("\r")


def _excerpt(line: str, s: Span) -> tuple[str, int, int]:
    """The part of a line to show, with the display columns (from 0) where the mark starts and ends in it."""
    first = min(s.column - 1, len(line))
    last = min(s.end_column - 1, len(line)) if s.end_line == s.line else len(line.rstrip())
    last = max(last, first)
    cut = 0
    if len(line) > _MAX_LINE:
        cut = max(0, min(first - _MAX_LINE // 4, len(line) - _MAX_LINE))
        tail = line[cut + _MAX_LINE :]
        line = line[: cut + _MAX_LINE] + ("…" if tail else "")
        last = min(last, cut + _MAX_LINE)
    lead = "…" if cut else ""
    before, marked = lead + line[cut:first], line[first:last]
    start = _columns(before, 0)
    return _printable(lead + line[cut:]), start, _columns(marked, start)


def _columns(text: str, at: int) -> int:
    """The display column after ``text`` when it starts in column ``at``: wide runes take two, combining ones none."""
    for c in text:
        if c == "\t":
            at += _TAB - at % _TAB
        elif unicodedata.combining(c) or unicodedata.category(c) in ("Mn", "Me", "Cf"):
            continue
        elif unicodedata.category(c) == "Cc":
            at += 1
        else:
            at += 2 if unicodedata.east_asian_width(c) in "WF" else 1
    return at


def _printable(line: str) -> str:
    """The line as a terminal may show it: tabs widened, control and format characters made harmless."""
    out: list[str] = []
    at = 0
    for c in line:
        if c == "\t":
            n = _TAB - at % _TAB
            out.append(" " * n)
            at += n
            continue
        category = unicodedata.category(c)
        if category == "Cf":
            continue
        out.append("?" if category in ("Cc", "Cs", "Zl", "Zp") else c)
        at = _columns(c, at)
    return "".join(out)
