"""What a rule asks of a request before it surely passes: verified code, run on expressions instead of values.

:func:`questions` follows every way through the code of a rule and keeps, as a tree of checks, what a request must be
like for the rule to pass for sure. Whatever is not plain (host calls, texts put together, walks of patterns, a result
that depends on the end of a loop) counts as not sure, so that an answer is never wrong, only not there. Checks of
several rules may be made in any order, each in the places where it stands: none has an effect.

``vm.fused`` puts the checks of many rules together and writes them as Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias

from vm.expressions import BOOLS, KINDS, SIZED_KINDS, Expr, Kinds, Table, of_static, of_value
from vm.functions import body_of
from vm.host import NOTHING, PASSED, Outcome
from vm.isa import Effect, Imm
from vm.semantics import METERED, SEMANTICS, unknown_key
from vm.structure import LOOPS, Structure
from vm.values import MISSING, Value, json_equal
from vm.verify import VerifiedFunction, VerifiedModule

MAX_STEPS: Final = 6_000
"""Instructions that are followed for one rule: beyond that it has too many ways through it."""
MAX_DEPTH: Final = 40
"""Checks inside one another; CPython allows 100 levels of indentation."""

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
_STRANGE: Final[Kinds] = frozenset(("err", "other"))
"""What no object holds: ways that such values take are not followed."""
_TRUTHY: Final[Kinds] = frozenset(("true", "number", "err", "other"))
_ALIKE: Final = (TESTS.keys() - {"is_missing", "is_null"}) | {
    *("as_list", "as_map", "as_text", "is_empty", "j_truthy", "length", "absent_null")
}
"""Instructions that see no difference between null and MISSING."""
_FAMILIES: Final = frozenset(("match", "cond", "jmes", "text"))
"""Families of intrinsics that are called for what they answer; the others are for rules that do not surely pass."""


class Fail(NamedTuple):
    """The rule does not surely pass. Tuples without a field would all be equal, whatever their class."""

    end: str = "fail"


class Silent(NamedTuple):
    """The rule has no result."""

    end: str = "silent"


class If(NamedTuple):
    condition: Expr
    yes: tuple[Check, ...]
    no: tuple[Check, ...]


class Each(NamedTuple):
    """The checks for every element ``var`` of a list, or of the pairs of a map."""

    over: Expr
    how: str
    checks: tuple[Check, ...]


Check: TypeAlias = Fail | Silent | If | Each
Checks: TypeAlias = tuple[Check, ...]
FAIL: Final = Fail()
SILENT: Final = Silent()
FAILED: Final[Checks] = (FAIL,)


@dataclass(frozen=True, slots=True)
class Frame:
    """A function that is followed, and what comes after its result."""

    m: VerifiedModule
    fn: VerifiedFunction
    struct: Structure
    result: Callable[[Expr, State], Tree]
    read: dict[int, int] = field(default_factory=dict)
    """The last instruction that reads each local."""

    @staticmethod
    def of(m: VerifiedModule, fn: VerifiedFunction, result: Callable[[Expr, State], Tree]) -> Frame:
        struct = fn.structure()
        read = {ins.a: i for i, ins in enumerate(struct.instrs) if ins.op.name in ("local", "local_get")}
        return Frame(m, fn, struct, result, read)

    def alive(self, state: State, end: int) -> State:
        """The state without locals that nothing reads any more. What a later round of a loop reads does not count: a
        round begins without knowing what it may write."""
        return replace(state, local={a: x for a, x in state.local.items() if self.read.get(a, -1) > end})


@dataclass(frozen=True, slots=True)
class State:
    """What is known at a point: the stack, the locals, kinds of values, truths of conditions, lists under way,
    cells, and the lists over which loops go on."""

    stack: tuple[Expr, ...] = ()
    local: Mapping[int, Expr] = field(default_factory=dict)
    kinds: Mapping[Expr, Kinds] = field(default_factory=dict)
    truths: Mapping[Expr, bool] = field(default_factory=dict)
    lists: Mapping[Expr, UnderWay] = field(default_factory=dict)
    cells: Mapping[tuple[int, int], Expr] = field(default_factory=dict)
    loops: tuple[Expr, ...] = ()

    def values(self) -> tuple[Any, ...]:
        """What later code can tell apart, facts aside."""
        return self.stack, self.local, self.lists, self.cells

    def kinds_of(self, x: Expr) -> Kinds:
        return self.kinds.get(x, x.kinds)

    def assume(self, condition: Expr, truth: bool) -> State:
        """The state where a condition holds, or does not."""
        if condition.op == "test":
            x = condition.args[0]
            known = self.kinds_of(x)
            return replace(self, kinds={**self.kinds, x: known & condition.data if truth else known - condition.data})
        return replace(self, truths={**self.truths, condition: truth})


UnderWay: TypeAlias = "tuple[Expr | None, tuple[Expr, ...]]"
"""A list that code is putting together: what it began with (None: not known) and what was put behind that."""


class Leaf(NamedTuple):
    """An end of a tree: ``pass``, ``silent``, ``fail``, or of a block of ``frame`` ``fall`` (through its end) and
    ``next`` (round of the loop)."""

    end: str
    state: State
    frame: Frame | None = None


class Branch(NamedTuple):
    condition: Expr
    yes: Tree
    no: Tree


class After(NamedTuple):
    """Checks, and what comes after them."""

    checks: Checks
    then: Tree


Tree: TypeAlias = Leaf | Branch | After


class Fork(NamedTuple):
    """What a round of a loop adds to a list: by a condition one thing or another, at last a tuple of items."""

    condition: Expr
    yes: Any
    no: Any


class TooMuch(Exception):
    """A rule has too many ways through it, or goes too deep."""


class _Split(Exception):
    """Nothing can be said before it is known whether a condition holds."""

    def __init__(self, condition: Expr) -> None:
        self.condition = condition


class _Unsure(Exception):
    """What is asked is not plain."""


def questions(table: Table, m: VerifiedModule, entry: int, facts: Facts) -> Checks:
    """The checks of a rule: it surely passes when none of them fails. ``(FAIL,)`` for a rule of which nothing is sure.
    Raises :class:`TooMuch`."""
    return _Follower(table, facts).rule(m, entry)


@dataclass(slots=True)
class Facts:
    """What is taken for granted of a root: ``bound`` replaces expressions by what they are, ``kinds`` tell of values
    (generated code looks that this is so first). ``mapped`` and ``listed`` are values of which some rule wants fields
    or elements: what kind they are of is asked before anything else, so that rules ask the same questions in the same
    order. They grow while rules are followed, which is why all rules are followed twice. ``texts``: a rule that passes
    with a message of its own passes all the same."""

    bound: Mapping[Expr, Expr] = field(default_factory=dict)
    kinds: Mapping[Expr, Kinds] = field(default_factory=dict)
    texts: bool = True
    mapped: set[Expr] = field(default_factory=set)
    listed: set[Expr] = field(default_factory=set)


class _Follower:
    def __init__(self, table: Table, facts: Facts) -> None:
        self.t = table
        self.facts = facts
        self.steps = 0
        self.depth = 0
        self.made = 0
        self.seen: set[Expr] = set()
        """Lists under way that something has looked at: they grow no more."""

    def rule(self, m: VerifiedModule, entry: int) -> Checks:
        fn = m.functions[entry]
        return as_checks(self.block(Frame.of(m, fn, self.outcome), 0, State(kinds=self.facts.kinds)), ("pass",), None)

    def outcome(self, value: Expr, state: State) -> Tree:
        if value.op == "const" and isinstance(value.payload, Outcome):
            return Leaf("silent" if value.payload is NOTHING else "pass", state)
        return Leaf("fail", state)

    # following code

    def block(self, f: Frame, i: int, state: State) -> Tree:
        """What comes of the code from an instruction on, up to the end of its block."""
        instrs = f.struct.instrs
        while True:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise TooMuch
            name = instrs[i].op.name
            try:
                match name:
                    case "else" | "end":
                        return Leaf("fall", state, f)
                    case "if":
                        return self.branch(f, i, state)
                    case "each" | "each_index" | "each_pair":
                        return self.loop(f, i, state)
                    case "ret":
                        return f.result(state.stack[-1], state)
                    case "next":
                        return Leaf("next", state, f)
                    case "break" | "scoped" | "o_scoped" | "await" | "reset":
                        return Leaf("fail", state)
                    case "call":
                        return self.call(f, i, f.m.functions[instrs[i].a], None, state)
                    case "cell":
                        cell = (id(f.m), instrs[i].a)
                        known = state.cells.get(cell)
                        if known is None:
                            return self.call(f, i, f.m.functions[f.m.cells[instrs[i].a]], cell, state)
                        state = replace(state, stack=(*state.stack, known))
                    case _:
                        state = self.one(f, i, state)
            except _Split as split:
                return self.split(split.condition, state, lambda s, i=i: self.block(f, i, s))  # type: ignore[misc]
            except _Unsure:
                return Leaf("fail", state)
            i += 1

    def split(self, condition: Expr, state: State, follow: Callable[[State], Tree]) -> Tree:
        """What comes where a condition holds and where not."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooMuch
        yes, no = state.assume(condition, True), state.assume(condition, False)
        tree = Branch(
            condition,
            Leaf("fail", yes) if condition.op == "test" and condition.data <= _STRANGE else follow(yes),
            follow(no),
        )
        self.depth -= 1
        return tree

    def branch(self, f: Frame, i: int, state: State) -> Tree:
        middle = f.struct.partner[i]
        has_else = f.struct.instrs[middle].op.name == "else"
        end = f.struct.partner[middle] if has_else else middle

        def arm(state: State, truth: bool) -> Tree:
            state = replace(state, stack=state.stack[:-1])
            if truth:
                return self.block(f, i + 1, state)
            return self.block(f, middle + 1, state) if has_else else Leaf("fall", state, f)

        def asked(state: State) -> Tree:
            try:
                condition = self.decide(state.stack[-1], state)
            except _Split as split:
                return self.split(split.condition, state, asked)
            except _Unsure:
                return Leaf("fail", state)
            if condition.op == "const":
                return arm(state, condition is self.t.true)
            opposite = condition.op == "not"
            condition = condition.args[0] if opposite else condition
            return self.split(condition, state, lambda s: arm(s, self.holds(condition, s) is not opposite))

        return self.join(asked(state), f, end, lambda s: self.block(f, end + 1, s))

    def holds(self, condition: Expr, state: State) -> bool:
        """Whether a condition that was just asked holds."""
        if condition.op == "test":
            return not state.kinds_of(condition.args[0]) - condition.data
        return state.truths[condition]

    def join(self, tree: Tree, f: Frame, end: int, rest: Callable[[State], Tree]) -> Tree:
        """What comes after the arms of an ``if`` that have come to their ends, or after a loop."""
        tree = _grown(tree, f, lambda s: Leaf("fall", f.alive(s, end), f))
        falls = list(_falls(tree, f))
        if not falls:
            return tree
        if len(falls) > 1 and _alike(falls):
            return self.sequence(tree, f, rest)
        return _grown(tree, f, rest)

    def sequence(self, tree: Tree, f: Frame, rest: Callable[[State], Tree]) -> Tree:
        """What comes next, once, behind arms that know the same afterwards; where only one arm goes on it is in there,
        since what is known there helps."""
        if isinstance(tree, After):
            return After(tree.checks, self.sequence(tree.then, f, rest))
        falls = list(_falls(tree, f))
        if isinstance(tree, Branch):
            yes, no = (any(True for _ in _falls(arm, f)) for arm in (tree.yes, tree.no))
            if not no:
                return Branch(tree.condition, self.sequence(tree.yes, f, rest), tree.no)
            if not yes:
                return Branch(tree.condition, tree.yes, self.sequence(tree.no, f, rest))
        if len(falls) == 1 or any(
            leaf.end not in ("fall", "fail") or leaf.frame not in (f, None) for leaf in _leaves(tree)
        ):
            return _grown(tree, f, rest)
        return After(as_checks(tree, ("fall",), f), rest(_common(falls)))

    def loop(self, f: Frame, i: int, state: State) -> Tree:
        end = f.struct.partner[i]

        def gone_through(state: State) -> Tree:
            try:
                over = self.resolve(state.stack[-1], state)
            except _Split as split:
                return self.split(split.condition, state, gone_through)
            return self.rounds(f, i, over, replace(state, stack=state.stack[:-1]))

        return self.join(gone_through(state), f, end, lambda s: self.block(f, end + 1, s))

    def rounds(self, f: Frame, i: int, over: Expr, state: State) -> Tree:
        """The checks of all rounds of a loop, and the end of its block."""
        t = self.t
        if over is t.no_list or over is t.no_map:
            return Leaf("fall", state, f)
        if over.op in ("const", "built", "unknown"):
            return Leaf("fail", state)  # a few elements known beforehand: rare, and left to the exact code
        ins = f.struct.instrs[i]
        assigned = dict.fromkeys(_assigned(f.struct, i, f.struct.partner[i]), t.unknown)
        how = ins.op.name
        level = state.loops.count(over)
        local = {**state.local, **assigned}
        element = t.make("var", (over,), ("item", level))
        if how == "each_pair":
            local[ins.a] = t.make("var", (over,), ("key", level), kinds=TESTS["is_text"])
            local[ins.b] = element
        else:
            local[ins.a] = element
            if how == "each_index":
                local[ins.b] = t.make("var", (over,), ("index", level), kinds=frozenset(("number",)))
        under_way = dict.fromkeys(state.lists, (None, ()))
        inner = replace(state, stack=(), local=local, lists=under_way, loops=(*state.loops, over))
        body = self.block(f, i + 1, inner)
        checks = as_checks(body, ("fall", "next"), f)
        lists = {
            x: begun if (shape := _collected(body, x, f)) == () else self.collected(over, how, level, shape, begun)
            for x, begun in state.lists.items()
        }
        after = Leaf("fall", replace(state, local={**state.local, **assigned}, lists=lists), f)
        return After((Each(over, how, checks),), after) if checks else after

    def collected(self, over: Expr, how: str, level: int, shape: Any, begun: UnderWay) -> UnderWay:
        """A list to which each round of a loop adds."""
        t = self.t
        inside = set(_inside(shape))
        if begun != (t.no_list, ()) or how != "each" or t.unknown in inside:
            return None, (t.unknown,)
        element = t.make("var", (over,), ("item", level))
        loops = frozenset[Expr]().union(*(x.loops for x in inside)) - {element}
        return t.make("collect", (over,), (level, shape), element, LIST, loops), ()

    def call(self, f: Frame, i: int, callee: VerifiedFunction, cell: tuple[int, int] | None, state: State) -> Tree:
        """Follows a function in place, and after each of its results what comes after the call."""
        params = callee.params
        args = state.stack[len(state.stack) - params :]
        outer = state

        def result(value: Expr, state: State) -> Tree:
            back = replace(
                state,
                stack=(*outer.stack[: len(outer.stack) - params], value),
                local=outer.local,
                cells=state.cells if cell is None else {**state.cells, cell: value},
            )
            return self.block(f, i + 1, back)

        inner = replace(state, stack=(), local=dict(enumerate(args)))
        return self.block(Frame.of(f.m, callee, result), 0, inner)

    # single instructions

    def one(self, f: Frame, i: int, state: State) -> State:
        _, op, a, b = f.struct.instrs[i]
        t = self.t
        stack = state.stack
        match op.name:
            case "nop":
                return state
            case "pop":
                return replace(state, stack=stack[:-1])
            case "const":
                return replace(state, stack=(*stack, t.const(f.m.constants[a])))
            case "local":
                return replace(state, stack=(*stack, state.local.get(a, t.unknown)))
            case "set":
                return replace(state, stack=stack[:-1], local={**state.local, a: stack[-1]})
            case "tee":
                return replace(state, local={**state.local, a: stack[-1]})
            case "local_get":
                x = self.field(state.local.get(a, t.unknown), f.m.constants[b])
                return replace(state, stack=(*stack, x))
            case "path":
                x = t.root
                for key in f.m.paths[a]:
                    x = self.field(x, key)
                return replace(state, stack=(*stack, x))
            case "j_path":
                x = t.root
                for key in f.m.paths[a]:
                    x = t.make("op", (x,), ("j_field", key))
                return replace(state, stack=(*stack, x))
            case "new_list":
                self.made += 1
                x = t.make("built", (), ("under way", self.made), kinds=LIST)
                return replace(state, stack=(*stack, x), lists={**state.lists, x: (t.no_list, ())})
            case "append":
                return self.append(stack[-2], stack[-1], replace(state, stack=stack[:-1]))
        taken = stack[len(stack) - len(op.pops) :]
        kept = stack[: len(stack) - len(op.pops)]
        if op.name == "invoke":
            entry = f.m.intrinsics[a]
            n = len(entry.params)
            x = self.invoke(f, i, stack[len(stack) - n :], state)
            return replace(state, stack=(*stack[: len(stack) - n], x))
        taken = tuple(self.resolve(x, state) if x in state.lists else x for x in taken)
        return replace(state, stack=(*kept, self.computed(f, i, taken)))

    def append(self, target: Expr, item: Expr, state: State) -> State:
        known = state.lists.get(target)
        if known is None or target in self.seen:
            raise _Unsure
        begun, items = known
        value = self.resolve(item, state)
        return replace(state, lists={**state.lists, target: (begun, (*items, value))})

    def computed(self, f: Frame, i: int, taken: tuple[Expr, ...]) -> Expr:
        """The expression of a pure instruction; what is known of it is looked up when something depends on it."""
        _, op, a, _ = f.struct.instrs[i]
        t = self.t
        name = op.name
        if name in _ALIKE:
            taken = tuple(x.args[0] if x.op == "op" and x.data[0] == "absent_null" else x for x in taken)
        match name:
            case "true" | "false":
                return t.boolean(name == "true")
            case "null":
                return t.null
            case "missing":
                return t.missing
            case "j_root":
                return t.root
            case "new_map":
                return t.unknown
            case "get":
                return self.field(taken[0], f.m.constants[a])
            case "not":
                return t.negation(taken[0])
            case "p_leaf" | "p_scalar":
                every = name == "p_leaf"
                holds = f.m.leaf(a) if every else f.m.scalar(a)
                x = t.pred(f.m.patterns[a], every=every, x=taken[0], holds=holds)
                if every:  # of anything but a list it is the other one, which then is at hand
                    t.pred(f.m.patterns[a], every=False, x=taken[0], holds=f.m.scalar(a))
                return x
            case "o_pass" | "o_none":
                return t.const(SEMANTICS[name]())
            case "o_pass_text":
                known = taken[0].op == "const" and self.facts.texts
                return t.const(PASSED) if known else t.unknown
        if name in TESTS:
            return t.test(TESTS[name], taken[0])
        if name == "equal":
            return t.make("equal", taken, kinds=BOOLS)
        if op.effect is not Effect.PURE or name in METERED or name[0] == "o" or any(x.op == "unknown" for x in taken):
            return t.unknown
        if op.imm not in ((), (Imm.KEY,)):
            return t.unknown
        key = f.m.constants[a] if op.imm else None
        return t.make("op", taken, (name, key), kinds=of_static(op.pushes[0]))

    def field(self, x: Expr, key: str) -> Expr:
        if x.op == "unknown":
            return x
        if x.op == "op" and x.data[0] == "absent_null":
            x = x.args[0]
        made = self.t.get(x, key)
        return self.facts.bound.get(made, made)

    def invoke(self, f: Frame, i: int, operands: tuple[Expr, ...], state: State) -> Expr:
        entry = f.m.intrinsics[f.struct.instrs[i].a]
        t = self.t
        family = entry.name.partition(".")[0]
        if family not in _FAMILIES or not entry.pure or entry.changes or entry.cost:
            return t.unknown
        args = tuple(self.resolve(x, state) for x in operands)
        if any(x.op == "unknown" for x in args):
            return t.unknown
        body, metered = body_of(entry, f.m.lent)
        if not metered and not entry.dynamic and all(x.op == "const" for x in args):
            return t.const(body(*(x.payload for x in args)))
        paid = tuple(sorted({*entry.sized, *f.fn.measured.get(i, ())}))
        lent = id(f.m.lent) if entry.dynamic else 0
        plain = self.plain(entry.name, args, state)
        if plain is not None:
            return plain
        return t.make(
            "call",
            args,
            (entry.name, entry.sized, f.fn.measured.get(i, ()), lent),
            (body, metered, paid),
            of_static(entry.result) & self.answers(entry.name, args, state),
        )

    def plain(self, name: str, args: tuple[Expr, ...], state: State) -> Expr | None:
        """What an intrinsic answers where the kinds of its operands tell."""
        t = self.t
        known = state.kinds_of(args[0]) if args else KINDS
        match name:
            case "jmes.flatten" | "jmes.compact" if not known & (LIST | _STRANGE):
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

    # what is known of a value

    def decide(self, x: Expr, state: State) -> Expr:
        """A condition: a constant, something to ask, or the negation of that."""
        found = self.resolve(x, state)
        if found.op == "unknown":
            raise _Unsure
        return found

    def split_kinds(self, x: Expr, state: State) -> None:
        """Asks first whether a value is the map or list as which some rule uses it."""
        known = state.kinds_of(x)
        for values, kind in ((self.facts.mapped, MAP), (self.facts.listed, LIST)):
            if x in values and kind <= known and known != kind:
                raise _Split(self.t.test(kind, x))

    def as_kind(self, x: Expr, kind: Kinds, values: set[Expr], other: Expr, state: State) -> Expr:
        """A value that is used as a map or list; ``other`` where it is none."""
        known = state.kinds_of(x)
        if not kind <= known:
            return other
        values.add(x)
        if known != kind:
            raise _Split(self.t.test(kind, x))
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
        """The expression by what is known; raises ``_Split`` where that is not enough."""
        t = self.t
        match x.op:
            case "const" | "root" | "unknown":
                return x
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
                    raise _Split(t.test(TESTS["is_err"], first))
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
            raise _Split(t.test(GONE, found))
        known = state.kinds_of(v)
        if "err" not in known:
            return t.null
        if known != TESTS["is_err"]:
            raise _Split(t.test(TESTS["is_err"], v))
        return v


def _counted(args: tuple[Expr, ...]) -> bool:
    """Whether a length is compared with a whole number: two integers have one order everywhere."""
    return args[0].op == "op" and args[0].data[0] == "length" and args[1].op == "const" and type(args[1].payload) is int


def as_checks(tree: Tree, ends: tuple[str, ...], frame: Frame | None) -> Checks:
    """The checks of a tree: where it ends in none of ``ends`` (of a frame), the rule fails."""
    match tree:
        case Leaf(end, _, of):
            if end in ends and of is frame:
                return ()
            return (SILENT,) if end == "silent" and "pass" in ends else FAILED
        case After(checks, then):
            rest = as_checks(then, ends, frame)
            return FAILED if FAIL in rest or FAIL in checks else (*checks, *rest)
    yes, no = as_checks(tree.yes, ends, frame), as_checks(tree.no, ends, frame)
    if yes == no:
        return yes
    # What is asked only where something else holds may be asked anyway, since the rule has failed by then: so rules
    # that ask it without that find it in one place, and go through a list together. But what looks into the very value
    # whose kind is asked stays inside.
    asked = tree.condition.args[0] if tree.condition.op == "test" else None
    if no == FAILED and yes:
        inside = tuple(check for check in yes if asked is not None and _mentions(check, asked))
        return (If(tree.condition, inside, FAILED), *(check for check in yes if check not in inside))
    if yes == FAILED and no:
        inside = tuple(check for check in no if asked is not None and _mentions(check, asked))
        return (If(tree.condition, FAILED, inside), *(check for check in no if check not in inside))
    return (If(tree.condition, yes, no),)


def _mentions(check: Check, x: Expr) -> bool:
    """Whether a check depends on a value."""
    match check:
        case If(condition, yes, no):
            return _within(condition, x) or any(_mentions(c, x) for c in (*yes, *no))
        case Each(over, _, checks):
            return _within(over, x) or any(_mentions(c, x) for c in checks)
    return False


def _within(of: Expr, x: Expr) -> bool:
    if of is x or any(_within(arg, x) for arg in of.args):
        return True
    return of.op == "collect" and any(_within(inner, x) for inner in _inside(of.data[1]))


def _falls(tree: Tree, f: Frame) -> Iterable[State]:
    return (leaf.state for leaf in _leaves(tree) if leaf.end == "fall" and leaf.frame is f)


def _alike(states: list[State]) -> bool:
    first = states[0].values()
    return all(s.values() == first for s in states)


def _leaves(tree: Tree) -> Iterable[Leaf]:
    while isinstance(tree, After):
        tree = tree.then
    if isinstance(tree, Leaf):
        yield tree
    else:
        yield from _leaves(tree.yes)
        yield from _leaves(tree.no)


def _grown(tree: Tree, f: Frame, rest: Callable[[State], Tree]) -> Tree:
    """The tree with what comes next where it falls through."""
    match tree:
        case Leaf(end, state, frame):
            return rest(state) if end == "fall" and frame is f else tree
        case After(checks, then):
            return After(checks, _grown(then, f, rest))
    return Branch(tree.condition, _grown(tree.yes, f, rest), _grown(tree.no, f, rest))


def _common(states: list[State]) -> State:
    """What all of the states know."""
    first, *others = states
    kinds = {x: k for x, k in first.kinds.items() if all(s.kinds.get(x) == k for s in others)}
    truths = {x: k for x, k in first.truths.items() if all(s.truths.get(x) == k for s in others)}
    return replace(first, kinds=kinds, truths=truths)


def _assigned(struct: Structure, start: int, end: int) -> set[int]:
    """The locals that a loop writes."""
    found: set[int] = set()
    for ins in struct.instrs[start : end + 1]:
        if ins.op.name in ("set", "tee", "each", "each_pair", "each_index"):
            found.add(ins.a)
        if ins.op.name in LOOPS and ins.op.name != "each":
            found.add(ins.b)
    return found


def _collected(tree: Tree, x: Expr, f: Frame) -> Any:
    """What a round of a loop puts behind a list: a tuple of items, or a branch (condition, where it holds, where
    not)."""
    match tree:
        case Leaf(end, state, frame):
            return state.lists[x][1] if end in ("fall", "next") and frame is f else ()
        case After(_, then):
            return _collected(then, x, f)
    yes, no = _collected(tree.yes, x, f), _collected(tree.no, x, f)
    return yes if yes == no else Fork(tree.condition, yes, no)


def _inside(shape: Any) -> Iterable[Expr]:
    """The expressions of a shape."""
    if isinstance(shape, Fork):
        yield shape.condition
        yield from _inside(shape.yes)
        yield from _inside(shape.no)
    else:
        yield from shape
