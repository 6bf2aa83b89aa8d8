"""Lets equal functions be one. Messages, specialised patterns and helpers repeat across rules and policies; the first
stays.

Entries are left apart, since their code is shown under the policy lines it came from. Calls to a function that went
are led to the one that stayed, which can make further functions equal, so it runs until nothing changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from compiler.ir.ops import Call, Const, Expr, Function, Module, Op
from compiler.ir.walk import iter_exprs, map_functions, rewrite_function
from vm.values import canonical_key


def dedupe(m: Module) -> Module:
    """The module with one function for each distinct one that is no entry."""
    while True:
        first: dict[Any, str] = {}
        renamed: dict[str, str] = {}
        for fn in m.functions:
            if fn.role in ("entry", "exception"):
                continue
            kept = first.setdefault(_key(fn), fn.name)
            if kept != fn.name:
                renamed[fn.name] = kept
        if not renamed:
            return m

        def lead(e: Expr, to: dict[str, str] = renamed) -> Expr:
            match e:
                case Call(name, args) if name in to:
                    return Call(to[name], args)
                case Op("cell" | "reset" | "scoped" | "o_scoped", args, (name,)) if name in to:
                    return Op(e.name, args, (to[name],))
            return e

        m = replace(m, functions=tuple(fn for fn in m.functions if fn.name not in renamed))
        m = map_functions(m, lambda fn, lead=lead: rewrite_function(fn, lead))  # type: ignore[misc]


def _key(fn: Function) -> Any:
    """Equal for functions that do the same: Python's ``==`` on trees takes ``1`` for ``True``, so constants are keyed
    apart."""
    constants: list[Any] = []
    for e in iter_exprs(fn.body):
        if isinstance(e, Const):
            constants.append(canonical_key(e.value))
        elif isinstance(e, Op):
            constants.extend(map(canonical_key, e.imm))
    return (fn.params, tuple(fn.locals.items()), fn.result, fn.role, tuple(constants), _Tree(fn))


class _Tree:
    """A function's body as a dictionary key: constants may be lists and maps, which do not hash."""

    __slots__ = ("fn",)

    def __init__(self, fn: Function) -> None:
        self.fn = fn

    def __hash__(self) -> int:
        return len(self.fn.body)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Tree) and self.fn.body == other.fn.body
