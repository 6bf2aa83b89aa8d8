"""Follows every way through the code of a rule, on expressions instead of values: what the rule asks of a request
before it surely passes.

Whatever is not plain (host calls, texts put together, walks of patterns, a result that depends on the end of a loop)
counts as not sure, so that an answer is never wrong, only not there. ``vm.fused`` calls :func:`questions` for the rules
that it puts together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from vm.cel_deductions import CelDeduction
from vm.decisions import (
    ALLOWANCE,
    LONGEST,
    After,
    Branch,
    Check,
    Checks,
    Each,
    Facts,
    Frame,
    Leaf,
    Paid,
    State,
    Tree,
    UnderWay,
    alike,
    as_checks,
    collected,
    common,
    expressions_of,
    falling,
    grown,
    leaves,
    mentions,
    written_in,
)
from vm.deductions import ALIKE, LIST, STRANGE, TESTS, Split, Unsure
from vm.expressions import BOOLS, SIZED_KINDS, Expr, Table, TooMuch, of_static
from vm.fuel import measure
from vm.functions import body_of
from vm.host import NOTHING, PASSED, Meter, Outcome, OutOfFuel
from vm.isa import Effect, Imm
from vm.semantics import METERED, SEMANTICS
from vm.verify import VerifiedFunction, VerifiedModule

MAX_STEPS: Final = 6_000
"""Instructions that are followed for one rule: beyond that it has too many ways through it."""
MAX_DEPTH: Final = 40
"""Checks inside one another; CPython allows 100 levels of indentation."""

HOLDING: Final = TESTS["is_list"] | TESTS["is_map"]
_FAMILIES: Final = frozenset(("match", "cond", "jmes", "text"))
"""Families of intrinsics that are called for what they answer; the others are for rules that do not surely pass."""


def questions(table: Table, m: VerifiedModule, entry: int, facts: Facts) -> Checks:
    """The checks of a rule: it surely passes when none of them fails. ``(FAIL,)`` for a rule of which nothing is sure.
    Raises :class:`TooMuch`."""
    return _Follower(table, facts).rule(m, entry)


class _Follower(CelDeduction):
    def __init__(self, table: Table, facts: Facts) -> None:
        super().__init__(table, facts)
        self.steps = 0
        self.depth = 0
        self.made = 0

    def rule(self, m: VerifiedModule, entry: int) -> Checks:
        fn = m.functions[entry]
        return as_checks(
            self.block(Frame.of(m, fn, self.facts.structure(fn), self.outcome), 0, State(kinds=self.facts.kinds)),
            ("pass",),
            None,
        )

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
                        state = state._replace(stack=(*state.stack, known))
                    case _:
                        self.owed = []
                        state = self.one(f, i, state)
                        if self.owed:
                            return After(tuple(self.owed), self.block(f, i + 1, state))
            except Split as split:
                return self.split(split.condition, state, partial(self.block, f, i))
            except Unsure:
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
            Leaf("fail", yes) if condition.op == "test" and condition.data <= STRANGE else follow(yes),
            follow(no),
        )
        self.depth -= 1
        return tree

    def branch(self, f: Frame, i: int, state: State) -> Tree:
        middle = f.struct.partner[i]
        has_else = f.struct.instrs[middle].op.name == "else"
        end = f.struct.partner[middle] if has_else else middle

        def arm(state: State, truth: bool) -> Tree:
            state = state._replace(stack=state.stack[:-1])
            if truth:
                return self.block(f, i + 1, state)
            return self.block(f, middle + 1, state) if has_else else Leaf("fall", state, f)

        def asked(state: State) -> Tree:
            try:
                condition = self.decide(state.stack[-1], state)
            except Split as split:
                return self.split(split.condition, state, asked)
            except Unsure:
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
        tree = grown(tree, f, lambda s: Leaf("fall", f.alive(s, end), f))
        falls = list(falling(tree, f))
        if not falls:
            return tree
        if len(falls) > 1 and alike(falls):
            return self.sequence(tree, f, rest)
        return grown(tree, f, rest)

    def sequence(self, tree: Tree, f: Frame, rest: Callable[[State], Tree]) -> Tree:
        """What comes next, once, behind arms that know the same afterwards; where only one arm goes on it is in there,
        since what is known there helps."""
        if isinstance(tree, After):
            return After(tree.checks, self.sequence(tree.then, f, rest))
        falls = list(falling(tree, f))
        if isinstance(tree, Branch):
            yes, no = (any(True for _ in falling(arm, f)) for arm in (tree.yes, tree.no))
            if not no:
                return Branch(tree.condition, self.sequence(tree.yes, f, rest), tree.no)
            if not yes:
                return Branch(tree.condition, tree.yes, self.sequence(tree.no, f, rest))
        if len(falls) == 1 or any(
            leaf.end not in ("fall", "fail") or leaf.frame not in (f, None) for leaf in leaves(tree)
        ):
            return grown(tree, f, rest)
        return After(as_checks(tree, ("fall",), f), rest(common(falls)))

    def loop(self, f: Frame, i: int, state: State) -> Tree:
        end = f.struct.partner[i]

        def gone_through(state: State) -> Tree:
            try:
                over = self.resolve(state.stack[-1], state)
            except Split as split:
                return self.split(split.condition, state, gone_through)
            return self.rounds(f, i, over, state._replace(stack=state.stack[:-1]))

        return self.join(gone_through(state), f, end, lambda s: self.block(f, end + 1, s))

    def rounds(self, f: Frame, i: int, over: Expr, state: State) -> Tree:
        """The checks of all rounds of a loop, and the end of its block."""
        t = self.t
        if over is t.no_list or over is t.no_map:
            return Leaf("fall", state, f)
        if over.op in ("const", "built", "unknown"):
            return Leaf("fail", state)  # a few elements known beforehand: rare, and left to the exact code
        written = written_in(f.struct, i, f.struct.partner[i])
        # A constant that every round leaves as it is stays known: what a macro has found so far, where it goes on.
        kept = {a: x for a in written if (x := state.local.get(a)) is not None and x.op == "const"}
        parts = over.args if over.op == "joined" else (over,)
        while True:
            local = {**state.local, **dict.fromkeys(written, t.unknown), **kept}
            bodies = [self.round(f, i, part, state._replace(local=local)) for part in parts]
            ends = [x for body in bodies for x in leaves(body) if x.frame is f and x.end in ("fall", "next")]
            lost = {a for a, x in kept.items() if any(end.state.local.get(a) is not x for end in ends)}
            if not lost:
                break
            for a in lost:
                del kept[a]
        checks: list[Check] = []
        lists = dict(state.lists)
        for part, body in zip(parts, bodies, strict=True):
            how = f.struct.instrs[i].op.name
            inner = as_checks(body, ("fall", "next"), f)
            if how == "each_index" and not any(mentions(x, self.position(part, state)) for x in inner):
                how = "each"  # as other rules go through the list
            made = []
            for x, begun in lists.items():
                shape = collected(body, x, f)
                if shape != ():
                    lists[x] = self.collected(part, how, state, shape, begun)
                    made.append(lists[x][0])
            if inner or not made or None in made:
                checks.append(Each(part, how, inner, len(parts)))
            else:
                checks += [Paid(x, 0) for x in made if x is not None]
        return After(tuple(checks), Leaf("fall", state._replace(local=local, lists=lists), f))

    def round(self, f: Frame, i: int, over: Expr, state: State) -> Tree:
        """What comes of one round of a loop."""
        t = self.t
        ins = f.struct.instrs[i]
        how = ins.op.name
        level = state.loops.count(over)
        local = dict(state.local)
        element = t.make("var", (over,), ("item", level))
        if how == "each_pair":
            local[ins.a] = t.make("var", (over,), ("key", level), kinds=TESTS["is_text"])
            local[ins.b] = element
        else:
            local[ins.a] = element
            if how == "each_index":
                local[ins.b] = self.position(over, state)
        under_way = dict.fromkeys(state.lists, (None, ()))
        return self.block(f, i + 1, state._replace(stack=(), local=local, lists=under_way, loops=(*state.loops, over)))

    def position(self, over: Expr, state: State) -> Expr:
        """Where a round of a loop stands."""
        return self.t.make("var", (over,), ("index", state.loops.count(over)), kinds=of_static("I"))

    def collected(self, over: Expr, how: str, state: State, shape: Any, begun: UnderWay) -> UnderWay:
        """A list to which each round of a loop adds."""
        t = self.t
        inside = set(expressions_of(shape))
        if begun != (t.no_list, ()) or how != "each" or t.unknown in inside:
            return None, (t.unknown,)
        level = state.loops.count(over)
        element = t.make("var", (over,), ("item", level))
        loops = frozenset[Expr]().union(*(x.loops for x in inside)) - {element}
        weight = sum(x.weight for x in expressions_of(shape))
        return t.make("collect", (over,), ((level, len(state.loops)), shape), element, LIST, loops, weight), ()

    def call(self, f: Frame, i: int, callee: VerifiedFunction, cell: tuple[int, int] | None, state: State) -> Tree:
        """Follows a function in place, and after each of its results what comes after the call."""
        params = callee.params
        args = state.stack[len(state.stack) - params :]
        outer = state

        def result(value: Expr, state: State) -> Tree:
            back = state._replace(
                stack=(*outer.stack[: len(outer.stack) - params], value),
                local=outer.local,
                cells=state.cells if cell is None else {**state.cells, cell: value},
            )
            return self.block(f, i + 1, back)

        inner = state._replace(stack=(), local=dict(enumerate(args)))
        return self.block(Frame.of(f.m, callee, self.facts.structure(callee), result), 0, inner)

    # single instructions

    def one(self, f: Frame, i: int, state: State) -> State:
        _, op, a, b = f.struct.instrs[i]
        t = self.t
        stack = state.stack
        match op.name:
            case "nop":
                return state
            case "pop":
                return state._replace(stack=stack[:-1])
            case "const":
                return state._replace(stack=(*stack, t.constant(f.m, a)))
            case "local":
                return state._replace(stack=(*stack, state.local.get(a, t.unknown)))
            case "set":
                return state._replace(stack=stack[:-1], local={**state.local, a: stack[-1]})
            case "tee":
                return state._replace(local={**state.local, a: stack[-1]})
            case "local_get":
                x = self.field(state.local.get(a, t.unknown), f.m.constants[b])
                return state._replace(stack=(*stack, x))
            case "path":
                x = t.root
                for key in f.m.paths[a]:
                    x = self.field(x, key)
                return state._replace(stack=(*stack, x))
            case "j_path":
                x = t.root
                for key in f.m.paths[a]:
                    x = t.make("op", (x,), ("j_field", key))
                return state._replace(stack=(*stack, x))
            case "c_path":
                x = self.selected(t.root, f.m.paths[a], state)
                return state._replace(stack=(*stack, x))
            case "c_open":
                self.made += 1
                x = t.make("opened", data=self.made)
                return state._replace(stack=(*stack, x), open=state.open + 1)
            case "c_charge":
                if not state.open:
                    raise Unsure
                return state._replace(stack=(*stack, t.false))
            case "c_close":
                if stack[-1].op != "opened" or not state.open:
                    raise Unsure
                return state._replace(stack=stack[:-1], open=state.open - 1)
            case "new_list":
                self.made += 1
                x = t.make("built", (), ("under way", self.made), kinds=LIST)
                return state._replace(stack=(*stack, x), lists={**state.lists, x: (t.no_list, ())})
            case "append":
                return self.append(stack[-2], stack[-1], state._replace(stack=stack[:-1]))
        pops = a if op.name == "concat" else len(op.pops)
        taken = stack[len(stack) - pops :]
        kept = stack[: len(stack) - pops]
        if op.name == "invoke":
            entry = f.m.intrinsics[a]
            n = len(entry.params)
            x = self.invoke(f, i, stack[len(stack) - n :], state)
            return state._replace(stack=(*stack[: len(stack) - n], x))
        taken = tuple(self.resolve(x, state) if x in state.lists else x for x in taken)
        return state._replace(stack=(*kept, self.computed(f, i, taken, state)))

    def append(self, target: Expr, item: Expr, state: State) -> State:
        known = state.lists.get(target)
        if known is None or target in self.seen:
            raise Unsure
        begun, items = known
        value = self.resolve(item, state)
        return state._replace(lists={**state.lists, target: (begun, (*items, value))})

    def computed(self, f: Frame, i: int, taken: tuple[Expr, ...], state: State) -> Expr:
        """The expression of a pure instruction; what is known of it is looked up when something depends on it."""
        _, op, a, _ = f.struct.instrs[i]
        t = self.t
        name = op.name
        if name in ALIKE:
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
        if name[:2] == "c_":
            return self.instruction(name, f.m.constants[a] if op.imm else None, taken, state)
        if name == "equal":
            return self.compared(taken, state)
        if name in METERED and not all(map(self.free, taken)):
            raise Unsure
        if op.effect is not Effect.PURE or name in METERED or name[0] == "o" or any(x.op == "unknown" for x in taken):
            return t.unknown
        if op.imm not in ((), (Imm.KEY,)):
            return t.unknown
        key = f.m.constants[a] if op.imm else None
        return t.make("op", taken, (name, key), kinds=of_static(op.pushes[0]))

    def compared(self, taken: tuple[Expr, ...], state: State) -> Expr:
        """Two lists or maps pay for what they hold; all else is free to compare."""
        made = self.t.make("equal", taken, kinds=BOOLS)
        if self.t.unknown in taken and not all(x.op == "unknown" or x.kinds & HOLDING for x in taken):
            return self.t.unknown
        if all(x.kinds & HOLDING for x in taken):
            made = self.resolve(made, state)
            if made.op == "unknown":
                raise Unsure
            if made.op == "equal":
                self.owed.append(Paid(made, 0))
        return made

    @staticmethod
    def free(x: Expr) -> bool:
        """Whether what is paid for a value, if anything, is known to keep to the allowance."""
        if x.op == "const":
            try:
                measure(x.payload, Meter(ALLOWANCE))
            except OutOfFuel:
                return False
            return True
        return x.kinds == of_static("I") or x.kinds == BOOLS

    def invoke(self, f: Frame, i: int, operands: tuple[Expr, ...], state: State) -> Expr:
        entry = f.m.intrinsics[f.struct.instrs[i].a]
        t = self.t
        family = entry.name.partition(".")[0]
        measured = f.fn.measured.get(i, ())
        if (family == "cel" or entry.name == "cel_rule.variable") and entry.pure and not measured and not entry.changes:
            return self.function(entry, operands, state)
        args = tuple(self.resolve(x, state) for x in operands)
        measured = tuple(n for n in measured if not self.free(args[n]))
        pays = bool(entry.sized or entry.metered or entry.cost or measured)
        if family not in _FAMILIES or not entry.pure or entry.changes or entry.cost or t.unknown in args:
            if pays:
                raise Unsure
            return t.unknown
        body, metered = body_of(entry, f.m.lent)
        if not pays and not entry.dynamic and all(x.op == "const" for x in args):
            return t.const(body(*(x.payload for x in args)))
        lent = id(f.m.lent) if entry.dynamic else 0
        plain = self.plain(entry.name, args, state)
        if plain is not None:
            self.owed += [Paid(args[n], LONGEST) for n in entry.sized if state.kinds_of(args[n]) & SIZED_KINDS]
            self.owed += [Paid(t.make("measured", (args[n],)), 0) for n in measured]
            return plain
        # What it may answer goes with it: of operands of which more is known elsewhere it is another expression.
        kinds = of_static(entry.result) & self.answers(entry.name, args, state)
        made = t.make("call", args, (entry.name, lent, entry.sized, measured, kinds), (body, metered), kinds)
        if pays:
            self.owed.append(Paid(made, 0))
        return made
