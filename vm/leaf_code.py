"""A scalar pattern as a Python expression: what ``vm.translator`` writes for a leaf in place of calling its predicate.

The expression answers by itself for the values that a leaf nearly always has and calls the predicate of ``vm.scalar``
for all others, so that it decides nothing that it cannot decide exactly. A call costs 60 ns and more, ``x is False``
or a lookup 15 to 30.

>>> from vm.scalar import Term
>>> code = inline(ScalarPattern("a/* | b/*", ((Term("=", "a/*"),), (Term("=", "b/*"),))))
>>> code.of_text, code.constants
('{x}.startswith({c0})', (('a/', 'b/'),))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from vm.intrinsics.wildcard import contains_wildcard
from vm.intrinsics.wildcard import matcher as glob_matcher
from vm.scalar import ScalarPattern, Term, is_numeric, is_prefix, known

_MOST_PARTS: Final = 8
"""Comparisons in one expression, beyond which the predicate is called: longer ones are hard to read, and rare."""

_NUMBER_STARTS: Final = frozenset("+-0123456789IN")
"""How the text of a number may begin (``1.5E+00``, ``+Inf``, ``NaN``)."""


@dataclass(frozen=True, slots=True)
class Inline:
    """``whole`` is an expression on a value that has a name; in it ``{x}`` stands for the name, ``{rest}`` for the
    predicate that answers for other values, and ``{c0}``, ``{c1}`` … for ``constants``. ``of_text`` is one that may be
    used where the value is known to be a text, empty for patterns that are none."""

    whole: str
    of_text: str
    constants: tuple[Any, ...] = ()

    def applied(self, template: str, x: str, rest: str, bind: Callable[[str, Any], str], name: str) -> str:
        """A template with its names filled in; constants are bound as ``{name}_0``, ``{name}_1`` …"""
        return template.format(
            x=x, rest=rest, **{f"c{n}": bind(f"{name}_{n}", value) for n, value in enumerate(self.constants)}
        )


def inline(p: ScalarPattern) -> Inline | None:
    """The expression of a pattern, None where its predicate is to be called."""
    match p.value:
        case bool():
            return Inline(f"({{x}} is {p.value} or type({{x}}) is list and {{rest}}({{x}}))", "")
        case int():
            return Inline("({x} == {c0} if type({x}) is int else {rest}({x}))", "", (p.value,))
        case None:
            return Inline("({x} is None or {x} is MISSING or {rest}({x}))", "")
        case str():
            return _of_text(p)
    return None


@lru_cache(maxsize=4096)
def _of_text(p: ScalarPattern) -> Inline | None:
    parts = _Parts()
    if any(is_numeric(t) for a in p.alternatives for t in a):
        of_text = f"{parts.constant(known(p))}[{{x}}]"
    else:
        either = parts.any_of(a[0] for a in p.alternatives if len(a) == 1)
        either += [parts.all_of(a) for a in p.alternatives if len(a) != 1]
        if not any(all(_holds(t, str(p.value)) for t in a) for a in p.alternatives):
            either.append(f"{{x}} == {parts.constant(p.value)}")
        if parts.count > _MOST_PARTS or not either:
            return None
        of_text = "True" if "True" in either else either[0] if len(either) == 1 else f"({' or '.join(either)})"
    return Inline(_whole(p, of_text), of_text, tuple(parts.constants))


def _whole(p: ScalarPattern, of_text: str) -> str:
    if of_text == "True":
        return "(type({x}) is str or {rest}({x}))"
    if of_text == "{x} == {c0}" and str(p.value)[:1] not in _NUMBER_STARTS:
        # Equal to one text: nothing but it, the truth of the same name and lists of these may hold.
        truth = f"{{x}} is {p.value.title()} or " if p.value in ("true", "false") else ""
        return f"({truth}{{x}} == {{c0}} or type({{x}}) is list and {{rest}}({{x}}))"
    return f"({of_text} if type({{x}}) is str else {{rest}}({{x}}))"


class _Parts:
    """Comparisons of one expression, and the constants they use."""

    def __init__(self) -> None:
        self.constants: list[Any] = []
        self.count = 0

    def constant(self, value: Any) -> str:
        self.constants.append(value)
        self.count += 1
        return f"{{c{len(self.constants) - 1}}}"

    def all_of(self, terms: Iterable[Term]) -> str:
        """All terms of an alternative: what must hold, and what must not as one."""
        terms = tuple(terms)
        wanted = [part for t in terms if t.op == "=" for part in self.any_of((t,))]
        refused = self.any_of(Term("=", t.operand) for t in terms if t.op == "!")
        both = [*wanted, *(f"not {part}" for part in refused)]
        return f"({' and '.join(both)})"

    def any_of(self, terms: Iterable[Term]) -> list[str]:
        """Comparisons one of which holds when one of the terms does: those of a kind in one step."""
        terms = tuple(terms)
        found = [self.all_of((t,)) for t in terms if t.op == "!"]
        operands = [t.operand for t in terms if t.op == "="]
        exact = [o for o in operands if not contains_wildcard(o)]
        prefixes = [o[:-1] for o in operands if is_prefix(Term("=", o)) and o != "*"]
        suffixes = [o[1:] for o in operands if o[:1] == "*" and o != "*" and not contains_wildcard(o[1:])]
        others = [o for o in operands if contains_wildcard(o)]
        for kind, texts in (("startswith", prefixes), ("endswith", suffixes)):
            if texts:
                found.append(f"{{x}}.{kind}({self.constant(texts[0] if len(texts) == 1 else tuple(texts))})")
        if exact:
            one = len(exact) == 1
            found.append(f"{{x}} {'==' if one else 'in'} {self.constant(exact[0] if one else frozenset(exact))}")
        return found + [self._other(o) for o in others if o[:-1] not in prefixes and o[1:] not in suffixes]

    def _other(self, operand: str) -> str:
        if operand == "*":
            return "True"
        if operand == "?*":
            return f"{{x}} != {self.constant('')}"
        needle = operand[1:-1]
        if len(operand) > 2 and operand[0] == operand[-1] == "*" and not contains_wildcard(needle):
            return f"{self.constant(needle)} in {{x}}"
        return f"{self.constant(glob_matcher(operand))}({{x}})"


def _holds(term: Term, text: str) -> bool:
    return glob_matcher(term.operand)(text) is (term.op == "=")
