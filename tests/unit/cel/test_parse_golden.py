"""Trees of CEL expressions, node by node with their places, and what is said of texts that are none."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.frontends.cel.ast import (
    Bind,
    Call,
    Entry,
    FieldInit,
    Ident,
    ListLit,
    Literal,
    Loop,
    MapLit,
    Node,
    Opt,
    Select,
    StructLit,
)
from compiler.frontends.cel.parse import parse
from grammar.errors import SyntaxProblem
from tests.support.golden import Golden, GoldenCase, golden_cases


@pytest.mark.parametrize("case", golden_cases("parse_cel"))
def test_trees(case: GoldenCase, golden: Golden) -> None:
    text = case.input.rstrip("\n")
    try:
        node = parse(text, block="block" in case.path.stem)
    except SyntaxProblem as problem:
        lines = [f"{problem.code} {problem.start}-{problem.end}: {problem.message}"]
        if problem.expected:
            lines.append(f"expected: {', '.join(problem.expected)}")
        if problem.hint:
            lines.append(f"hint: {problem.hint}")
    else:
        lines = _lines(node, 0)
    golden(case, "\n".join(lines))


def _lines(part: Any, depth: int, before: str = "") -> list[str]:
    """A line for a part of a tree, then its own parts."""
    words, below = _shown(part)
    at = f" {part.at[0]}-{part.at[1]}" if not isinstance(part, Entry) else ""
    out = [f"{'  ' * depth}{before}{words}{at}"]
    for name, sub in below:
        out += _lines(sub, depth + 1, name)
    return out


def _shown(part: Node | Entry | FieldInit) -> tuple[str, list[tuple[str, Any]]]:
    match part:
        case Literal(value):
            return f"{type(value).__name__.lower()} {value!r}", []
        case Ident(name, rooted):
            return f"name {'.' if rooted else ''}{name}", []
        case Select(of, name, test, optional):
            return f"{'has' if test else 'select'} {'?' if optional else ''}{name}", [("", of)]
        case Call(function, args, target):
            below = [("", a) for a in args]
            return f"call {function}", below if target is None else [("of ", target), *below]
        case ListLit(items, optionals):
            return "list", [("?" if i in optionals else "", x) for i, x in enumerate(items)]
        case MapLit(entries):
            return "map", [("", e) for e in entries]
        case Entry(key, value, optional):
            return f"entry{' ?' if optional else ''}", [("", key), ("", value)]
        case StructLit(name, fields):
            return f"message {name}", [("", f) for f in fields]
        case FieldInit(name, value, optional):
            return f"field {'?' if optional else ''}{name}", [("", value)]
        case Loop(kind, over, var, var2, where, then):
            parts = [("over ", over), ("where ", where), ("then ", then)]
            return f"{kind} {var}{f', {var2}' if var2 else ''}", [p for p in parts if p[1] is not None]
        case Bind(var, value, body):
            return f"bind {var}", [("", value), ("in ", body)]
        case Opt(of, var, then, flat):
            return f"{'optFlatMap' if flat else 'optMap'} {var}", [("of ", of), ("then ", then)]
