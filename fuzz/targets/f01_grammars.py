"""Every text either parses or gives a ``SyntaxProblem``; what parses comes back from its own text as the same tree."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from time import monotonic
from typing import Any, Final

from compiler.frontends.jmes.ast import unparse
from compiler.frontends.jmes.check import check, root_names
from compiler.frontends.jmes.parse import parse
from compiler.frontends.pattern import compile_scalar, parse_key, parse_kind
from compiler.frontends.template.references import resolve
from compiler.frontends.template.split import open_braces, split
from grammar.errors import SyntaxProblem
from vm.scalar import ScalarPattern

NAME: Final = "f01_grammars"
PROPERTY: Final = "parse(unparse(t)) = t for each grammar; a parser raises nothing but SyntaxProblem, within the text"

_ATOMS: Final = (
    *("a", "b_1", "@", '"x y"', '"\\u00e9"', "'raw'", "'it\\'s'", "`1`", '`[1, {"k": null}]`', '`"a\\`b"`'),
    *("*", "[]", "[*]", "[0]", "[-1]", "[1:2]", "[::-1]", "[?a]"),
    *("length(a)", "map(&b, a)", "not_null(a, b)", "{k: a}", "[a, b]"),
)
_STEPS: Final = (
    *(".c", '."d e"', ".*", "[*]", "[]", "[0]", "[-2]", "[1:]", "[:2:3]"),
    *(".[a, b]", ".{k: a}", ".length(@)", "[?a == b]"),
)
_JOINTS: Final = (" | ", " || ", " && ", " == ", " != ", " < ", " >= ", "|", "||")
_SCRAPS: Final = (
    *_ATOMS,
    *_STEPS,
    *_JOINTS,
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "{{",
        "}}",
        "{{-",
        "\\{{",
        "\\",
        "$(",
        "$(./../a)",
        "\\$(",
        "!",
        "&",
        ",",
        ":",
        ".",
    ),
    *("`", "'", '"', "#", "é", "\U0001f600", "\ud800", "\0", "\n", " ", "^(a)", "=(b)", "X(c)", "<(d)", "+(e)", "?*"),
    *(">=", "!", "1-3", "10Mi!-20Mi", "*/Pod", "apps/v1/Deployment", "Pod.status", "v1", "99999999999999999999", "-"),
)


def run(seconds: float, seed: int) -> int:
    """Tries texts until the time is up and answers how many; ``AssertionError`` holds a text that breaks a rule."""
    rng = Random(seed)
    end = monotonic() + seconds
    tried = 0
    while monotonic() < end:
        query = _query(rng, rng.randrange(4))
        _round_trip(query, must_parse=True)
        for text in (_changed(rng, query), "".join(rng.choices(_SCRAPS, k=rng.randrange(1, 12)))):
            _round_trip(text, must_parse=False)
            _others(text)
        tried += 3
    return tried


def _query(rng: Random, depth: int) -> str:
    """A query by the grammar, its parts in parentheses where it is deep."""
    if depth == 0:
        return rng.choice(_ATOMS)
    match rng.randrange(6):
        case 0:
            return _query(rng, depth - 1) + rng.choice(_JOINTS) + _query(rng, depth - 1)
        case 1:
            return f"({_query(rng, depth - 1)})" + "".join(rng.choices(_STEPS, k=rng.randrange(4)))
        case 2:
            return f"!({_query(rng, depth - 1)})" + rng.choice(("", "[0]", ".x", "[]"))
        case 3:
            return f"a[?{_query(rng, depth - 1)}]" + "".join(rng.choices(_STEPS, k=rng.randrange(3)))
        case 4:
            return f"[{_query(rng, depth - 1)}, {{k: {_query(rng, depth - 1)}}}]"
    return f"sort_by({_query(rng, depth - 1)}, &({_query(rng, depth - 1)}))"


def _changed(rng: Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice((*_SCRAPS, "")) + text[at + rng.randrange(3) :]


def _round_trip(text: str, *, must_parse: bool) -> None:
    tree = _tried(parse, text)
    if isinstance(tree, SyntaxProblem):
        assert not must_parse, f"refused: {text!r}: {tree}"
        return
    again = unparse(tree)
    assert parse(again) == tree, f"{text!r} became {again!r}"
    for name, (start, stop) in root_names(tree):
        assert 0 <= start < stop <= len(text), f"{name} of {text!r} lies outside"
    _tried(lambda _: check(tree), text)


def _tried(parser: Callable[[str], Any], text: str) -> Any:
    """What a parser answers, or its problem, which must lie within the text."""
    try:
        return parser(text)
    except SyntaxProblem as problem:
        if not 0 <= problem.start <= problem.end <= len(text):
            raise AssertionError(f"problem outside {text!r}: {problem.start}-{problem.end}") from problem
        return problem


def _others(text: str) -> None:
    pieces = split(text)
    assert "".join(p if isinstance(p, str) else p.raw for p in pieces) == text, f"pieces of {text!r}"
    assert not any(isinstance(a, str) and isinstance(b, str) for a, b in pairwise(pieces)), text
    for p in pieces:
        if not isinstance(p, str):
            assert text[p.start : p.start + len(p.raw)] == p.raw, text
            assert "{{" not in p.body, text
    at = open_braces(text)
    assert at is None or text.startswith("{{", at), text
    resolve({"a": text, "b": [text]}, {"a": text, "b": [text]}, "", lambda _where, _what: None)
    pattern = compile_scalar(text)
    assert ScalarPattern.from_json(pattern.to_json()) == pattern, f"pattern {text!r}"
    key = parse_key(text)
    if key.anchor is None:
        assert key.name == text, f"key {text!r}"
    else:
        written = f"{key.anchor}({key.name})"
        assert parse_key(written) == key, f"key {text!r}"
    parse_kind(text)
