"""Constant formats against the types of their operands, before anything runs: what cel-go asks of
``"…".format([…])`` when both are literals.

Called by the checker for an expression without other errors; the words are those of the run (``vm.cel.format``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from compiler.frontends.cel.apiserver import children
from compiler.frontends.cel.ast import Call, ListLit, Literal, MapLit, Node
from compiler.frontends.cel.checked import Problem
from compiler.frontends.cel.soft import hard
from compiler.frontends.cel.types import ListOf, MapOf, Message, Object, Opaque, Param, Prim, Type, TypeOf, Wrapper
from vm.cel.library import Function

_BODIES: Final = ("vm.cel.format:format_text", "vm.cel.format:format_kubernetes")
_LOOSE: Final = frozenset({"dyn", "error"})


def format_problems(root: Node, types: Mapping[int, Type], calls: Mapping[int, Function]) -> list[Problem]:
    """The problems of all constant formats."""
    if not any(row.body in _BODIES for row in calls.values()):
        return []
    out: list[Problem] = []
    todo = [root]
    while todo:
        n = todo.pop()
        if isinstance(n, Call) and n.id in calls:
            problem = _of_call(n, types, calls[n.id])
            out += [problem] if problem is not None else []
        todo.extend(children(n))
    return out


def _of_call(n: Call, types: Mapping[int, Type], row: Function) -> Problem | None:
    if row.body not in _BODIES or len(n.args) != 1:
        return None
    match n.target, n.args[0]:
        case Literal(str() as template), ListLit(items):
            return _problem(n, template, items, types, old=row.body == _BODIES[1])
    return None


def _problem(
    n: Call, template: str, items: tuple[Node, ...], types: Mapping[int, Type], *, old: bool
) -> Problem | None:
    from vm.cel.format import OLD_VERBS, VERBS, Misfit, clauses

    verbs = OLD_VERBS if old else VERBS
    used = 0
    try:
        for _, verb, _ in clauses(template, verbs, len(items), checking=True):
            if verb is None:
                break
            misfit = _misfit(items[used], verb.takes, types, deep=verb is verbs["s"])
            if misfit is not None:
                return Problem("type", str(verb.misfit(_name(types[misfit.id]))), misfit.at)
            used += 1
    except Misfit as e:
        return Problem("literal", str(e), n.at)
    if used < len(items):
        counts = f"(expected {used}, got {len(items)})"
        return Problem("literal", f"too many arguments supplied to string.format {counts}", n.at)
    return None


def _misfit(n: Node, takes: frozenset[str], types: Mapping[int, Type], *, deep: bool) -> Node | None:
    """The operand, or with ``deep`` the part of a literal, of a type that is not taken."""
    todo = [n]
    while todo:
        x = todo.pop()
        if _name(types[x.id]) not in takes | _LOOSE:
            return x
        match x:
            case ListLit(items) if deep:
                todo += reversed(items)
            case MapLit(entries) if deep:
                todo += [part for e in reversed(entries) for part in (e.value, e.key)]
    return None


def _name(t: Type) -> str:
    """The name of a type without its parameters."""
    match hard(t):
        case Prim(name) | Message(name) | Opaque(name) | Object(name):
            return name
        case Wrapper(of):
            return of.name
        case ListOf():
            return "list"
        case MapOf():
            return "map"
        case TypeOf():
            return "type"
        case Param():
            return "dyn"
    return "dyn"
