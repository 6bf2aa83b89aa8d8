"""Scalar patterns: the data a pattern text compiles to, its JSON form in a bundle, and the predicates made from it.

``compiler.frontends.pattern`` makes a :class:`ScalarPattern` from a policy's scalar (semantics §2); the bundle keeps
its JSON form; both tiers turn it into a predicate once, on load. A predicate is specialised for its shape, since a
pattern leaf is what a policy set spends its time in: the usual case, one glob against a text, is one call of a
closed-over function.

>>> compile_matcher(ScalarPattern("128Mi-512Mi", ((Term("range", "128Mi", "512Mi"),),)))("256Mi")
True
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from vm.intrinsics.duration import parse_duration
from vm.intrinsics.quantity import parse_quantity
from vm.intrinsics.text import go_float
from vm.intrinsics.wildcard import contains_wildcard
from vm.intrinsics.wildcard import matcher as glob_matcher
from vm.values import MISSING, Value

Predicate: TypeAlias = Callable[[Value], bool]

OPERATORS: Final = ("=", "!", ">=", "<=", ">", "<", "range", "outside")

_ENDPOINT: Final = r"([-|+]?\d+(?:\.\d+)?[A-Za-z]*)"
_RANGE: Final = re.compile(f"{_ENDPOINT}-{_ENDPOINT}", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_FLOAT: Final = re.compile(
    r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_INT64: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison: an operator of :data:`OPERATORS`, its operand, and the second end of a range."""

    op: str
    operand: str
    end: str = ""


@dataclass(frozen=True, slots=True)
class ScalarPattern:
    """``value`` is the pattern as written (a JSON scalar). For a text, ``alternatives`` are the parts between ``|``,
    each the terms between ``&``; a value matches when all terms of some alternative hold, or when it is the very
    text."""

    value: Value
    alternatives: tuple[tuple[Term, ...], ...] = ()

    def to_json(self) -> Any:
        """``[value]`` for a scalar that is no text, else ``[text, [[[op, operand, end?], …], …]]``."""
        if type(self.value) is not str:
            return [self.value]
        return [
            self.value,
            [[[t.op, t.operand, t.end] if t.end else [t.op, t.operand] for t in a] for a in self.alternatives],
        ]

    @staticmethod
    def from_json(data: Any) -> ScalarPattern:
        """The pattern of a JSON form. Raises ``ValueError`` for anything :meth:`to_json` does not write."""
        if type(data) is not list or not 1 <= len(data) <= 2 or type(data[0]) in (dict, list):
            raise ValueError("a scalar pattern is a list of a scalar and its terms")
        if len(data) == 1:
            if type(data[0]) is str:
                raise ValueError("a text pattern has terms")
            return ScalarPattern(data[0])
        if type(data[0]) is not str or type(data[1]) is not list:
            raise ValueError("only a text pattern has terms")
        return ScalarPattern(data[0], tuple(tuple(_term(t) for t in _listed(a)) for a in _listed(data[1])))


_MOST_KNOWN: Final = 64
_KNOWN_LENGTH: Final = 24


def compile_matcher(p: ScalarPattern) -> Predicate:
    """A predicate on one value. Maps and lists never match, but for ``?*``, which asks only that the field is there."""
    match p.value:
        case bool():
            return _is_bool(p.value)
        case int():
            return _is_int(p.value)
        case float():
            return _is_float(p.value)
        case None:
            return is_zero
    text = p.value
    alternatives = [[_term_matcher(t) for t in a] for a in p.alternatives]
    if len(alternatives) == 1 and len(alternatives[0]) == 1:
        only = p.alternatives[0][0]
        if only.op == "=" and only.operand == text:
            return alternatives[0][0]
        return _either(text, alternatives[0][0])
    if all(len(a) == 1 for a in alternatives):
        terms = tuple(a[0] for a in alternatives)
        # Registries and the like: texts that begin with one of several prefixes are found in one step.
        prefixes = tuple(t.operand[:-1] for a in p.alternatives for t in a if _is_prefix(t))

        def any_term(value: Value) -> bool:
            if type(value) is str and (value.startswith(prefixes) or value == text):
                return True
            return any(term(value) for term in terms)

        return any_term

    def any_alternative(value: Value) -> bool:
        for alternative in alternatives:
            for term in alternative:
                if not term(value):
                    break
            else:
                return True
        return type(value) is str and value == text

    return any_alternative


def leaf_matcher(p: ScalarPattern) -> Predicate:
    """The predicate of a pattern leaf: of a list, every element must match (an empty list holds)."""
    single = compile_matcher(p)

    def leaf(value: Value) -> bool:
        return all(map(single, value)) if type(value) is list else single(value)

    return leaf


@lru_cache(maxsize=1024)
def range_term(text: str) -> Term | None:
    """The in-range term a text denotes (``1-5``, ``0Mi-1024Mi``), None when it is no range."""
    found = _RANGE.fullmatch(text)
    return Term("range", found.group(1), found.group(2)) if found else None


@lru_cache(maxsize=1024)
def range_matcher(text: str) -> Predicate | None:
    """The predicate of an in-range text, for conditions (semantics §9.3)."""
    term = range_term(text)
    return _term_matcher(term) if term else None


def is_zero(value: Value) -> bool:
    """What a null pattern accepts: nothing, null, ``""``, ``0``, ``0.0``, ``false``."""
    return value is None or value is MISSING or (type(value) not in (dict, list) and not value)


def scalar_text(value: Value) -> str | None:
    """A scalar as the text that wildcards see: floats in Go's scientific form. None for null, maps and lists."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return go_float(value, "E")
    return None


def number_text(value: Value) -> str | None:
    """A value as the text that durations and quantities are read from: null counts as ``0``. None for what is no
    number."""
    match value:
        case str():
            return value
        case bool():
            return None
        case int():
            return str(value)
        case float():
            return go_float(value, "f6")
    return "0" if value is None or value is MISSING else None


def parse_int(text: str) -> int | None:
    """A base-10 signed 64-bit integer, None for anything else."""
    if len(text) > 256 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None


def parse_float(text: str) -> float | None:
    """A decimal floating-point number of at most 256 characters, None for anything else."""
    return float(text) if len(text) <= 256 and _FLOAT.fullmatch(text) else None


def _is_prefix(term: Term) -> bool:
    """Whether a term accepts just the texts that begin with its operand's own text (``docker.io/*``)."""
    return term.op == "=" and term.operand.endswith("*") and not contains_wildcard(term.operand[:-1])


def _either(text: str, term: Predicate) -> Predicate:
    return lambda value: term(value) or (type(value) is str and value == text)


def _is_bool(pattern: bool) -> Predicate:
    return lambda value: value is pattern


def _is_int(pattern: int) -> Predicate:
    def holds(value: Value) -> bool:
        t = type(value)
        if t is int or t is float:
            return bool(value == pattern)
        return t is str and parse_int(value) == pattern

    return holds


def _is_float(pattern: float) -> Predicate:
    def holds(value: Value) -> bool:
        t = type(value)
        if t is int or t is float:
            return bool(value == pattern)
        return t is str and parse_float(value) == pattern

    return holds


def _term_matcher(term: Term) -> Predicate:
    match term.op:
        case "range":
            low, high = _comparison(">=", term.operand), _comparison("<=", term.end)
            return lambda value: low(value) and high(value)
        case "outside":
            below, above = _comparison("<", term.operand), _comparison(">", term.end)
            return lambda value: below(value) or above(value)
    return _comparison(term.op, term.operand)


def _comparison(op: str, operand: str) -> Predicate:
    """One operator against one operand: by the first of duration, quantity and text that can read both sides."""
    nanoseconds, quantity = parse_duration(operand), parse_quantity(operand)
    textual = _text_comparison(op, operand)
    if nanoseconds is None and quantity is None:
        return textual
    decide = _SIGN_TEST[op]
    nano = quantity.nano if quantity is not None else 0

    def measured(value: Value) -> bool:
        text = value if type(value) is str else number_text(value)
        if text is not None:
            if nanoseconds is not None:
                duration = parse_duration(text)
                if duration is not None:
                    return decide(duration - nanoseconds)
            if quantity is not None:
                amount = parse_quantity(text)
                if amount is not None:
                    return decide(amount.nano - nano)
        return textual(value)

    # A cluster uses few distinct amounts: looking an answer up costs a quarter of reading the amount again.
    known: dict[str, bool] = {}

    def numeric(value: Value) -> bool:
        if type(value) is not str or len(value) > _KNOWN_LENGTH:
            return measured(value)
        answer = known.get(value)
        if answer is None:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            answer = known[value] = measured(value)
        return answer

    return numeric


def _text_comparison(op: str, operand: str) -> Predicate:
    glob = glob_matcher(operand)
    if op == "=":
        present = operand == "?*"  # right here: the field exists, whatever it holds

        on_true, on_false = glob("true"), glob("false")

        def equal(value: Value) -> bool:
            t = type(value)
            if t is str:
                return glob(value)
            if value is True:
                return on_true
            if value is False:
                return on_false
            if t is dict or t is list:
                return present
            text = scalar_text(value)
            return text is not None and glob(text)

        return equal
    if op == "!":

        def differs(value: Value) -> bool:
            text = value if type(value) is str else scalar_text(value)
            return text is not None and not glob(text)

        return differs
    return lambda value: False


_SIGN_TEST: Final[dict[str, Callable[[int], bool]]] = {
    "=": lambda d: d == 0,
    "!": lambda d: d != 0,
    ">=": lambda d: d >= 0,
    "<=": lambda d: d <= 0,
    ">": lambda d: d > 0,
    "<": lambda d: d < 0,
}


def _listed(data: Any) -> list[Any]:
    if type(data) is not list or not data:
        raise ValueError("the terms of a pattern are lists")
    return data


def _term(data: Any) -> Term:
    if (
        type(data) is not list
        or not 2 <= len(data) <= 3
        or any(type(x) is not str for x in data)
        or data[0] not in OPERATORS
        or (len(data) == 3) != (data[0] in ("range", "outside"))
    ):
        raise ValueError("a term is an operator and its operands")
    return Term(*data)
