"""Suggestions for what an expression may have meant: the nearest name, and the overloads that are there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from compiler.frontends.cel.ast import Ident, Node
from compiler.frontends.cel.declarations import PLAIN_LIBRARIES
from compiler.frontends.cel.overloads import Signature
from compiler.frontends.cel.types import BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT, Prim, Type, format_type
from compiler.frontends.cel.unify import Unifier, is_dyn_or_error

_SHOWN: Final = 4
_CONVERTIBLE: Final = (INT, UINT, DOUBLE, STRING, BYTES, BOOL)
_GENERIC: Final = {
    "_==_": "two values of one type",
    "_!=_": "two values of one type",
    "_?_:_": "a bool, and two results of one type",
}
_ORDER: Final = {
    "_<_": "a.isLessThan(b)",
    "_>_": "a.isGreaterThan(b)",
    "_<=_": "!a.isGreaterThan(b)",
    "_>=_": "!a.isLessThan(b)",
}
_COMPARED: Final = {"kubernetes.Quantity": "quantity(x)", "kubernetes.Semver": "semver(x)"}
_METHODS: Final = {"_+_": "a.add(b)", "_-_": "a.sub(b)"}


def nearest(name: str, names: Iterable[str]) -> str:
    """``did you mean 'x'?``, or nothing when no name is near."""
    found = get_close_matches(name, list(names), 1, 0.7)
    return f"did you mean '{found[0]}'?" if found and found[0] != name else ""


def elsewhere(name: str, target: Node | None) -> str:
    """The library of CEL that has a function which the environment has not, or nothing."""
    if isinstance(target, Ident):
        name = f"{target.name}.{name}"
    shown = {"math.greatest": "math.@max", "math.least": "math.@min"}.get(name, name)
    return next((x.name for x in PLAIN_LIBRARIES if any(f.name == shown for f in x.functions)), "")


def overload_help(
    name: str, signatures: Sequence[Signature], operands: Sequence[Type], member: bool
) -> tuple[str, str]:
    """What a call would have to look like, and what may mend it, as texts for ``expected`` and ``help``."""
    opaque = next((t.name for t in operands if isinstance(t, Prim) and t.name in _COMPARED), None)
    if opaque is not None and (form := _ORDER.get(name) or _METHODS.get(name)) is not None:
        return form, f"of values made with {_COMPARED[opaque]}"
    if name in _GENERIC:
        return _GENERIC[name], _conversion_of_two(operands[-2:])
    same = [s for s in signatures if s.member == member and len(s.params) == len(operands)]
    if not same:
        return _forms(name, signatures), ""
    return _forms(name, same), _conversion(same, operands)


def _forms(name: str, signatures: Sequence[Signature]) -> str:
    shown = list(dict.fromkeys(_form(name, s) for s in signatures))
    return " or ".join(shown) if len(shown) <= _SHOWN else ""


def _form(name: str, s: Signature) -> str:
    params = list(map(format_type, s.params))
    if name[0] in "_@!-":
        return f"({', '.join(params)})"
    return f"{params[0]}.{name}({', '.join(params[1:])})" if s.member else f"{name}({', '.join(params)})"


def _conversion(signatures: Sequence[Signature], operands: Sequence[Type]) -> str:
    """The conversion of one operand that would make an overload fit."""
    if NULL in operands:
        return "compare with null before, or test with has()"
    u = Unifier()
    for i, t in reversed(list(enumerate(operands))):
        for to in _CONVERTIBLE if t in _CONVERTIBLE else ():
            changed = [*operands[:i], to, *operands[i + 1 :]]
            if to != t and any(not s.variables and u.assignable_all(changed, s.params) for s in signatures):
                return f"{format_type(to)}(x) converts a value of type {format_type(t)}"
    return ""


def _conversion_of_two(operands: Sequence[Type]) -> str:
    a, b = operands
    if a in _CONVERTIBLE and b in _CONVERTIBLE:
        return f"{format_type(a)}(x) converts a value of type {format_type(b)}"
    if is_dyn_or_error(a) or is_dyn_or_error(b):
        return ""
    return "dyn(x) takes a value of any type"
