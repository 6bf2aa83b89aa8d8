"""Puts straight code that proves a pass before the exact walk of a constant pattern.

``pat.walk(resource, pattern)`` owns the meaning (semantics §2–3): messages, paths, skips. Nearly every request passes
nearly every rule, so for each constant pattern this pass writes a function that answers true only when the walk would
answer null::

    r = pat.walk(@$resource, {"spec": {"=(hostNetwork)": false}})
    ->
    r = choose(call p0.r0.sure(), null, pat.walk(@$resource, …))

    function p0.r0.sure() -> B helper
      spec = @$resource.spec
      if not(is_map(%spec))
        return false
      if not(or(is_missing(get["hostNetwork"](%spec)), p_leaf[false](get["hostNetwork"](%spec))))
        return false
      return true

False means "not proven", so whatever is rare or depends on order (skips, positional lists, wildcards in metadata keys)
may answer false; true must be right. Fuzz target F5 holds both against each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from compiler.ir.build import FALSE, TRUE, FunctionBuilder, negate
from compiler.ir.ops import (
    And,
    Break,
    Call,
    Choose,
    Const,
    Each,
    Expr,
    Function,
    If,
    Invoke,
    Load,
    Local,
    Module,
    Next,
    Op,
    Or,
    Return,
    Set,
    Stmt,
)
from compiler.ir.walk import rewrite_function
from compiler.passes.simplify import simplify_function
from vm.intrinsics.pattern_walk import parse_anchor

_MOST_NODES: Final = 400
"""Patterns with more maps, lists and leaves than this are left to the walk: the code would be
larger than it is worth."""
_MOST_LOOPS: Final = 6
_DEEPEST: Final = 24


class _Unprovable(Exception):
    """The walk can never pass here, or only in ways that this pass does not follow."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One key of a pattern map: its anchor ("" for none, "()" for a conditional one), the name in it, the pattern
    below."""

    anchor: str
    name: str
    pattern: Any


def specialise_pattern(m: Module) -> Module:
    """The module with a proving function before each walk of a constant pattern."""
    known = {fn.name: fn for fn in m.functions}
    taken = set(known)
    added: list[Function] = []
    functions: list[Function] = []
    for fn in m.functions:
        new = _function(fn, taken, added)
        if new is not fn:
            # Where the walk's answer is looked at next, a proof leads straight to what follows a pass.
            known.update((proof.name, proof) for proof in added)
            new = simplify_function(new, known)
        functions += [new, *added]
        added.clear()
    return m if len(functions) == len(m.functions) else replace(m, functions=tuple(functions))


def _function(fn: Function, taken: set[str], added: list[Function]) -> Function:
    def expr(e: Expr) -> Expr:
        match e:
            case Choose(Call(), Const(None), Invoke("pat.walk")):
                return e
            case Invoke("pat.walk", (Load() | Local() as resource, Const(pattern))):
                name = _fresh_name(f"{fn.name}.sure", taken)
                proof = _proof(name, fn, resource, pattern)
                if proof is not None:
                    taken.add(name)
                    added.append(proof)
                    return Choose(Call(name, tuple([resource] if proof.params else [])), Const(None), e)
        return e

    return rewrite_function(fn, expr)


def _fresh_name(base: str, taken: set[str]) -> str:
    n, name = 1, base
    while name in taken:
        n += 1
        name = f"{base}{n}"
    return name


def _proof(name: str, fn: Function, resource: Expr, pattern: Any) -> Function | None:
    if _nodes(pattern) > _MOST_NODES or _depth(pattern) > _DEEPEST:
        return None
    params = [] if isinstance(resource, Load) else [("resource", "V")]
    b = FunctionBuilder(name, params=params, result="B", policy=fn.policy)
    try:
        _Prover(b).value(resource if isinstance(resource, Load) else Local("resource"), _closed(pattern), lenient=False)
    except _Unprovable:
        return None
    b.ret(TRUE)
    return b.function()


def _nodes(pattern: Any) -> int:
    if type(pattern) is dict:
        return 1 + sum(map(_nodes, pattern.values()))
    return 1 + sum(map(_nodes, pattern)) if type(pattern) is list else 1


def _depth(pattern: Any) -> int:
    inner = pattern.values() if type(pattern) is dict else pattern if type(pattern) is list else ()
    return 1 + max(map(_depth, inner), default=0)


def _closed(pattern: Any) -> Any:
    """The pattern with an empty list, which no value satisfies, for each map of labels or annotations below
    ``metadata`` that holds wildcards in its keys: the walk expands those by the keys of the resource (semantics
    §3.4)."""
    if type(pattern) is list:
        return [_closed(p) for p in pattern]
    if type(pattern) is not dict:
        return pattern
    closed = {key: _closed(value) for key, value in pattern.items()}
    for key, value in closed.items():
        if type(value) is dict and _name(key) == "metadata":
            closed[key] = {
                k: [] if _name(k) in ("labels", "annotations") and _widens(v) else v for k, v in value.items()
            }
    return closed


def _name(key: str) -> str:
    found = parse_anchor(key)
    return key if found is None else found[1]


def _widens(pattern: Any) -> bool:
    return type(pattern) is dict and any("*" in k or "?" in k for k in pattern)


def _entries(pattern: dict[str, Any]) -> Iterator[_Entry]:
    for key, value in pattern.items():
        found = parse_anchor(key)
        if found is None or found[0] == "+":
            yield _Entry("", key, value)
        else:
            yield _Entry(found[0] or "()", found[1], value)


class _Prover:
    """Emits the checks of one pattern. ``give_up`` is what a check that does not hold does."""

    def __init__(self, b: FunctionBuilder) -> None:
        self.b = b
        self.give_up: Stmt = Return(FALSE)
        self.loops = 0

    def require(self, cond: Expr) -> None:
        if isinstance(cond, And):
            for term in cond.terms:
                self.require(term)
        elif cond != TRUE:
            self.b.emit(If(negate(cond), (self.give_up,)))

    def value(self, value: Expr, pattern: Any, *, lenient: bool) -> None:
        """Checks that a value walks; ``lenient`` under ``=( )``, where an empty list satisfies a list or scalar
        pattern."""
        if type(pattern) is dict:
            self.map(value, pattern)
        elif type(pattern) is list:
            self.list(value, pattern, lenient=lenient)
        else:
            if _leaf_reads(pattern) > 1:
                value = self.kept(value, "leaf")
            self.require(leaf(value, pattern, lenient=lenient))

    def kept(self, value: Expr, hint: str) -> Expr:
        """A value that is read more than once, in a local."""
        return value if isinstance(value, Local) else self.b.let(value, "V", hint)

    def map(self, value: Expr, pattern: dict[str, Any]) -> None:
        entries = list(_entries(pattern))
        known = any(map(_needs_map, entries))
        if len(entries) > 1 or (entries and not known):
            value = self.kept(value, "map")
        if not known:
            self.require(Op("is_map", (value,)))
        for entry in sorted(entries, key=_cost):
            self.entry(field(value, entry.name), entry)

    def entry(self, value: Expr, entry: _Entry) -> None:
        pattern = entry.pattern
        match entry.anchor:
            case "":
                if pattern == "*":
                    self.require(Op("not", (Op("is_absent", (value,)),)))
                else:
                    self.value(value, pattern, lenient=False)
            case "()":
                if type(pattern) in (dict, list):
                    self.value(value, pattern, lenient=False)
                    return
                value = self.kept(value, "field")
                self.require(Op("not", (Op("is_missing", (value,)),)))
                self.value(value, pattern, lenient=False)
            case "X":
                self.require(Op("is_missing", (value,)))
            case "=" | "<":
                self.optional(value, pattern, lenient=entry.anchor == "=")
            case "^":
                self.existence(value, pattern)

    def optional(self, value: Expr, pattern: Any, *, lenient: bool) -> None:
        """An anchor that passes when its key is absent."""
        if type(pattern) not in (dict, list):
            found = leaf(value, pattern, lenient=lenient)
            if matches(pattern, None):
                self.require(found)  # null and MISSING are one to a scalar pattern
                return
            value = self.kept(value, "field")
            found = leaf(value, pattern, lenient=lenient)
            self.require(Or((Op("is_missing", (value,)), found)))
            return
        value = self.kept(value, "field")
        with self.b.nested() as there:
            try:
                self.value(value, pattern, lenient=lenient)
            except _Unprovable:
                there[:] = [self.give_up]
        self.b.emit(If(Op("not", (Op("is_missing", (value,)),)), tuple(there)))

    # lists

    def list(self, value: Expr, pattern: list[Any], *, lenient: bool) -> None:
        if not pattern or type(pattern[0]) is list or any(type(p) is not type(pattern[0]) for p in pattern):
            raise _Unprovable
        value = self.kept(value, "list")
        self.require(Op("is_list", (value,)))
        if type(pattern[0]) is not dict:
            self.require(Op("not", (Op("is_empty", (value,)),)))
            self.require(Op("p_leaf", (value,), (pattern[0],)))
            return
        groups = [p for p in pattern if _sets_aside(p)] or []
        plain = [p for p in pattern if not _sets_aside(p)]
        if not lenient and any(_asks(p) for p in pattern):
            self.require(Op("not", (Op("is_empty", (value,)),)))
        if plain:
            with self.loop(value) as item:
                for p in plain:
                    self.map(item, p)
        for p in groups:
            self.filtered(value, p)

    def filtered(self, value: Expr, pattern: dict[str, Any]) -> None:
        """A list pattern whose elements may be set aside by a condition: at least one element must apply."""
        applied = self.b.fresh("B", "applied")
        self.b.emit(Set(applied, Op("is_empty", (value,))))
        conditions, rest = _conditions(pattern)
        with self.loop(value) as item:
            self.require(Op("is_map", (item,)))
            for entry in conditions:
                self.condition(item, entry)
            for entry in sorted(rest, key=_cost):
                self.entry(field(item, entry.name), entry)
            self.b.emit(Set(applied, TRUE))
        self.require(Local(applied))

    def condition(self, item: Expr, entry: _Entry) -> None:
        """Sets the element aside when a scalar condition does not hold; gives up on a list, of which the walk knows
        more."""
        value = self.kept(field(item, entry.name), "cond")
        self.require(Op("not", (Op("is_list", (value,)),)))
        held: Expr = Op("p_scalar", (value,), (entry.pattern,))
        if entry.anchor == "<":
            held = Or((Op("is_missing", (value,)), held))
        elif matches(entry.pattern, None):
            held = And((Op("not", (Op("is_missing", (value,)),)), held))
        self.b.emit(If(negate(held), (Next(),)))

    def existence(self, value: Expr, pattern: Any) -> None:
        """``^(k)``: absent, or a list in which each pattern map finds an element that walks without any error."""
        if type(pattern) is not list or not pattern or any(type(p) is not dict or _has_list(p) for p in pattern):
            raise _Unprovable
        value = self.kept(value, "list")
        with self.b.nested() as there:
            self.require(Op("is_list", (value,)))
            for p in pattern:
                found = self.b.fresh("B", "found")
                self.b.emit(Set(found, FALSE))
                outer = self.give_up
                with self.loop(value) as item:
                    self.give_up = Next()
                    self.map(item, p)
                    self.b.emit(Set(found, TRUE), Break())
                self.give_up = outer
                self.require(Local(found))
        self.b.emit(If(Op("not", (Op("is_missing", (value,)),)), tuple(there)))

    def loop(self, value: Expr) -> _Loop:
        if self.loops == _MOST_LOOPS or not isinstance(self.give_up, Return):
            raise _Unprovable
        return _Loop(self, value)


class _Loop:
    """``with prover.loop(list) as item``: what is emitted inside becomes the body of an ``each``."""

    def __init__(self, prover: _Prover, value: Expr) -> None:
        self.prover = prover
        self.value = value
        self.item = prover.b.fresh("V", "item")
        self.body = prover.b.nested()
        self.stmts: list[Stmt] = []

    def __enter__(self) -> Expr:
        self.prover.loops += 1
        self.stmts = self.body.__enter__()
        return Local(self.item)

    def __exit__(self, *problem: Any) -> None:
        self.body.__exit__(*problem)
        self.prover.loops -= 1
        if problem[0] is None:
            self.prover.b.emit(Each(self.item, Op("as_list", (self.value,)), tuple(self.stmts)))


def field(value: Expr, name: str) -> Expr:
    """A field of a value, as part of its path when the value is one."""
    return Load((*value.path, name)) if isinstance(value, Load) else Op("get", (value,), (name,))


def leaf(value: Expr, pattern: Any, *, lenient: bool) -> Expr:
    """A condition that holds only when the scalar pattern walks over the value, lists of values included.

    An empty list satisfies ``p_leaf`` but no scalar pattern outside ``=( )``, unless that accepts null too (semantics
    §3).
    """
    if not matches(pattern, []):
        # The pattern holds of no list, so a single test of the value itself is enough to be sure.
        return Op("p_leaf" if lenient else "p_scalar", (value,), (pattern,))
    if lenient or matches(pattern, None):
        return Op("p_leaf", (value,), (pattern,))
    filled = Op("not", (Op("is_empty", (value,)),))
    whole = Op("p_leaf", (value,), (pattern,))
    if pattern == "?*":
        return And((filled, Or((Op("is_text", (value,)), whole))))
    return And((filled, whole))


def _leaf_reads(pattern: Any) -> int:
    """How often :func:`leaf` reads its value."""
    return 3 if matches(pattern, []) and not matches(pattern, None) else 1


def matches(pattern: Any, value: Any) -> bool:
    """Whether a scalar pattern, given as it stands in the policy, holds of a value."""
    return bool(_matcher(type(pattern).__name__, pattern)(value))


@lru_cache(maxsize=4096)
def _matcher(kind: str, pattern: Any) -> Any:
    """``kind`` keeps ``1``, ``1.0`` and ``True`` apart in the cache."""
    from compiler.frontends.pattern import compile_scalar
    from vm.scalar import compile_matcher

    return compile_matcher(compile_scalar(pattern))


def _needs_map(entry: _Entry) -> bool:
    """Whether proving the entry proves that the value it is a field of is a map."""
    if entry.anchor == "()":
        return True
    if entry.anchor:
        return False
    pattern = entry.pattern
    return type(pattern) in (dict, list) or pattern == "*" or not matches(pattern, None)


def _cost(entry: _Entry) -> int:
    """Cheap checks first: they decide most often and keep the rest from running."""
    if entry.anchor == "X" or type(entry.pattern) not in (dict, list):
        return 0 if not entry.anchor else 1
    return 2 if type(entry.pattern) is dict else 3


def _asks(pattern: dict[str, Any]) -> bool:
    """Whether an element pattern asks for something, so that an empty list fails it outside ``=( )`` (semantics
    §3.2)."""
    return any(e.anchor not in ("()", "=", "X") for e in _entries(pattern))


def _has_list(pattern: Any) -> bool:
    if type(pattern) is dict:
        return any(map(_has_list, pattern.values()))
    return type(pattern) is list


def _sets_aside(pattern: dict[str, Any]) -> bool:
    """Whether a condition of an element pattern itself can set the element aside, and be decided by one scalar test."""
    return bool(_conditions(pattern)[0])


def _conditions(pattern: dict[str, Any]) -> tuple[list[_Entry], list[_Entry]]:
    """(conditions that set an element aside, whatever else holds; the other entries).

    Conditional anchors come before all other keys, and a mismatch of one outweighs every later error of the same map.
    A global anchor does the same only where nothing else could fail before it: alone among anchors and keys with
    anchors below.
    """
    entries = list(_entries(pattern))
    scalar = [e for e in entries if e.anchor == "()" and type(e.pattern) not in (dict, list)]
    globals_ = [e for e in entries if e.anchor == "<"]
    if len(globals_) == 1 and type(globals_[0].pattern) not in (dict, list):
        first = [e for e in entries if e is not globals_[0] and (e.anchor or _has_anchor(e.pattern))]
        if all(e in scalar for e in first):
            scalar.append(globals_[0])
    return scalar, [e for e in entries if not any(e is s for s in scalar)]


def _has_anchor(pattern: Any) -> bool:
    if type(pattern) is list:
        return any(map(_has_anchor, pattern))
    if type(pattern) is not dict:
        return False
    return any(e.anchor or _has_anchor(e.pattern) for e in _entries(pattern))
