"""What the checker finds out about an expression, by node id; the lowering and the cost estimate read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal as OneOf

from compiler.frontends.cel.ast import Node, Span
from compiler.frontends.cel.types import Type
from vm.cel.library import Function
from vm.values import Value


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding at a place of the text. ``message`` is in cel-go's words where it has some. ``level``: ``error`` makes
    the expression unusable, ``warning`` says that it does not fit a schema, ``note`` tells of a reading (quantities of
    decision 6). ``kind``: syntax, depth, length, undeclared, overload, field, type, literal, schema, always_false,
    quantity."""

    kind: str
    message: str
    at: Span
    level: OneOf["error", "warning", "note"] = "error"
    expected: str = ""
    help: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """An ident, or a chain of selects, that names a variable of the environment."""

    name: str


@dataclass(frozen=True, slots=True)
class LoopVar:
    """An ident that names a variable of an enclosing ``Loop``, ``Bind`` or ``Opt``: its node's ``id``, and which of the
    variables (0 or 1)."""

    owner: int
    which: int = 0


@dataclass(frozen=True, slots=True)
class Constant:
    """A name that stands for a value: a type (``int``), an enum value, a constant of a library."""

    value: Value


@dataclass(frozen=True, slots=True)
class Checked:
    """``types``: the type of every node. ``names``: for each ``Ident``, and each ``Select`` that is part of a qualified
    name, what it stands for (inner nodes of such a chain have no entry). ``calls``: the row that a ``Call`` runs, whose
    ``operands`` are the target (unless it was a namespace) and the arguments; the logical operators, the index and
    select operators and ``?:`` have none. ``structs``: the resolved message name of a ``StructLit``. ``problems`` in
    the order of the text; when one is an error the tables are not complete."""

    root: Node
    type: Type
    types: Mapping[int, Type]
    names: Mapping[int, Variable | LoopVar | Constant]
    calls: Mapping[int, Function]
    structs: Mapping[int, str]
    namespaced: frozenset[int]
    """Calls whose target is a namespace, not an operand."""
    problems: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        return not any(p.level == "error" for p in self.problems)
