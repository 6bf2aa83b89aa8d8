"""Small modules of random bytecode, and random changes to them.

:func:`module` is type-directed: nearly all it makes verifies, so it reaches deep into the tiers. :func:`mutate` is its
untyped twin: it damages a module anywhere, and most of what it makes is refused. Both take a seeded ``random.Random``;
nothing else is random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from vm.code import (
    CodeObject,
    CodeSpan,
    Debug,
    Exemption,
    Import,
    KindKey,
    MatchKey,
    Module,
    Policy,
    Rule,
    SourceFile,
    build_index,
    uleb,
)
from vm.functions import INTRINSICS
from vm.host import Imports, Meter
from vm.isa import BY_NAME, OPS
from vm.values import Err, Value

KEYS: Final = ("request", "object", "spec", "containers", "image", "name", "labels", "")
CONSTANTS: Final[tuple[Value, ...]] = (
    *KEYS,
    0,
    1,
    -1,
    1.0,
    2**70,
    True,
    [],
    {},
    [1, "a", [None]],
    {"image": "nginx:latest", "name": None},
    Err("not_found", "nothing there"),
    "not_found",
)
FEW_CONSTANTS: Final[tuple[Value, ...]] = (*KEYS, 0, -1, [1], "not_found")
PATHS: Final = (("request",), ("request", "object"), ("request", "object", "spec", "containers"), ("labels", "a"))
PATTERNS: Final[tuple[Any, ...]] = (
    ["?*", [[["=", "?*"]]]],
    ["!*:latest", [[["!", "*:latest"]]]],
    [True],
    [1],
    [">=10Mi", [[[">=", "10Mi"]]]],
)
INVOKED: Final = tuple(sorted(name for name, entry in INTRINSICS.items() if entry.pure and "*" not in entry.params))
"""All intrinsics whose answer depends on their operands only."""


def lent() -> Imports:
    """Services of the embedding for code that asks for texts formed at run time: none of them, each an error value."""

    def substitute(text: str, root: Any, meter: Meter) -> Value:
        return Err("substitution", text)

    return Imports(substitute, lambda text: Err("syntax", text), lambda text: Err("syntax", text))


def root(rng: Random) -> dict[str, Any]:
    """A root whose paths sometimes exist."""
    containers = [
        {k: value(rng, 2) for k in ("image", "name", "labels") if rng.random() < 0.8} for _ in range(rng.randrange(5))
    ]
    spec: Any = {"containers": containers} if rng.random() < 0.8 else value(rng, 2)
    return {"request": {"object": {"spec": spec, "name": value(rng, 1)}}, "labels": value(rng, 2)}


def value(rng: Random, depth: int) -> Value:
    """A JSON value with keys of :data:`KEYS`."""
    n = rng.randrange(10 if depth else 7)
    match n:
        case 0:
            return None
        case 1:
            return rng.random() < 0.5
        case 2:
            return rng.choice((0, 1, -3, 7, 10**20))
        case 3:
            return rng.choice((0.0, 1.0, 2.5))
        case 4 | 5 | 6:
            return rng.choice(("", "a", "nginx:latest", "10Mi", "image", "spec"))
        case 7:
            return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
        case _:
            return {rng.choice(KEYS): value(rng, depth - 1) for _ in range(rng.randrange(4))}


class _Function:
    """Writes one function; what a local may hold is known at every point, so that most of the code verifies."""

    def __init__(
        self,
        rng: Random,
        made: list[CodeObject],
        cells: list[int],
        imports: list[str],
        params: str = "",
        *,
        awaits: bool = False,
        size: int = 40,
        tables: tuple[Sequence[Any], int, int] = (CONSTANTS, len(PATHS), len(PATTERNS)),
    ) -> None:
        self.rng = rng
        self.made = made
        self.cells = cells
        self.imports = imports
        self.awaits = awaits
        self.constants, self.paths, self.patterns = tables
        self.locals = params + "VVBILMSLM"
        self.params = len(params)
        self.defined = set(range(self.params))
        self.owned: set[int] = set()
        self.bound: set[int] = set()
        self.loops = 0
        self.budget = rng.randrange(size // 4, size)
        self.out = bytearray()

    def op(self, name: str, *imm: int) -> None:
        self.out.append(BY_NAME[name].number)
        for n in imm:
            self.out += uleb(n)

    def key(self) -> int:
        return self.rng.randrange(len(KEYS))

    def slots(self, kinds: str) -> list[int]:
        return [i for i in self.defined if self.locals[i] in kinds]

    # expressions

    def expr(self, kind: str, depth: int = 3) -> None:
        rng = self.rng
        self.budget -= 1
        if self.budget < 0:
            depth = 0
        slots = self.slots(kind)
        if slots and rng.random() < 0.3:
            self.op("local", rng.choice(slots))
            return
        if depth and rng.random() < 0.12:
            self.expr("B", depth - 1)
            self.op("if", 1)
            self.expr(kind, depth - 1)
            self.op("else")
            self.expr(kind, depth - 1)
            self.op("end")
            return
        calls = [i for i, f in enumerate(self.made) if f.result == kind]
        if calls and depth and rng.random() < 0.15:
            callee = rng.choice(calls)
            for k in self.made[callee].locals[: self.made[callee].params]:
                self.expr(k, depth - 1)
            self.op("call", callee)
            return
        getattr(self, f"expr_{kind}")(depth)

    def unary(self, name: str, kind: str, depth: int, *imm: int) -> None:
        self.expr(kind, max(0, depth - 1))
        self.op(name, *imm)

    def expr_B(self, depth: int) -> None:
        rng = self.rng
        if not depth:
            self.op(rng.choice(("true", "false")))
            return
        match rng.randrange(8):
            case 0:
                self.unary("not", "B", depth)
            case 1:
                self.expr("V", depth - 1)
                self.expr("V", depth - 1)
                self.op("equal")
            case 2:
                self.expr("I", depth - 1)
                self.expr("I", depth - 1)
                self.op("less")
            case 3 | 4:
                self.unary(rng.choice(("p_leaf", "p_scalar")), "V", depth, rng.randrange(self.patterns))
            case 5 if self.cells and rng.random() < 0.5:
                self.op("reset", rng.randrange(len(self.cells)))
            case 5:
                self.unary("err_code", "V", depth, self.constants.index("not_found"))
            case _:
                tests = [o.name for o in OPS if o.pushes == ("B",) and o.pops == ("V",) and not o.imm]
                self.unary(rng.choice(tests), "V", depth)

    def expr_V(self, depth: int) -> None:
        rng = self.rng
        n = rng.randrange(16 if depth else 4)
        match n:
            case 0:
                self.op("const", rng.randrange(len(self.constants)))
            case 1:
                self.op(rng.choice(("path", "j_path")), rng.randrange(self.paths))
            case 2:
                self.op(rng.choice(("null", "missing", "j_root")))
            case 3:
                slots = sorted(self.defined)
                if slots:
                    self.op("local_get", rng.choice(slots), self.key())
                else:
                    self.op("null")
            case 4 | 5:
                self.unary(rng.choice(("get", "j_field")), "V", depth, self.key())
            case 6:
                self.expr("V", depth - 1)
                self.expr("I", depth - 1)
                self.op(rng.choice(("index", "j_index")))
            case 7:
                self.unary(rng.choice(("absent_null", "j_found")), "V", depth)
            case 8 | 9:
                name = rng.randrange(len(self.imports))
                entry = INTRINSICS[self.imports[name]]
                for k in entry.params:
                    self.expr(k, depth - 1)
                self.op("invoke", name)
            case 10 if self.cells:
                self.op("cell", rng.choice(range(len(self.cells))))
            case 11 if self.awaits:
                self.expr("V", depth - 1)
                self.op("await", rng.randrange(4))
            case 12 if callees := self.callees("VBISLM"):
                self.expr("M", depth - 1)
                self.op("scoped", rng.choice(callees))
            case _:
                self.expr(rng.choice("BISLM"), depth - 1)

    def callees(self, results: str) -> list[int]:
        """Functions before this one that can run on another root."""
        return [i for i, f in enumerate(self.made) if not f.params and f.result in results and f.role == "helper"]

    def expr_I(self, depth: int) -> None:
        if depth and self.rng.random() < 0.2:
            self.unary("o_status", "O", depth)
        elif depth:
            self.unary("length", "V", depth)
        else:
            self.op("const", self.rng.choice([i for i, c in enumerate(self.constants) if type(c) is int]))

    def expr_S(self, depth: int) -> None:
        match self.rng.randrange(4 if depth else 1):
            case 0:
                self.op("const", self.key())
            case 1:
                self.unary("as_text", "V", depth)
            case 2:
                self.unary("to_text", "V", depth)
            case _:
                n = self.rng.randrange(4)
                for _ in range(n):
                    self.expr("S", depth - 1)
                self.op("concat", n)

    def expr_L(self, depth: int) -> None:
        if depth and self.rng.random() < 0.6:
            self.unary("as_list", "V", depth)
            return
        self.op("new_list")
        for _ in range(self.rng.randrange(3)):
            self.expr("V", max(0, depth - 1))
            self.op("append")

    def expr_M(self, depth: int) -> None:
        if depth and self.rng.random() < 0.6:
            self.unary("as_map", "V", depth)
            return
        self.op("new_map")
        for _ in range(self.rng.randrange(3)):
            if self.rng.random() < 0.5:
                self.expr("V", max(0, depth - 1))
                self.op("put", self.key())
            else:
                self.expr("S", max(0, depth - 1))
                self.expr("V", max(0, depth - 1))
                self.op("put_key")

    def expr_O(self, depth: int) -> None:
        callees = self.callees("O")
        if depth and callees and self.rng.random() < 0.3:
            self.expr("M", depth - 1)
            self.op("o_scoped", self.rng.choice(callees))
            return
        if depth and self.rng.random() < 0.1:
            self.expr("S", depth - 1)
            self.expr("O", depth - 1)
            self.op("o_prefixed")
            return
        name = self.rng.choice(("o_pass", "o_none", "o_fail", "o_skip", "o_error", "o_patch", "o_pass_text"))
        if name == "o_patch":
            self.expr("V", depth)
        if BY_NAME[name].pops:
            self.expr("S", depth)
        self.op(name)

    # statements

    def body(self, result: str, depth: int) -> None:
        """Statements; may end early by leaving the block."""
        for _ in range(self.rng.randrange(1, 4)):
            if self.budget < 0:
                break
            if not self.stmt(result, depth):
                return

    def stmt(self, result: str, depth: int) -> bool:
        rng = self.rng
        n = rng.randrange(14)
        if n < 4:
            free = [i for i in range(len(self.locals)) if i not in self.bound]
            slot = rng.choice(free)
            self.expr(self.locals[slot])
            self.op(*(("set", slot) if rng.random() < 0.8 else ("tee", slot)))
            if self.out[-2] == BY_NAME["tee"].number:
                self.op("pop")
            self.defined.add(slot)
            self.owned.discard(slot)
        elif n < 5:
            slot = rng.choice([i for i in range(len(self.locals)) if self.locals[i] in "LM" and i not in self.bound])
            self.op("new_list" if self.locals[slot] == "L" else "new_map")
            self.op("set", slot)
            self.defined.add(slot)
            self.owned.add(slot)
        elif n < 7 and self.owned & self.defined and rng.random() < 0.25:
            self.share()
        elif n < 7 and self.owned & self.defined:
            slot = rng.choice(sorted(self.owned & self.defined))
            self.op("local", slot)
            self.expr("V")
            self.op(*(("append",) if self.locals[slot] == "L" else ("put", self.key())))
            self.op("pop")
        elif n < 9 and depth:
            self.expr("B")
            self.op("if", 0)
            self.nested(result, depth)
            if rng.random() < 0.5:
                self.op("else")
                self.nested(result, depth)
            self.op("end")
        elif n < 12 and depth:
            self.loop(result, depth)
        elif n == 12 and self.loops:
            self.op(rng.choice(("break", "next")))
            return False
        elif n == 13 and rng.random() < 0.5:
            self.expr(result)
            self.op("ret")
            return False
        else:
            self.expr("V")
            self.op("pop")
        return True

    def share(self) -> None:
        """Puts a container made here into one made here, perhaps itself, or goes over one that it changes: what the
        verifier must see through."""
        rng = self.rng
        slot, other = (rng.choice(sorted(self.owned & self.defined)) for _ in range(2))
        free = [i for i in range(len(self.locals)) if self.locals[i] == "V" and i not in self.bound]
        if self.locals[other] == "L" and free and rng.random() < 0.3:
            self.op("local", other)
            self.op("each", free[0])
            self.change(slot, other)
            self.op("end")
        else:
            self.change(slot, other)
        if rng.random() < 0.3:
            self.op("local", slot)
            self.op("to_text")
            self.op("pop")

    def change(self, slot: int, value: int) -> None:
        self.op("local", slot)
        self.op("local", value)
        self.op(*(("append",) if self.locals[slot] == "L" else ("put", self.key())))
        self.op("pop")

    def nested(self, result: str, depth: int) -> None:
        defined, owned = set(self.defined), set(self.owned)
        self.body(result, depth - 1)
        self.defined, self.owned = defined, owned & self.owned

    def loop(self, result: str, depth: int) -> None:
        rng = self.rng
        free = {k: [i for i in range(len(self.locals)) if self.locals[i] == k and i not in self.bound] for k in "VIS"}
        kind = rng.choice(("each", "each_index", "each_pair"))
        if not free["V"] or (kind == "each_index" and not free["I"]) or (kind == "each_pair" and not free["S"]):
            self.op("nop")
            return
        item = rng.choice(free["V"])
        slots = {
            "each": (item,),
            "each_index": (item, (free["I"] or [0])[0]),
            "each_pair": ((free["S"] or [0])[0], item),
        }[kind]
        self.expr("M" if kind == "each_pair" else "L")
        self.op(kind, *slots)
        defined, bound, owned = set(self.defined), set(self.bound), set(self.owned)
        self.defined |= set(slots)
        self.bound |= set(slots)
        self.loops += 1
        self.body(result, depth - 1)
        self.loops -= 1
        self.op("end")
        self.defined, self.bound, self.owned = defined, bound, owned & self.owned

    def last(self, result: str) -> None:
        """A way out on every path: one ``ret``, or one in each arm of an ``if``."""
        if self.rng.random() < 0.3:
            self.expr("B", 1)
            self.op("if", 0)
            self.last(result)
            self.op("else")
            self.last(result)
            self.op("end")
        else:
            self.expr(result, 1)
            self.op("ret")

    def finish(self, name: str, result: str, role: str) -> CodeObject:
        for _ in range(self.rng.randrange(1, 5)):
            if not self.stmt(result, 3):
                break
        else:
            self.last(result)
        return CodeObject(name, self.params, self.locals, result, bytes(self.out), 64, role=role)


def module(rng: Random) -> Module:
    """A module with helpers, cells (one of them may ask the host), rules and an exception."""
    made: list[CodeObject] = []
    cells: list[int] = []
    imports = rng.sample(INVOKED, 5)
    for n in range(rng.randrange(3)):
        params = "".join(rng.choice("VSBL") for _ in range(rng.randrange(3)))
        made.append(_Function(rng, made, cells, imports, params).finish(f"h{n}", rng.choice("VBSO"), "helper"))
    for n in range(rng.randrange(3)):
        made.append(_Function(rng, made, cells, imports, awaits=True).finish(f"c{n}", "V", "cell"))
        cells.append(len(made) - 1)
    if rng.random() < 0.5:  # what runs for each element of a loop, and reads cells
        made.append(_Function(rng, made, cells, imports).finish("e", rng.choice("VO"), "helper"))
    rules: list[Rule] = []
    for n in range(rng.randrange(1, 3)):
        made.append(_Function(rng, made, cells, imports).finish(f"r{n}", "O", "entry"))
        rules.append(Rule(f"r{n}", len(made) - 1, rng.choice(("validate", "mutate")), _keys(rng), {"n": n}))
    made.append(_Function(rng, made, cells, imports).finish("x", "B", "exception"))
    policies = (Policy("p", rng.choice((None, "ns")), tuple(rules), {"action": "Audit"}),)
    spans = tuple((CodeSpan(0, 0, 1 + n, 1),) for n in range(len(made)))
    return Module(
        constants=CONSTANTS,
        paths=PATHS,
        patterns=PATTERNS,
        imports=tuple(Import(name, INTRINSICS[name].version) for name in imports),
        functions=tuple(made),
        cells=tuple(cells),
        policies=policies,
        exemptions=(Exemption("x", "ns", ((None, "r*"),), len(made) - 1),),
        index=build_index(policies),
        debug=Debug((SourceFile("policy.yaml", tuple((1 + n, f"line {n}") for n in range(len(made)))),), spans),
    )


def small_module(rng: Random) -> Module:
    """A module of two or three short functions and no debug part: cheap to read and verify, for mutation in bulk."""
    made: list[CodeObject] = []
    cells: list[int] = []
    imports = rng.sample(INVOKED, 2)
    tables = (FEW_CONSTANTS, 2, 2)
    if rng.random() < 0.3:
        made.append(_Function(rng, made, cells, imports, awaits=True, size=8, tables=tables).finish("c", "V", "cell"))
        cells.append(0)
    elif rng.random() < 0.6:
        made.append(
            _Function(rng, made, cells, imports, "V", size=8, tables=tables).finish("h", rng.choice("VB"), "helper")
        )
    made.append(_Function(rng, made, cells, imports, size=14, tables=tables).finish("r", "O", "entry"))
    policies = (Policy("p", None, (Rule("r", len(made) - 1, "validate", _keys(rng)[:1]),)),)
    return Module(
        constants=FEW_CONSTANTS,
        paths=PATHS[:2],
        patterns=PATTERNS[:2],
        imports=tuple(Import(name, INTRINSICS[name].version) for name in imports),
        functions=tuple(made),
        cells=tuple(cells),
        policies=policies,
        index=build_index(policies),
    )


def _keys(rng: Random) -> tuple[MatchKey, ...]:
    kinds = (KindKey("", "v1", "Pod", ""), KindKey("apps", "*", "Deployment", ""), KindKey("*", "*", "*", "*"))
    return tuple(
        MatchKey(kind, rng.choice(((), ("CREATE",), ("CREATE", "UPDATE")))) for kind in kinds if rng.random() < 0.5
    )


_SNIPPETS: Final = tuple(
    bytes([BY_NAME[name].number, *imm])
    for name, imm in (
        ("new_list", ()),
        ("new_map", ()),
        ("append", ()),
        ("put", (0,)),
        ("pop", ()),
        ("end", ()),
        ("else", ()),
        ("ret", ()),
        ("break", ()),
        ("next", ()),
        ("null", ()),
        ("true", ()),
        ("nop", ()),
        ("equal", ()),
        ("to_text", ()),
        ("as_list", ()),
        ("length", ()),
        ("local", (0,)),
        ("set", (0,)),
        ("tee", (1,)),
        ("each", (0,)),
        ("each_pair", (6, 0)),
        ("if", (0,)),
        ("if", (1,)),
        ("call", (0,)),
        ("cell", (0,)),
        ("await", (0,)),
        ("scoped", (0,)),
        ("o_scoped", (0,)),
        ("reset", (0,)),
        ("o_status", ()),
        ("o_prefixed", ()),
        ("o_pass", ()),
        ("concat", (2,)),
    )
)


def mutate(rng: Random, m: Module) -> Module:
    """One to three random changes, most of them to code."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        m = _change(rng, m)
    return m


def _change(rng: Random, m: Module) -> Module:
    n = rng.randrange(len(m.functions))
    fn = m.functions[n]
    kind = rng.randrange(20)
    if kind < 15:
        code = bytearray(fn.code)
        at = rng.randrange(len(code) + 1)
        match kind:
            case 0 | 1 | 2:
                code[at : at + 1] = bytes([rng.choice(OPS).number])
            case 3 | 4 | 5:
                code[at : at + 1] = bytes([rng.randrange(12)])
            case 6 | 7:
                code[at:at] = rng.choice(_SNIPPETS)
            case 8:
                del code[at : at + rng.randrange(1, 4)]
            case 9:
                code[at : at + 1] = bytes([rng.randrange(256)])
            case 10:
                other = rng.choice(m.functions).code
                start = rng.randrange(len(other) + 1)
                code[at:at] = other[start : start + rng.randrange(1, 12)]
            case 11:
                code[at:at] = b"".join(rng.choices(_SNIPPETS, k=rng.randrange(1, 5)))
            case 12:
                code[at:at] = bytes([rng.choice(OPS).number, *(rng.randrange(10) for _ in range(rng.randrange(3)))])
            case 13:
                code[at : at + 1] = b"\xff" * rng.randrange(1, 6)
            case _:
                length = rng.randrange(1, 8)
                code[at : at + length], code[at:at] = b"", code[at : at + length]
        changed = replace(fn, code=bytes(code))
    elif kind < 17:
        kinds = list(fn.locals)
        kinds[rng.randrange(len(kinds))] = rng.choice("VBISLMEO")
        changed = replace(fn, locals="".join(kinds))
    elif kind == 17:
        changed = replace(fn, result=rng.choice("VBISLMEO"), params=rng.randrange(len(fn.locals)))
    elif kind == 18:
        changed = replace(fn, max_stack=rng.randrange(300))
    else:
        return replace(m, cells=(*m.cells, rng.randrange(len(m.functions) + 1)))
    return replace(m, functions=(*m.functions[:n], changed, *m.functions[n + 1 :]))
