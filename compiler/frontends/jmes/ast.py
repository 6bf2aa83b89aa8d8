"""The tree of a JMESPath query, and the way back to text.

A step (``.x``, ``[0]``, ``[*]`` …) holds what stands before it in ``of``; a projection holds in ``then`` what is
done to each element, a tree of its own whose innermost ``of`` is ``Current``. ``at`` is where a node's own token
stands in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Current:
    """The value a query, or the part of a projection, is applied to."""

    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Field:
    """``grouped``: parentheses stand around it, which matters for what brackets after it swallow."""

    of: Node
    name: str
    at: Span = field(default=(0, 0), compare=False)
    grouped: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Index:
    """``grouped`` as for a field."""

    of: Node
    position: int
    at: Span = field(default=(0, 0), compare=False)
    grouped: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Slice:
    """``[start:stop:step]``, then a projection over what it leaves."""

    of: Node
    start: int | None
    stop: int | None
    step: int | None
    then: Node
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Each:
    """``[*]``"""

    of: Node
    then: Node
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Values:
    """``.*``"""

    of: Node
    then: Node
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Flatten:
    """``[]``"""

    of: Node
    then: Node
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Filter:
    """``[?where]``"""

    of: Node
    where: Node
    then: Node
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class MultiList:
    of: Node
    items: tuple[Node, ...]
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class MultiHash:
    of: Node
    pairs: tuple[tuple[str, Node], ...]
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function call; arguments see the value of ``of`` as current."""

    of: Node
    name: str
    args: tuple[Node, ...]
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Reference:
    """``&expression``, an argument that is not evaluated at once."""

    body: Node
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    of: Node
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Compare:
    op: str
    left: Node
    right: Node
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class And:
    terms: tuple[Node, ...]
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Or:
    terms: tuple[Node, ...]
    at: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Pipe:
    stages: tuple[Node, ...]
    at: Span = field(default=(0, 0), compare=False)


Projection: TypeAlias = Slice | Each | Values | Flatten | Filter
Node: TypeAlias = (
    Current
    | Literal
    | Field
    | Index
    | Projection
    | MultiList
    | MultiHash
    | Call
    | Reference
    | Not
    | Compare
    | And
    | Or
    | Pipe
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PIPE, _OR, _AND, _COMPARE, _NOT, _CHAIN = range(6)


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below, in the order of the text."""
    match node:
        case Field(of) | Index(of) | Not(of):
            yield of
        case Slice(of=of, then=then) | Each(of, then) | Values(of, then) | Flatten(of, then):
            yield of
            yield then
        case Filter(of, where, then):
            yield of
            yield where
            yield then
        case MultiList(of, items):
            yield of
            yield from items
        case MultiHash(of, pairs):
            yield of
            yield from (x for _, x in pairs)
        case Call(of, _, args):
            yield of
            yield from args
        case Reference(body):
            yield body
        case Compare(_, left, right):
            yield left
            yield right
        case And(terms) | Or(terms) | Pipe(terms):
            yield from terms


def unparse(node: Node) -> str:
    """A text that parses to an equal tree."""
    return _text(node, _PIPE)


def _text(node: Node, level: int) -> str:
    own, text = _own(node)
    return f"({text})" if own < level else text


def _own(node: Node) -> tuple[int, str]:
    """A node's level of binding and its text."""
    match node:
        case Pipe(stages):
            return _PIPE, " | ".join(_text(s, _OR) for s in stages)
        case Or(terms):
            return _OR, " || ".join(_text(t, _AND) for t in terms)
        case And(terms):
            return _AND, " && ".join(_text(t, _COMPARE) for t in terms)
        case Compare(op, left, right):
            return _COMPARE, f"{_text(left, _COMPARE)} {op} {_text(right, _NOT)}"
        case Reference(body):
            return _CHAIN, "&" + _text(body, _PIPE)
        case Not(of):
            # What follows a "!" reaches as far as brackets do, so anything else needs parentheses.
            return _NOT, "!" + (_text(of, _NOT) if isinstance(of, (Not, Literal, Current)) else f"({_text(of, _PIPE)})")
        case Literal(value):
            return _CHAIN, _literal(value)
        case Current():
            return _CHAIN, "@"
    return _CHAIN, _chain(node)


def _literal(value: Any) -> str:
    return "`" + orjson.dumps(value).decode().replace("`", "\\`") + "`"


def _chain(node: Node) -> str:
    match node:
        case Field(of, name):
            word = name if _NAME.match(name) else orjson.dumps(name).decode()
            return _before(of, word, dotted=True)
        case Index(of, position):
            return _before(of, f"[{position}]")
        case Slice(of, start, stop, step, then):
            parts = ":".join("" if p is None else str(p) for p in (start, stop))
            return _before(of, f"[{parts}]" if step is None else f"[{parts}:{step}]") + _after(then)
        case Each(of, then):
            return _before(of, "[*]") + _after(then)
        case Values(of, then):
            return _before(of, "*", dotted=True) + _after(then)
        case Flatten(of, then):
            return _before(of, "[]", flatten=True) + _after(then)
        case Filter(of, where, then):
            return _before(of, f"[?{_text(where, _PIPE)}]") + _after(then)
        case MultiList(of, items):
            return _before(of, "[" + ", ".join(_text(x, _PIPE) for x in items) + "]", dotted=True)
        case MultiHash(of, pairs):
            inner = ", ".join(f"{orjson.dumps(k).decode()}: {_text(x, _PIPE)}" for k, x in pairs)
            return _before(of, "{" + inner + "}", dotted=True)
        case Call(of, name, args):
            return _before(of, f"{name}({', '.join(_text(x, _PIPE) for x in args)})", dotted=True)
    raise TypeError(f"no text for {type(node).__name__}")


def _before(of: Node, step: str, *, dotted: bool = False, flatten: bool = False) -> str:
    """The text of what a step is applied to, then the step. A projection before it is closed by parentheses, since
    without them the step would belong to its elements, unless something closes it by itself."""
    if isinstance(of, Current):
        return step
    text = _text(of, _CHAIN)
    if isinstance(of, (Slice, Each, Values, Flatten, Filter)) and not flatten and not _closed(of, step):
        text = f"({text})"
    return f"{text}.{step}" if dotted else text + step


def _closed(of: Slice | Each | Values | Flatten | Filter, step: str) -> bool:
    """Whether a projection ends where it is: with braces or brackets as its whole, or a filter at the next filter."""
    if isinstance(of.then, (MultiList, MultiHash)) and isinstance(of.then.of, Current):
        return True
    if not isinstance(of, Filter) or not step.startswith("[?") or isinstance(of.then, Current):
        return False
    return not isinstance(of.then, (Slice, Each, Values, Flatten, Filter)) or _closed(of.then, step)


def _after(then: Node) -> str:
    """The text of what a projection does to each element: steps that go on from the projection's own text."""
    if isinstance(then, Current):
        return ""
    text = _chain(then)
    return text if text.startswith("[") and not _starts_multi(then) else "." + text


def _starts_multi(node: Node) -> bool:
    """Whether the first step is ``[a, b]``, which needs a dot before it where ``[0]`` has none."""
    while True:
        match node:
            case MultiList(Current()):
                return True
            case Field(of) | Index(of) | MultiList(of) | MultiHash(of) | Call(of):
                node = of
            case Slice(of=of) | Each(of) | Values(of) | Flatten(of) | Filter(of):
                node = of
            case _:
                return False
