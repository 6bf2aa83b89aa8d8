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

TextTest: TypeAlias = Callable[[str], bool]


class Known(dict[str, bool]):
    """What a test says of short texts, kept: a cluster uses few distinct amounts, and to look an answer up costs a
    quarter of reading the amount again. Subscription asks the test where the answer is not there yet."""

    __slots__ = ("_test",)

    def __init__(self, test: TextTest) -> None:
        super().__init__()
        self._test = test

    def __missing__(self, text: str) -> bool:
        answer = self._test(text)
        if len(text) <= _KNOWN_LENGTH:
            if len(self) >= _MOST_KNOWN:
                self.clear()
            self[text] = answer
        return answer


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
    return _of_text(text_test(p), _any_alternative(p))


def leaf_matcher(p: ScalarPattern) -> Predicate:
    """The predicate of a pattern leaf: of a list, every element must match (an empty list holds)."""
    single = compile_matcher(p)

    def leaf(value: Value) -> bool:
        return all(map(single, value)) if type(value) is list else single(value)

    return _of_text(text_test(p), leaf) if type(p.value) is str else leaf


def _of_text(of_text: TextTest, of_other: Predicate) -> Predicate:
    """The predicate of a text pattern. Most values are texts, most others truths or not there, whose answers are known
    before."""
    on_true, on_false, on_null, on_missing = of_other(True), of_other(False), of_other(None), of_other(MISSING)

    def holds(value: Value) -> bool:
        if type(value) is str:
            return of_text(value)
        if value is False:
            return on_false
        if value is True:
            return on_true
        if value is MISSING:
            return on_missing
        return on_null if value is None else of_other(value)

    return holds


def text_test(p: ScalarPattern) -> TextTest:
    """What a text pattern says of texts."""
    text = str(p.value)
    if any(is_numeric(t) for a in p.alternatives for t in a):
        return known(p).__getitem__
    if len(p.alternatives) == 1 and len(p.alternatives[0]) == 1:
        (only,) = p.alternatives[0]
        glob = glob_matcher(only.operand)
        if only.op == "=":
            return glob if only.operand == text else lambda value: glob(value) or value == text
        return lambda value: not glob(value) or value == text
    prefixes = tuple(t.operand[:-1] for a in p.alternatives if len(a) == 1 for t in a if is_prefix(t))
    if len(prefixes) == len(p.alternatives):
        # Registries and the like: texts that begin with one of several prefixes are found in one step.
        return lambda value: value.startswith(prefixes) or value == text
    return _any_alternative(p)


@lru_cache(maxsize=4096)
def known(p: ScalarPattern) -> Known:
    """The kept answers of a text pattern, the same table for all that are written alike."""
    return Known(_any_alternative(p))


def _any_alternative(p: ScalarPattern) -> Predicate:
    """The predicate as the pattern is written, term by term."""
    text = p.value
    alternatives = [[_term_matcher(t) for t in a] for a in p.alternatives]

    def any_alternative(value: Value) -> bool:
        for alternative in alternatives:
            for term in alternative:
                if not term(value):
                    break
            else:
                return True
        return type(value) is str and value == text

    return any_alternative


@lru_cache(maxsize=1024)
def range_term(text: str) -> Term | None:
    """The in-range term a text denotes (``1-5``, ``0Mi-1024Mi``), None when it is no range."""
    found = _RANGE.fullmatch(text)
    return Term("range", found.group(1), found.group(2)) if found else None


@lru_cache(maxsize=1024)
def range_matcher(text: str) -> Predicate | None:
    """The predicate of an in-range text, for conditions (semantics §9.3)."""
    term = range_term(text)
    if term is None:
        return None
    within = _term_matcher(term)
    return _of_text(Known(within).__getitem__, within)


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


def is_prefix(term: Term) -> bool:
    """Whether a term accepts just the texts that begin with its operand's own text (``docker.io/*``)."""
    return term.op == "=" and term.operand.endswith("*") and not contains_wildcard(term.operand[:-1])


def is_numeric(term: Term) -> bool:
    """Whether a term reads its operand as an amount: as a duration or a quantity. Others compare texts."""
    return (
        term.op not in ("=", "!")
        or parse_duration(term.operand) is not None
        or parse_quantity(term.operand) is not None
    )


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

    return measured


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
