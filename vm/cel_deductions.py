"""What CEL instructions and calls of CEL functions come to where kinds of values are known, for ``vm.following``.

Only what a Python operator answers is followed: fields, presence, ``&&``, ``||``, ``!``, comparisons with constants,
texts, optional values, lists put behind one another. All else, and every value that CEL answers with an error, is not
sure. What an expression costs needs no counter, as ``vm.fused`` adds up the most that it can be; a call whose cost
grows with its operands asks first (:class:`vm.decisions.Paid`) that they are short enough for its allowance.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from vm.cel.costs import PATTERN, TEXT
from vm.decisions import ALLOWANCE, LONGEST, Facts, Paid, State
from vm.deductions import GONE, LIST, MAP, STRANGE, TESTS, Deduction, Split, Unsure
from vm.expressions import BOOLS, SIZED_KINDS, Expr, Kinds, Table, of_static, of_value
from vm.values import Err

if TYPE_CHECKING:
    from vm.catalogue import Intrinsic

SHORT: Final = int(ALLOWANCE / TEXT)
"""The length up to which a text that costs by its length keeps to the allowance."""

_TEXT: Final = TESTS["is_text"]
_TRUE: Final = TESTS["is_true"]
_FALSE: Final = TESTS["is_false"]
_NUMBER: Final = of_static("I")
_SIMPLE: Final = frozenset((type(None), bool, int, str))
_EXACT: Final = 1 << 53
"""Below it an int equals a double exactly when Python says so."""


class CelDeduction(Deduction):
    def __init__(self, table: Table, facts: Facts) -> None:
        super().__init__(table, facts)
        self.owed: list[Paid] = []
        """What the instruction under way pays for its operands."""

    # instructions

    def instruction(self, name: str, key: Any, args: tuple[Expr, ...], state: State) -> Expr:
        """The value of a CEL instruction on expressions; ``key`` is its key, if it has one."""
        t = self.t
        match name:
            case "c_and" | "c_or":
                return self.either(name == "c_and", args[0], args[1], state)
        if t.unknown in args:
            return t.unknown
        value = self.resolve(args[0], state)
        match name:
            case "c_select":
                return self.select(value, key, state)
            case "c_has":
                return self.has(value, key, state)
            case "c_not":
                return t.negation(self.truth(value, state))
            case "c_is_text":
                return self.equals(value, t.const(key), state) or t.unknown
            case "c_more":
                return t.make("more", (value, args[1]), kinds=BOOLS)
        return t.unknown

    def selected(self, x: Expr, keys: tuple[str, ...], state: State) -> Expr:
        """The value at a path."""
        for key in keys:
            x = self.select(x, key, state)
        return x

    def select(self, x: Expr, key: str, state: State) -> Expr:
        t = self.t
        if x.op == "optional":
            return self.select_optional(x, key, state)
        found = self.entry(x, key, state)
        if found is t.unknown:
            return found
        known = state.kinds_of(found)
        if not GONE & known:
            return found
        if known == GONE:
            return t.unknown
        self.split_kinds(found, state)
        raise Split(t.test(GONE, found))

    def entry(self, x: Expr, key: str, state: State) -> Expr:
        """What a map holds at a key, MISSING for nothing; unknown of what is no map."""
        if x.op in ("unknown", "optional", "joined"):
            return self.t.unknown
        base = self.as_kind(x, MAP, self.facts.mapped, self.t.unknown, state)
        return base if base is self.t.unknown else self.resolve(self.field(base, key), state)

    def has(self, x: Expr, key: str, state: State) -> Expr:
        t = self.t
        found = self.entry(x, key, state)
        if found is not t.unknown:
            return self.resolve(t.negation(t.test(GONE, found)), state)
        fields = x.op in ("unknown", "optional", "joined") or state.kinds_of(x) & (MAP | LIST | STRANGE)
        return t.unknown if fields else t.false

    def truth(self, x: Expr, state: State) -> Expr:
        """The value as a condition, unknown where it is no bool."""
        if x.op == "unknown" or (x.op == "const" and x.kinds <= BOOLS) or x.kinds == BOOLS:
            return x
        self.kind_of_bool(x, state)
        return self.t.unknown

    def kind_of_bool(self, x: Expr, state: State) -> None:
        """Asks which bool a value is, where it may be one."""
        known = state.kinds_of(x)
        for kind in (_TRUE, _FALSE):
            if kind & known and known != kind:
                raise Split(self.t.test(kind, x))

    def either(self, both: bool, a: Expr, b: Expr, state: State) -> Expr:
        """``a && b`` or ``a || b``: what decides counts whatever the other is."""
        t = self.t
        a, b = self.resolve(a, state), self.resolve(b, state)
        decides, other = (t.false, t.true) if both else (t.true, t.false)
        if decides in (a, b):
            return decides
        a, b = self.truth(a, state), self.truth(b, state)
        if a is other or t.unknown in (a, b):
            return b if a is other else t.unknown
        raise Split(a.args[0] if a.op == "not" else a)

    # functions

    def function(self, entry: Intrinsic, args: tuple[Expr, ...], state: State) -> Expr:
        """What a CEL function answers. Raises :class:`Unsure` where that is not plain and the call pays for more than
        its name."""
        found = None
        answer = _ANSWERS.get(entry.name.removesuffix(".plain"))
        if answer is not None:
            resolved = [self.resolve(x, state) for x in args]
            if self.t.unknown not in resolved[: 1 if answer in _LAZY else None]:
                found = answer(self, *resolved, state)
        if found is None or found is self.t.unknown:
            if entry.sized or entry.metered or entry.cost:
                raise Unsure
            return self.t.unknown
        return found

    def is_kind(self, x: Expr, kind: Kinds, state: State) -> bool:
        """Whether a value is of a kind; asks where it may be."""
        known = state.kinds_of(x)
        if x.op in ("unknown", "optional", "joined") or not known & kind:
            return False
        if known - kind:
            raise Split(self.t.test(known & kind, x))
        return True

    def short(self, x: Expr, most: int) -> None:
        if x.op != "const":
            self.owed.append(Paid(x, most))

    def stated(self, args: tuple[Expr, ...], text: str, guards: tuple[str, ...], value: Any, state: State) -> Expr:
        """A condition that Python answers: its ``text`` with ``{0}``, ``{1}`` for ``args`` and ``{c}`` for a constant.
        ``guards`` are the types without which it makes no sense."""
        constant = self.t.const(value)
        return self.known(self.t.make("holds", args, (text, guards, constant.data), ("value", value), BOOLS), state)

    def elements(self, x: Expr, state: State) -> Expr | None:
        """What a macro goes over: a list itself."""
        if x.op == "joined":
            return x
        if not state.kinds_of(x) & LIST or x.op == "const":
            return x if x is self.t.no_list else None
        found = self.as_kind(x, LIST, self.facts.listed, self.t.unknown, state)
        self.short(found, LONGEST)
        return found

    def sum(self, a: Expr, b: Expr, state: State) -> Expr | None:
        lists: list[Expr] = []
        for x in (a, b):
            if x.op == "joined":
                lists += x.args
            elif x is not self.t.no_list:
                if x.op in ("const", "unknown", "optional", "built") or not state.kinds_of(x) & LIST:
                    return None
                found = self.as_kind(x, LIST, self.facts.listed, self.t.unknown, state)
                self.short(found, LONGEST)
                lists.append(found)
        if len(lists) < 2:
            return lists[0] if lists else self.t.no_list
        return self.t.make("joined", tuple(lists), kinds=LIST)

    def length(self, x: Expr, state: State) -> Expr | None:
        if not self.is_kind(x, SIZED_KINDS, state):
            return None
        return self.t.make("op", (x,), ("length", None), kinds=_NUMBER)

    def equals(self, a: Expr, b: Expr, state: State) -> Expr | None:
        t = self.t
        if a.op == "const":
            a, b = b, a
        if any(x.op in ("unknown", "optional", "joined") for x in (a, b)):
            return None
        if b.op != "const":
            if not (self.is_kind(a, _TEXT, state) and self.is_kind(b, _TEXT, state)):
                return None
            self.short(a, SHORT)
            return self.stated((a, b), "({0} == {1})", (), None, state)
        value = b.payload
        kind = of_value(value)
        if type(value) is str and len(value) > SHORT:
            return None
        if a.op == "const":
            if kind != a.kinds:
                return None if a.kinds & STRANGE else t.false
            return t.boolean(a.payload == value) if type(value) in _SIMPLE and type(a.payload) is type(value) else None
        known = state.kinds_of(a)
        if type(value) is bool:
            self.kind_of_bool(a, state)
        if not known & kind:
            return t.unknown if known & STRANGE else t.false
        if known != kind:
            # No text and the like is left to the exact code; to be no null is what is asked of a value.
            if value is None and known & STRANGE:
                raise Split(t.test(known & STRANGE, a))
            self.asked(a, kind, state)
        if value is None or value is True or value is False:
            return t.true
        if type(value) is str:
            return self.known(t.make("text", (a,), value, kinds=BOOLS), state)
        if type(value) is int and abs(value) < _EXACT:
            return self.stated((a,), "({0} == {c})", (), value, state)
        if value == []:
            return self.known(t.make("empty", (a,), kinds=BOOLS), state)
        return None

    def asked(self, x: Expr, kind: Kinds, state: State) -> None:
        """Asks for the kind of a value, as a map or list first where some rule uses it so."""
        self.split_kinds(x, state)
        raise Split(self.t.test(kind, x))

    def differs(self, a: Expr, b: Expr, state: State) -> Expr | None:
        found = self.equals(a, b, state)
        return None if found is None else self.t.negation(found)

    def order(self, sign: str, a: Expr, b: Expr, state: State) -> Expr | None:
        """Of whole numbers, one of which is a constant."""
        if a.op == "const":
            a, b, sign = b, a, _TURNED[sign]
        if a.op == "const" or type(b.payload) is not int or not self.is_kind(a, _NUMBER, state):
            return None
        if a.op == "op" and a.data[0] == "length":
            return self.stated((a,), f"({{0}} {sign} {{c}})", (), b.payload, state)
        whole = self.stated((a,), "(type({0}) is int)", (), None, state)
        if whole is self.t.false:
            return None
        if whole is not self.t.true:
            raise Split(whole)
        return self.stated((a,), f"(type({{0}}) is int and {{0}} {sign} {{c}})", (), b.payload, state)

    def within(self, x: Expr, c: Expr, state: State) -> Expr | None:
        """``x in c``"""
        if c.op == "const" and type(c.payload) is list:
            known = state.kinds_of(x)
            texts = all(type(y) is str for y in c.payload)
            if x.op in ("unknown", "optional", "joined", "const") or not texts or len(c.payload) > ALLOWANCE:
                return None
            if not known & (_TEXT | STRANGE | GONE):
                return self.t.false
            if not self.is_kind(x, _TEXT, state):
                return None
            made = self.t.make("holds", (x,), ("({0} in {c})", ("str",), c.data), ("set", c.payload), BOOLS)
            return self.known(made, state)
        if x.op != "const" or type(x.payload) is not str:
            return None
        known = state.kinds_of(c)
        if c.op in ("unknown", "optional", "joined") or not known & (MAP | LIST):
            return None
        self.split_kinds(c, state)
        if known == MAP:
            return self.has(c, x.payload, state)
        if known == LIST:
            self.short(c, ALLOWANCE)
            return self.stated((c,), "({c} in {0})", ("list",), x.payload, state)
        raise Split(self.t.test(MAP if known & MAP else LIST, c))

    def of_text(self, text: str, most: int, x: Expr, part: Expr, state: State) -> Expr | None:
        """A function of a text and a constant one."""
        if part.op != "const" or type(part.payload) is not str or len(part.payload) > LONGEST or most < 1:
            return None
        if x.op == "const":
            return None
        if not self.is_kind(x, _TEXT, state):
            return None
        self.short(x, most)
        return self.stated((x,), text, ("str",), part.payload, state)

    def contains(self, x: Expr, part: Expr, state: State) -> Expr | None:
        length = len(part.payload) if part.op == "const" and type(part.payload) is str else SHORT
        return self.of_text("({c} in {0})", SHORT // max(1, ceil(length * TEXT)), x, part, state)

    def matches(self, x: Expr, pattern: Expr, state: State) -> Expr | None:
        from vm.cel.text import searcher  # here: most policies have no use for the library behind it

        text = pattern.payload if pattern.op == "const" else None
        if type(text) is not str or x.op == "const" or not self.is_kind(x, _TEXT, state):
            return None
        found = searcher(text)
        tenths = ALLOWANCE // max(1, ceil(len(text) * PATTERN))
        if isinstance(found, Err) or tenths < 2:
            return None
        self.short(x, 10 * tenths - 10)
        made = self.t.make("holds", (x,), ("{c}({0})", ("str",), pattern.data), ("search", text), BOOLS)
        return self.known(made, state)

    def index(self, c: Expr, k: Expr, state: State) -> Expr | None:
        return self.select(c, k.payload, state) if k.op == "const" and type(k.payload) is str else None

    # optional values

    def select_optional(self, x: Expr, key: Any, state: State) -> Expr:
        """``x.?key``"""
        t = self.t
        if (held := self.held(x, state)) is not None:
            x = held
        known = state.kinds_of(x)
        found = self.entry(x, key, state)
        if found is not t.unknown:
            return self.optional(found)
        return t.unknown if x.op == "unknown" or known & (MAP | LIST | STRANGE) else self.optional(t.missing)

    def optional(self, x: Expr) -> Expr:
        """The optional value that holds another, none for MISSING."""
        return self.t.make("optional", (x,), kinds=frozenset(("other",)))

    def held(self, x: Expr, state: State) -> Expr | None:
        """What an optional value holds, MISSING for nothing; None for what is no optional value."""
        if x.op != "optional":
            return None
        inner = self.resolve(x.args[0], state)
        known = state.kinds_of(inner)
        if inner is not self.t.missing and known >= GONE:
            raise Split(self.t.test(GONE, inner))
        return inner

    def or_value(self, x: Expr, other: Expr, state: State) -> Expr | None:
        found = self.held(x, state)
        return other if found is self.t.missing else found

    def or_(self, x: Expr, other: Expr, state: State) -> Expr | None:
        found = self.held(x, state)
        return None if found is None else other if found is self.t.missing else x

    def has_value(self, x: Expr, state: State) -> Expr | None:
        found = self.held(x, state)
        return None if found is None else self.t.boolean(found is not self.t.missing)

    def value(self, x: Expr, state: State) -> Expr | None:
        found = self.held(x, state)
        return None if found is self.t.missing else found


def _step(d: CelDeduction, x: Expr, key: Expr, state: State) -> Expr | None:
    if key.op != "const" or type(key.payload) is not str:
        return None
    return d.select_optional(x, key.payload, state)


def _order(sign: str) -> Callable[..., Expr | None]:
    return lambda d, a, b, state: d.order(sign, a, b, state)


def _of_text(text: str) -> Callable[..., Expr | None]:
    return lambda d, x, part, state: d.of_text(text, SHORT, x, part, state)


_LAZY: Final = frozenset((CelDeduction.or_value, CelDeduction.or_))
"""Functions whose second operand counts only where the first says so."""
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ANSWERS: Final[dict[str, Callable[..., Expr | None]]] = {
    "cel.build.range.1": CelDeduction.elements,
    "cel.add.2": CelDeduction.sum,
    "cel.size.1": CelDeduction.length,
    "cel.eq.2": CelDeduction.equals,
    "cel.ne.2": CelDeduction.differs,
    "cel.lt.2": _order("<"),
    "cel.le.2": _order("<="),
    "cel.gt.2": _order(">"),
    "cel.ge.2": _order(">="),
    "cel.in.2": CelDeduction.within,
    "cel.index.2": CelDeduction.index,
    "cel.startsWith.2": _of_text("{0}.startswith({c})"),
    "cel.endsWith.2": _of_text("{0}.endswith({c})"),
    "cel.contains.2": CelDeduction.contains,
    "cel.matches.2": CelDeduction.matches,
    "cel.select_optional.2": _step,
    "cel.index_optional.2": _step,
    "cel.orValue.2": CelDeduction.or_value,
    "cel.or.2": CelDeduction.or_,
    "cel.hasValue.1": CelDeduction.has_value,
    "cel.value.1": CelDeduction.value,
    "cel.optional.none.0": lambda d, state: d.optional(d.t.missing),
    "cel.dyn.1": lambda d, x, state: x,
    # No error gets here.
    "cel_rule.variable": lambda d, x, name, state: x,
}
"""What is followed of CEL's functions, by the intrinsic."""
