"""Unification of types with type parameters, as cel-go's checker does it.

One ``Unifier`` serves one check. ``assignable`` binds type variables when it succeeds and leaves them as they were when
it does not. Work is bounded: an expression whose types would grow beyond all measure (nested bindings that double a
type each) gets ``dyn`` in their place, which accepts more and never less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compiler.frontends.cel.types import (
    ANY,
    DYN,
    ERROR,
    INT_OR_STRING,
    NULL,
    QUANTITY_TEXT,
    STRING,
    ListOf,
    MapOf,
    Message,
    Object,
    Opaque,
    Param,
    Prim,
    Soft,
    Type,
    TypeOf,
    Wrapper,
)

MAX_SIZE: Final = 512
"""Nodes of a type at most; the largest type of the Kubernetes schemas' own expressions has fewer than ten."""

_STEPS: Final = 20_000
_SCALARS: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes", "null_type"})
_TEXT_OR_NUMBER: Final = frozenset({"string", "int", "uint", "double", "kubernetes.Quantity"})


def is_dyn(t: Type) -> bool:
    return t in (DYN, ANY, INT_OR_STRING)


def is_dyn_or_error(t: Type) -> bool:
    return is_dyn(t) or t == ERROR


def parts(t: Type) -> tuple[Type, ...]:
    """The types a type is made of."""
    match t:
        case ListOf(item):
            return (item,)
        case MapOf(key, value):
            return (key, value)
        case TypeOf(of):
            return () if of is None else (of,)
        case Opaque(_, params):
            return params
        case Soft(of):
            return (of,)
        case _:
            return ()


def rebuilt(t: Type, of: Sequence[Type]) -> Type:
    """A type like ``t`` made of other parts."""
    match t:
        case ListOf():
            return ListOf(of[0])
        case MapOf():
            return MapOf(of[0], of[1])
        case TypeOf() if of:
            return TypeOf(of[0])
        case Opaque(name, _):
            return Opaque(name, tuple(of))
        case Soft(_, plain):
            return Soft(of[0], plain)
        case _:
            return t


def bounded(t: Type) -> Type:
    """``t``, or ``dyn`` when it is too large."""
    count, todo = 0, [t]
    while todo:
        count += 1
        if count > MAX_SIZE:
            return DYN
        todo.extend(parts(todo.pop()))
    return t


class Unifier:
    """The type variables of one check. ``lenient`` compares with a schema's types: null fits everything there, an
    object is a map, and a quantity is a text or a number."""

    __slots__ = ("_bound", "_steps", "_trail", "_vars", "lenient")

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []
        self._vars = 0
        self._steps = 0
        self.lenient = False

    def fresh(self) -> Param:
        """A type variable of its own."""
        self._vars += 1
        return Param(f"_var{self._vars}")

    def mark(self) -> int:
        return len(self._trail)

    def undo(self, mark: int) -> None:
        """Forget all bindings made since the mark."""
        while len(self._trail) > mark:
            name, old = self._trail.pop()
            if old is None:
                del self._bound[name]
            else:
                self._bound[name] = old

    def _bind(self, var: Param, t: Type) -> None:
        self._trail.append((var.name, self._bound.get(var.name)))
        self._bound[var.name] = t

    def assignable(self, t1: Type, t2: Type) -> bool:
        """Whether a value of ``t1`` may stand where ``t2`` is asked for."""
        return self.assignable_all((t1,), (t2,))

    def assignable_all(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        mark, self._steps = self.mark(), 0
        if self._all(given, wanted):
            return True
        self.undo(mark)
        return False

    def substitute(self, t: Type, to_dyn: bool = False) -> Type:
        """``t`` with its variables replaced by what they stand for; with ``to_dyn`` free ones become ``dyn``."""
        self._steps = 0
        return bounded(self._substitute(t, to_dyn))

    def _substitute(self, t: Type, to_dyn: bool) -> Type:
        while isinstance(t, Param) and t.name in self._bound:
            t = self._bound[t.name]
        if isinstance(t, Param):
            return DYN if to_dyn else t
        self._steps += 1
        if self._steps > MAX_SIZE:
            return DYN
        if isinstance(t, Soft) and t.plain is not None:
            plain = self._substitute(t.plain, to_dyn)
            return t if plain is t.plain else Soft(t.of, None if is_dyn(plain) else plain)
        inner = parts(t)
        if not inner:
            return t
        new = [self._substitute(x, to_dyn) for x in inner]
        return t if all(a is b for a, b in zip(inner, new, strict=True)) else rebuilt(t, new)

    def _all(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        return len(given) == len(wanted) and all(self._fits(a, b) for a, b in zip(given, wanted, strict=True))

    def _fits(self, t1: Type, t2: Type) -> bool:
        self._steps += 1
        if self._steps > _STEPS:
            return True
        if isinstance(t2, Param):
            valid, bound = self._stands_for(t1, t2)
            if valid or bound:
                return valid
        if isinstance(t1, Param):
            return self._stands_for(t2, t1)[0]
        if is_dyn_or_error(t1) or is_dyn_or_error(t2):
            return True
        if t1 == NULL:
            return self.lenient or _nullable(t2)
        if t2 == NULL:
            return self.lenient or _nullable(t1)
        if self.lenient and (found := self._lenient(t1, t2)) is not None:
            return found
        match t1, t2:
            case TypeOf(), TypeOf():
                return True
            case (ListOf(), ListOf()) | (MapOf(), MapOf()):
                return self._all(parts(t1), parts(t2))
            case Opaque(a, p), Opaque(b, q):
                return a == b and self._all(p, q)
            case Prim() as p, Wrapper(of):
                return p == of
            case Wrapper(of), Prim() as p:
                # cel-go lets a wrapper stand where its primitive is asked for, so that arithmetic on it is found.
                return p == of
            case _:
                return t1 == t2

    def _lenient(self, t1: Type, t2: Type) -> bool | None:
        for a, b in ((t1, t2), (t2, t1)):
            if a == QUANTITY_TEXT:
                return b == QUANTITY_TEXT or (isinstance(b, Prim) and b.name in _TEXT_OR_NUMBER)
            if isinstance(a, Object) and isinstance(b, MapOf):
                return self._fits(STRING, b.key) and self._fits(DYN, b.value)
            if isinstance(a, Object) and isinstance(b, Object):
                return True
        return None

    def _stands_for(self, t: Type, var: Param) -> tuple[bool, bool]:
        """Whether the variable may stand for ``t`` (then it is bound to the more general), and whether it was bound."""
        if t == var:
            return True, True
        old = self._bound.get(var.name)
        if old is not None:
            if t == old:
                return True, True
            if self._fits(t, old):
                new = self._more_general(t, old)
                if not self._occurs(var, new):
                    self._bind(var, bounded(new))
                return True, True
            return False, True
        if not self._occurs(var, t):
            self._bind(var, bounded(t))
            return True, False
        return False, False

    def _occurs(self, var: Param, t: Type) -> bool:
        todo, steps = [t], 0
        while todo:
            x = todo.pop()
            steps += 1
            if x == var or steps > _STEPS:
                return True
            if isinstance(x, Param):
                if x.name in self._bound:
                    todo.append(self._bound[x.name])
            else:
                todo.extend(parts(x))
        return False

    def _more_general(self, t1: Type, t2: Type) -> Type:
        if self.lenient:
            if QUANTITY_TEXT in (t1, t2) and not (is_dyn(t1) or is_dyn(t2)):
                return QUANTITY_TEXT
            if t1 == NULL or t2 == NULL:
                return t2 if t1 == NULL else t1
        return most_general(t1, t2)


def most_general(t1: Type, t2: Type) -> Type:
    """The more general of two types that unify; null is less general than anything that may be null (CEL spec
    § Gradual Type Checking)."""
    if t2 == NULL and not isinstance(t1, Param):
        return t1
    return t1 if _less_specific(t1, t2) else t2


def _less_specific(t1: Type, t2: Type) -> bool:
    if is_dyn(t1) or isinstance(t1, Param):
        return True
    if is_dyn(t2) or isinstance(t2, Param):
        return False
    match t1, t2:
        case (ListOf(), ListOf()) | (MapOf(), MapOf()):
            return all(_less_specific(a, b) for a, b in zip(parts(t1), parts(t2), strict=True))
        case Opaque(a, p), Opaque(b, q):
            return a == b and len(p) == len(q) and all(map(_less_specific, p, q))
        case TypeOf(), TypeOf():
            return True
        case Wrapper(of), Prim():
            return of == t2
        case _:
            return t1 == t2


def _nullable(t: Type) -> bool:
    """Wrappers, messages and opaque types may be null (cel-go; timestamps and durations are messages)."""
    match t:
        case Wrapper() | Opaque() | Message() | Object():
            return True
        case Prim(name):
            return name not in _SCALARS or name == "null_type"
        case _:
            return False
