"""What calls of functions may cost, and how large their results may be, by the sizes of their operands.

For :mod:`compiler.frontends.cel.estimate`. The rules of ``vm.cel.costs`` answer for sizes alone; here stands what the
types tell besides, and the values that are larger than what they were made of. Formulas of sizes are those of
Kubernetes' ``CostEstimator`` and of cel-go's list extension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Final

from compiler.frontends.cel.sizes import (
    ITEMS,
    SCALAR,
    Shape,
    bare,
    either,
    of_type,
    plus,
    replaced,
    sized,
    times,
    together,
    widest,
)
from compiler.frontends.cel.types import BYTES, DYN, STRING, ListOf, MapOf, Object, Type
from vm.cel.costs import LIST, RULES, TEXT, UNBOUNDED, Range
from vm.cel.library import Function

_ONE: Final[Range] = (1, 1)
_LIST_OPERANDS: Final = {
    "within": (1,),
    "join": (0,),
    "list_made": (0,),
    "flatten": (0,),
    "distinct": (0,),
    "pairs": (0, 1),
    "pairs_twice": (0, 1),
}
"""Which operands of a rule's functions are lists."""
_SAME: Final = frozenset(
    {"dyn", "lowerAscii", "upperAscii", "substring", "trim", "reverse", "sort", "@sortByAssociatedKeys", "distinct"}
    | {"optional.of", "optional.ofNonZeroValue", "value", "optional.unwrap", "unwrapOpt", "jsonpatch.escapeKey"}
)
"""Functions whose result is no larger than their first operand and has the same elements."""
_ELEMENT: Final = frozenset({"first", "last", "min", "max"})
_LONGER: Final = 2
"""Encoding and quoting make texts longer by a factor."""


def price(row: Function, types: Sequence[Type], shapes: Sequence[Shape]) -> Range:
    """What the call of a row costs beside its operands."""
    lists = _LIST_OPERANDS.get(row.cost, ())
    sizes = [s.count if n in lists else s.text for n, s in enumerate(shapes)]
    texts = [t in (STRING, BYTES) for t in types]
    match row.cost:
        case "added" | "ordered" if not any(texts) and DYN not in types:
            return _ONE
        case "added" if all(texts):
            return _read(plus(*sizes))
        case "equals" | "ordered":
            least = min(sizes[0][1], sizes[1][1])
            return min(least, 1), max(_read((0, least))[1], int(row.cost == "ordered" and DYN in types))
        case "within" if isinstance(types[1], ListOf):
            return sizes[1]
        case "within" if isinstance(types[1], MapOf | Object):
            return _ONE
        case "converted" | "encoded" if types[0] == (BYTES if row.cost == "converted" else STRING):
            return _read(sizes[0])
        case "converted" | "encoded" if types[0] != DYN:
            return _ONE
        case "traversal":
            return _traversed(types[0], shapes[0])
        case "join":
            return _read(_joined(shapes))
        case "list_made":
            return plus(_made(row, shapes), (1 + LIST,) * 2)
        case "flatten":
            depth = shapes[1].value if len(shapes) > 1 else 1
            return plus(times(sizes[0], (max(depth if depth is not None else ITEMS, 0),) * 2), (1 + LIST,) * 2)
        case "ip" if types[0] != DYN:
            return _read(sizes[0]) if texts[0] else _ONE
        case "contains_ip" | "contains_cidr" if not texts[1] and types[1] != DYN:
            sizes[1] = (0, 0)
    return RULES[row.cost].estimate(sizes)


def _traversed(t: Type, of: Shape) -> Range:
    """Walking through a text, or through a list with the texts in it."""
    item = (of.item or of_type(DYN)).text
    each = plus(_ONE, _read(item)) if item != SCALAR.text else _ONE
    walked = times(of.count, each)
    if isinstance(t, ListOf):
        return walked
    return _read(of.text) if t == STRING else widest(_read(of.text), walked)


def result(row: Function, shapes: Sequence[Shape], t: Type) -> Shape:
    """What is known of the value of a call, whose type is ``t``."""
    known, plain = of_type(t), bare(t)
    match row.name:
        case "_+_" | "_-_" | "_*_" if all(s.value is not None for s in shapes):
            a, b = (abs(s.value or 0) for s in shapes)
            most = a * b if row.name == "_*_" else a + b
            return replace(SCALAR, value=most, guessed=any(s.guessed for s in shapes))
        case "_+_" if plain in (STRING, BYTES, DYN) or isinstance(plain, ListOf):
            return together(*shapes)
        case "size":
            of = shapes[0]
            return replace(SCALAR, value=max(of.text[1], of.count[1]), guessed=of.count[0] < of.count[1])
        case "int" | "uint":
            return replace(SCALAR, value=shapes[0].value, guessed=shapes[0].guessed)
        case "math.@max" if all(s.value is not None for s in shapes):
            return replace(SCALAR, value=max(s.value or 0 for s in shapes), guessed=any(s.guessed for s in shapes))
        case "lists.range" | "slice":
            item = replace(SCALAR, value=shapes[0].value) if row.name == "lists.range" else shapes[0].item
            guessed = shapes[0].guessed or (row.name == "lists.range" and shapes[0].value is None)
            return replace(sized(_made(row, shapes), item=item), path=shapes[0].path, guessed=guessed)
        case "or" | "orValue":
            return either(shapes[0], shapes[1])
        case "join":
            return sized(_joined(shapes))
        case "replace":
            return replace(sized(replaced(*(s.text for s in shapes[:3]))), guessed=shapes[0].guessed)
        case "split" | "findAll":
            return _pieces(shapes)
        case "flatten":
            inner = shapes[0].item or of_type(DYN)
            size = (0, min(shapes[0].count[1] * max(inner.count[1], 1), UNBOUNDED))
            return replace(shapes[0], text=size, count=size, item=inner.item or inner)
        case name if name in _ELEMENT and shapes and shapes[0].item is not None:
            return shapes[0].item
        case name if name in _SAME and shapes:
            return shapes[0]
    if not known.guessed:
        return known
    most = min(max(known.text[1], _LONGER * sum(s.text[1] + _inside(s) for s in shapes)), UNBOUNDED)
    return replace(known, text=(0, most))


def _read(size: Range) -> Range:
    return min(ceil(size[0] * TEXT), UNBOUNDED), min(ceil(size[1] * TEXT), UNBOUNDED)


def _inside(s: Shape) -> int:
    return min(s.count[1] * s.item.text[1], UNBOUNDED) if s.item is not None else 0


def _joined(shapes: Sequence[Shape]) -> Range:
    """The length of the texts of a list and of the separators between them."""
    of = shapes[0]
    length = times(of.count, (of.item or of_type(STRING)).text)
    if len(shapes) == 1:
        return length
    return plus(length, times(shapes[1].text, (max(of.count[0] - 1, 0), max(of.count[1] - 1, 0))))


def _made(row: Function, shapes: Sequence[Shape]) -> Range:
    """The length of ``lists.range(n)`` or ``list.slice(from, to)``; of others that of the list."""
    match row.name:
        case "lists.range":
            n = shapes[0].value
            return (0, ITEMS) if n is None else (0 if shapes[0].guessed else max(n, 0), max(n, 0))
        case "slice" if shapes[1].value is not None and shapes[2].value is not None:
            return (max(shapes[2].value - shapes[1].value, 0),) * 2
    return shapes[0].count


def _pieces(shapes: Sequence[Shape]) -> Shape:
    """The parts of a text: as many as it has characters, or as a list counts that nothing bounds."""
    of = shapes[0]
    most = min(of.text[1], ITEMS) if of.guessed else of.text[1]
    if len(shapes) > 2 and shapes[2].value is not None and shapes[2].value >= 0:
        most = shapes[2].value
    return replace(sized((0, most), item=replace(of, text=(0, of.text[1]), path="")), guessed=of.guessed)
