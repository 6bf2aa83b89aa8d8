"""CEL's part of the grammars: any text parses or is a ``SyntaxProblem``, and trees come back from their own text."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from random import Random
from time import monotonic
from typing import Any, Final

from compiler.frontends.cel.ast import Node, children
from compiler.frontends.cel.parse import parse
from compiler.frontends.cel.unparse import unparse
from fuzz.gen.cel import Texts, tree
from grammar.errors import SyntaxProblem

NAME: Final = "f01_cel"
PROPERTY: Final = "parse(unparse(t)) = t for CEL; its parser raises nothing but SyntaxProblem, within the text"

_SCRAPS: Final = (
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "?",
        ".?",
        "[?",
        ":",
        ",",
        ".",
        "!",
        "-",
        "!-",
        "--",
        "&&",
        "||",
        "&",
        "=",
        "==",
        "in",
    ),
    *('"', "'", '"""', "'''", "`", "`a-b`", "\\", "\\x4", "\\ud800", "\\377", "r", "b", "br'", "u", "0x", "1e", ".5"),
    *(
        "true",
        "null",
        "for",
        "has(a.b)",
        "has(",
        ".all(x, ",
        ".map(x, y, z)",
        "cel.bind(x, 1, ",
        "math.least(",
        "a{b: 1,}",
    ),
    *(" ", "\n", "\r", "\f", "//", "//x\n", "é", "\U0001f600", "\ud800", "\0", "9223372036854775808", "1u", "{{", "}}"),
)


def run(seconds: float, seed: int) -> int:
    """Tries texts until the time is up and answers how many; ``AssertionError`` holds a text that breaks a rule."""
    rng = Random(seed)
    texts = Texts(rng)
    end = monotonic() + seconds
    tried = 0
    while monotonic() < end:
        made = tree(rng, rng.randrange(5))
        text = unparse(made)
        assert shape(parse(text)) == shape(made), f"{text!r} reads as another tree"
        text = texts.expression()
        _round_trip(text, must_parse=True)
        for changed in (_changed(rng, text), "".join(rng.choices(_SCRAPS, k=rng.randrange(1, 10)))):
            _round_trip(changed, must_parse=False)
        tried += 4
    return tried


def _round_trip(text: str, *, must_parse: bool) -> None:
    try:
        node = parse(text)
    except SyntaxProblem as problem:
        if must_parse or not 0 <= problem.start <= problem.end <= len(text):
            raise AssertionError(f"{text!r}: {problem} at {problem.start}-{problem.end}") from problem
        return
    numbers = [n.id for n in _nodes(node)]
    assert len(set(numbers)) == len(numbers), f"two nodes of {text!r} have one number"
    assert all(0 <= n.at[0] < n.at[1] <= len(text) for n in _nodes(node)), f"a node lies outside {text!r}"
    again = unparse(node)
    assert shape(parse(again)) == shape(node), f"{text!r} became {again!r}"


def shape(part: Any) -> Any:
    """A tree without ids and places, in which ``1``, ``1.0``, ``1u`` and ``true`` differ, and ``0.0`` from ``-0.0``."""
    if isinstance(part, tuple):
        return tuple(map(shape, part))
    if not is_dataclass(part):
        return type(part).__name__, repr(part)
    return type(part).__name__, *(shape(getattr(part, f.name)) for f in fields(part) if f.name not in ("id", "at"))


def _nodes(root: Node) -> list[Node]:
    """All nodes of a tree."""
    found = [root]
    for node in found:
        found.extend(children(node))
    return found


def _changed(rng: Random, text: str) -> str:
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice((*_SCRAPS, "")) + text[at + rng.randrange(3) :]
    return text
