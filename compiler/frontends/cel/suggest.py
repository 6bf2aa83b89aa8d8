"""Suggestions for what an expression may have meant: the nearest name, and the overloads that are there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from compiler.frontends.cel.overloads import Signature
from compiler.frontends.cel.types import BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT, Type, format_type
from compiler.frontends.cel.unify import Unifier

_SHOWN: Final = 4
_CONVERTIBLE: Final = (INT, UINT, DOUBLE, STRING, BYTES, BOOL)


def nearest(name: str, names: Iterable[str]) -> str:
    """``did you mean 'x'?``, or nothing when no name is near."""
    found = get_close_matches(name, list(names), 1, 0.7)
    return f"did you mean '{found[0]}'?" if found and found[0] != name else ""


def overload_help(
    name: str, signatures: Sequence[Signature], operands: Sequence[Type], member: bool
) -> tuple[str, str]:
    """What a call would have to look like, and what may mend it, as texts for ``expected`` and ``help``."""
    same = [s for s in signatures if s.member == member and len(s.params) == len(operands)]
    if not same:
        return _other_form(name, signatures, operands, member)
    shown = list(dict.fromkeys(_form(name, s) for s in same))
    expected = " or ".join(shown) if len(shown) <= _SHOWN else ""
    return expected, _conversion(same, operands)


def _other_form(name: str, signatures: Sequence[Signature], operands: Sequence[Type], member: bool) -> tuple[str, str]:
    shown = list(dict.fromkeys(_form(name, s) for s in signatures))[:_SHOWN]
    expected = " or ".join(shown)
    if any(s.member != member and len(s.params) == len(operands) for s in signatures):
        return expected, f"write {'x.' if not member else ''}{name}({'…' if len(operands) > 1 or member else ''})"
    return expected, ""


def _form(name: str, s: Signature) -> str:
    params = list(map(format_type, s.params))
    if name.startswith("_") or name[0] in "@!-":
        return f"({', '.join(params)})"
    return f"{params[0]}.{name}({', '.join(params[1:])})" if s.member else f"{name}({', '.join(params)})"


def _conversion(signatures: Sequence[Signature], operands: Sequence[Type]) -> str:
    """The conversion of one operand that would make an overload fit."""
    if NULL in operands:
        return "a value that may be null is compared with == or !=, or tested with has()"
    u = Unifier()
    for i, t in enumerate(operands):
        if t not in _CONVERTIBLE:
            continue
        for to in _CONVERTIBLE:
            changed = [*operands[:i], to, *operands[i + 1 :]]
            if to != t and any(not s.variables and u.assignable_all(changed, s.params) for s in signatures):
                return f"{format_type(to)}(x) makes {_article(format_type(to))} of {_article(format_type(t))}"
    return ""


def _article(word: str) -> str:
    return f"an {word}" if word[0] in "aeio" else f"a {word}"
