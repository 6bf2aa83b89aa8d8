"""Parses a JMESPath query to its tree; called for every variable of a policy and for queries formed at run time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

import orjson
from lark import Token, Tree

from compiler.frontends.jmes.ast import (
    And,
    Call,
    Compare,
    Current,
    Each,
    Field,
    Filter,
    Flatten,
    Index,
    Literal,
    MultiHash,
    MultiList,
    Node,
    Not,
    Or,
    Pipe,
    Reference,
    Slice,
    Span,
    Values,
    children,
)
from grammar.errors import SyntaxProblem
from grammar.loader import parse as parse_text

MAX_DEPTH: Final = 60
"""How deeply a query may nest, steps of one chain included: the compiler's walks are recursive."""

MAX_LENGTH: Final = 32_768

NAMES: Final = {
    "NAME": "a name",
    "QUOTED": "a name",
    "RAW": "a string",
    "LITERAL": "a literal",
    "AT": "'@'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "COMMA": "','",
    "COLON": "':'",
    "DOT": "'.'",
    "STAR": "'*'",
    "EACH": "'[*]'",
    "FLATTEN": "'[]'",
    "SLICE": "a slice",
    "NUMBER": "a number",
    "COMPARATOR": "a comparison",
    "VBAR": "'|'",
    "NOT": "'!'",
    "AMPERSAND": "'&'",
    "$END": "the end",
}

Step: TypeAlias = tuple[str, Any, Span]
"""One link of a chain: its kind, what it holds, and its place."""

_PROJECTIONS: Final = frozenset({"each", "slice", "filter", "dot_star"})
_TIGHT: Final = frozenset({"index", "slice", "each"})


def parse(text: str) -> Node:
    """The tree of a query. Raises ``SyntaxProblem`` for a text that is none, or that is too long or nests too
    deeply."""
    tree = parse_text("jmespath", text, NAMES, limit=MAX_LENGTH)
    return _Builder(text).build(tree)


class _Builder:
    """Makes the tree bottom-up, without recursion, and measures its depth on the way."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._made: dict[int, Any] = {}
        self._depth: dict[int, int] = {}

    def build(self, tree: Tree[Token]) -> Node:
        for sub in tree.iter_subtrees():
            self._made[id(sub)] = self._node(str(sub.data), sub)
        return cast(Node, self._made[id(tree)])

    def _of(self, child: Any) -> Any:
        return self._made[id(child)] if isinstance(child, Tree) else child

    def _node(self, rule: str, sub: Tree[Token]) -> Any:
        kids = [self._of(c) for c in sub.children]
        at = self._span(sub)
        match rule:
            case "start":
                return kids[0]
            case "group":
                return self._grouped(kids[0], at)
            case "name" | "quoted" | "raw" | "literal" | "current":
                return self._checked(_leaf(rule, kids, at))
            case "call":
                return self._checked(Call(Current(at), str(kids[0]), tuple(kids[1:]), _token_span(sub.children[0])))
            case "multi_list":
                return self._checked(MultiList(Current(at), tuple(kids), at))
            case "primary":
                return self._checked(MultiHash(Current(at), tuple(kids), at))
            case "pair":
                key = kids[0]
                return (_quoted(key, at) if key.type == "QUOTED" else str(key), kids[1])
            case "argument":
                return kids[0]
            case "reference":
                return self._checked(Reference(kids[0], at))
            case "bang":
                return ("!", None, at)
            case "unary":
                return self._chain(kids)
            case "compare":
                return self._compare(kids)
            case "and_":
                return self._checked(And(tuple(kids), at))
            case "or_":
                return self._checked(Or(tuple(kids), at))
            case "pipe":
                return self._checked(Pipe(tuple(kids), at))
        return self._step(rule, sub, kids, at)

    def _compare(self, kids: list[Any]) -> Node:
        node = cast(Node, kids[0])
        for i in range(1, len(kids), 2):
            node = self._checked(Compare(str(kids[i]), node, kids[i + 1], _token_span(kids[i])))
        return node

    def _step(self, rule: str, sub: Tree[Token], kids: list[Any], at: Span) -> Any:
        match rule:
            case "dot_name":
                return ("field", str(kids[0]), _token_span(kids[0]))
            case "dot_quoted":
                return ("field", _quoted(kids[0], at), _token_span(kids[0]))
            case "nud_star" | "dot_star":
                return ("dot_star", None, at)
            case "dot_call":
                return ("call", (str(kids[0]), tuple(kids[1:])), _token_span(kids[0]))
            case "dot_list":
                return ("list", tuple(kids), at)
            case "dot_hash":
                return ("hash", tuple(kids), at)
            case "index":
                return ("index", _integer(kids[0], at), at)
            case "slice":
                return ("slice", self._slice(str(kids[0]), at), at)
            case "each":
                return ("each", None, at)
            case "flatten":
                return ("flatten", None, at)
            case "filter":
                return ("filter", kids[0], at)
            case "step":
                return kids[0]
        raise AssertionError(f"rule {rule} has no builder")

    def _slice(self, text: str, at: Span) -> tuple[int | None, int | None, int | None]:
        parts = [p.strip() for p in text[1:-1].split(":")]
        numbers = [None if p == "" else _integer(p, at) for p in parts]
        return (numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else None)

    def _span(self, sub: Tree[Token]) -> Span:
        meta = sub.meta
        return (0, len(self._text)) if meta.empty else (meta.start_pos, meta.end_pos)

    # Chains: how far "!" and projections reach

    def _chain(self, kids: list[Any]) -> Node:
        bangs: list[Span] = []
        while kids and isinstance(kids[0], tuple) and kids[0][0] == "!":
            bangs.append(kids.pop(0)[2])
        steps: list[Step] = []
        node: Node = Current()
        if isinstance(kids[0], tuple):
            steps.append(kids[0])
        else:
            node = kids[0]
        steps += kids[1:]
        if bangs:
            # "!" binds more tightly than a dot: "!a.b" is "(!a).b" (as in every implementation; the standard's
            # grammar leaves it open). Only brackets with what they project stay inside.
            if steps and isinstance(node, Current) and not isinstance(kids[0], Current):
                node, steps = self._first(steps)
            node, steps = self._covered(node, steps)
            for at in reversed(bangs):
                node = self._checked(Not(node, at))
        return self._apply(node, steps)

    def _first(self, steps: list[Step]) -> tuple[Node, list[Step]]:
        """The node of a chain that starts with a step (``*``, ``[0]``, ``[]``), projections included, and what is
        left."""
        kind = steps[0][0]
        if kind in _PROJECTIONS or kind == "flatten":
            n = 1 + _reach(steps[1:], kind)
            return self._apply(Current(), steps[:n]), steps[n:]
        return self._apply(Current(), steps[:1]), steps[1:]

    def _covered(self, node: Node, steps: list[Step]) -> tuple[Node, list[Step]]:
        while steps and steps[0][0] in _TIGHT:
            n = 1 + (_reach(steps[1:], steps[0][0]) if steps[0][0] != "index" else 0)
            node, steps = self._apply(node, steps[:n]), steps[n:]
        return node, steps

    def _apply(self, node: Node, steps: list[Step], inside: int = 0) -> Node:
        """The steps applied to a node; ``inside`` counts the projections around them."""
        if inside > MAX_DEPTH:
            raise SyntaxProblem("depth", f"nested more than {MAX_DEPTH} levels deep", *steps[0][2])
        i = 0
        while i < len(steps):
            kind, value, at = steps[i]
            i += 1
            if kind in _PROJECTIONS or kind == "flatten":
                n = _reach(steps[i:], kind)
                then = self._apply(Current(at), steps[i : i + n], inside + 1) if n else Current(at)
                i += n
                node = self._checked(_projection(kind, value, node, then, at))
            else:
                node = self._checked(_plain(kind, value, node, at))
        return node

    def _grouped(self, node: Node, at: Span) -> Node:
        """Parentheses leave no node but a mark, and count: the depth limit is on what a person wrote."""
        depth = self._depth.get(id(node), 0) + 1
        if isinstance(node, (Field, Index)):
            node = replace(node, grouped=True)
            self._made[-id(node) - 1] = node
        self._depth[id(node)] = depth
        if depth > MAX_DEPTH:
            raise SyntaxProblem("depth", f"nested more than {MAX_DEPTH} levels deep", *at)
        return node

    def _checked(self, node: Node) -> Node:
        depth = 1 + max((self._depth.get(id(c), 0) for c in children(node)), default=0)
        if depth > MAX_DEPTH:
            raise SyntaxProblem("depth", f"nested more than {MAX_DEPTH} levels deep", *_at(node))
        self._depth[id(node)] = depth
        self._made[-id(node) - 1] = node  # keeps the node alive, so that no other gets its id
        return node


def _reach(steps: list[Step], kind: str) -> int:
    """How many of the steps after a projection of a kind belong to its elements: all up to a flatten; but when braces
    or brackets come first, only those, and what follows looks at the whole list (so every implementation reads it).

    After a filter a later filter looks at the whole list too, unless it lies inside another projection: filters bind
    all alike, and more tightly than stars and slices.
    """
    if steps and steps[0][0] in ("list", "hash"):
        return 1
    leading = kind == "filter"  # only filters so far, each of which holds the next
    i = 0
    while i < len(steps) and steps[i][0] != "flatten":
        step = steps[i][0]
        if step == "filter" and kind == "filter" and not leading:
            break
        leading = leading and step == "filter"
        i += 1
        if kind == "filter" and step in _PROJECTIONS and step != "filter":
            i += _reach(steps[i:], step)
    return i


def _projection(kind: str, value: Any, of: Node, then: Node, at: Span) -> Node:
    match kind:
        case "each":
            return Each(of, then, at)
        case "dot_star":
            return Values(of, then, at)
        case "flatten":
            return Flatten(of, then, at)
        case "filter":
            return Filter(of, value, then, at)
    start, stop, step = value
    return Slice(of, start, stop, step, then, at)


def _plain(kind: str, value: Any, of: Node, at: Span) -> Node:
    match kind:
        case "field":
            return Field(of, value, at)
        case "index":
            return Index(of, value, at)
        case "call":
            return Call(of, value[0], value[1], at)
        case "list":
            return MultiList(of, value, at)
    return MultiHash(of, value, at)


def _at(node: Node) -> Span:
    return node.at


def _token_span(token: Any) -> Span:
    return (token.start_pos, token.end_pos)


def _leaf(rule: str, kids: list[Any], at: Span) -> Node:
    if rule == "current":
        return Current(at)
    token = str(kids[0])
    match rule:
        case "name":
            return Field(Current(at), token, at)
        case "quoted":
            return Field(Current(at), _quoted(token, at), at)
        case "raw":
            return Literal(token[1:-1].replace("\\'", "'"), at)
    return Literal(_json(token[1:-1].replace("\\`", "`"), at), at)


def _quoted(token: str, at: Span) -> str:
    return cast(str, _json(str(token), at))


def _json(text: str, at: Span) -> Any:
    try:
        value = orjson.loads(text)
    except ValueError:
        raise SyntaxProblem(
            "literal", "not JSON", *at, hint="a literal in backticks is JSON; a plain string goes in single quotes"
        ) from None
    if _too_deep(value):
        raise SyntaxProblem("depth", f"a literal is nested more than {MAX_DEPTH} levels deep", *at)
    return value


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [x for v in level for x in _inside(v)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _integer(text: str, at: Span) -> int:
    digits = str(text)
    if len(digits) > 19 or not -(2**63) <= int(digits) < 2**63:
        raise SyntaxProblem("literal", "a number beyond 64 bits", *at)
    return int(digits)
