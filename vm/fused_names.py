"""What the names mean that fused source takes from its globals: each has a recipe of plain data, beside it in what is
kept of a function, from which :func:`made` makes its value. ``vm.fused_source`` writes recipes, ``vm.fused`` binds
them.

Some values remember what they were asked: a cluster has few distinct images, amounts and lists of capabilities, so
that what many patterns say of one, as a mask of rules, is a look-up (:func:`of_texts`, :func:`of_lists`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from vm.decisions import ALLOWANCE
from vm.fuel import charge_operands
from vm.functions import INTRINSICS, body_of
from vm.host import Imports, Meter
from vm.leaf_code import inline
from vm.scalar import ScalarPattern, compile_matcher, leaf_matcher
from vm.values import Value

Recipe = tuple[Any, ...]
"""A word and its plain data: ``value``, ``keys`` (asks whether a map has none of them), ``set``, ``search`` (for an
expression), ``pattern``, ``part`` (a constant of the pattern written out), ``call`` (an intrinsic), ``texts`` and
``lists`` (two names: what is known, and who finds out), ``plain`` (a list in whose texts variables are substituted).
Where imports matter, the number of the rule whose module has them goes with it."""

_KEPT: Final = 1024
_LONGEST: Final = 200
"""How many texts, and of what length, are kept with what patterns said of them: about 300 KB at the most."""
_LISTS: Final = 256
_MOST: Final = 16
"""How many lists are kept, and of how many texts, which together are no longer than one: about as much."""

Look = Callable[[Any], int | None]
TEXTS: Final = "texts"
LISTS: Final = "lists"


def made(recipes: dict[str, Recipe], imports: Sequence[Imports]) -> dict[str, Any]:
    """The values of names; ``imports`` of the rules by their numbers."""
    values: dict[str, Any] = {}
    for name, (word, *data) in recipes.items():
        if word in (TEXTS, LISTS):
            values[f"g{name[1:]}"], values[f"a{name[1:]}"] = (of_texts if word == TEXTS else of_lists)(*data)
        else:
            values[name] = _MADE[word](imports, *data)
    return values


def of_texts(group: Sequence[tuple[bool, Any, int, int]]) -> tuple[Look, Callable[[Value], int]]:
    """(what is known of a text, what is found out of a value): masks of the rules that fail by it. ``group`` are
    patterns, each with the rules that fail where it holds and where not."""
    asked = [(_pattern((), every, data), where, where_not) for every, data, where, where_not in group]
    known: dict[str, int] = {}

    def judge(value: Value) -> int:
        failed = 0
        for holds, where, where_not in asked:
            failed |= where if holds(value) else where_not
        if type(value) is str and len(value) <= _LONGEST:
            if len(known) >= _KEPT:
                known.clear()
            known[value] = failed
        return failed

    return known.get, judge


def of_lists(group: Sequence[tuple[str, Any, Any, Any, int, int]]) -> tuple[Look, Callable[[Value, Meter], int]]:
    """The same of lists of texts and of intrinsics, each with what it pays for, its other operands, and the rules that
    fail where it holds and where not. Equal lists pay the same, so that what kept to the allowance once does again."""
    asked = []
    for name, sized, measured, others, where, where_not in group:
        body, metered = body_of(INTRINSICS[name], None)
        asked.append((body, metered, sized, measured, others, where, where_not))
    known: dict[tuple[str, ...], int] = {}

    def judge(value: Value, meter: Meter) -> int:
        failed = 0
        for body, metered, sized, measured, others, where, where_not in asked:
            meter.left = ALLOWANCE
            operands = [value, *others]
            charge_operands(sized, measured, operands, meter)
            failed |= where if (body(meter, *operands) if metered else body(*operands)) else where_not
        if _short(value):
            if len(known) >= _LISTS:
                known.clear()
            known[tuple(value)] = failed
        return failed

    return known.get, judge


def _short(value: Value) -> bool:
    """Whether a value is a list of a few short texts. (No tuple of anything else equals one of texts.)"""
    if type(value) is not list or len(value) > _MOST or any(type(x) is not str for x in value):
        return False
    return sum(map(len, value)) <= _LONGEST


def _plain(imports: Sequence[Imports], name: str, at: int) -> Callable[[Meter, Value, Value], Value]:
    """``text.deep``, which gives back what holds no variables: that of which it is known is not looked through again.
    It pays for what it looks through, which is the same for equal lists."""
    body, _ = body_of(INTRINSICS[name], imports[at])
    known: set[tuple[str, ...]] = set()

    def resolved(meter: Meter, value: Value, root: Value) -> Value:
        try:
            if type(value) is list and tuple(value) in known:
                return value
        except TypeError:
            pass
        found = body(meter, value, root)
        if found is value and _short(value):
            if len(known) >= _LISTS:
                known.clear()
            known.add(tuple(value))
        return found

    return resolved


def _pattern(imports: Sequence[Imports], every: bool, data: Any) -> Callable[[Value], bool]:
    pattern = ScalarPattern.from_json(data)
    return leaf_matcher(pattern) if every else compile_matcher(pattern)


def _part(imports: Sequence[Imports], data: Any, number: int) -> Any:
    code = inline(ScalarPattern.from_json(data))
    assert code is not None
    return code.constants[number]


def _search(imports: Sequence[Imports], text: str) -> Any:
    from vm.cel.text import searcher  # here: most policies have no use for the library behind it

    return searcher(text)


_MADE: Final[dict[str, Callable[..., Any]]] = {
    "value": lambda _, value: value,
    "keys": lambda _, keys: frozenset(keys).isdisjoint,
    "set": lambda _, items: frozenset(items),
    "search": _search,
    "pattern": _pattern,
    "part": _part,
    "call": lambda imports, name, at: body_of(INTRINSICS[name], imports[at])[0],
    "plain": _plain,
}
