"""Moves what a rule's match says of kinds and operations from code into the keys of the match index.

An entry begins with ``if not(M) return o_none()``. A request reaches it only through one of the rule's keys, so the
keys are made from ``M``, and every part of ``M`` that all keys imply is dropped; what is left stays code. Before and
after::

    key "" "*" "Pod" "" []                    key "" "*" "Pod" "" ["CREATE"]
    if not(and(match.kinds(@$kind, …),        if not(<rest>)
               match.operations(@$operation, ["CREATE"]), <rest>))
      return o_none()                           return o_none()

``match.kinds`` and the index read a selector in the same way (semantics §11), which fuzz target F9 checks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from compiler.ir.build import TRUE, negate
from compiler.ir.ops import (
    And,
    Const,
    Expr,
    Function,
    If,
    Invoke,
    KindKey,
    Load,
    MatchKey,
    Module,
    Op,
    Or,
    Policy,
    Return,
    Rule,
    Stmt,
)
from compiler.passes.simplify import join

MOST_KEYS = 256
"""A match that multiplies out to more keys than this keeps the keys it came with."""


@dataclass(frozen=True, slots=True)
class _Way:
    """One disjunct of a match, as far as an index can say it; None stands for all kinds or all operations."""

    kind: KindKey | None = None
    operations: frozenset[str] | None = None


_Ways: TypeAlias = tuple[_Way, ...]
_ANY: _Ways = (_Way(),)


def hoist_match(m: Module) -> Module:
    """The module with keys made from the matches, and matches without what the keys say."""
    functions = {fn.name: fn for fn in m.functions}
    policies = tuple(_policy(p, functions) for p in m.policies)
    changed = tuple(functions[fn.name] for fn in m.functions)
    old, new = (*m.policies, *m.functions), (*policies, *changed)
    if all(a is b for a, b in zip(old, new, strict=True)):
        return m
    return replace(m, policies=policies, functions=changed)


def _policy(policy: Policy, functions: dict[str, Function]) -> Policy:
    # An entry that two rules share (none does today) would have to keep what either needs, so it is left alone.
    entries = [rule.entry for rule in policy.rules]
    rules = tuple(_rule(r, functions) if entries.count(r.entry) == 1 else r for r in policy.rules)
    return policy if all(a is b for a, b in zip(rules, policy.rules, strict=True)) else replace(policy, rules=rules)


def _rule(rule: Rule, functions: dict[str, Function]) -> Rule:
    fn = functions[rule.entry]
    wanted, count = _head(fn.body)
    if not count:
        return rule
    ways = _ways(join(tuple(wanted), True, And(tuple(wanted))))
    keys = rule.keys if len(ways) > MOST_KEYS or any(way.kind is None for way in ways) else _keys(ways)
    rest = [left for left in (_without(term, keys) for term in wanted) if left != TRUE]
    if len(rest) != len(wanted) or any(a is not b for a, b in zip(rest, wanted, strict=True)):
        functions[rule.entry] = replace(fn, body=(*_guards(rest, fn.body[0]), *fn.body[count:]))
    return rule if keys == rule.keys else replace(rule, keys=keys)


def _head(body: tuple[Stmt, ...]) -> tuple[list[Expr], int]:
    """(terms that must all hold for the rule to apply, number of statements they come from)."""
    terms: list[Expr] = []
    count = 0
    for stmt in body:
        match stmt:
            case If(cond, (Return(Op("o_none")),), ()):
                terms += _conjuncts(cond)
                count += 1
            case _:
                break
    return terms, count


def _conjuncts(cond: Expr) -> list[Expr]:
    """What must hold so that ``cond`` does not, as terms of a conjunction."""
    match cond:
        case Op("not", (And(terms),)):
            return list(terms)
        case Or(terms):
            return [t for term in terms for t in _conjuncts(term)]
    return [negate(cond)]


def _guards(terms: list[Expr], first: Stmt) -> tuple[Stmt, ...]:
    at = first.at if isinstance(first, If) else None
    return tuple(If(negate(term), (Return(Op("o_none"), at),), (), at) for term in terms)


def _ways(term: Expr) -> _Ways:
    """Disjuncts that together cover all requests for which the term may hold."""
    match term:
        case Const(False):
            return ()
        case Invoke("match.kinds", (Load(("$kind",)), Const(list() as selectors))):
            return tuple(_Way(kind=KindKey(*s)) for s in selectors)
        case Invoke("match.operations", (Load(("$operation",)), Const(list() as names))):
            return (_Way(operations=frozenset(names)),)
        case Or(terms):
            return _distinct([way for t in terms for way in _ways(t)])
        case And(terms):
            found: _Ways = _ANY
            for t in terms:
                ways = _ways(t)
                if len(found) * len(ways) <= MOST_KEYS:
                    found = _distinct([m for a in found for b in ways if (m := _meet(a, b)) is not None])
            return found
    return _ANY


def _meet(a: _Way, b: _Way) -> _Way | None:
    """A way that covers what both cover. Of two unlike kind selectors the first is kept: wider, never narrower."""
    kind = a.kind if a.kind is not None else b.kind
    if a.operations is None or b.operations is None:
        operations = a.operations if b.operations is None else b.operations
    else:
        operations = a.operations & b.operations
        if not operations:
            return None
    return _Way(kind, operations)


def _distinct(ways: list[_Way]) -> _Ways:
    return tuple(dict.fromkeys(ways))


def _keys(ways: _Ways) -> tuple[MatchKey, ...]:
    """Keys of ways that all name a kind: operations of one kind joined, in the order in which the kinds are named."""
    by_kind: dict[KindKey, frozenset[str] | None] = {}
    for way in ways:
        if way.kind is None:
            continue
        if way.kind in by_kind:
            had = by_kind[way.kind]
            by_kind[way.kind] = None if had is None or way.operations is None else had | way.operations
        else:
            by_kind[way.kind] = way.operations
    return tuple(MatchKey(kind, tuple(sorted(ops)) if ops is not None else ()) for kind, ops in by_kind.items())


def _without(term: Expr, keys: tuple[MatchKey, ...]) -> Expr:
    """The term with every part that all keys imply taken for true."""
    if keys and all(_implied(term, key) for key in keys):
        return TRUE
    match term:
        case And(terms) | Or(terms):
            new = tuple(_without(t, keys) for t in terms)
            if all(a is b for a, b in zip(new, terms, strict=True)):
                return term
            return join(new, True, And(new)) if isinstance(term, And) else join(new, False, Or(new))
        case Op("not", (inner,)):
            new_inner = _without(inner, keys)
            return term if new_inner is inner else negate(new_inner)
    return term


def _implied(term: Expr, key: MatchKey) -> bool:
    match term:
        case Invoke("match.kinds", (Load(("$kind",)), Const(list() as selectors))):
            return any(KindKey(*s) == key.kind for s in selectors)
        case Invoke("match.operations", (Load(("$operation",)), Const(list() as names))):
            return bool(key.operations) and set(key.operations) <= set(names)
        case Or(terms):
            return any(_implied(t, key) for t in terms)
        case And(terms):
            return all(_implied(t, key) for t in terms)
    return term == TRUE
