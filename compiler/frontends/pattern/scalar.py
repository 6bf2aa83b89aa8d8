"""Compiles a scalar of a pattern to a :class:`vm.scalar.ScalarPattern` (semantics §2).

Called by ``emit`` for constant patterns, and at request time for patterns that variables were put into. Every text is a
pattern: what the grammar cannot read as an operator or a range is a text to be equal to.
"""

from __future__ import annotations

from typing import Any, Final

from grammar.loader import load
from vm.scalar import ScalarPattern, Term, range_term

_OPERATORS: Final = {"AT_LEAST": ">=", "AT_MOST": "<=", "ABOVE": ">", "BELOW": "<", "NOT": "!"}
_PLAIN: Final = frozenset("|&<>!-")
"""A text without these holds one term, that it be equal: most patterns, and no need to parse them."""


def compile_scalar(pattern: Any) -> ScalarPattern:
    """The compiled form of a JSON scalar. Raises ``TypeError`` for a list or a map, which are no scalars."""
    if type(pattern) in (dict, list):
        raise TypeError("a scalar pattern is no list and no map")
    if type(pattern) is not str:
        return ScalarPattern(pattern)
    if _PLAIN.isdisjoint(pattern):
        return ScalarPattern(pattern, ((_equal(pattern),),))
    alternatives: list[Any] = load("pattern").parse(pattern).children
    return ScalarPattern(pattern, tuple(tuple(_term(t.children) for t in a.children) for a in alternatives))


def _term(tokens: list[Any]) -> Term:
    if not tokens:
        return Term("=", "")
    token = tokens[0]
    text = str(token).strip(" ")
    match token.type:
        case "RANGE":
            return range_term(text) or _equal(text)
        case "OUTSIDE":
            low, _, high = text.partition("!-")
            return Term("outside", low, high)
        case "EQUAL":
            return _equal(text)
    operator = _OPERATORS[token.type]
    return Term(operator, text[len(operator) :].strip())


def _equal(text: str) -> Term:
    # White space that is no blank ends a term too once its operator, here an empty one, has been taken off.
    return Term("=", text.strip())
