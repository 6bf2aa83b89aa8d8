"""The tree of a CEL expression.

Every node has an ``id`` of its own within its expression, by which the checker's tables name it, and ``at``, the half
open range of character offsets that it (for a call or select: its own token) takes in the text. Operators are calls
by cel-go's names: ``_+_ _-_ _*_ _/_ _%_ _==_ _!=_ _<_ _<=_ _>_ _>=_ @in _&&_ _||_ _?_:_ !_ -_ _[_] _[?_] _?._``.
``_&&_`` and ``_||_`` take two or more operands. Macros are nodes of their own, so that loops are lowered as loops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import TypeAlias

from vm.values import Value

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Literal:
    """``value`` is None, bool, int, ``vm.cel.values.UInt``, float, str or bytes."""

    value: Value
    id: int = field(default=0, compare=False)
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Ident:
    """``rooted``: written with a leading dot, resolved from the root namespace alone."""

    name: str
    rooted: bool = False
    id: int = field(default=0, compare=False)
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Select:
    """``of.name``; ``test``: ``has(of.name)``; ``optional``: ``of.?name``."""

    of: Node
    name: str
    test: bool = False
    optional: bool = False
    id: int = field(default=0, compare=False)
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """``target.function(args)`` or ``function(args)``. A qualified function (``math.greatest(x)``) comes from the
    parser as a method of ``math``; the checker finds out."""

    function: str
    args: tuple[Node, ...]
    target: Node | None = None
    id: int = field(default=0, compare=False)
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class ListLit:
    """``optional`` are the positions of elements written ``?x``."""

    items: tuple[Node, ...]
    optional: tuple[int, ...] = ()
    id: int = field(default=0, compare=False)
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """``key: value`` of a map literal; ``optional``: ``?key: value``."""

    key: Node
    value: Node
    optional: bool = False


@dataclass(frozen=True, slots=True)
class MapLit:
    entries: tuple[Entry, ...]
    id: int = field(default=0, compare=False)
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class FieldInit:
    name: str
    value: Node
    optional: bool = False
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class StructLit:
    """``Name{field: value}``; the name as written, dots included, with a leading dot when rooted."""

    name: str
    fields: tuple[FieldInit, ...]
    id: int = field(default=0, compare=False)
    at: Span = field(default=(0, 0), compare=False)


LoopKind: TypeAlias = OneOf[
    "all", "exists", "exists_one", "map", "filter", "transform_list", "transform_map", "transform_map_entry"
]


@dataclass(frozen=True, slots=True)
class Loop:
    """A comprehension macro over ``over``, with one variable or two (index or key, and value).

    ``where`` is the predicate: of ``all``, ``exists``, ``exists_one`` and ``filter`` the only one, of ``map`` and the
    transforms the filter or None. ``then`` is what ``map`` and the transforms make of an element, else None.
    """

    kind: LoopKind
    over: Node
    var: str
    var2: str | None
    where: Node | None
    then: Node | None
    id: int = field(default=0, compare=False)
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Bind:
    """``cel.bind(var, value, body)``: the value is computed when the body first needs it, at most once."""

    var: str
    value: Node
    body: Node
    id: int = field(default=0, compare=False)
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Opt:
    """``of.optMap(var, then)``, or with ``flat`` ``of.optFlatMap(var, then)``."""

    of: Node
    var: str
    then: Node
    flat: bool = False
    id: int = field(default=0, compare=False)
    at: Span = field(default=(0, 0), compare=False)


Node: TypeAlias = Literal | Ident | Select | Call | ListLit | MapLit | StructLit | Loop | Bind | Opt


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below a node, in the order of the text."""
    match node:
        case Select(of):
            return (of,)
        case Call(_, args, target):
            return args if target is None else (target, *args)
        case ListLit(items):
            return items
        case MapLit(entries):
            return tuple(n for e in entries for n in (e.key, e.value))
        case StructLit(_, fields):
            return tuple(f.value for f in fields)
        case Loop(_, over, _, _, where, then):
            return (over, *(n for n in (where, then) if n is not None))
        case Bind(_, value, body):
            return (value, body)
        case Opt(of, _, then):
            return (of, then)
    return ()
