"""What the checks of many rules come to, place by place, before ``vm.fused_source`` writes it: ``vm.fused`` fills
scopes with checks, and finds out by :meth:`Scope.wanted` and :func:`parts` which values several of them want."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from vm.decisions import Fork
from vm.expressions import Expr, Kinds


@dataclass(slots=True)
class Scope:
    """What is checked at one place: the rules that fail there and those that are silent, conditions with what is
    checked where they hold and where not, lists (with how they are gone through) with what is checked of their
    elements, and what is paid for with how long it may be and for which rules. ``limit`` is how long the list around
    may be, ``rules`` are those that have something here."""

    fail: int = 0
    silent: int = 0
    ifs: dict[Expr, tuple[Scope, Scope]] = field(default_factory=dict)
    each: dict[tuple[Expr, str], Scope] = field(default_factory=dict)
    paid: dict[Expr, tuple[int, int]] = field(default_factory=dict)
    limit: int = 0
    rules: int = 0
    needs: frozenset[Expr] | None = None

    def empty(self) -> bool:
        return not (self.fail or self.silent or self.ifs or self.each or self.paid)

    def only_fails(self) -> bool:
        return bool(self.fail) and not (self.silent or self.ifs or self.each or self.paid)

    def ends(self) -> bool:
        """Whether a rule fails here, or nothing is asked."""
        return self.empty() or self.only_fails()

    def fails(self, condition: Expr) -> tuple[int, int]:
        """The rules that fail where a condition holds, and where not."""
        yes, no = self.ifs[condition]
        return yes.fail, no.fail

    def wanted(self) -> frozenset[Expr]:
        """All values that some check here or inside wants."""
        if self.needs is None:
            found: set[Expr] = set()
            for condition, arms in self.ifs.items():
                found.update(parts(condition))
                for arm in arms:
                    found |= arm.wanted()
            for (over, _), inner in self.each.items():
                found.update(parts(over))
                found |= inner.wanted()
            for x in self.paid:
                found.update(parts(x))
            self.needs = frozenset(found)
        return self.needs


@dataclass(slots=True)
class Place:
    """Where lines go: their indentation, the names that values have there, what is known of kinds, and the elements of
    the loops around."""

    indent: int
    names: dict[Expr, str]
    kinds: Mapping[Expr, Kinds]
    loops: frozenset[Expr]
    open: tuple[Expr, ...] = ()

    def kinds_of(self, x: Expr) -> Kinds:
        return self.kinds.get(x, x.kinds)

    def inside(self) -> Place:
        return Place(self.indent + 1, dict(self.names), self.kinds, self.loops, self.open)

    def where(self, condition: Expr, holds: bool) -> Place:
        """One level in, where a condition holds or does not."""
        place = self.inside()
        if condition.op == "test":
            x = condition.args[0]
            known = self.kinds_of(x)
            place.kinds = {**self.kinds, x: known & condition.data if holds else known - condition.data}
        return place


def parts(x: Expr) -> tuple[Expr, ...]:
    """An expression and all in it that may get a name."""
    found = x.parts
    if found is None:
        found = tuple(_parts(x))
        object.__setattr__(x, "parts", found)
    return found


def _parts(x: Expr) -> Iterator[Expr]:
    if x.op in ("get", "call", "collect", "op", "equal", "built"):
        yield x
    for arg in x.args:
        # A list that is opened at once is never made.
        opened = arg.args if arg.op == "built" and x.op == "call" and x.data[0] == "jmes.flatten" else (arg,)
        for y in opened:
            yield from parts(y)
    if x.op == "collect":
        # What its rounds want of outside; what depends on its element stays inside.
        for inner in shaped(x.data[1]):
            yield from (y for y in parts(inner) if x.payload not in y.loops)


def shaped(shape: Any) -> Iterator[Expr]:
    if isinstance(shape, Fork):
        yield shape.condition
        yield from shaped(shape.yes)
        yield from shaped(shape.no)
    else:
        yield from shape


def once(condition: Expr, x: Expr) -> bool:
    return sum(y is x for y in parts(condition)) == 1


def twice(shape: Fork) -> set[Expr]:
    seen: set[Expr] = set()
    often: set[Expr] = set()
    for x in shaped(shape):
        for y in parts(x):
            (often if y in seen else seen).add(y)
    return often
