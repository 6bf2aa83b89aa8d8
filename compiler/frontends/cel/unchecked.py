"""What an expression says without its types: names and functions found, everything ``dyn``.

Takes the place of :func:`compiler.frontends.cel.check.check` where an expression is to run unchecked, as the
specification allows (CEL spec § Gradual Type Checking): what a checker would refuse fails when it is evaluated, or not
at all. Called for such tests and by ``thesmos cel --unchecked``.
"""

from __future__ import annotations

from collections.abc import Iterable

from compiler.frontends.cel.ast import (
    Bind,
    Call,
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
from compiler.frontends.cel.checked import Checked, Constant, LoopVar, Variable
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.resolve import Names, candidates, is_rooted, qualified
from compiler.frontends.cel.types import DYN
from vm.cel.library import Function


def unchecked(node: Node, env: Env) -> Checked:
    """The tables of an expression; what is not found has no entry and fails when it is evaluated."""
    names = _Names(env)
    names.visit(node, {})
    return Checked(node, DYN, {}, names.names, names.calls, names.structs, frozenset(names.namespaced))


class _Names:
    def __init__(self, env: Env) -> None:
        self.env = env
        self.known = Names(env)
        self.functions: dict[tuple[str, int], Function] = {}
        for library in env.libraries:
            for row in library.functions:
                self.functions.setdefault((row.name, row.operands), row)
        self.names: dict[int, Variable | LoopVar | Constant] = {}
        self.calls: dict[int, Function] = {}
        self.structs: dict[int, str] = {}
        self.namespaced: set[int] = set()

    def visit(self, node: Node, inner: dict[str, LoopVar]) -> None:
        match node:
            case Literal():
                pass
            case Ident() | Select():
                self.name(node, inner)
            case Call():
                self.call(node, inner)
            case ListLit(items):
                self.all(items, inner)
            case MapLit(entries):
                self.all((x for e in entries for x in (e.key, e.value)), inner)
            case StructLit():
                found = self.known.message(node.name)
                self.structs[node.id] = found[0] if found is not None else node.name.removeprefix(".")
                self.all((f.value for f in node.fields), inner)
            case Loop():
                self.visit(node.over, inner)
                own = {node.var: LoopVar(node.id)}
                if node.var2 is not None:
                    own[node.var2] = LoopVar(node.id, 1)
                self.all((x for x in (node.where, node.then) if x is not None), inner | own)
            case Bind():
                self.visit(node.value, inner)
                self.visit(node.body, inner | {node.var: LoopVar(node.id)})
            case Opt():
                self.visit(node.of, inner)
                self.visit(node.then, inner | {node.var: LoopVar(node.id)})

    def all(self, nodes: Iterable[Node], inner: dict[str, LoopVar]) -> None:
        for node in nodes:
            self.visit(node, inner)

    def name(self, node: Ident | Select, inner: dict[str, LoopVar]) -> None:
        written = self.written(node, inner)
        if written is not None and written != "dyn" and (found := self.known.lookup(written)) is not None:
            self.names[node.id] = found[1]
        elif isinstance(node, Select):
            self.visit(node.of, inner)
        elif not is_rooted(node) and node.name in inner:
            self.names[node.id] = inner[node.name]

    def written(self, node: Node, inner: dict[str, LoopVar]) -> str | None:
        """The name that a chain of selects writes, None where it begins with a variable of a loop."""
        found = qualified(node)
        if found is None:
            return None
        ident, name = found
        if is_rooted(ident):
            return "." + name
        return None if ident.name in inner else name

    def call(self, node: Call, inner: dict[str, LoopVar]) -> None:
        self.all(node.args, inner)
        if node.target is not None:
            prefix = self.written(node.target, inner)
            if prefix is not None and (row := self.function(f"{prefix}.{node.function}", len(node.args))) is not None:
                self.namespaced.add(node.id)
                self.calls[node.id] = row
                return
            self.visit(node.target, inner)
        row = self.function(node.function, len(node.args) + (node.target is not None))
        if row is not None:
            self.calls[node.id] = row

    def function(self, name: str, operands: int) -> Function | None:
        for full in candidates(self.env.container, name):
            if (row := self.functions.get((full, operands))) is not None:
                return row
        return None
