"""Expands CEL's macros to nodes of their own while the tree is made; called by the parser for every call.

CEL spec § Macros, and what cel-go's extensions add: two-variable comprehensions, ``cel.bind``, ``optMap`` and
``optFlatMap``, ``sortBy``, ``math.greatest`` and ``math.least``. Names, counts of arguments and messages are cel-go's;
a call with any other number of arguments is a plain call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn, TypeAlias, get_args

from compiler.frontends.cel.ast import (
    Bind,
    Call,
    Ident,
    ListLit,
    Literal,
    Loop,
    LoopKind,
    MapLit,
    Node,
    Opt,
    Select,
    Span,
    StructLit,
)
from grammar.errors import SyntaxProblem
from vm.cel.values import UInt

MAX_DEPTH: Final = 250
"""How deeply an expression may nest, each step of a chain of selects or operators counted: cel-go's default."""

SORT_INPUT: Final = "@__sortBy_input__"
SORT_FUNCTION: Final = "@sortByAssociatedKeys"
_ACCUMULATORS: Final = frozenset({"@result", "__result__"})


class Numbering:
    """Gives nodes their ids and measures their depth on the way."""

    def __init__(self) -> None:
        self._depth: list[int] = []

    def new(self, at: Span, children: tuple[Node, ...] = ()) -> int:
        """The id of a node over these children. Raises ``SyntaxProblem`` when it nests too deeply."""
        depths = self._depth
        depth = 1
        for child in children:
            if depths[child.id] >= depth:
                depth = depths[child.id] + 1
        if depth > MAX_DEPTH + 1:  # a leaf is no nesting
            raise SyntaxProblem("depth", f"expression recursion limit exceeded: {MAX_DEPTH}", *at)
        depths.append(depth)
        return len(depths) - 1


Expander: TypeAlias = Callable[[Numbering, str, Node, tuple[Node, ...], Span], Node | None]
"""(numbering, name, target, arguments, place) → the node, or None for a call that only looks like the macro."""


def expand(
    numbering: Numbering, name: str, target: Node | None, args: tuple[Node, ...], at: Span, *, block: bool
) -> Node | None:
    """What a call expands to, None if it is no macro. Raises ``SyntaxProblem`` for a macro that is misused."""
    if target is None:
        return _has(numbering, args[0]) if name == "has" and len(args) == 1 else None
    expander = (
        _METHODS.get((name, len(args))) or _VARIADIC.get(name) or (_BLOCK.get((name, len(args))) if block else None)
    )
    return None if expander is None else expander(numbering, name, target, args, at)


def _refuse(node: Node, message: str, hint: str = "", code: str = "type") -> NoReturn:
    raise SyntaxProblem(code, message, *node.at, hint=hint)


def _has(numbering: Numbering, arg: Node) -> Node:
    if not isinstance(arg, Select) or arg.optional:
        _refuse(arg, "invalid argument to has() macro", "has() takes a field: has(object.spec.replicas)")
    return Select(arg.of, arg.name, True, False, numbering.new(arg.at, (arg.of,)), arg.at)


def _variable(arg: Node, message: str) -> str:
    if not isinstance(arg, Ident):
        _refuse(arg, message, "the first argument names the variable that the others use", "name")
    return f".{arg.name}" if arg.rooted else arg.name


def _iteration_variable(arg: Node, message: str) -> str:
    name = _variable(arg, message)
    if name in _ACCUMULATORS:
        _refuse(arg, "iteration variable overwrites accumulator variable", code="name")
    return name


def _loop(numbering: Numbering, name: str, target: Node, args: tuple[Node, ...], at: Span) -> Node:
    """The loops with one variable. ``map`` has the predicate before the transform."""
    kind = _KINDS[name]
    words = "argument is not an identifier" if kind in ("map", "filter") else "argument must be a simple name"
    var = _iteration_variable(args[0], words)
    then = args[-1] if kind == "map" else None
    where = args[1] if kind != "map" or len(args) == 3 else None
    return Loop(kind, target, var, None, where, then, numbering.new(at, (target, *args[1:])), at)


def _loop_of_two(numbering: Numbering, name: str, target: Node, args: tuple[Node, ...], at: Span) -> Node:
    kind = _KINDS[name]
    first, second = (_variable(a, "argument must be a simple name") for a in args[:2])
    if first == second:
        _refuse(args[1], f"duplicate variable name: {first}", code="name")
    for arg in args[:2]:
        _iteration_variable(arg, "")
    transform = kind.startswith("transform")
    then = args[-1] if transform else None
    where = args[2] if not transform or len(args) == 4 else None
    return Loop(kind, target, first, second, where, then, numbering.new(at, (target, *args[2:])), at)


def _sort_by(numbering: Numbering, name: str, target: Node, args: tuple[Node, ...], at: Span) -> Node:
    """``l.sortBy(e, key)`` is ``cel.bind(input, l, input.@sortByAssociatedKeys(input.map(e, key)))``."""
    if isinstance(target, (Literal, MapLit, StructLit)):
        _refuse(target, "sortBy can only be applied to a list, identifier, comprehension, call or select expression")

    def source() -> Ident:
        return Ident(SORT_INPUT, False, numbering.new(target.at), target.at)

    keys = _loop(numbering, "map", source(), args, at)
    over = source()
    body = Call(SORT_FUNCTION, (keys,), over, numbering.new(at, (over, keys)), at)
    return Bind(SORT_INPUT, target, body, numbering.new(at, (target, body)), at)


def _bind(numbering: Numbering, name: str, target: Node, args: tuple[Node, ...], at: Span) -> Node | None:
    if not _names(target, "cel"):
        return None
    var = _variable(args[0], "cel.bind() variable names must be simple identifiers")
    return Bind(var, args[1], args[2], numbering.new(at, args[1:]), at)


def _optional(numbering: Numbering, name: str, target: Node, args: tuple[Node, ...], at: Span) -> Node:
    var = _variable(args[0], f"{name}() variable name must be a simple identifier")
    return Opt(target, var, args[1], name == "optFlatMap", numbering.new(at, (target, args[1])), at)


def _extreme(numbering: Numbering, name: str, target: Node, args: tuple[Node, ...], at: Span) -> Node | None:
    """``math.greatest`` and ``math.least``: of one operand, of two, of a list."""
    if not _names(target, "math"):
        return None
    if not args:
        _refuse(target, f"math.{name}() requires at least one argument", code="arity")
    function = "math.@max" if name == "greatest" else "math.@min"
    if len(args) == 1:
        one = args[0]
        numbers = isinstance(one, ListLit) and one.items and all(map(_may_be_number, one.items))
        if not numbers and not _may_be_number(one):
            _refuse(one, f"math.{name}() invalid single argument value")
    else:
        for arg in args:
            if not _may_be_number(arg):
                _refuse(arg, f"math.{name}() simple literal arguments must be numeric")
        if len(args) > 2:
            args = (ListLit(args, (), numbering.new(at, args), at),)
    return Call(function, args, None, numbering.new(at, args), at)


def _may_be_number(arg: Node) -> bool:
    if isinstance(arg, Literal):
        return type(arg.value) in (int, float, UInt)
    return not isinstance(arg, (ListLit, MapLit, StructLit))


def _names(target: Node, namespace: str) -> bool:
    return isinstance(target, Ident) and target.name == namespace and not target.rooted


# The form in which optimised expressions are written down: common parts first, then what uses them.


def _block(numbering: Numbering, name: str, target: Node, args: tuple[Node, ...], at: Span) -> Node | None:
    if not _names(target, "cel"):
        return None
    slots, body = args
    if not isinstance(slots, ListLit) or slots.optional:
        _refuse(slots, "cel.block() takes a list of expressions first")
    for i in reversed(range(len(slots.items))):
        value = slots.items[i]
        body = Bind(f"@index{i}", value, body, numbering.new(at, (value, body)), at)
    return body


def _block_name(numbering: Numbering, name: str, target: Node, args: tuple[Node, ...], at: Span) -> Node | None:
    if not _names(target, "cel"):
        return None
    numbers: list[str] = []
    for arg in args:
        if not isinstance(arg, Literal) or type(arg.value) is not int or arg.value < 0:
            _refuse(arg, f"cel.{name}() takes numbers, written out")
        numbers.append(str(arg.value))
    return Ident(_BLOCK_NAMES[name].format(*numbers), False, numbering.new(at), at)


_KINDS: Final[dict[str, LoopKind]] = {
    **{kind: kind for kind in get_args(LoopKind) if "transform" not in kind},
    "existsOne": "exists_one",
    "transformList": "transform_list",
    "transformMap": "transform_map",
    "transformMapEntry": "transform_map_entry",
}

_METHODS: Final[dict[tuple[str, int], Expander]] = {
    **{(name, 2): _loop for name in ("all", "exists", "exists_one", "existsOne", "map", "filter")},
    ("map", 3): _loop,
    **{(name, 3): _loop_of_two for name in ("all", "exists", "exists_one", "existsOne")},
    **{(name, n): _loop_of_two for name in ("transformList", "transformMap", "transformMapEntry") for n in (3, 4)},
    ("bind", 3): _bind,
    ("optMap", 2): _optional,
    ("optFlatMap", 2): _optional,
    ("sortBy", 2): _sort_by,
}
_VARIADIC: Final[dict[str, Expander]] = {"greatest": _extreme, "least": _extreme}

_BLOCK_NAMES: Final = {"index": "@index{}", "iterVar": "@it:{}:{}", "accuVar": "@ac:{}:{}"}
_BLOCK: Final[dict[tuple[str, int], Expander]] = {
    ("block", 2): _block,
    ("index", 1): _block_name,
    ("iterVar", 2): _block_name,
    ("accuVar", 2): _block_name,
}
