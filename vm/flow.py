"""Abstract run of one function over static kinds: the second half of the verifier.

Each stack place and local holds a kind, an *owner* and a *depth*.

The owner stands for the one list or map that this function made and may still change. It is lost as soon as another
name for the container could exist that the verifier does not follow (it was put into another container, handed to a
function, gone over by a loop). So changing instructions never reach the request, a constant, a container under
iteration or the container itself: values stay free of cycles and every loop ends.

The depth counts the layers of lists and maps that the program has built around its inputs. A loop that would add a
layer each time round is refused; no verified program can make a value that a recursive body could not walk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from vm.catalogue import Intrinsic
from vm.code import MAX_STACK, MAX_UNITS, CodeObject
from vm.host import HOST_CALLS
from vm.isa import OPS, Effect, Imm, kind_join, kind_le
from vm.structure import Structure, VerifyError

MAX_DEPTH: Final = 128
"""Layers of containers that a program may build around its inputs."""
_ROUNDS: Final = 8
"""Times a loop body is looked at before a depth that still grows counts as growing without end."""

Abstract: TypeAlias = tuple[str, int | None, int]
"""(kind, owner or None, depth)"""
Values: TypeAlias = list[Abstract | None]
"""The locals (None: not set on every path), then the stack."""

_PLAIN: Final[dict[str, Abstract]] = {k: (k, None, 0) for k in "VBISLMEO"}
_INNER: Final = frozenset({"get", "index", "j_field", "j_index", "c_select"})
"""Instructions whose result is never the operand itself, only something inside it."""
_ATOMS: Final = "BIS"
_BUILT: Final = {"new_list": "L", "new_map": "M"}


@dataclass(slots=True)
class Budget:
    """Work left for a whole module, in instructions looked at, so that no bundle can keep the verifier busy."""

    left: int


@dataclass(frozen=True, slots=True)
class Signature:
    """What a call needs of a verified function: how many layers its result and its innards add to its operands."""

    result_depth: int
    inner_depth: int


@dataclass(frozen=True, slots=True)
class Tables:
    """What immediates point into."""

    const_kinds: Sequence[str]
    paths: int
    patterns: int
    imports: Sequence[Intrinsic]
    functions: Sequence[CodeObject]
    cells: Sequence[int]
    signatures: dict[int, Signature]
    budget: Budget


@dataclass(frozen=True, slots=True)
class FlowFacts:
    """What the run found: the highest stack, values to drop before a ``break`` or ``next``, operands of intrinsics
    that the program built (they are measured before the call), and the depths."""

    max_stack: int
    drops: dict[int, int]
    measured: dict[int, tuple[int, ...]]
    signature: Signature


@dataclass(slots=True)
class _Loop:
    index: int
    height: int
    slots: tuple[int, ...]
    breaks: list[Values] = field(default_factory=list)
    nexts: list[Values] = field(default_factory=list)


_WORDS: Final = {
    Imm.CONST: "constant",
    Imm.KEY: "constant",
    Imm.LOCAL: "local",
    Imm.FUNC: "function",
    Imm.IMPORT: "import",
    Imm.PATH: "path",
    Imm.PATTERN: "pattern",
    Imm.UINT: "number",
    Imm.UNITS: "number of units",
    Imm.ARITY: "arity",
    Imm.CELL: "cell",
    Imm.HOST: "host call",
}
_IMMS: Final = {op.name: tuple(list(_WORDS).index(imm) for imm in op.imm) for op in OPS if op.imm}
_KEY: Final = list(_WORDS).index(Imm.KEY)


def check_immediates(fn: CodeObject, struct: Structure, tables: Tables) -> None:
    """Every immediate points at something of the right kind. Raises :class:`VerifyError` ``immediate``."""
    kinds = tables.const_kinds
    limits = (
        len(kinds),
        len(kinds),
        len(fn.locals),
        len(tables.functions),
        len(tables.imports),
        tables.paths,
        tables.patterns,
        MAX_STACK + 1,
        MAX_UNITS,
        2,
        len(tables.cells),
        len(HOST_CALLS),
    )
    for pc, op, a, b in struct.instrs:
        imms = _IMMS.get(op.name)
        if imms is None:
            continue
        n = a
        for imm in imms:
            if n >= limits[imm]:
                word = list(_WORDS.values())[imm]
                raise VerifyError("immediate", f"{op.name}: no {word} has number {n}", fn.name, pc)
            if imm == _KEY and kinds[n] != "S":
                raise VerifyError("immediate", f"{op.name}: constant {n} is no text", fn.name, pc)
            n = b


_PICTURES: Final = {
    op.name: (
        op.pops[::-1],
        op.pushes[0] if op.pushes else "",
        bool(op.pushes) and op.pushes[0] not in _ATOMS,
        op.name in _INNER,
    )
    for op in OPS
}
"""By name: kinds popped, top first; the kind pushed; whether it may hold an operand; whether it only looks inside."""
_SIMPLE: Final[dict[str, tuple[str, Abstract, bool]]] = {
    op.name: (op.pops[0] if op.pops else "", _PLAIN[op.pushes[0]], op.pushes[0] not in _ATOMS)
    for op in OPS
    if len(op.pops) <= 1
    and op.pushes
    and op.effect is Effect.PURE
    and op.name
    not in (
        "const",
        "local",
        "local_get",
        "new_list",
        "new_map",
        "call",
        "invoke",
        "cell",
        "scoped",
        "o_scoped",
        "concat",
    )
}
"""Instructions of at most one operand: the kind it takes, what they push, whether that may hold the operand."""


class Flow:
    """One abstract run; :meth:`run` does it once."""

    def __init__(self, fn: CodeObject, struct: Structure, tables: Tables) -> None:
        self.fn = fn
        self.instrs = struct.instrs
        self.partner = struct.partner
        self.tables = tables
        self.nlocals = len(fn.locals)
        self.floor = self.nlocals
        self.max_height = 0
        self.max_depth = 0
        self.result_depth = 0
        self.builds = any(ins.op.name in _BUILT for ins in struct.instrs)
        self.loops: list[_Loop] = []
        self.heads: dict[int, Values] = {}
        self.bound: list[int] = []
        self.drops: dict[int, int] = {}
        self.measured: dict[int, tuple[int, ...]] = {}

    def run(self) -> FlowFacts:
        """Raises :class:`VerifyError`."""
        start: Values = [_PLAIN[k] for k in self.fn.locals[: self.fn.params]]
        start += [None] * (self.nlocals - self.fn.params)
        _, end = self.block(0, start)
        if end is not None:
            raise VerifyError("control", "the end is reached without a ret", self.fn.name, len(self.fn.code))
        return FlowFacts(self.max_height, self.drops, self.measured, Signature(self.result_depth, self.max_depth))

    def fail(self, code: str, detail: str, at: int) -> VerifyError:
        return VerifyError(code, f"{self.instrs[at].op.name}: {detail}", self.fn.name, self.instrs[at].pc)

    # the stack

    def pop(self, v: Values, kind: str, at: int) -> Abstract:
        if len(v) <= self.floor:
            raise self.fail("height", "too few values on the stack of this block", at)
        top = v.pop()
        assert top is not None  # only locals may be None
        if top[0] != kind and not kind_le(top[0], kind):
            raise self.fail("kind", f"takes {kind}, not {top[0]}", at)
        return top

    def push(self, v: Values, value: Abstract, at: int) -> None:
        v.append(value)
        height = len(v) - self.nlocals
        if height > self.max_height:
            self.max_height = height
            if height > MAX_STACK:
                raise self.fail("stack", f"more than {MAX_STACK} values on the stack", at)
        if value[2] > self.max_depth:
            self.deepen(value[2], at)

    def deepen(self, depth: int, at: int) -> None:
        if depth > MAX_DEPTH:
            raise self.fail("depth", f"would build more than {MAX_DEPTH} containers around one another", at)
        self.max_depth = max(self.max_depth, depth)

    def release(self, v: Values, value: Abstract, at: int) -> None:
        """The container of ``value`` may get a name that nobody follows: from here on it cannot be changed."""
        owner = value[1]
        if owner is not None:
            self.spend(len(v) >> 4, at)
            for i, x in enumerate(v):
                if x is not None and x[1] == owner:
                    v[i] = (x[0], None, x[2])

    # blocks

    def block(self, i: int, v: Values | None) -> tuple[int, Values | None]:
        """Runs from instruction ``i`` to the ``else`` or ``end`` that ends this block, or the end of the function."""
        instrs, n, const_kinds = self.instrs, len(self.instrs), self.tables.const_kinds
        while i < n:
            _, op, a, _ = instrs[i]
            name = op.name
            if name == "end" or name == "else":
                return i, v
            if v is None:
                raise self.fail("unreachable", "stands behind the end of its block", i)
            # The commonest instructions on the commonest values are written out; the rest of this class says it all.
            simple = _SIMPLE.get(name)
            if simple is not None:
                kind, made, holds = simple
                if not kind:
                    self.push(v, made, i)
                    i += 1
                    continue
                if len(v) > self.floor:
                    top = v[-1]
                    assert top is not None
                    if (top[0] == kind or (kind == "V" and top[0] != "O")) and not (holds and top[2]):
                        v[-1] = made
                        i += 1
                        continue
            elif name == "local":
                x = v[a]
                if x is None:
                    raise self.fail("undefined", f"local {a} is not set on every path to here", i)
                self.push(v, x, i)
                i += 1
                continue
            elif name == "const":
                self.push(v, _PLAIN[const_kinds[a]], i)
                i += 1
                continue
            special = _SPECIAL.get(name)
            if special is None:
                self.plain(i, v)
                i += 1
            else:
                i, v = special(self, i, v)
        return i, v

    def spend(self, n: int, at: int) -> None:
        """Takes work from the budget: for each time that a stretch of code is looked at, its instructions."""
        self.tables.budget.left -= n
        if self.tables.budget.left < 0:
            raise self.fail("complex", "the code takes too long to verify", at)

    def plain(self, i: int, v: Values) -> None:
        """An instruction whose stack picture says all."""
        pops, result, holds, inner = _PICTURES[self.instrs[i].op.name]
        depth = 0
        for kind in pops:
            x = self.pop(v, kind, i)
            if x[2] > depth:
                depth = x[2]
            if holds and x[1] is not None and not inner:
                self.release(v, x, i)
        if result:
            if not holds or not depth:
                self.push(v, _PLAIN[result], i)
            else:
                self.push(v, (result, None, depth - 1 if inner else depth), i)

    def local_get(self, i: int, v: Values) -> tuple[int, Values]:
        depth = self.read(i, v)[2]
        self.push(v, ("V", None, depth - 1 if depth else 0), i)
        return i + 1, v

    def read(self, i: int, v: Values) -> Abstract:
        slot = self.instrs[i].a
        x = v[slot]
        if x is None:
            raise self.fail("undefined", f"local {slot} is not set on every path to here", i)
        return x

    def set(self, i: int, v: Values) -> tuple[int, Values]:
        slot = self.instrs[i].a
        kind = self.fn.locals[slot]
        if slot in self.bound:
            raise self.fail("slot", f"local {slot} is bound by a loop around", i)
        x = self.pop(v, kind, i)
        v[slot] = (kind, x[1], x[2])
        if self.instrs[i].op.name == "tee":
            self.push(v, x, i)
        return i + 1, v

    def built(self, i: int, v: Values) -> tuple[int, Values]:
        # A container made here before, in an earlier round of a loop, is another one: it keeps no owner.
        self.release(v, ("V", i, 0), i)
        self.push(v, (_BUILT[self.instrs[i].op.name], i, 1), i)
        return i + 1, v

    def change(self, i: int, v: Values) -> tuple[int, Values]:
        return self.changed(i, v, self.instrs[i].op.pops, "")

    def changed(self, i: int, v: Values, kinds: tuple[str, ...], result: str) -> tuple[int, Values]:
        """A change of the first operand, which is the result too, of kind ``result`` or its own."""
        depth = 0
        for kind in reversed(kinds[1:]):
            x = self.pop(v, kind, i)
            self.release(v, x, i)
            depth = max(depth, x[2])
        target = self.pop(v, kinds[0], i)
        owner = target[1]
        if owner is None:
            raise self.fail("owner", "the container was not made here, or is shared by now", i)
        depth = max(target[2], depth + 1)
        if depth > target[2]:
            self.spend(len(v) >> 4, i)
            for at, y in enumerate(v):
                if y is not None and y[1] == owner:
                    v[at] = (y[0], owner, max(y[2], depth))
        self.push(v, (result or target[0], owner, depth), i)
        return i + 1, v

    def call(self, i: int, v: Values) -> tuple[int, Values]:
        number = self.instrs[i].a
        callee = self.tables.functions[number]
        depth = 0
        for kind in reversed(callee.locals[: callee.params]):
            x = self.pop(v, kind, i)
            self.release(v, x, i)
            depth = max(depth, x[2])
        signature = self.tables.signatures[number]
        self.deepen(depth + signature.inner_depth, i)
        result = 0 if callee.result in _ATOMS else depth + signature.result_depth
        self.push(v, (callee.result, None, result), i)
        return i + 1, v

    def cell(self, i: int, v: Values) -> tuple[int, Values]:
        signature = self.tables.signatures[self.tables.cells[self.instrs[i].a]]
        self.deepen(signature.inner_depth, i)
        self.push(v, ("V", None, signature.result_depth), i)
        return i + 1, v

    def scoped(self, i: int, v: Values) -> tuple[int, Values]:
        """The map's parts become part of a root: what they are made of here has to be counted now, as the function
        cannot tell it from what the request brought. Its value is counted when it comes back (``vm.fuel.settle``)."""
        number = self.instrs[i].a
        callee = self.tables.functions[number]
        if callee.params or (callee.result == "O") != (self.instrs[i].op.name == "o_scoped"):
            raise self.fail("kind", f"function {callee.name} is not of the kind called for", i)
        x = self.pop(v, "M", i)
        self.release(v, x, i)
        if x[2] > 1:
            self.measured[i] = (0,)
        signature = self.tables.signatures[number]
        self.deepen(x[2] + signature.inner_depth, i)
        self.push(v, _PLAIN[self.instrs[i].op.pushes[0]], i)
        return i + 1, v

    def invoke(self, i: int, v: Values) -> tuple[int, Values]:
        entry = self.tables.imports[self.instrs[i].a]
        if entry.changes:
            return self.changed(i, v, entry.params, entry.result)
        depth = 0
        built = []
        for n in range(len(entry.params) - 1, -1, -1):
            x = self.pop(v, entry.params[n], i)
            self.release(v, x, i)
            if x[2]:
                built.append(n)
                depth = max(depth, x[2])
        if built and not entry.metered:
            self.measured[i] = tuple(sorted({*built, *self.measured.get(i, ())}))
        if entry.wraps:
            depth += 1
        self.push(v, (entry.result, None, 0 if entry.result in _ATOMS else depth), i)
        return i + 1, v

    def concat(self, i: int, v: Values) -> tuple[int, Values]:
        for _ in range(self.instrs[i].a):
            self.pop(v, "S", i)
        self.push(v, _PLAIN["S"], i)
        return i + 1, v

    def pop_top(self, i: int, v: Values) -> tuple[int, Values]:
        self.pop(v, "V", i)
        return i + 1, v

    # control

    def ret(self, i: int, v: Values) -> tuple[int, None]:
        x = self.pop(v, self.fn.result, i)
        self.result_depth = max(self.result_depth, x[2])
        if len(v) > self.nlocals:
            self.drops[i] = len(v) - self.nlocals
        return i + 1, None

    def branch(self, i: int, v: Values) -> tuple[int, Values | None]:
        arity = self.instrs[i].a
        self.pop(v, "B", i)
        self.spend(len(v) >> 4, i)
        outer, self.floor = self.floor, len(v)
        other: Values | None = v.copy()
        j, then = self.block(i + 1, v)
        self.arm(j, then, arity)
        if self.instrs[j].op.name == "else":
            j, other = self.block(j + 1, other)
            self.arm(j, other, arity)
        elif arity:
            raise self.fail("control", "an if that leaves a value needs an else", i)
        self.floor = outer
        return j + 1, self.join(then, other, j)

    def arm(self, at: int, v: Values | None, arity: int) -> None:
        if v is not None and len(v) != self.floor + arity:
            raise self.fail("height", f"the arm leaves {len(v) - self.floor} values, not {arity}", at)

    def each(self, i: int, v: Values) -> tuple[int, Values]:
        ins = self.instrs[i]
        name = ins.op.name
        over = self.pop(v, ins.op.pops[0], i)
        self.release(v, over, i)
        inner: Abstract = ("V", None, over[2] - 1 if over[2] else 0)
        binds: list[tuple[int, Abstract]]
        match name:
            case "each":
                binds = [(ins.a, inner)]
            case "each_index":
                binds = [(ins.a, inner), (ins.b, _PLAIN["I"])]
            case _:
                binds = [(ins.a, _PLAIN["S"]), (ins.b, inner)]
        slots = tuple(slot for slot, _ in binds)
        if len(set(slots)) != len(slots) or any(s in self.bound for s in slots):
            raise self.fail("slot", "a local is bound twice", i)
        for slot, x in binds:
            if not kind_le(x[0], self.fn.locals[slot]):
                raise self.fail("kind", f"binds {x[0]} to a local of kind {self.fn.locals[slot]}", i)
        outer, self.floor = self.floor, len(v)
        self.bound.extend(slots)
        # A loop within a loop begins where its last run ended: what holds only ever becomes less, so that all rounds of
        # all loops together are bounded, not their product.
        known = self.join(v, self.heads.get(i), i)
        assert known is not None
        head = known
        for _ in range(_ROUNDS):
            self.spend(self.partner[i] - i + (len(v) >> 3), i)
            loop = _Loop(i, len(v), slots)
            self.loops.append(loop)
            body = head.copy()
            for slot, x in binds:
                body[slot] = (self.fn.locals[slot], None, x[2])
            j, out = self.block(i + 1, body)
            self.arm(j, out, 0)
            self.loops.pop()
            known = head
            for back in (*loop.nexts, out):
                joined = self.join(known, back, i)
                assert joined is not None
                known = joined
            if known == head:
                break
            head = known
        else:
            raise self.fail("depth", "a value grows with each round of the loop", i)
        self.heads[i] = head.copy()
        del self.bound[-len(slots) :]
        self.floor = outer
        after: Values | None = head
        for left in loop.breaks:
            after = self.join(after, left, j)
        assert after is not None
        return j + 1, after

    def leave(self, i: int, v: Values) -> tuple[int, None]:
        loop = self.loops[-1]
        self.drops[i] = len(v) - loop.height
        del v[loop.height :]
        (loop.breaks if self.instrs[i].op.name == "break" else loop.nexts).append(v)
        return i + 1, None

    def nop(self, i: int, v: Values) -> tuple[int, Values]:
        return i + 1, v

    # meeting paths

    def join(self, a: Values | None, b: Values | None, at: int) -> Values | None:
        """What holds on both of two paths that meet at an instruction."""
        if a is None or b is None or a == b:
            return b if a is None else a
        out = a.copy()
        for place, (x, y) in enumerate(zip(a, b, strict=True)):
            if x is y or x is None or x == y:
                continue
            if y is None:
                out[place] = None
                continue
            kind = kind_join(x[0], y[0])
            if kind is None:
                raise self.fail("kind", f"{x[0]} and {y[0]} meet", at)
            out[place] = (kind, None, max(x[2], y[2]))
        if self.builds:
            self.join_owners(a, b, out, at)
        return out

    def join_owners(self, a: Values, b: Values, out: Values, at: int) -> None:
        """An owner outlives a meeting when the same places hold its container on both paths, and no others."""
        pairs: dict[tuple[int | None, int | None], list[int]] = {}
        for place, (x, y, z) in enumerate(zip(a, b, out, strict=True)):
            if x is not None and y is not None and z is not None and (x[1] is not None or y[1] is not None):
                pairs.setdefault((x[1], y[1]), []).append(place)
        taken = {p for pair in pairs for p in pair if p is not None}
        lefts = Counter(left for left, _ in pairs)
        rights = Counter(right for _, right in pairs)
        for (left, right), places in pairs.items():
            owner: int | None = None
            if left is not None and right is not None and lefts[left] == rights[right] == 1:
                if left == right:
                    owner = left
                else:
                    fresh = -(at * 8192 + places[0] + 1)
                    owner = fresh if fresh not in taken or fresh in (left, right) else None
            for place in places:
                z = out[place]
                assert z is not None
                out[place] = (z[0], owner, z[2])


_SPECIAL: Final[dict[str, Callable[[Flow, int, Values], tuple[int, Values | None]]]] = {
    "nop": Flow.nop,
    "local_get": Flow.local_get,
    "set": Flow.set,
    "tee": Flow.set,
    "pop": Flow.pop_top,
    "new_list": Flow.built,
    "new_map": Flow.built,
    "append": Flow.change,
    "put": Flow.change,
    "put_key": Flow.change,
    "call": Flow.call,
    "cell": Flow.cell,
    "scoped": Flow.scoped,
    "o_scoped": Flow.scoped,
    "invoke": Flow.invoke,
    "concat": Flow.concat,
    "ret": Flow.ret,
    "if": Flow.branch,
    "each": Flow.each,
    "each_index": Flow.each,
    "each_pair": Flow.each,
    "break": Flow.leave,
    "next": Flow.leave,
}
