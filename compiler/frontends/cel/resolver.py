"""Which overload of a function a call means, by the types the API server knows and by those of a schema.

One ``Resolver`` serves one check; it writes into the checker's list of problems. The plain types decide whether the
call stands, and what is wrong with it in cel-go's words. The types of the schema can only give warnings and a better
type of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compiler.frontends.cel.ast import Span
from compiler.frontends.cel.checked import Problem
from compiler.frontends.cel.overloads import Match, Signature, resolve
from compiler.frontends.cel.soft import hard, has_soft, merged, schema
from compiler.frontends.cel.suggest import overload_help
from compiler.frontends.cel.types import (
    BOOL,
    DOUBLE,
    INT,
    INT_OR_STRING,
    QUANTITY_TEXT,
    UINT,
    ListOf,
    MapOf,
    Object,
    Type,
    format_type,
)
from compiler.frontends.cel.unify import Unifier, parts

_BRANCHES: Final = frozenset({"_?_:_", "or", "orValue"})
"""Calls that give one of their operands: where a schema says that these are of different types, nothing is amiss."""

_EQUAL: Final = {"_==_": "false", "_!=_": "true", "@in": "false"}
_NUMBERS: Final = (INT, UINT, DOUBLE)


class Resolver:
    """The calls of one check."""

    __slots__ = ("_problems", "_unify")

    def __init__(self, unify: Unifier, problems: list[Problem]) -> None:
        self._unify = unify
        self._problems = problems

    def _warn(self, kind: str, at: Span, message: str, help: str = "") -> None:
        self._problems.append(Problem(kind, message, at, "warning", help=help))

    def show(self, t: Type) -> str:
        """A type as the API server's errors have it."""
        return format_type(self._unify.substitute(hard(t), to_dyn=True))

    def resolved(
        self,
        at: Span,
        name: str,
        signatures: Sequence[Signature],
        operands: Sequence[Type],
        member: bool,
        field: Type | None = None,
    ) -> Match | None:
        """The overload of a function by the plain types, with what the schema's types add to its result: ``field`` when
        that is known already."""
        plain = [hard(t) for t in operands]
        match = resolve(signatures, plain, member, self._unify)
        if match is None:
            message = f"found no matching overload for '{name}' applied to '{self.signature(plain, member)}'"
            expected, help = overload_help(name, signatures, [self._unify.substitute(t, True) for t in plain], member)
            self._problems.append(Problem("overload", message, at, "error", expected, help))
            return None
        if not any(map(has_soft, operands)):
            return match
        if field is not None:
            return Match(merged(match.result, field), match.rows)
        if name == "_?_:_" and has_soft(operands[0]) and not self.fits_schema(schema(operands[0]), BOOL):
            self._warn("schema", at, f"the schema says {in_words(schema(operands[0]))} before the '?', not bool")
        said = [schema(t) for t in operands]
        better = self._by_schema(signatures, said, member)
        if better is None:
            self._misfit(at, name, said, member)
            return match
        return Match(merged(match.result, better.result), better.rows)

    def _by_schema(self, signatures: Sequence[Signature], said: Sequence[Type], member: bool) -> Match | None:
        """Resolve by the schema's types; no type variable is bound by it."""
        mark, self._unify.lenient = self._unify.mark(), True
        match = resolve(signatures, said, member, self._unify)
        if match is not None:
            match = Match(self._unify.substitute(match.result, to_dyn=True), match.rows)
        self._unify.lenient = False
        self._unify.undo(mark)
        return match

    def _misfit(self, at: Span, name: str, said: Sequence[Type], member: bool) -> None:
        if name in _BRANCHES:
            return
        if name in _EQUAL:
            left, right = said
            if name == "@in":
                right = right.item if isinstance(right, ListOf) else right.key if isinstance(right, MapOf) else right
            if (left in _NUMBERS and right in _NUMBERS) or (parts(left) and parts(right)):
                return
            if name != "@in" or right is not said[1]:
                verb = "never in a collection of" if name == "@in" else "never equal to"
                what = f"{in_words(left)} is {verb} {format_type(right) if name == '@in' else in_words(right)}"
                self._warn(
                    "always_false",
                    at,
                    f"this is always {_EQUAL[name]}: by the schema, {what}",
                    "compare with a value of the same type, or convert one of them",
                )
                return
        applied = self.signature(said, member)
        self._warn("schema", at, f"by the schema, no overload for '{name}' takes '{applied}'")

    def signature(self, operands: Sequence[Type], member: bool) -> str:
        """The types of a call's operands as errors have them: ``string.(int)`` of a method."""
        shown = [_said_plainly(self._unify.substitute(t, to_dyn=True)) for t in operands]
        return f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"

    def fits_schema(self, said: Type, wanted: Type) -> bool:
        """Whether what a schema says may stand for ``wanted``; no type variable is bound by it."""
        mark, self._unify.lenient = self._unify.mark(), True
        fits = self._unify.assignable(said, wanted)
        self._unify.lenient = False
        self._unify.undo(mark)
        return fits


def short(name: str) -> str:
    """The name of a schema without its package: ``Container``."""
    return name.rpartition(".")[2]


def in_words(t: Type) -> str:
    """A schema's type in words of the user."""
    match t:
        case Object(name):
            return f"an object ({short(name)})" if name else "an object"
        case ListOf():
            return "a list"
        case MapOf():
            return "a map"
        case _ if t in (QUANTITY_TEXT, INT_OR_STRING):
            return "a quantity" if t == QUANTITY_TEXT else "a number or a string"
        case _:
            return _article(format_type(t))


def _article(word: str) -> str:
    return f"an {word}" if word[0] in "aeio" else f"a {word}"


def _said_plainly(t: Type) -> str:
    return "quantity" if t == QUANTITY_TEXT else format_type(t)
