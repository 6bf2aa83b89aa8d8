"""Values that code computes, as expressions without repetition: what equals by its making is one object.

``vm.decisions`` runs verified code on them instead of values, ``vm.fused`` writes them as Python. An expression may
stand for many rules at once, since rules of every module meet in one :class:`Table`. What is known of a value at a
point in the code is a set of :data:`KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from vm.scalar import ScalarPattern
from vm.values import MISSING, Err, Value, canonical_key

if TYPE_CHECKING:
    from vm.verify import VerifiedModule

Kinds: TypeAlias = frozenset[str]

KINDS: Final[Kinds] = frozenset(("map", "list", "text", "true", "false", "null", "number", "missing", "err", "other"))
"""What a value may be; ``other`` are values that only CEL knows."""
SIZED_KINDS: Final[Kinds] = frozenset(("map", "list", "text"))
BOOLS: Final[Kinds] = frozenset(("true", "false"))
_OF_STATIC: Final[dict[str, Kinds]] = {
    "V": KINDS,
    "B": BOOLS,
    "I": frozenset(("number",)),
    "S": frozenset(("text",)),
    "L": frozenset(("list",)),
    "M": frozenset(("map",)),
    "E": frozenset(("err",)),
}
_OF_TYPE: Final[dict[type, str]] = {
    dict: "map",
    list: "list",
    str: "text",
    int: "number",
    float: "number",
    Err: "err",
}


def of_static(kind: str) -> Kinds:
    """The kinds of a static kind of the instruction table."""
    return _OF_STATIC.get(kind, KINDS)


def of_value(v: Value) -> Kinds:
    """The kind of a value, alone in a set."""
    if v is None:
        return frozenset(("null",))
    if v is True:
        return frozenset(("true",))
    if v is False:
        return frozenset(("false",))
    if v is MISSING:
        return frozenset(("missing",))
    return frozenset((_OF_TYPE.get(type(v), "other"),))


MAX_WEIGHT: Final = 1_000
"""Expressions stand for texts and lists put together of themselves too (``a + a``), twice as many at each step."""


class TooMuch(Exception):
    """A rule has too many ways through it, goes too deep, or computes something too long to write down."""


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """``op`` says how the value is made of ``args`` and ``data``; ``payload`` is what generated code calls for it.

    ``const`` (the value is the payload), ``root``, ``get`` (a field of a map, ``data`` its key), ``var`` (an element of
    the loop over ``args[0]``), ``test`` (the value is of one of the kinds ``data``), ``empty`` (a text, list or map has
    no elements), ``text`` (is the text ``data``), ``pred`` (a scalar pattern holds), ``not``, ``op`` (a pure
    instruction), ``holds`` (a text of Python, the first of ``data``, on ``args`` and a constant, of which ``payload``
    is the recipe; of types that the second of ``data`` names), ``equal``, ``call`` (an intrinsic), ``built`` (a list of
    its arguments), ``collect`` (a list of what a loop puts together), ``joined`` (lists, one behind the other),
    ``optional`` (CEL's optional value of another, none for MISSING), ``more`` (a list goes on behind a position),
    ``opened`` (what ``c_open`` leaves for ``c_close``), ``measured`` (all that a value holds, paid for), ``unknown``.
    ``loops`` are the elements of loops that it depends on.
    """

    op: str
    args: tuple[Expr, ...]
    data: Any
    payload: Any = field(repr=False)
    number: int
    kinds: Kinds = field(repr=False)
    loops: frozenset[Expr] = field(repr=False)
    weight: int = field(repr=False)
    """How many expressions it is made of, each counted as often as it stands there: who walks it takes that many
    steps."""
    parts: tuple[Expr, ...] | None = field(default=None, init=False, repr=False)
    """What ``vm.fused_scopes`` found in it that may get a name."""


class Table:
    """The expressions of the rules that are put together."""

    def __init__(self) -> None:
        self._known: dict[Any, Expr] = {}
        self._constants: dict[tuple[int, int], Expr] = {}
        self.patterns: dict[Any, ScalarPattern] = {}
        """The patterns of predicates by their keys."""
        self.true = self.const(True)
        self.false = self.const(False)
        self.null = self.const(None)
        self.missing = self.const(MISSING)
        self.no_list = self.const([])
        self.no_map = self.const({})
        self.root = self.make("root", kinds=frozenset(("map",)))
        self.unknown = self.make("unknown")

    def make(
        self,
        op: str,
        args: tuple[Expr, ...] = (),
        data: Any = None,
        payload: Any = None,
        kinds: Kinds = KINDS,
        loops: frozenset[Expr] = frozenset(),
        inside: int = 0,
    ) -> Expr:
        """``inside`` is the weight of expressions in ``data``. Raises :class:`TooMuch`."""
        key = (op, *(x.number for x in args), data)
        found = self._known.get(key)
        if found is None:
            bound = loops.union(*(x.loops for x in args))
            weight = 1 + inside + sum(x.weight for x in args)
            if weight > MAX_WEIGHT:
                raise TooMuch
            found = Expr(op, args, data, payload, len(self._known), kinds, bound, weight)
            if op == "var":
                object.__setattr__(found, "loops", bound | {found})
            self._known[key] = found
        return found

    def const(self, value: Value) -> Expr:
        return self.make("const", data=canonical_key(value), payload=value, kinds=of_value(value))

    def constant(self, m: VerifiedModule, n: int) -> Expr:
        """A constant of a module that stays as long as the table."""
        found = self._constants.get((id(m), n))
        if found is None:
            found = self._constants[id(m), n] = self.const(m.constants[n])
        return found

    def boolean(self, value: bool) -> Expr:
        return self.true if value else self.false

    def get(self, x: Expr, key: str) -> Expr:
        return self.make("get", (x,), key)

    def test(self, kinds: Kinds, x: Expr) -> Expr:
        return self.make("test", (x,), kinds, kinds=BOOLS)

    def negation(self, x: Expr) -> Expr:
        if x.op == "const":
            return self.boolean(x is not self.true)
        if x.op == "unknown":
            return x
        return x.args[0] if x.op == "not" else self.make("not", (x,), kinds=BOOLS)

    def pred(self, pattern: ScalarPattern, *, every: bool, x: Expr, holds: Callable[[Value], bool]) -> Expr:
        """``every``: of a list, all elements."""
        key = canonical_key(pattern.to_json())
        self.patterns[key] = pattern
        return self.make("pred", (x,), (every, key), holds, BOOLS)
