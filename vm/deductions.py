"""What is known of values at a point in the code: expressions to constants, conditions to what is left to ask.

:class:`Deduction` is the half of ``vm.following`` that looks at values. Where nothing can be said before some other
condition is known it raises :class:`Split` with that condition, and the code is followed both ways.
"""

from __future__ import annotations

from typing import Any, Final

from vm.decisions import Facts, State
from vm.expressions import BOOLS, KINDS, SIZED_KINDS, Expr, Kinds, Table, of_static, of_value
from vm.semantics import SEMANTICS, unknown_key
from vm.values import MISSING, Value, json_equal

TESTS: Final[dict[str, Kinds]] = {
    "is_true": frozenset(("true",)),
    "is_false": frozenset(("false",)),
    "is_missing": frozenset(("missing",)),
    "is_null": frozenset(("null",)),
    "is_absent": frozenset(("null", "missing")),
    "is_err": frozenset(("err",)),
    "is_list": frozenset(("list",)),
    "is_map": frozenset(("map",)),
    "is_text": frozenset(("text",)),
}
MAP: Final = TESTS["is_map"]
LIST: Final = TESTS["is_list"]
GONE: Final = TESTS["is_missing"]
STRANGE: Final[Kinds] = frozenset(("err", "other"))
"""What no object holds: ways that such values take are not followed."""
_TRUTHY: Final[Kinds] = frozenset(("true", "number", "err", "other"))
ALIKE: Final = (TESTS.keys() - {"is_missing", "is_null"}) | {
    *("as_list", "as_map", "as_text", "is_empty", "j_truthy", "length", "absent_null")
}
"""Instructions that see no difference between null and MISSING."""


class Split(Exception):
    """Nothing can be said before it is known whether a condition holds."""

    def __init__(self, condition: Expr) -> None:
        self.condition = condition


class Unsure(Exception):
    """What is asked is not plain."""


class Deduction:
    def __init__(self, table: Table, facts: Facts) -> None:
        self.t = table
        self.facts = facts
        self.seen: set[Expr] = set()
        """Lists under way that something has looked at: they grow no more."""

    def field(self, x: Expr, key: str) -> Expr:
        if x.op == "unknown":
            return x
        if x.op == "op" and x.data[0] == "absent_null":
            x = x.args[0]
        made = self.t.get(x, key)
        return self.facts.bound.get(made, made)

    def plain(self, name: str, args: tuple[Expr, ...], state: State) -> Expr | None:
        """What an intrinsic answers where the kinds of its operands tell."""
        t = self.t
        known = state.kinds_of(args[0]) if args else KINDS
        match name:
            case "jmes.flatten" | "jmes.compact" if not known & (LIST | STRANGE):
                return t.null
            case "text.deep" if not known & (LIST | MAP):
                return args[0]
            case "text.resolved" if "err" not in known:
                return args[0]
            case "jmes.length" if not known - SIZED_KINDS:
                return t.make("op", args, ("length", None), kinds=of_static("I"))
            case "cond.greater" | "cond.less_or_equals" if _counted(args):
                more = t.make("op", args[::-1], ("less", None), kinds=BOOLS)
                return more if name == "cond.greater" else t.negation(more)
            case "cond.less" | "cond.greater_or_equals" if _counted(args):
                fewer = t.make("op", args, ("less", None), kinds=BOOLS)
                return fewer if name == "cond.less" else t.negation(fewer)
        return None

    def answers(self, name: str, args: tuple[Expr, ...], state: State) -> Kinds:
        """What an intrinsic may answer, beyond its static kind."""
        known = state.kinds_of(args[0]) if args else KINDS
        match name:
            case "jmes.flatten" | "jmes.compact":
                return LIST if known == LIST else LIST | TESTS["is_null"] | (known & TESTS["is_err"])
            case "text.deep":
                return known | TESTS["is_err"]
            case "jmes.length":
                return of_static("I") | TESTS["is_err"]
        return KINDS

    def decide(self, x: Expr, state: State) -> Expr:
        """A condition: a constant, something to ask, or the negation of that."""
        found = self.resolve(x, state)
        if found.op == "unknown":
            raise Unsure
        return found

    def split_kinds(self, x: Expr, state: State) -> None:
        """Asks first whether a value is the map or list as which some rule uses it."""
        known = state.kinds_of(x)
        for values, kind in ((self.facts.mapped, MAP), (self.facts.listed, LIST)):
            if x in values and kind <= known and known != kind:
                raise Split(self.t.test(kind, x))

    def as_kind(self, x: Expr, kind: Kinds, values: set[Expr], other: Expr, state: State) -> Expr:
        """A value that is used as a map or list; ``other`` where it is none."""
        known = state.kinds_of(x)
        if not kind <= known:
            return other
        values.add(x)
        if known != kind:
            raise Split(self.t.test(kind, x))
        return x

    def single(self, x: Expr, state: State) -> Expr:
        """The value itself, where it can only be one."""
        known = state.kinds_of(x)
        if len(known) == 1 and x.op != "const":
            (kind,) = known
            values = {"missing": MISSING, "null": None, "true": True, "false": False}
            if kind in values:
                return self.t.const(values[kind])
        return x

    def resolve(self, x: Expr, state: State) -> Expr:
        """The expression by what is known; raises ``Split`` where that is not enough."""
        t = self.t
        match x.op:
            case "const" | "root" | "unknown" | "optional" | "joined":
                return x
            case "opened" | "measured":
                return t.unknown
            case "holds" | "more":
                return self.known(x, state)
            case "call" if x.kinds == BOOLS:
                return self.known(x, state)
            case "var" | "call" | "collect":
                return self.single(x, state)
            case "built":
                if x not in state.lists:
                    return x
                self.seen.add(x)
                begun, items = state.lists[x]
                if t.unknown in items:
                    return t.unknown
                if begun is t.no_list:
                    return t.make("built", items, "items", kinds=LIST) if items else t.no_list
                return begun if begun is not None and not items else t.unknown
            case "get":
                base = self.resolve(x.args[0], state)
                if base.op == "unknown":
                    return base
                base = self.as_kind(base, MAP, self.facts.mapped, t.missing, state)
                if base is t.missing:
                    return base
                if base.op == "const":
                    return t.const(base.payload.get(x.data, MISSING))
                return self.single(self.field(base, x.data), state)
            case "text" | "empty":
                return self.known(x, state)
            case "not":
                return t.negation(self.resolve(x.args[0], state))
            case "test":
                return self.tested(x, state)
            case "pred":
                return self.matched(x, state)
            case "equal":
                return self.equal(x, state)
        found = self.operation(x, state)
        return self.known(found, state)

    def known(self, x: Expr, state: State) -> Expr:
        truth = state.truths.get(x)
        return x if truth is None else self.t.boolean(truth)

    def tested(self, x: Expr, state: State) -> Expr:
        t = self.t
        kinds: Kinds = x.data
        of = x.args[0]
        if of.op == "op" and of.data[0] == "absent_null":
            kinds, of = (kinds | GONE if "null" in kinds else kinds - GONE), of.args[0]
        value = self.resolve(of, state)
        if value.op == "unknown":
            return value
        if value.op == "op" and value.data[0] == "absent_null":
            kinds, value = (kinds | GONE if "null" in kinds else kinds - GONE), value.args[0]
        known = state.kinds_of(value)
        if not known - kinds:
            return t.true
        if not known & kinds:
            return t.false
        if value.kinds == BOOLS:
            return value if "true" in kinds else t.negation(value)
        self.split_kinds(value, state)
        return t.test(known & kinds, value)

    def matched(self, x: Expr, state: State) -> Expr:
        t = self.t
        value = self.resolve(x.args[0], state)
        if value.op == "unknown":
            return value
        if value.op == "const":
            return t.boolean(x.payload(value.payload))
        self.split_kinds(value, state)
        every, pattern = x.data
        made = t.make("pred", (value,), (every, pattern), x.payload, BOOLS)
        if every and "list" not in state.kinds_of(value):
            plain = t.make("pred", x.args, (False, pattern))
            made = t.make("pred", (value,), (False, pattern), plain.payload, BOOLS)
        return self.known(made, state)

    def equal(self, x: Expr, state: State) -> Expr:
        t = self.t
        one, other = (self.resolve(a, state) for a in x.args)
        if "unknown" in (one.op, other.op):
            return t.unknown
        if one.op == "const" and other.op == "const":
            return t.boolean(json_equal(one.payload, other.payload))
        if one.op == "const":
            one, other = other, one
        if other.op == "const":
            value = other.payload
            if not of_value(value) & state.kinds_of(one):
                return t.false
            if value is None or value is True or value is False or value is MISSING:
                return self.resolve(t.test(of_value(value), one), state)
            if type(value) is str:
                self.split_kinds(one, state)
                return self.known(t.make("text", (one,), value, kinds=BOOLS), state)
        return self.known(t.make("equal", (one, other), kinds=BOOLS), state)

    def operation(self, x: Expr, state: State) -> Expr:
        """A pure instruction whose operands are known as well as they can be."""
        t = self.t
        name, key = x.data if x.op == "op" else (x.op, None)
        if name == "j_field":
            return self.query_field(self.resolve(x.args[0], state), key, state)
        args = tuple(self.resolve(a, state) for a in x.args)
        if any(a.op == "unknown" for a in args):
            return t.unknown
        first = args[0] if args else t.unknown
        known = state.kinds_of(first)
        match name:
            case "as_list":
                return self.as_kind(first, LIST, self.facts.listed, t.no_list, state)
            case "as_map":
                return self.as_kind(first, MAP, self.facts.mapped, t.no_map, state)
            case "as_text" if not known - TESTS["is_text"]:
                return first
            case "absent_null" if not GONE & known:
                return first
            case "j_found" if not known & {"err", "missing"}:
                return first
            case "j_found" if "err" in known:
                if first.op != "const" and known != TESTS["is_err"]:
                    raise Split(t.test(TESTS["is_err"], first))
            case "j_found" if first.op != "const":
                return t.make("op", (first,), ("absent_null", None))
            case "is_empty" if first.op != "const":
                return self.is_empty(first, known, state)
            case "j_truthy" if first.op != "const":
                if not known - _TRUTHY:
                    return t.true
                if not known & (_TRUTHY | SIZED_KINDS):
                    return t.false
                self.split_kinds(first, state)
                if not known - SIZED_KINDS:
                    return t.negation(t.make("empty", (first,), kinds=BOOLS))
        if all(a.op == "const" for a in args):
            operands: list[Value] = [a.payload for a in args]
            return t.const(SEMANTICS[name](*operands, *([key] if key is not None else [])))
        if args == x.args:
            return x
        return t.make("op", args, (name, key), kinds=x.kinds)

    def is_empty(self, x: Expr, known: Kinds, state: State) -> Expr:
        t = self.t
        if not known & SIZED_KINDS or x.op == "built":
            return t.false
        self.split_kinds(x, state)
        if not known - SIZED_KINDS:
            return t.make("empty", (x,), kinds=BOOLS)
        return t.make("op", (x,), ("is_empty", None), kinds=BOOLS)

    def query_field(self, v: Expr, key: Any, state: State) -> Expr:
        """A field by JMESPath rules: an error where a map lacks it, null of what is no map."""
        t = self.t
        if v.op == "unknown":
            return v
        base = self.as_kind(v, MAP, self.facts.mapped, t.missing, state)
        if base is not t.missing:
            found = self.resolve(self.field(base, key), state)
            known = state.kinds_of(found)
            if not GONE & known:
                return found
            if known == GONE:
                return t.const(unknown_key(key))
            self.split_kinds(found, state)
            raise Split(t.test(GONE, found))
        known = state.kinds_of(v)
        if "err" not in known:
            return t.null
        if known != TESTS["is_err"]:
            raise Split(t.test(TESTS["is_err"], v))
        return v


def _counted(args: tuple[Expr, ...]) -> bool:
    """Whether a length is compared with a whole number: two integers have one order everywhere."""
    return args[0].op == "op" and args[0].data[0] == "length" and args[1].op == "const" and type(args[1].payload) is int
