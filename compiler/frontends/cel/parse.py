"""Parses a CEL expression to its tree; the first step of everything that takes CEL.

The grammar's tree is turned into nodes once, from the leaves up and without recursion; depth is measured on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lark import Token, Tree

from compiler.frontends.cel import literals, mistakes
from compiler.frontends.cel.ast import (
    Call,
    Entry,
    FieldInit,
    Ident,
    ListLit,
    Literal,
    MapLit,
    Node,
    Select,
    Span,
    StructLit,
)
from compiler.frontends.cel.macros import MAX_DEPTH, Numbering, expand
from grammar.errors import SyntaxProblem
from grammar.loader import parse as parse_text
from vm.cel.values import INT_MAX

MAX_LENGTH: Final = 100_000
"""How many characters an expression may have: cel-go's default."""

KEYWORDS: Final = frozenset({"in", "true", "false", "null"})
"""Words that are no names at all, not even of fields."""

RESERVED: Final = KEYWORDS | frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
"""Words that can be fields, but neither variables nor functions (CEL spec § Syntax)."""


def parse(text: str, *, block: bool = False, macros: bool = True) -> Node:
    """The tree of an expression. ``block``: ``cel.block`` and what it uses are macros too. ``macros``: False leaves
    every call a call.

    Raises ``SyntaxProblem`` and nothing else, for any text.
    """
    _check_brackets(text)
    try:
        tree = parse_text("cel", text, mistakes.NAMES, limit=MAX_LENGTH)
    except SyntaxProblem as problem:
        raise mistakes.explained(problem, text) from None
    return _Builder(block, macros).build(tree)


def _check_brackets(text: str) -> None:
    """Refuses brackets that nest too deeply before any work is done on them."""
    if sum(map(text.count, "([{")) <= MAX_DEPTH or len(text) > MAX_LENGTH:
        return
    depth = 0
    for m in mistakes.PIECES.finditer(text):
        what = m[0]
        if what in "([{":
            depth += 1
            if depth > MAX_DEPTH:
                raise SyntaxProblem("depth", f"expression recursion limit exceeded: {MAX_DEPTH}", *m.span())
        elif what in ")]}":
            depth -= 1


class _Builder:
    """Makes nodes of the grammar's trees. A tree's children are nodes, entries or tokens by the time it is met."""

    def __init__(self, block: bool, macros: bool) -> None:
        self._numbering = Numbering()
        self._block = block
        self._macros = macros
        self._grouped: set[int] = set()
        """Nodes in parentheses: a sign before them, or a ``{`` behind them, does not reach inside."""
        self._pending: dict[int, SyntaxProblem] = {}
        """What is wrong with a node unless what stands around it mends it: 2^63 without a sign before it, a variable
        named like a reserved word that does not begin the name of a message."""

    def build(self, tree: Tree[Any]) -> Node:
        top: list[Any] = [tree]
        order: list[tuple[Tree[Any], list[Any], int]] = []
        todo: list[tuple[Tree[Any], list[Any], int]] = [(tree, top, 0)]
        while todo:
            step = todo.pop()
            order.append(step)
            children = step[0].children
            todo.extend((c, children, i) for i, c in enumerate(children) if type(c) is Tree)
        for sub, place, i in reversed(order):
            place[i] = _RULES[sub.data](self, sub.children)
        for problem in self._pending.values():
            raise problem
        node: Node = top[0]
        return node

    def _whole(self, kids: list[Any]) -> Node:
        node: Node = kids[0]
        return node

    # Operators

    def _conditional(self, kids: list[Any]) -> Node:
        node: Node = kids[-1]
        for i in range(len(kids) - 5, -1, -4):
            node = self._call("_?_:_", (kids[i], kids[i + 2], node), _span(kids[i + 1]))
        return node

    def _or(self, kids: list[Any]) -> Node:
        return self._call("_||_", tuple(kids[::2]), _span(kids[1]))

    def _and(self, kids: list[Any]) -> Node:
        return self._call("_&&_", tuple(kids[::2]), _span(kids[1]))

    def _binary(self, kids: list[Any]) -> Node:
        node: Node = kids[0]
        for i in range(1, len(kids), 2):
            token = kids[i]
            name = "@in" if token == "in" else f"_{token}_"
            node = self._call(name, (node, kids[i + 1]), _span(token))
        return node

    def _unary(self, kids: list[Any]) -> Node:
        i = 0
        while type(kids[i]) is Token:
            i += 1
        return self._signed("!_", kids[:i], self._chain(kids[i], kids[i + 1 :]))

    def _negated(self, kids: list[Any]) -> Node:
        i = 0
        while type(kids[i]) is Token:
            i += 1
        first = kids[i]
        if i == 1 and type(first) is Literal and first.id not in self._grouped and type(first.value) in (int, float):
            return self._chain(self._negative(kids[0], first), kids[i + 1 :])
        return self._signed("-_", kids[:i], self._chain(first, kids[i + 1 :]))

    def _not_signed(self, kids: list[Any]) -> Node:
        i = 0
        while kids[i].type == "NOT":
            i += 1
        number = self._negative(kids[i], self._literal(kids[i + 1 : i + 2]))
        return self._signed("!_", kids[:i], self._chain(number, kids[i + 2 :]))

    def _negative(self, sign: Token, number: Literal) -> Literal:
        """A minus sign before a number is part of it (as in cel-go): otherwise -2^63 could not be written."""
        self._pending.pop(number.id, None)
        return Literal(-number.value, number.id, (_start(sign), number.at[1]))

    def _signed(self, name: str, signs: list[Token], operand: Node) -> Node:
        """Two signs of a kind take each other away (as in cel-go): ``!!x`` is ``x``."""
        return self._call(name, (operand,), _span(signs[0])) if len(signs) % 2 else operand

    def _call(self, function: str, args: tuple[Node, ...], at: Span) -> Call:
        return Call(function, args, None, self._numbering.new(at, args), at)

    # A primary and its steps

    def _chain(self, node: Node, steps: list[Any]) -> Node:
        name = node.name if type(node) is Ident and node.id not in self._grouped else None
        root = node
        for kind, tokens in steps:
            match kind:
                case "select":
                    node, name = self._selected(node, name, tokens)
                case "method":
                    node, name = self._called(node, _name(tokens[1]), tokens[3:-1:2], _span(tokens[1])), None
                case "index":
                    optional = len(tokens) == 4
                    node, name = self._call("_[?_]" if optional else "_[_]", (node, tokens[-2]), _span(tokens[0])), None
                case _:
                    node, name = self._message(root, name, tokens), None
        return node

    def _selected(self, node: Node, name: str | None, tokens: list[Any]) -> tuple[Node, str | None]:
        """A field of a node, and how the whole reads as a name if it can be one."""
        token = tokens[-1]
        optional = len(tokens) == 3
        field = _field_name(token)
        at = _span(token)
        simple = name is not None and not optional and token.type == "NAME"
        select = Select(node, field, False, optional, self._numbering.new(at, (node,)), at)
        return select, f"{name}.{field}" if simple else None

    def _called(self, target: Node | None, function: str, args: list[Node], at: Span) -> Node:
        arguments = tuple(args)
        if self._macros:
            node = expand(self._numbering, function, target, arguments, at, block=self._block)
            if node is not None:
                return node
        below = arguments if target is None else (target, *arguments)
        return Call(function, arguments, target, self._numbering.new(at, below), at)

    def _message(self, root: Node, name: str | None, tokens: list[Any]) -> Node:
        if name is None or not isinstance(root, Ident):
            raise mistakes.no_message(_span(tokens[0]))
        self._pending.pop(root.id, None)
        fields = tuple(t for t in tokens if type(t) is FieldInit)
        at = (root.at[0], _stop(tokens[-1]))
        full = f".{name}" if root.rooted else name
        return StructLit(full, fields, self._numbering.new(at, tuple(f.value for f in fields)), at)

    # Primaries

    def _ident(self, kids: list[Any]) -> Node:
        token = kids[-1]
        at = (_start(kids[0]), _stop(token))
        node = Ident(_name(token), len(kids) == 2, self._numbering.new(at), at)
        if node.name in RESERVED:
            self._pending[node.id] = mistakes.reserved(node.name, _span(token))
        return node

    def _global(self, kids: list[Any]) -> Node:
        rooted = kids[0].type == "DOT"
        token = kids[1 if rooted else 0]
        if token in RESERVED:
            raise mistakes.reserved(str(token), _span(token))
        args = kids[3 if rooted else 2 : -1 : 2]
        return self._called(None, f".{token}" if rooted else str(token), args, (_start(kids[0]), _stop(token)))

    def _group(self, kids: list[Any]) -> Node:
        node: Node = kids[1]
        self._grouped.add(node.id)
        return node

    def _list(self, kids: list[Any]) -> Node:
        items = [k for k in kids if type(k) is not Token]
        at = (_start(kids[0]), _stop(kids[-1]))
        nodes = tuple(node for node, _ in items)
        optional = tuple(i for i, (_, optional) in enumerate(items) if optional)
        return ListLit(nodes, optional, self._numbering.new(at, nodes), at)

    def _item(self, kids: list[Any]) -> tuple[Node, bool]:
        return kids[-1], len(kids) == 2

    def _map(self, kids: list[Any]) -> Node:
        entries = tuple(k for k in kids if type(k) is Entry)
        at = (_start(kids[0]), _stop(kids[-1]))
        below = tuple(node for e in entries for node in (e.key, e.value))
        return MapLit(entries, self._numbering.new(at, below), at)

    def _entry(self, kids: list[Any]) -> Entry:
        return Entry(kids[-3], kids[-1], len(kids) == 4)

    def _field(self, kids: list[Any]) -> FieldInit:
        token = kids[-3]
        return FieldInit(_field_name(token), kids[-1], len(kids) == 4, _span(token))

    def _literal(self, kids: list[Any]) -> Literal:
        token = kids[0]
        at = _span(token)
        number = self._numbering.new(at)
        match token.type:
            case "STRING":
                return Literal(literals.string_value(token, at[0]), number, at)
            case "INT":
                value = literals.int_value(token, at)
                if value > INT_MAX:
                    self._pending[number] = literals.int_problem(at, value)
                return Literal(value, number, at)
            case "UINT":
                return Literal(literals.uint_value(token, at), number, at)
            case "FLOAT":
                return Literal(literals.double_value(token, at), number, at)
            case "BYTES":
                return Literal(literals.bytes_value(token, at[0]), number, at)
        return Literal(_WORDS[token], number, at)


_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}


def _name(token: Token) -> str:
    """A name, in a place where reserved words may stand but the four that are no names."""
    if token in KEYWORDS:
        raise mistakes.keyword(str(token), _span(token))
    return str(token)


def _field_name(token: Token) -> str:
    return str(token)[1:-1] if token.type == "QUOTED" else _name(token)


def _span(token: Token) -> Span:
    return _start(token), _stop(token)


def _start(token: Token) -> int:
    at = token.start_pos
    assert at is not None
    return at


def _stop(token: Token) -> int:
    at = token.end_pos
    assert at is not None
    return at


_RULES: Final[dict[str, Callable[[_Builder, list[Any]], Any]]] = {
    "start": _Builder._whole,
    "conditional": _Builder._conditional,
    "or_": _Builder._or,
    "and_": _Builder._and,
    "relation": _Builder._binary,
    "sum": _Builder._binary,
    "product": _Builder._binary,
    "unary": _Builder._unary,
    "negated": _Builder._negated,
    "not_signed": _Builder._not_signed,
    "ident": _Builder._ident,
    "call": _Builder._global,
    "group": _Builder._group,
    "list": _Builder._list,
    "map": _Builder._map,
    "literal": _Builder._literal,
    "item": _Builder._item,
    "entry": _Builder._entry,
    "field": _Builder._field,
    "select": lambda _, kids: ("select", kids),
    "method": lambda _, kids: ("method", kids),
    "index": lambda _, kids: ("index", kids),
    "message": lambda _, kids: ("message", kids),
}
