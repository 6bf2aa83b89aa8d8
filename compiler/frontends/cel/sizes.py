"""How large the values of an expression may be, for the estimate of what it costs: literals exactly, fields by the
schema, and what nothing bounds by an assumption (:data:`ITEMS`, :data:`CHARACTERS`).

Sizes are ranges as in cel-go: the length of texts and lists, the entries of maps, 1 for scalars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, runtime_checkable

from compiler.frontends.cel.types import (
    ANY,
    BYTES,
    DYN,
    ERROR,
    INT_OR_STRING,
    OPTIONAL,
    QUANTITY_TEXT,
    STRING,
    ListOf,
    MapOf,
    Object,
    Opaque,
    Prim,
    Soft,
    Type,
    TypeOf,
    Wrapper,
)
from vm.cel.costs import UNBOUNDED, Range

ITEMS: Final = 24
"""The elements that a list without ``maxItems`` counts for, and the entries of a map without ``maxProperties``. The
dearest of 268 expressions of public policies goes over volumes, three lists of containers joined, and mounts: it may
cost 876,000 units with 25 elements and more than the limit with 27; another, written without its variables, passes the
limit with 25. Four loops inside one another are more than the limit whatever they do."""
CHARACTERS: Final = 64
"""The characters that a text without ``maxLength`` counts for: what names in Kubernetes have at most, and one."""
NUMBER: Final[Range] = (1, 1)
_TEXTS: Final = frozenset({STRING, BYTES, QUANTITY_TEXT})
_ANYTHING: Final = frozenset({DYN, ANY, ERROR, INT_OR_STRING})


@runtime_checkable
class SizeProvider(Protocol):
    """Where limits of fields are found: the schema provider of an environment, when it knows some."""

    def list_bound(self, definition: str, name: str) -> int | None:
        """The most elements or entries of a field, None where the schema does not say."""

    def text_bound(self, definition: str, name: str) -> int | None:
        """The most characters of a field, None where the schema does not say."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a value: its size when it is a text (``text``) and when it is a list or map (``count``), which
    differ for dyn alone; that of the elements or values (``item``) and of the keys. ``guessed``: nothing bounds the
    value but the assumption. ``path``: how an author would call it, empty for what is computed. ``value``: the greatest
    value of an integer that is known."""

    text: Range
    count: Range
    item: Shape | None = None
    key: Range | None = None
    path: str = ""
    guessed: bool = False
    value: int | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known from outside: limits of the schema, and the values of variables by their full names."""

    provider: SizeProvider | None = None
    variables: Mapping[str, Shape] = field(default_factory=dict)


SCALAR: Final = Shape(NUMBER, NUMBER)


def sized(size: Range, *, item: Shape | None = None, key: Range | None = None) -> Shape:
    """A value of a size that was computed."""
    return Shape(size, size, item, key)


def of_type(t: Type, path: str = "") -> Shape:
    """What a type tells: the size of scalars; texts, lists and maps are as large as assumed."""
    text, items = (0, CHARACTERS), (0, ITEMS)
    match t:
        case Soft(of):
            return of_type(of, path)
        case Wrapper(of):
            return of_type(of, path)
        case Opaque("optional_type", (of,)):
            return of_type(of, path)
        case ListOf(item):
            return Shape(items, items, of_type(item, f"{path}[]" if path else ""), None, path, True)
        case MapOf(key, value):
            inner = of_type(value, f"{path}.*" if path else "")
            return Shape(items, items, inner, of_type(key).text, path, True)
        case Object():
            return Shape(items, items, None, text, path, True)
        case Prim() if t in _TEXTS:
            return Shape(text, text, None, None, path, True)
        case Prim() | TypeOf() if t not in _ANYTHING:
            return SCALAR
    return Shape(text, items, None, None, path, True)


def of_field(of: Type, name: str, t: Type, path: str, provider: SizeProvider | None) -> Shape:
    """A field of an object: as its type, within the limits of the schema."""
    found = of_type(t, path)
    owner = bare(of)
    if provider is None or not isinstance(owner, Object):
        return found
    most = provider.list_bound(owner.name, name)
    if most is None:
        most = provider.text_bound(owner.name, name)
    return found if most is None else replace(found, text=(0, most), count=(0, most), guessed=False)


def bare(t: Type) -> Type:
    """A type without what is said around it: by a schema, an optional value."""
    while True:
        match t:
            case Soft(of):
                t = of
            case Opaque(name, (of,)) if name == OPTIONAL:
                t = of
            case _:
                return t


def either(a: Shape, b: Shape) -> Shape:
    """One of two values."""
    return Shape(
        widest(a.text, b.text),
        widest(a.count, b.count),
        both(a.item, b.item),
        widest(a.key, b.key) if a.key and b.key else None,
        a.path or b.path,
        a.guessed or b.guessed,
        max(a.value, b.value) if a.value is not None and b.value is not None else None,
    )


def both(a: Shape | None, b: Shape | None) -> Shape | None:
    """The elements of two lists; of which only those of one are known, those."""
    if a is None or b is None:
        return a or b
    return either(a, b)


def together(a: Shape, b: Shape) -> Shape:
    """The texts or lists joined."""
    text, count = plus(a.text, b.text), plus(a.count, b.count)
    return Shape(text, count, both(a.item, b.item), None, a.path or b.path, a.guessed or b.guessed)


def widest(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def plus(*ranges: Range) -> Range:
    return min(sum(r[0] for r in ranges), UNBOUNDED), min(sum(r[1] for r in ranges), UNBOUNDED)


def times(a: Range, b: Range) -> Range:
    return min(a[0] * b[0], UNBOUNDED), min(a[1] * b[1], UNBOUNDED)


def replaced(of: Range, old: Range, new: Range) -> Range:
    """The length of a text in which one was put in the place of another everywhere (Kubernetes' ``CostEstimator``)."""
    if not old[0]:
        # An empty text is found around every character.
        high = (of[1] + 1) * new[1] + of[1]
    elif new[1] <= old[0]:
        high = of[1]
    else:
        high = -(-of[1] // old[0]) * new[1]
    if not old[1]:
        low = (of[0] + 1) * new[0] + of[0]
    elif old[1] <= new[0]:
        low = of[0]
    else:
        low = -(-of[0] // old[1]) * new[0]
    return min(low, UNBOUNDED), min(high, UNBOUNDED)
