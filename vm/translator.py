"""One function of verified bytecode to the source of a Python function; ``vm.tier2`` compiles it.

A symbolic stack keeps pure operands as expressions; what has an effect, makes a container or charges fuel becomes a
statement, in its order. ``if`` and the loops become ``if`` and ``for``; only functions that may suspend are
generators. The source holds no text of a policy: names are ``l{n}`` (locals), ``t{n}`` (temporaries), ``k{n}``
(constants), ``r{n}`` (paths), ``p{n}`` and ``q{n}`` (predicates) and ``v{n}_{n}`` (what they compare with), ``i{n}``
(intrinsics), ``w{n}`` and ``e{n}`` (what calls of them look into), ``h{n}`` (host calls), ``f{n}`` (functions) and
``s_…`` (semantics), bound in the globals; what they mean, ``vm.names`` says."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from vm import cel_code, names
from vm.catalogue import Intrinsic
from vm.fuel import CHUNK, LONG, SIZED, measure, pairs, settle
from vm.functions import body_of
from vm.host import NOTHING, PASSED, HostCall, OutOfFuel
from vm.isa import Effect
from vm.leaf_code import inline
from vm.semantics import METERED, SEMANTICS
from vm.structure import LOOPS
from vm.values import MISSING, Err
from vm.verify import VerifiedFunction, VerifiedModule

UNSET: Final = object()
SCOPE: Final = -1
"""Where a run that may suspend keeps the scope of its policy among its cells."""
_MAX_WEIGHT: Final = 40
"""Parts of an expression beyond which it gets a name: nested parentheses have a limit in CPython, lines one in
reading."""
_LITERALS: Final = {"None": None, "True": True, "False": False}
_IS_MAP: Final = re.compile(r"\((not \()?type\((l\d+)\) is dict\)\)?")
"""The condition, as the templates write it, that a local is a map, or is none."""
_FREE: Final = (1 << CHUNK) - 1

GLOBALS: Final[dict[str, Any]] = {
    "__builtins__": {},
    "type": type,
    "len": len,
    "str": str,
    "int": int,
    "list": list,
    "dict": dict,
    "enumerate": enumerate,
    "MISSING": MISSING,
    "PASSED": PASSED,
    "NOTHING": NOTHING,
    "SIZED": SIZED,
    "LONG": LONG,
    "UNSET": UNSET,
    "Err": Err,
    "OutOfFuel": OutOfFuel,
    "HostCall": HostCall,
    "measure": measure,
    "settle": settle,
    "pairs": pairs,
    "NO_STEP": (KeyError, TypeError),
    **cel_code.GLOBALS,
    **{f"s_{name}": body for name, body in SEMANTICS.items()},
}


@dataclass(frozen=True, slots=True)
class _Expr:
    """A value on the symbolic stack: Python text, the locals it reads, whether it looks into containers, and its
    weight. ``weight`` 0 is a name or literal, which may be written twice."""

    text: str
    reads: frozenset[str] = frozenset()
    looks: bool = False
    weight: int = 0


_NO_READS: Final[frozenset[str]] = frozenset()


@dataclass(slots=True)
class _Block:
    """Where statements go: lines with their indentation, and the instruction each came from."""

    lines: list[str] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)


class Translator:
    """Translates one function; fills ``bound`` with what the source mentions."""

    def __init__(self, m: VerifiedModule, fn: VerifiedFunction, bound: dict[str, Any]) -> None:
        self.m = m
        self.fn = fn
        struct = fn.structure()
        self.instrs = struct.instrs
        self.partner = struct.partner
        self.names = bound
        self.out = _Block()
        self.indent = 1
        self.at = -1
        self.temps = 0
        self.stack: list[_Expr] = []
        self.calls: list[int] = []
        self.slots: dict[int, _Expr] = {}
        self.paths: dict[tuple[str, ...], str] = {}
        """Where the values of paths are that have been looked up by CEL rules on every way that leads here."""
        self.bare: set[str] = set()
        """Temporaries that hold what is in an optional value, in place of it."""
        self.maps: frozenset[str] = frozenset()
        """Locals that are maps here, whatever way led here: their fields are read without asking again."""

    def source(self) -> tuple[str, list[int]]:
        """(Python source, for each of its lines the instruction it came from or -1)"""
        fn = self.fn
        params = "".join(f", l{i}" for i in range(fn.params))
        self.line(f"def f{fn.number}(root, meter, cells{params}):", indent=0)
        self.charge(fn.cost)
        self.block(0)
        return "\n".join(self.out.lines) + "\n", self.out.origins

    # writing

    def line(self, text: str, indent: int | None = None) -> None:
        self.out.lines.append(" " * (self.indent if indent is None else indent) + text)
        self.out.origins.append(self.at)

    def charge(self, cost: int) -> None:
        if cost:
            self.line(f"meter.left -= {cost}")
            self.line("if meter.left < 0: raise OutOfFuel")

    def temp(self) -> str:
        self.temps += 1
        return f"t{self.temps}"

    def bind(self, name: str) -> str:
        """Binds a name to what ``vm.names`` says that it means."""
        if name not in self.names:
            self.names[name] = names.value(self.m, name)
        return name

    def constant(self, n: int) -> _Expr:
        value = self.m.constants[n]
        if value is None or value is True or value is False:
            return _Expr(repr(value))
        return _Expr(self.bind(f"k{n}"))

    # the symbolic stack

    def push(self, text: str, *operands: _Expr, looks: bool = False, name: bool = False) -> None:
        """Pushes a pure expression over operands; ``name`` when the text may be written twice."""
        reads = _NO_READS.union(*(x.reads for x in operands))
        weight = 0 if name else 1 + sum(x.weight for x in operands)
        expr = _Expr(text, reads, looks or any(x.looks for x in operands), weight)
        self.stack.append(self.named(expr) if weight > _MAX_WEIGHT else expr)

    def named(self, x: _Expr) -> _Expr:
        """The value under a name of its own, evaluated here."""
        name = self.temp()
        self.line(f"{name} = {x.text}")
        return _Expr(name)

    def atom(self, x: _Expr) -> _Expr:
        return self.named(x) if x.weight else x

    def settle(self, slot: str | None = None, *, containers: bool = False) -> None:
        """Evaluates what is pending and would change when a local is written or a container is changed."""
        for i, x in enumerate(self.stack):
            if (slot is not None and slot in x.reads) or (containers and x.looks):
                self.stack[i] = self.named(x)

    def settle_all(self) -> None:
        """Evaluates all that is not a plain name of a temporary or constant: what follows may branch or loop."""
        for i, x in enumerate(self.stack):
            if x.weight or x.reads:
                self.stack[i] = self.named(x)

    # blocks

    def block(self, i: int) -> tuple[int, bool]:
        """Translates up to the ``else`` or ``end`` of this block; (its number, whether control reaches it)."""
        instrs = self.instrs
        alive = True
        while i < len(instrs):
            self.at = i
            name = instrs[i].op.name
            if name in ("else", "end"):
                return i, alive
            if name == "if":
                i, alive = self.branch(i)
            elif name in LOOPS:
                i = self.each(i)
            elif name in ("ret", "break", "next"):
                self.leave(i)
                alive = False
                i += 1
            else:
                self.one(i)
                i += 1
        return i, alive

    def leave(self, i: int) -> None:
        match self.instrs[i].op.name:
            case "ret":
                self.line(f"return {self.stack.pop().text}")
            case "break":
                self.line("break")
            case _:
                self.line("continue")

    def nested(self, i: int, stack: list[_Expr]) -> tuple[int, bool, _Block, list[_Expr]]:
        """Translates a block one level in, apart: (its end, whether control reaches it, its lines, the stack there)."""
        outer, outer_stack, paths = self.out, self.stack, self.paths
        self.out, self.stack, self.paths = _Block(), stack, dict(paths)
        self.indent += 1
        end, alive = self.block(i)
        self.indent -= 1
        inner, left = self.out, self.stack
        self.out, self.stack, self.paths = outer, outer_stack, paths
        return end, alive, inner, left

    def add(self, block: _Block, dedent: int = 0) -> None:
        self.out.lines += [line[dedent:] for line in block.lines] if dedent else block.lines
        self.out.origins += block.origins

    def branch(self, i: int) -> tuple[int, bool]:
        cond = self.stack.pop()
        arity = self.instrs[i].a
        # What an arm writes must not change what waits on the stack, and both arms must leave the same stack.
        if not self.simple(i):
            self.settle_all()
        base, maps = list(self.stack), self.maps
        found = _IS_MAP.fullmatch(cond.text)
        proven = maps | {found[2]} if found else maps
        self.maps = maps if found and found[1] else proven
        j, then_alive, then, then_stack = self.nested(i + 1, list(base))
        then_maps, self.maps = self.maps, proven if found and found[1] else maps
        other, other_alive, other_stack = _Block(), True, list(base)
        if self.instrs[j].op.name == "else":
            j, other_alive, other, other_stack = self.nested(j + 1, list(base))
        if then_alive:
            self.maps = then_maps & self.maps if other_alive else then_maps
        self.at = i
        self.stack = base
        if arity and then_alive and other_alive and not then.lines and not other.lines:
            self.choose(cond, then_stack[-1], other_stack[-1])
            return j + 1, True
        name = self.temp() if arity else ""
        for block, alive, left in ((then, then_alive, then_stack), (other, other_alive, other_stack)):
            if arity and alive:
                block.lines.append(" " * (self.indent + 1) + f"{name} = {left[-1].text}")
                block.origins.append(i)
        if then.lines:
            self.line(f"if {cond.text}:")
            self.add(then)
            if other.lines and then_alive:
                self.line("else:")
                self.add(other)
            else:
                # An arm behind one that never comes back needs no else.
                self.add(other, dedent=1)
        elif other.lines:
            self.line(f"if not {self.enclosed(cond)}:")
            self.add(other)
        if arity:
            self.stack.append(_Expr(name))
        return j + 1, then_alive or other_alive

    @staticmethod
    def enclosed(x: _Expr) -> str:
        return x.text if not x.weight or x.text.startswith("(") else f"({x.text})"

    def choose(self, cond: _Expr, then: _Expr, other: _Expr) -> None:
        if other.text == "False":
            self.push(f"({cond.text} and {then.text})", cond, then)
        elif then.text == "True":
            self.push(f"({cond.text} or {other.text})", cond, other)
        else:
            self.push(f"({then.text} if {cond.text} else {other.text})", cond, then, other)

    def simple(self, i: int) -> bool:
        """Whether an ``if`` does nothing but choose between values: no effects, so that what waits may go on
        waiting."""
        end = self.partner[i]
        if self.instrs[end].op.name == "else":
            end = self.partner[end]
        return all(
            (ins.op.effect is Effect.PURE and ins.op.name not in _STATEMENTS) or ins.op.name in ("if", "else", "end")
            for ins in self.instrs[i + 1 : end]
        )

    def each(self, i: int) -> int:
        fn = self.fn
        ins = self.instrs[i]
        over = self.stack.pop()
        self.settle_all()
        match ins.op.name:
            case "each":
                self.line(f"for l{ins.a} in {over.text}:")
            case "each_index":
                self.line(f"for l{ins.b}, l{ins.a} in enumerate({over.text}):")
            case _:
                self.line(f"for l{ins.a}, l{ins.b} in pairs({over.text}, meter):")
        stack, paths = list(self.stack), self.paths
        self.paths = dict(paths)
        self.maps = frozenset()  # a round may begin with what the one before it stored
        self.indent += 1
        self.charge(fn.loops[i])  # never 0: the end of a loop costs one unit
        end, _ = self.block(i + 1)
        self.indent -= 1
        self.stack, self.maps, self.paths = stack, frozenset(), paths
        return end + 1

    # instructions

    def one(self, i: int) -> None:
        _EMITTERS.get(self.instrs[i].op.name, Translator.computing)(self, i)

    def computing(self, i: int) -> None:
        """A pure instruction: by its template, or by a call of its function."""
        _, op, a, _ = self.instrs[i]
        operands = self.take(len(op.pops))
        key = self.constant(a) if op.imm else None
        if op.tier2 is not None:
            self.template(op.tier2, operands, key)
        else:
            names = [x.text for x in operands] + ([key.text] if key else [])
            self.push(f"s_{op.name}({', '.join(names)})", *operands, looks=True)

    def nothing(self, i: int) -> None:
        pass

    def drop(self, i: int) -> None:
        self.stack.pop()

    def const(self, i: int) -> None:
        self.stack.append(self.constant(self.instrs[i].a))

    def local(self, i: int) -> None:
        self.stack.append(self.slot(self.instrs[i].a))

    def slot(self, n: int) -> _Expr:
        found = self.slots.get(n)
        if found is None:
            found = self.slots[n] = _Expr(f"l{n}", frozenset((f"l{n}",)))
        return found

    def set(self, i: int) -> None:
        self.assign(f"l{self.instrs[i].a}", self.stack.pop())

    def tee(self, i: int) -> None:
        self.set(i)
        self.local(i)

    def local_get(self, i: int) -> None:
        _, op, a, b = self.instrs[i]
        local = self.slot(a)
        if local.text in self.maps:
            self.push(f"{local.text}.get({self.constant(b).text}, MISSING)", local, looks=True)
        else:
            self.template(op.tier2 or "", [local], self.constant(b), a=local.text)

    def built(self, i: int) -> None:
        text = "[]" if self.instrs[i].op.name == "new_list" else "{}"
        self.stack.append(self.named(_Expr(text, weight=1)))

    def leaf(self, i: int) -> None:
        """The predicate of a scalar pattern: written out for the usual values, called for the others."""
        _, op, a, _ = self.instrs[i]
        code = inline(self.m.patterns[a])
        rest = self.bind(f"p{a}" if op.name == "p_leaf" else f"q{a}")
        x = self.atom(self.stack.pop()) if code is not None else self.stack.pop()
        text = (
            f"{rest}({x.text})"
            if code is None
            else code.applied(code.whole, x.text, rest, lambda constant, _: self.bind(constant), f"v{a}")
        )
        self.push(text, x, looks=True)

    def assign(self, local: str, value: _Expr) -> None:
        self.maps -= {local}
        self.settle(local)
        lines = self.out.lines
        made = " " * self.indent + f"{value.text} = "
        if (
            value.text[0] == "t"
            and lines
            and lines[-1].startswith(made)
            and all(x.text != value.text for x in self.stack)
        ):
            # The value was named on the line before, and nobody else waits for that name.
            lines[-1] = " " * self.indent + f"{local} = " + lines[-1][len(made) :]
        else:
            self.line(f"{local} = {value.text}")

    def take(self, n: int) -> list[_Expr]:
        if not n:
            return []
        operands = self.stack[-n:]
        del self.stack[-n:]
        return operands

    def template(self, text: str, operands: list[_Expr], key: _Expr | None, a: str | None = None) -> None:
        """Applies a template of the table. An operand that it mentions twice gets a name first."""
        operands = [self.atom(x) if x.weight and text.count(f"{{{n}}}") > 1 else x for n, x in enumerate(operands)]
        if "{0}[" in text and operands[0].text in _LITERALS:
            # Python warns of a literal with a subscript, though the template only reaches it for a map.
            operands[0] = _Expr(self.bind(f"c_{operands[0].text}"))
        first = a if a is not None else key.text if key else ""
        second = key.text if key else ""
        made = text.format(*(x.text for x in operands), *([""] * (2 - len(operands))), a=first, b=second)
        self.push(made, *operands, looks=bool(operands), name=not operands)

    def j_path(self, i: int) -> None:
        a = self.instrs[i].a
        self.stack.append(_Expr(f"s_j_path(root, {self.bind(f'r{a}')})", weight=1))

    def path(self, i: int) -> None:
        """A chain of lookups, each only while there is a map to look into."""
        n = self.instrs[i].a
        name = self.temp()
        keys = [self.bind(f"r{n}_{k}") for k in range(len(self.m.paths[n]))]
        self.line(f"{name} = root.get({keys[0]}, MISSING)")
        for key in keys[1:]:
            self.line(f"{name} = {name}.get({key}, MISSING) if type({name}) is dict else MISSING")
        self.stack.append(_Expr(name))

    def c_path(self, i: int) -> None:
        """A chain of lookups, from the longest part of it that has been looked up before; what does not lead through
        maps alone is done again step by step. (A subscript costs half of ``get`` with a test for a map, and nothing
        but a map takes a text for one.)"""
        n = self.instrs[i].a
        keys = self.m.paths[n]
        known = next((k for k in range(len(keys), 0, -1) if keys[:k] in self.paths), 0)
        start = self.paths[keys[:known]] if known else "root"
        if known == len(keys):
            self.stack.append(_Expr(start))
            return
        name = self.temp()
        steps = "".join(f"[{self.bind(f'r{n}_{k}')}]" for k in range(known, len(keys)))
        self.line(f"try: {name} = {start}{steps}")
        self.line(f"except NO_STEP: {name} = MISSING")
        self.line(f"if {name} is MISSING: {name} = s_c_path(root, {self.bind(f'r{n}')})")
        self.paths[keys] = name
        self.stack.append(_Expr(name))

    def metering(self, i: int) -> None:
        _, op, a, _ = self.instrs[i]
        operands = [x.text for x in self.take(len(op.pops))]
        if op.name == "c_charge":
            self.line(f"meter.cost += {a}")
            limit = _Expr("(meter.cost > meter.cost_limit)", weight=1)
            self.stack.append(limit if self.instrs[i + 1].op.name in ("if", "pop") else self.named(limit))
        elif op.name == "c_open":
            self.stack.append(self.named(_Expr("meter.cost", weight=1)))
            self.line("meter.cost = 0")
        else:
            value, outer = self.temp(), operands[1]
            self.line(f"{value} = {operands[0]}")
            self.line("if meter.cost > meter.cost_limit or meter.spent + meter.cost > meter.budget:")
            self.line(f" {value} = s_c_close({value}, {outer}, meter)")
            self.line("else:")
            self.line(" meter.spent += meter.cost")
            self.line(f" meter.cost = {outer}")
            self.stack.append(_Expr(value))

    def equal(self, i: int) -> None:
        x, y = self.take(2)
        for one, other in ((x, y), (y, x)):
            if one.weight == 0 and not one.reads:
                value = self.names.get(one.text) if one.text.startswith("k") else None
                if one.text in ("None", "True", "False"):
                    self.push(f"({other.text} is {one.text})", other)
                    return
                if type(value) is str:
                    self.push(f"({other.text} == {one.text})", other)
                    return
        name = self.temp()
        self.line(f"{name} = s_equal({x.text}, {y.text}, meter)")
        self.stack.append(_Expr(name))

    def change(self, i: int) -> None:
        _, op, a, _ = self.instrs[i]
        target, *operands = self.take(len(op.pops))
        self.settle(containers=True)
        match op.name:
            case "append":
                self.line(f"{target.text}.append({operands[0].text})")
            case "put":
                self.line(f"{target.text}[{self.constant(a).text}] = {operands[0].text}")
            case _:
                self.line(f"{target.text}[{operands[0].text}] = {operands[1].text}")
        self.stack.append(target)

    def statement(self, i: int) -> None:
        """An instruction that charges, calls or suspends: evaluated here and now, under a name."""
        _, op, a, _ = self.instrs[i]
        name = self.temp()
        match op.name:
            case "call":
                callee = self.m.functions[a]
                args = "".join(f", {x.text}" for x in self.take(callee.params))
                self.calls.append(a)
                wait = "yield from " if callee.may_suspend else ""
                self.line(f"{name} = {wait}f{a}(root, meter, cells{args})")
            case "cell":
                init = self.m.cells[a]
                self.calls.append(init)
                wait = "(yield from " if self.m.functions[init].may_suspend else "("
                self.line(f"{name} = cells.get({a}, UNSET)")
                self.line(f"if {name} is UNSET: {name} = cells[{a}] = {wait}f{init}(root, meter, cells))")
            case "scoped" | "o_scoped":
                over = self.atom(self.stack.pop())
                if i in self.fn.measured:
                    self.line(f"measure({over.text}, meter)")
                self.line(f"meter.charge((len(root) + len({over.text})) >> {CHUNK})")
                self.calls.append(a)
                wait = "yield from " if self.m.functions[a].may_suspend else ""
                call = f"{wait}f{a}({{**root, **{over.text}}}, meter, cells)"
                self.line(f"{name} = {call}" if op.name == "o_scoped" else f"{name} = settle(({call}), meter)")
            case "reset":
                self.line(f"{name} = cells.pop({a}, UNSET) is not UNSET")
            case "await":
                payload = self.stack.pop()
                kind = self.bind(f"h{a}")
                self.line(f"{name} = yield HostCall({kind}, {payload.text}, cells[{SCOPE}])")
                self.line(f"measure({name}, meter)")
            case "invoke":
                self.invoke(i, name)
            case "concat":
                args = "".join(f"{x.text}, " for x in self.take(a))
                self.line(f"{name} = s_concat({args}meter)")
            case _:
                self.line(f"{name} = s_{op.name}({self.stack.pop().text}, meter)")
        self.stack.append(_Expr(name))

    def invoke(self, i: int, name: str) -> None:
        number = self.instrs[i].a
        entry = self.m.intrinsics[number]
        _, metered = body_of(entry, self.m.lent)
        callee = self.bind(f"i{number}")
        operands = self.take(len(entry.params))
        if operands and operands[0].text in self.bare and entry.name not in cel_code.STEPS:
            self.line(f"{name} = {cel_code.of_bare(entry.name, *(x.text for x in operands))}")
            return
        measured = self.fn.measured.get(i, ())
        if cel_code.has_ways(entry.name) and not measured:
            self.by_ways(entry, name, callee, metered, [self.atom(x) for x in operands])
            return
        if entry.name in cel_code.STEPS and not measured and type(self.names.get(operands[1].text)) is str:
            cel_code.optional_step(self, i, name, callee, self.atom(operands[0]).text, operands[1].text)
            return
        self.ordinary(entry, name, callee, metered, operands, measured)

    def by_ways(self, entry: Intrinsic, name: str, callee: str, metered: bool, operands: list[_Expr]) -> None:
        """A call with its ways before it; tests one after the other, the call for what passes none."""
        known = [cel_code.Operand(x.text, self.value_of(x)) for x in operands]
        ways = cel_code.ways(entry.name, entry.cost, known, self.bind)
        for n, way in enumerate(ways):
            self.line(f"{'elif' if n else 'if'} {way.guard}:")
            self.indent += 1
            for text in (*way.fuel, f"{name} = {way.value}", *((f"meter.cost += {way.cost}",) if way.cost else ())):
                self.line(text)
            self.indent -= 1
        if ways:
            self.line("else:")
        self.indent += bool(ways)
        self.ordinary(entry, name, callee, metered, operands, ())
        self.indent -= bool(ways)

    def value_of(self, x: _Expr) -> Any:
        """The value of a constant, MISSING for what is none."""
        if x.text in _LITERALS:
            return _LITERALS[x.text]
        return self.names[x.text] if x.text[0] == "k" else MISSING

    def ordinary(
        self,
        entry: Intrinsic,
        name: str,
        callee: str,
        metered: bool,
        operands: list[_Expr],
        measured: tuple[int, ...],
    ) -> None:
        if entry.sized or measured:
            operands = [self.atom(x) if n in entry.sized or n in measured else x for n, x in enumerate(operands)]
            # As vm.fuel.charge_operands does, written out: most operands are short.
            for n in entry.sized:
                x = operands[n].text
                value = self.value_of(operands[n])
                if value is not MISSING:
                    if type(value) in LONG and len(value) > _FREE:
                        self.line(f"meter.charge({len(value) >> CHUNK})")
                    continue
                self.line(f"if type({x}) in LONG and len({x}) > {_FREE}: meter.charge(len({x}) >> {CHUNK})")
            for n in measured:
                self.line(f"measure({operands[n].text}, meter)")
        args = ", ".join((*(["meter"] if metered else []), *(x.text for x in operands)))
        self.line(f"{name} = {callee}({args})")


_EMITTERS: Final[dict[str, Callable[[Translator, int], None]]] = {
    "nop": Translator.nothing,
    "pop": Translator.drop,
    "const": Translator.const,
    "local": Translator.local,
    "set": Translator.set,
    "tee": Translator.tee,
    "path": Translator.path,
    "j_path": Translator.j_path,
    "c_path": Translator.c_path,
    **dict.fromkeys(("c_charge", "c_open", "c_close"), Translator.metering),
    "local_get": Translator.local_get,
    "equal": Translator.equal,
    "p_leaf": Translator.leaf,
    "p_scalar": Translator.leaf,
    **dict.fromkeys(("new_list", "new_map"), Translator.built),
    **dict.fromkeys(("append", "put", "put_key"), Translator.change),
    **dict.fromkeys(
        ("call", "cell", "scoped", "o_scoped", "reset", "invoke", "await", "concat", "to_text"), Translator.statement
    ),
}
_STATEMENTS: Final = METERED | {
    "call",
    "cell",
    "scoped",
    "o_scoped",
    "reset",
    "invoke",
    "await",
    "new_list",
    "new_map",
    "path",
    "c_path",
}
"""Instructions that always make a statement."""
