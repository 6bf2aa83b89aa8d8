"""Whether some value of a type can meet a scalar of a pattern: what none can is a mistake of which nobody is told.

Asked by :mod:`compiler.schema.kinds.pattern_paths` at each scalar of a constant pattern or patch. The answers are on
the safe side: what cannot be decided here counts as possible.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Final

from compiler.frontends.cel import types as cel
from compiler.frontends.cel.types import Type
from compiler.frontends.pattern import compile_scalar
from compiler.source import type_name
from vm.intrinsics.duration import parse_duration
from vm.intrinsics.quantity import parse_quantity
from vm.intrinsics.wildcard import contains_wildcard
from vm.scalar import Term, compile_matcher

_TEXTS: Final = (cel.STRING, cel.QUANTITY_TEXT)
_NUMBERS: Final = (cel.INT, cel.DOUBLE)
_WORDS: Final[dict[Type, str]] = {
    cel.BOOL: "true or false",
    cel.INT: "a whole number",
    cel.DOUBLE: "a number",
    cel.STRING: "a text",
}
_DIGITS: Final = re.compile(r"[-+.\d]")


def is_constant(pattern: Any) -> bool:
    """Whether a scalar stays as it is written: it holds no variable and no reference."""
    return not (isinstance(pattern, str) and ("{{" in pattern or "$(" in pattern))


def can_meet(pattern: Any, type_: Type) -> bool:
    """Whether a value of the type, or a missing one, meets a scalar pattern."""
    if type_ is cel.BOOL or type_ == cel.BOOL:
        return any(map(compile_matcher(compile_scalar(pattern)), (True, False, None)))
    if type_ in _TEXTS:
        # Numbers meet texts that read as them; false and true never do.
        return type(pattern) is not bool
    if type_ in _NUMBERS:
        return _numeric(pattern)
    return True


def can_be_one_of(pattern: Any, values: Collection[str]) -> bool:
    """Whether one of the texts that a field may hold, or a missing field, meets a scalar pattern."""
    meets = compile_matcher(compile_scalar(pattern))
    return meets(None) or any(map(meets, values))


def fits(value: Any, type_: Type) -> bool:
    """Whether a constant of a patch may be put into a field of the type; null removes the field."""
    match value:
        case None:
            return True
        case bool():
            return type_ not in (*_TEXTS, *_NUMBERS)
        case int() | float():
            return type_ not in (cel.STRING, cel.BOOL)
        case str():
            return type_ not in (*_NUMBERS, cel.BOOL)
    return True


def wanted(type_: Type) -> str:
    """What a message calls the values of a scalar type."""
    return _WORDS.get(type_, "a text" if type_ in _TEXTS else "a single value")


def shown(value: Any) -> str:
    """A scalar as a message shows it."""
    match value:
        case str():
            return f'the text "{value}"'
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
    return f"{type_name(value)} ({value})"


def contradiction(pattern: Any) -> str:
    """Why no amount meets a scalar pattern (``>10 & <5``); empty when some may, and for what is about texts: one that
    is the whole pattern meets it, so that ``a & b`` may be meant."""
    if not isinstance(pattern, str) or not is_constant(pattern):
        return ""
    found = ""
    for terms in compile_scalar(pattern).alternatives:
        found = _unmeetable(terms)
        if not found:
            return ""
    return found


def _numeric(pattern: Any) -> bool:
    if type(pattern) is bool:
        return False
    if not isinstance(pattern, str):
        return True
    for terms in compile_scalar(pattern).alternatives:
        if all(
            term.op != "="
            or not term.operand
            or contains_wildcard(term.operand)
            or _DIGITS.match(term.operand) is not None
            for term in terms
        ):
            return True
    return False


def _unmeetable(terms: Sequence[Term]) -> str:
    for read in (parse_quantity, parse_duration):
        if why := _empty_interval(terms, read):
            return why
    return ""


def _empty_interval(terms: Sequence[Term], read: Any) -> str:
    """Why the bounds of the terms leave no amount between them; every bound must be readable the same way."""
    lows: list[tuple[Any, bool, str]] = []
    highs: list[tuple[Any, bool, str]] = []
    for term in terms:
        ends = [term.operand, term.end] if term.op == "range" else [term.operand]
        amounts = [_amount(read(end)) for end in ends]
        if None in amounts:
            if term.op in (">", ">=", "<", "<=", "range"):
                return ""
            continue
        if term.op == "=" and contains_wildcard(term.operand):
            continue
        match term.op:
            case "=":
                lows.append((amounts[0], False, term.operand))
                highs.append((amounts[0], False, term.operand))
            case ">" | ">=":
                lows.append((amounts[0], term.op == ">", term.op + term.operand))
            case "<" | "<=":
                highs.append((amounts[0], term.op == "<", term.op + term.operand))
            case "range":
                lows.append((amounts[0], False, f"{term.operand}-{term.end}"))
                highs.append((amounts[1], False, f"{term.operand}-{term.end}"))
    for low, low_open, low_text in lows:
        for high, high_open, high_text in highs:
            if low > high or (low == high and (low_open or high_open)):
                if low_text == high_text:
                    return f"the range {low_text} ends before it begins"
                return f"nothing is {low_text} and {high_text} at once"
    return ""


def _amount(value: Any) -> int | None:
    return value if value is None or isinstance(value, int) else value.nano
