"""The functions of an environment by name, and which of their overloads take given operands.

The index over the rows of all libraries is made once for a tuple of libraries and shared by all checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.frontends.cel.types import BOOL, DYN, INT, ListOf, MapOf, Param, Type, optional_of, parse_type
from compiler.frontends.cel.unify import Unifier, is_dyn, parts, rebuilt
from vm.cel.library import Function, Library


@dataclass(frozen=True, slots=True)
class Signature:
    """One overload with its types read. ``row`` is the row of the table it stands in, None for the operators that the
    lowering builds itself."""

    params: tuple[Type, ...]
    result: Type
    member: bool
    variables: tuple[str, ...]
    row: Function | None


@dataclass(frozen=True, slots=True)
class Match:
    """What a call resolves to: the row of the first overload that fits, and the type of the result: that of all that
    fit, ``dyn`` when they differ. ``rows`` are all that fit."""

    result: Type
    rows: tuple[Function | None, ...]


Index = Mapping[str, tuple[Signature, ...]]


def _signature(params: Sequence[Type], result: Type, member: bool, row: Function | None) -> Signature:
    names: dict[str, None] = {}
    todo = [*params, result]
    while todo:
        t = todo.pop()
        if isinstance(t, Param):
            names[t.name] = None
        todo.extend(parts(t))
    return Signature(tuple(params), result, member, tuple(names), row)


def _operators() -> dict[str, list[Signature]]:
    """The operators without a row: the conditional, and the index with and without an optional result."""
    a, k, v = Param("A"), Param("K"), Param("V")
    plain: list[tuple[tuple[Type, ...], Type]]
    lifted: list[tuple[tuple[Type, ...], Type]]
    plain = [((ListOf(a), INT), a), ((MapOf(k, v), k), v)]
    lifted = [((optional_of(ListOf(a)), INT), optional_of(a)), ((optional_of(MapOf(k, v)), k), optional_of(v))]
    index = [_signature(p, r, False, None) for p, r in (*plain, *lifted)]
    opt = [_signature(p, optional_of(r), False, None) for p, r in plain]
    opt += [_signature(p, r, False, None) for p, r in lifted]
    return {
        "_?_:_": [_signature((BOOL, a, a), a, False, None)],
        "_[_]": index,
        "_[?_]": opt,
    }


_OPERATORS: Final = _operators()

MAP_INSERT: Final = (
    _signature(
        (MapOf(Param("K"), Param("V")), MapOf(Param("K"), Param("V"))), MapOf(Param("K"), Param("V")), False, None
    ),
)
"""What ``transformMapEntry`` does with an entry, under its name in cel-go: ``cel.@mapInsert``."""

_INDEXES: dict[tuple[int, ...], tuple[tuple[Library, ...], Index]] = {}
_MAX_INDEXES: Final = 64


def index(libraries: tuple[Library, ...]) -> Index:
    """The signatures of every function name of the libraries, in their order."""
    key = tuple(map(id, libraries))
    found = _INDEXES.get(key)
    if found is not None:
        return found[1]
    rows: dict[str, list[Signature]] = {name: list(s) for name, s in _OPERATORS.items()}
    for library in libraries:
        for f in library.functions:
            if f.name in _OPERATORS:
                continue
            rows.setdefault(f.name, []).extend(
                _signature([parse_type(p) for p in o.params], parse_type(o.result), o.member, f) for o in f.overloads
            )
    made = {name: tuple(s) for name, s in rows.items()}
    if len(_INDEXES) >= _MAX_INDEXES:
        _INDEXES.clear()
    _INDEXES[key] = (libraries, made)
    return made


def resolve(signatures: Sequence[Signature], operands: Sequence[Type], member: bool, u: Unifier) -> Match | None:
    """The overloads that take the operands; those that fit bind their variables. None when none fits."""
    result: Type | None = None
    rows: dict[int, Function | None] = {}
    for s in signatures:
        if s.member != member or len(s.params) != len(operands):
            continue
        params, to = s.params, s.result
        if s.variables:
            fresh = {name: u.fresh() for name in s.variables}
            params, to = tuple(_renamed(p, fresh) for p in params), _renamed(to, fresh)
        if not u.assignable_all(operands, params):
            continue
        rows[id(s.row)] = s.row
        found = u.substitute(to)
        if result is None:
            result = found
        elif not is_dyn(result) and found != result:
            result = DYN
    return None if result is None else Match(result, tuple(rows.values()))


def _renamed(t: Type, names: Mapping[str, Param]) -> Type:
    if isinstance(t, Param):
        return names.get(t.name, t)
    inner = parts(t)
    return rebuilt(t, [_renamed(x, names) for x in inner]) if inner else t
