"""What a call of a CEL function costs in the API server's units: rules that function tables name, for what a call did
cost and for what calls on operands of some size may cost.

The units are those of cel-go and of Kubernetes' ``CostEstimator``: a call is one unit, reading a text a tenth of a unit
for each character, and what an expression may cost is a limit of the API server. ``vm.functions`` adds the actual cost
of each call; the lowering adds what selecting, building and looping cost.

Where operands are ``dyn`` and several overloads of ``+``, ``<`` or a conversion could be meant, the API server counts
one unit whatever they turn out to be; the rules here count them by what they are, which is more for long texts only.
Sorting is one unit here as it is there for lists of ``dyn``, which all lists of a request's objects are: the square of
the length, counted there for lists of a known type, would refuse what the API server accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, TypeAlias

from vm.cel.values import NONE, CelMap, Optional, UInt
from vm.values import MISSING, Value

Range: TypeAlias = tuple[int, int]
"""The least and the greatest size or cost, both included."""

PER_EXPRESSION: Final = 1_000_000
"""What one expression may cost (Kubernetes: ``PerCallLimit``)."""
PER_RULE: Final = 10_000_000
"""What all expressions of a rule may cost together (Kubernetes: ``RuntimeCELCostBudget``)."""
TEXT: Final = 0.1
"""Units for a character (or byte, or entry of a list that is compared): ``StringTraversalCostFactor``."""
PATTERN: Final = 0.25
"""Units for a character of a regular expression: ``RegexStringLengthCostFactor``."""
CHECK: Final = 350_000
"""A question to the authorizer: two fit into an expression."""
LIST: Final = 10
STRUCT: Final = 40
UNBOUNDED: Final = (1 << 64) - 1
"""The greatest size of what has no known limit; costs saturate there."""
_LONGEST_FORMAT: Final = 128
"""The length of the regular expression that the estimate takes for any named format."""
_ADDRESS: Final[Range] = (4, 16)


@dataclass(frozen=True, slots=True)
class CostRule:
    """``actual(operands, result)``: the cost of a call that was made, for operands and results of any kind.
    ``estimate(sizes)``: the least and greatest cost of a call on operands of these sizes."""

    actual: Callable[[Sequence[Value], Value], int]
    estimate: Callable[[Sequence[Range]], Range]


def actual(name: str) -> Callable[[Sequence[Value], Value], int]:
    """The rule of that name for calls that were made."""
    return RULES[name].actual


def size(v: Value) -> int:
    """What cel-go's cost model takes for a value's size: the length of texts, bytes, lists and maps, the bytes of
    addresses and prefixes, 1 for the rest."""
    t = type(v)
    if t is str or t is list or t is dict or t is bytes:
        return len(v)
    if t is CelMap:
        return len(v.entries)
    if t is Optional:
        return size(v.value) if v.value is not MISSING else 1
    kind = getattr(v, "CEL_TYPE", "")
    if kind == "net.IP":
        return int(v.width // 8)
    return ceil(v.prefix / 8) if kind == "net.CIDR" else 1


def traversal(v: Value) -> int:
    """Walking through a value: a unit for each scalar, a tenth of one for each byte of a text, lists and maps by what
    they hold."""
    total = 0
    todo = [v]
    while todo:
        x = todo.pop()
        t = type(x)
        if t is str:
            total += int((len(x) if x.isascii() else len(x.encode("utf-8", "replace"))) * TEXT)
        elif t is bytes:
            total += int(len(x) * TEXT)
        elif t is list:
            todo.extend(x)
        elif t is dict:
            todo.extend(x)
            todo.extend(x.values())
        elif t is CelMap:
            for pair in x.entries.values():
                todo.extend(pair)
        else:
            total += 1
    return total


def _up(n: float) -> int:
    return min(ceil(n), UNBOUNDED)


def _times(r: Range, factor: float) -> Range:
    return _up(r[0] * factor), _up(r[1] * factor)


def _sum(*ranges: Range) -> Range:
    return min(sum(r[0] for r in ranges), UNBOUNDED), min(sum(r[1] for r in ranges), UNBOUNDED)


def _product(a: Range, b: Range) -> Range:
    return min(a[0] * b[0], UNBOUNDED), min(a[1] * b[1], UNBOUNDED)


def _fixed(n: int) -> CostRule:
    return CostRule(lambda _operands, _result: n, lambda _sizes: (n, n))


def _of_first(factor: float) -> CostRule:
    """So much for each character of the first operand."""
    return CostRule(lambda operands, _: ceil(size(operands[0]) * factor), lambda sizes: _times(sizes[0], factor))


_TEXTS: Final = frozenset({str, bytes})


def _converted(operands: Sequence[Value], _: Value) -> int:
    """Between texts and bytes: by the length; other conversions a unit. A text to a text is one of the others."""
    return ceil(size(operands[0]) * TEXT) if type(operands[0]) is bytes else 1


def _encoded(operands: Sequence[Value], _: Value) -> int:
    return ceil(size(operands[0]) * TEXT) if type(operands[0]) is str else 1


def _equals(operands: Sequence[Value], _: Value) -> int:
    """By the smaller of the two; a value of the API server's libraries a unit."""
    a, b = operands
    if type(a) not in _SIZED:
        return 1 if type(b) not in _SIZED or size(b) else 0
    return ceil(min(size(a), size(b)) * TEXT)


_SIZED: Final = frozenset({str, bytes, list, dict, CelMap, Optional})


def _ordered(operands: Sequence[Value], _: Value) -> int:
    a, b = operands
    if type(a) in _TEXTS and type(a) is type(b):
        return ceil(min(len(a), len(b)) * TEXT)
    return 1


def _or_one(r: Range) -> Range:
    """Of operands that may be no texts: then a call is one unit."""
    return min(r[0], 1), max(r[1], 1)


def _smaller(sizes: Sequence[Range]) -> Range:
    return _or_one(_times((min(sizes[0][0], sizes[1][0]), min(sizes[0][1], sizes[1][1])), TEXT))


def _added(operands: Sequence[Value], _: Value) -> int:
    a, b = operands
    if type(a) in _TEXTS and type(a) is type(b):
        return ceil((len(a) + len(b)) * TEXT)
    return 1


def _within(operands: Sequence[Value], _: Value) -> int:
    return len(operands[1]) if type(operands[1]) is list else 1


def _matched(operands: Sequence[Value], _: Value) -> int:
    return ceil((1.0 + size(operands[0])) * TEXT) * ceil(size(operands[1]) * PATTERN)


def _match(sizes: Sequence[Range]) -> Range:
    return _product(_times(_sum(sizes[0], (1, 1)), TEXT), _times(sizes[1], PATTERN))


def _contained(operands: Sequence[Value], _: Value) -> int:
    return ceil(size(operands[0]) * TEXT) * ceil(size(operands[1]) * TEXT)


def _ip(operands: Sequence[Value], _: Value) -> int:
    """Reading a text; the address of a network a unit."""
    return 1 if getattr(operands[0], "CEL_TYPE", "") == "net.CIDR" else ceil(size(operands[0]) * TEXT)


def _contains_ip(operands: Sequence[Value], _: Value) -> int:
    network, other = operands
    read = ceil(len(other) * TEXT) if type(other) is str else 0
    return ceil(2 * size(network) * TEXT) + read


def _contains_cidr(operands: Sequence[Value], result: Value) -> int:
    return _contains_ip(operands, result) + ceil(size(operands[0]) * TEXT) + 1


def _containing_cidr(sizes: Sequence[Range]) -> Range:
    return _sum(_times(_sum(_ADDRESS, _ADDRESS), TEXT), _times(_ADDRESS, TEXT), (1, 1), _times(sizes[1], TEXT))


def _selector(sizes: Sequence[Range]) -> Range:
    """Reading a selector, and a requirement for every second character."""
    requirements = _times(_times(sizes[1], 0.5), LIST + STRUCT)
    return _sum((LIST, LIST), _times(sizes[1], TEXT), requirements)


def _selected(operands: Sequence[Value], _: Value) -> int:
    n = size(operands[1])
    return _selector(((1, 1), (n, n)))[1]


def _validated(operands: Sequence[Value], _: Value) -> int:
    from vm.cel.k8s_format import NamedFormat, expression_length

    if type(operands[0]) is not NamedFormat:
        return 1
    return ceil((1.0 + size(operands[1])) * TEXT) * ceil(expression_length(operands[0]) * PATTERN)


def _joined(_: Sequence[Value], result: Value) -> int:
    return ceil(size(result) * 2 * TEXT)


def _join(sizes: Sequence[Range]) -> Range:
    """By the length of what is joined, which the size of the list alone does not tell."""
    return 0, UNBOUNDED if sizes[0][1] else 0


def _list_made(_: Sequence[Value], result: Value) -> int:
    return size(result) + 1 + LIST


def _flattened(operands: Sequence[Value], _: Value) -> int:
    depth = operands[1] if len(operands) > 1 else 1
    return size(operands[0]) * max(depth if type(depth) is int or type(depth) is UInt else 1, 0) + 1 + LIST


def _distinct(operands: Sequence[Value], _: Value) -> int:
    items = operands[0]
    n = size(items)
    factor = 2 + (TEXT if type(items) is list and items and type(items[0]) in _TEXTS else 0)
    return int(n * n * factor) + 1 + LIST


def _list_made_of(sizes: Sequence[Range]) -> Range:
    return _sum(sizes[0], (1 + LIST, 1 + LIST))


def _pairs(factor: int) -> CostRule:
    """Each element of a list with each of another."""
    return CostRule(
        lambda operands, _: 1 + size(operands[0]) * size(operands[1]) * factor,
        lambda sizes: _sum((1, 1), _times(_product(sizes[0], sizes[1]), factor)),
    )


RULES: Final[dict[str, CostRule]] = {
    "none": _fixed(0),
    "one": _fixed(1),
    "check": _fixed(CHECK),
    "parse": _of_first(TEXT),
    "parse_twice": _of_first(2 * TEXT),
    "traversal": CostRule(lambda operands, _: traversal(operands[0]), lambda sizes: sizes[0]),
    "present": CostRule(lambda _, result: int(result is not NONE), lambda _sizes: (0, 1)),
    "equals": CostRule(_equals, _smaller),
    "ordered": CostRule(_ordered, _smaller),
    "added": CostRule(_added, lambda sizes: _or_one(_times(_sum(*sizes[:2]), TEXT))),
    "within": CostRule(_within, lambda sizes: _or_one(sizes[1])),
    "converted": CostRule(_converted, lambda sizes: _or_one(_times(sizes[0], TEXT))),
    "encoded": CostRule(_encoded, lambda sizes: _or_one(_times(sizes[0], TEXT))),
    "matches": CostRule(_matched, _match),
    "regex": CostRule(_matched, _match),
    "contains": CostRule(_contained, lambda sizes: _product(_times(sizes[0], TEXT), _times(sizes[1], TEXT))),
    "join": CostRule(_joined, _join),
    "ip": CostRule(_ip, lambda sizes: _or_one(_times(sizes[0], TEXT))),
    "contains_ip": CostRule(
        _contains_ip, lambda sizes: _sum(_times(_sum(_ADDRESS, _ADDRESS), TEXT), _times(sizes[1], TEXT))
    ),
    "contains_cidr": CostRule(_contains_cidr, _containing_cidr),
    "selector": CostRule(_selected, _selector),
    "format": CostRule(_validated, lambda sizes: _times(_times(sizes[1], TEXT), _LONGEST_FORMAT * PATTERN)),
    "list_made": CostRule(_list_made, _list_made_of),
    "flatten": CostRule(_flattened, _list_made_of),
    "distinct": CostRule(_distinct, lambda sizes: _sum(_times(_product(sizes[0], sizes[0]), 2), (1 + LIST, 1 + LIST))),
    "pairs": _pairs(1),
    "pairs_twice": _pairs(2),
}
"""Every rule by the name that tables give as ``cost``."""
