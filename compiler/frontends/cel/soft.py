"""The two readings of a type that a schema gives.

``hard`` is what the API server's own checker sees: ``dyn`` wherever a schema knew better. ``schema`` is what the schema
says. A check is made by the first; the second makes warnings, and ``merged`` puts its knowledge into the result.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.frontends.cel.types import (
    DOUBLE,
    DYN,
    INT_OR_STRING,
    QUANTITY_TEXT,
    ListOf,
    MapOf,
    Object,
    Opaque,
    Param,
    Prim,
    Soft,
    Type,
)
from compiler.frontends.cel.unify import is_dyn, parts, rebuilt


def has_soft(t: Type) -> bool:
    """Whether a schema had a hand in the type."""
    return isinstance(t, Soft) or any(map(has_soft, parts(t)))


def hard(t: Type) -> Type:
    """The type without a schema's knowledge."""
    if isinstance(t, Soft):
        return DYN if t.plain is None else hard(t.plain)
    if t in (QUANTITY_TEXT, INT_OR_STRING):
        return DYN
    return _with(t, hard)


def schema(t: Type) -> Type:
    """The type as the schema says. A number of a schema is ``dyn``: JSON does not tell ``3`` from ``3.0``."""
    if isinstance(t, Soft):
        return _said(t.of)
    return _with(t, schema)


def _said(t: Type) -> Type:
    if isinstance(t, Soft):
        return _said(t.of)
    if t in (DOUBLE, INT_OR_STRING):
        return DYN
    return _with(t, _said)


def _with(t: Type, change: Callable[[Type], Type]) -> Type:
    inner = parts(t)
    if not inner:
        return t
    new = [change(x) for x in inner]
    return t if all(a is b for a, b in zip(inner, new, strict=True)) else rebuilt(t, new)


def softened(t: Type) -> Type:
    """``t`` as a part of a schema's type."""
    return t if isinstance(t, Soft) or is_dyn(t) else Soft(t)


def merged(plain: Type, said: Type) -> Type:
    """The plain type, with what the schema says where that is ``dyn``."""
    if is_dyn(plain):
        return softened(said)
    match plain, said:
        case Param(), _ if not is_dyn(said):
            return Soft(said, plain)
        case Prim(), _ if said == QUANTITY_TEXT:
            return Soft(said, plain)
        case ListOf(a), ListOf(b):
            return ListOf(merged(a, b))
        case MapOf(a, c), MapOf(b, d):
            return MapOf(merged(a, b), merged(c, d))
        case Opaque(name, p), Opaque(other, q) if name == other and len(p) == len(q):
            return Opaque(name, tuple(map(merged, p, q)))
        case _:
            return plain


def settled(t: Type) -> Type:
    """``t`` where what the API server sees is known by now: a list of a schema that is a list to it too is no ``Soft``
    any more, its elements are."""
    if isinstance(t, Soft):
        if t.plain is None or isinstance(t.plain, Param) or (isinstance(t.plain, MapOf) and isinstance(t.of, Object)):
            return t
        return merged(t.plain, schema(t))
    return _with(t, settled)
