"""Loads the grammars of this package, each once, and turns parse failures into :class:`SyntaxProblem`.

All grammars are LALR(1) without conflicts: a test builds each of them in Lark's strict mode, which needs a package that
only development has. Making the tables takes a good part of a second, so they are kept in the user's cache folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from grammar import private
from grammar.errors import SyntaxProblem

if TYPE_CHECKING:
    from lark import Lark

MAX_EXPECTED = 6
_SURROGATE = re.compile("[\ud800-\udfff]")


@cache
def load(name: str, start: str | None = None) -> Lark:
    """The parser of ``<name>.lark``, from the rule ``start`` (default: the rule called ``start``). Raises ``KeyError``
    for a grammar that is not there."""
    return build(name, start, kept=_kept(f"{name}-{start or 'start'}.tables"))


def build(name: str, start: str | None = None, *, strict: bool = False, kept: str | None = None) -> Lark:
    """A parser made anew; ``strict`` refuses any ambiguity of the grammar or of its terminals, ``kept`` is a file that
    holds its tables, or shall."""
    from lark import Lark

    source = files("grammar") / f"{name}.lark"
    if not source.is_file():
        raise KeyError(name)
    return Lark(
        source.read_text(encoding="utf-8"),
        start=start or "start",
        parser="lalr",
        lexer="contextual",
        propagate_positions=True,
        maybe_placeholders=False,
        strict=strict,
        cache=kept or False,
    )


def _kept(name: str) -> str | None:
    """A file for tables (Lark unpickles what it finds there), None where nothing can be kept. Lark checks that what it
    reads is of this very grammar, and makes the tables again when it is not."""
    found = private.folder()
    return None if found is None else str(found / name)


def parse(name: str, text: str, names: Mapping[str, str], start: str | None = None, *, limit: int = 65_536) -> Any:
    """The tree of a text. ``names`` gives the words for terminals in error messages.

    Raises ``SyntaxProblem`` and nothing else, for any text.
    """
    from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken

    if len(text) > limit:
        raise SyntaxProblem("length", f"longer than {limit} characters", limit, len(text))
    if (lone := _SURROGATE.search(text)) is not None:
        raise SyntaxProblem("character", "half of a surrogate pair is no character", *lone.span())
    try:
        return load(name, start).parse(text)
    except UnexpectedCharacters as e:
        at = e.pos_in_stream or 0
        raise SyntaxProblem(
            "character", f"unexpected character {text[at]!r}", at, at + 1, words(e.allowed or (), names)
        ) from None
    except UnexpectedToken as e:
        if e.token.type == "$END":
            raise _early_end(text, words(e.accepts or e.expected or (), names)) from None
        at = e.token.start_pos or 0
        raise SyntaxProblem(
            "token", f"unexpected {str(e.token)!r}", at, at + len(e.token), words(e.accepts or e.expected or (), names)
        ) from None
    except UnexpectedEOF as e:
        raise _early_end(text, words(e.expected or (), names)) from None


def _early_end(text: str, expected: tuple[str, ...]) -> SyntaxProblem:
    return SyntaxProblem("end", "the text ends too early" if text else "empty", len(text), len(text), expected)


def words(terminals: Any, names: Mapping[str, str]) -> tuple[str, ...]:
    """What a person calls these terminals, without doubles, sorted; none when there are too many to help."""
    found = sorted({names.get(str(t), "") for t in terminals} - {""})
    return tuple(found) if len(found) <= MAX_EXPECTED else ()
