"""What the API server asks of an expression whose types are right.

The elements of a list literal, and the keys and values of a map literal, must be of one type (but within the arguments
of ``format``), and constant durations, timestamps and regular expressions must be good ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from compiler.frontends.cel.ast import (
    Bind,
    Call,
    ListLit,
    Literal,
    Loop,
    MapLit,
    Node,
    Opt,
    Select,
    StructLit,
)
from compiler.frontends.cel.checked import Problem
from compiler.frontends.cel.soft import hard
from compiler.frontends.cel.types import OPTIONAL, Opaque, Type, Wrapper, format_type
from vm.cel.library import Function
from vm.values import Err, Value

_CONSTANTS: Final = ("duration", "timestamp", "matches")


def children(n: Node) -> Iterator[Node]:
    """The nodes directly within a node."""
    match n:
        case Select(of):
            yield of
        case Call():
            if n.target is not None:
                yield n.target
            yield from n.args
        case ListLit(items):
            yield from items
        case MapLit(entries):
            for e in entries:
                yield e.key
                yield e.value
        case StructLit():
            for f in n.fields:
                yield f.value
        case Loop():
            yield n.over
            if n.where is not None:
                yield n.where
            if n.then is not None:
                yield n.then
        case Bind():
            yield n.value
            yield n.body
        case Opt():
            yield n.of
            yield n.then
        case _:
            return


def further_problems(root: Node, types: Mapping[int, Type], calls: Mapping[int, Function]) -> list[Problem]:
    """The problems of an expression without errors of types."""
    out: list[Problem] = []
    todo: list[tuple[Node, bool]] = [(root, False)]
    while todo:
        n, exempt = todo.pop()
        match n:
            case ListLit(items) if not exempt:
                found = [(x, _held(types[x.id], i in n.optional)) for i, x in enumerate(items)]
                out += _of_one_type(found)[:1]
            case MapLit(entries) if not exempt:
                out += _of_one_type([(e.key, types[e.key.id]) for e in entries])
                out += _of_one_type([(e.value, _held(types[e.value.id], e.optional)) for e in entries])
            case Call() if n.function in _CONSTANTS and n.args and n.id in calls:
                argument = n.args[0]
                if isinstance(argument, Literal) and not _good(calls[n.id], n, argument.value):
                    out.append(Problem("literal", f"invalid {n.function} argument", argument.at))
        exempt = exempt or (isinstance(n, Call) and n.function == "format")
        todo.extend((x, exempt) for x in children(n))
    return out


def _held(t: Type, optional: bool) -> Type:
    if optional and isinstance(t, Opaque) and t.name == OPTIONAL:
        return t.params[0]
    return t


def _of_one_type(found: list[tuple[Node, Type]]) -> list[Problem]:
    out: list[Problem] = []
    for n, t in found[1:]:
        first, this = hard(found[0][1]), hard(t)
        if _bare(first) != _bare(this):
            message = f"expected type '{format_type(first)}' but found '{format_type(this)}'"
            out.append(
                Problem("type", message, n.at, help="elements of one literal must be of one type; dyn(x) takes any")
            )
    return out


def _bare(t: Type) -> Type:
    return t.of if isinstance(t, Wrapper) else t


def _good(row: Function, call: Call, value: Value) -> bool:
    """Whether the function takes the constant: its body says so."""
    module, _, name = row.body.partition(":")
    body = getattr(import_module(module), name)
    return type(body("", value) if call.function == "matches" else body(value)) is not Err
