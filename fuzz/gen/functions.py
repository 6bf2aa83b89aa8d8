"""Whole IR modules by chance: well-kinded code over a small root, with loops, blocks and calls, for the passes.

Typed by construction, so that almost every module checks and verifies; made from a plain random source, as a property
library would spend its time on the tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from compiler.ir.ops import (
    And,
    Block,
    Break,
    Call,
    Choose,
    Const,
    Do,
    Each,
    EachPair,
    Expr,
    Function,
    If,
    Invoke,
    KindKey,
    Load,
    Local,
    MatchKey,
    Module,
    Next,
    Op,
    Or,
    Policy,
    Return,
    Rule,
    Set,
    Stmt,
)

ROOT: Final[dict[str, Any]] = {
    "a": {"b": {"c": [1, "x", {"b": True}], "a": ""}, "c": None},
    "b": [1, 1.0, True, "1", [], {}, None, {"a": 1, "b": [2]}],
    "c": "text",
    "$operation": "CREATE",
    "$kind": ["", "v1", "Pod", ""],
}
_KEYS: Final = ("a", "b", "c", "d")
_CONSTANTS: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    1,
    2,
    1.0,
    0.5,
    "",
    "a",
    "x",
    "1",
    [],
    [1],
    [True],
    {},
    {"a": 1},
    {"b": []},
)
_PATTERNS: Final = ("?*", "x", "!1", ">0", "1-5", 1, True, None, 0.5)
_TESTS: Final = (
    *(
        "is_true",
        "is_false",
        "is_missing",
        "is_null",
        "is_absent",
        "is_err",
        "is_list",
        "is_map",
        "is_text",
        "is_empty",
    ),
    "j_truthy",
)
_KINDS: Final = "VVVBBSLIM"


def modules(rng: Random) -> Module:
    """A module of one rule whose entry calls a helper or two."""
    helpers = [
        _Maker(rng, f"h{n}", params="VB"[: rng.randrange(3)], result=rng.choice("VBS"), callees=[]).function()
        for n in range(rng.randrange(3))
    ]
    if helpers and rng.randrange(3) == 0:
        helpers.append(replace(helpers[0], name="twin"))
    entry = _Maker(rng, "entry", params="", result="O", callees=helpers).function()
    rule = Rule("r", "entry", "validate", (MatchKey(KindKey("*", "*", "*", "*")),), {})
    return Module((entry, *helpers), (Policy("p", None, (rule,), {}),))


class _Maker:
    """Makes one function. ``known`` holds the locals that are set on every way to the place that is being made."""

    def __init__(self, rng: Random, name: str, *, params: str, result: str, callees: list[Function]) -> None:
        self.rng = rng
        self.name = name
        self.result = result
        self.callees = callees
        self.params = tuple(f"p{i}" for i in range(len(params)))
        self.locals = dict(zip(self.params, params, strict=True))
        self.known = set(self.params)
        self.bound: set[str] = set()
        self.loops = 0
        self.budget = rng.randrange(10, 70)

    def function(self) -> Function:
        body = (*self.body(0), self.leave())
        role = "entry" if self.result == "O" else "helper"
        return Function(self.name, self.params, self.locals, body, self.result, 0, role)

    def leave(self) -> Stmt:
        if self.result != "O":
            return Return(self.expr(self.result, 2))
        return Return(Op("o_patch", (self.expr("V", 2), self.expr("S", 2))))

    def fresh(self, kind: str) -> str:
        name = f"l{len(self.locals)}"
        self.locals[name] = kind
        return name

    def body(self, depth: int) -> tuple[Stmt, ...]:
        stmts: list[Stmt] = []
        for _ in range(self.rng.randrange(4 if depth else 6)):
            self.budget -= 1
            if self.budget < 0:
                break
            stmts += self.stmts(depth)
            if isinstance(stmts[-1], Return | Break | Next):
                break
        return tuple(stmts)

    def stmts(self, depth: int) -> list[Stmt]:
        choice = self.rng.randrange(12)
        if depth >= 4 or choice < 4:
            return [self.set()]
        if choice < 6:
            return [self.branch(depth)]
        if choice == 6:
            return [self.guard()]
        if choice < 9:
            return [self.loop(depth)]
        if choice == 9:
            return self.gather(depth)
        if choice == 10 and self.loops:
            return [self.rng.choice((Break(), Next()))]
        return [self.leave()] if depth and self.rng.randrange(2) else [self.set()]

    def set(self) -> Stmt:
        free = [n for n in self.locals if n not in self.bound and n not in self.params and self.locals[n] != "O"]
        name = self.rng.choice(free) if free and self.rng.randrange(3) == 0 else self.fresh(self.rng.choice(_KINDS))
        stmt = Set(name, self.expr(self.locals[name], 3))
        self.known.add(name)
        return stmt

    def branch(self, depth: int) -> Stmt:
        cond = self.expr("B", 3)
        before = set(self.known)
        then = self.body(depth + 1)
        after = self.known
        self.known = set(before)
        other = self.body(depth + 1) if self.rng.randrange(2) else ()
        self.known = before | (after & self.known)
        return If(cond, then, other)

    def guard(self) -> Stmt:
        """A way out, most often behind a negation, as front ends write them."""
        before = set(self.known)
        cond = self.expr("B", 3)
        out = self.leave() if not self.loops or self.rng.randrange(2) else self.rng.choice((Break(), Next()))
        self.known = before
        return If(Op("not", (cond,)) if self.rng.randrange(4) else cond, (out,))

    def loop(self, depth: int) -> Stmt:
        pairs = self.rng.randrange(4) == 0
        over = self.expr("M" if pairs else "L", 2)
        names = [self.fresh("S"), self.fresh("V")] if pairs else [self.fresh("V")]
        if not pairs and self.rng.randrange(3) == 0:
            names.append(self.fresh("I"))
        before = set(self.known)
        self.known |= set(names)
        self.bound |= set(names)
        self.loops += 1
        body = self.body(depth + 1)
        self.loops -= 1
        self.bound -= set(names)
        self.known = before
        if pairs:
            return EachPair(names[0], names[1], over, body)
        return Each(names[0], over, body, names[1] if len(names) > 1 else None)

    def gather(self, depth: int) -> list[Stmt]:
        """A list that is filled in a loop, and a value that holds it."""
        name, item, copy = self.fresh("L"), self.fresh("V"), self.fresh("V")
        self.bound.add(name)  # nothing else may be stored in it
        made: list[Stmt] = [Set(name, Op("new_list"))]
        over = self.expr("L", 2)
        before = set(self.known)
        self.known |= {item}
        self.bound.add(item)
        inner = Do(Op("append", (Local(name), self.expr("V", 2))))
        made.append(Each(item, over, (If(self.expr("B", 2), (inner,)),)))
        self.bound.discard(item)
        self.known = before | {copy}
        made.append(Set(copy, Local(name)))
        return made

    # expressions

    def expr(self, kind: str, depth: int) -> Expr:
        rng = self.rng
        self.budget -= 1
        local = [n for n in self.known if self.locals[n] == kind or (kind == "V" and self.locals[n] != "O")]
        if local and rng.randrange(3) == 0:
            return Local(rng.choice(sorted(local)))
        if depth <= 0 or self.budget < 0:
            return self.leaf(kind)
        if rng.randrange(8) == 0:
            before = set(self.known)
            cond = self.expr("B", depth - 1)
            base = set(self.known)
            then = self.expr(kind, depth - 1)
            self.known = set(base)
            other = self.expr(kind, depth - 1)
            self.known = before
            return Choose(cond, then, other)
        if rng.randrange(9) == 0:
            before = set(self.known)
            stmt = self.set()
            value = self.expr(kind, depth - 1)
            self.known = before
            return Block((stmt,), value)
        fitting = [f for f in self.callees if f.result == kind]
        if fitting and rng.randrange(3) == 0:
            callee = rng.choice(fitting)
            return Call(callee.name, tuple(self.expr(callee.locals[p], depth - 1) for p in callee.params))
        make: dict[str, Callable[[int], Expr]] = {
            "B": self.truth,
            "V": self.value,
            "S": self.text,
            "I": self.number,
            "L": lambda d: Op("as_list", (self.expr("V", d),)),
            "M": lambda d: Op("as_map", (self.expr("V", d),)),
        }
        return make[kind](depth - 1)

    def leaf(self, kind: str) -> Expr:
        rng = self.rng
        match kind:
            case "B":
                return Const(rng.randrange(2) == 0)
            case "S":
                return Const(rng.choice(("", "a", "x")))
            case "I":
                return Const(rng.randrange(-2, 3))
            case "L":
                return Const(rng.choice(([], [1, 1.0, True], ["x", None, {"a": []}])))
            case "M":
                return Const(rng.choice(({}, {"a": 1}, {"b": "x", "a": None})))
        if rng.randrange(3):
            steps = [rng.choice(_KEYS) for _ in range(rng.randrange(1, 4))]
            return Load(("$operation",) if rng.randrange(8) == 0 else tuple(steps))
        return Const(rng.choice(_CONSTANTS))

    def truth(self, depth: int) -> Expr:
        rng = self.rng
        match rng.randrange(8):
            case 0:
                return Op("not", (self.expr("B", depth),))
            case 1 | 2:
                # What a term sets may not be read behind it: only the first surely runs.
                before = set(self.known)
                terms = []
                for _ in range(rng.randrange(4)):
                    terms.append(self.expr("B", depth))
                    self.known = set(before)
                return And(tuple(terms)) if rng.randrange(2) else Or(tuple(terms))
            case 3:
                return Op("equal", (self.expr("V", depth), self.expr("V", depth)))
            case 4:
                name = rng.choice(("p_leaf", "p_scalar"))
                return Op(name, (self.expr("V", depth),), (rng.choice(_PATTERNS),))
            case 5:
                return Op("less", (self.expr("I", depth), self.expr("I", depth)))
        return Op(rng.choice(_TESTS), (self.expr("V", depth),))

    def value(self, depth: int) -> Expr:
        rng = self.rng
        match rng.randrange(9):
            case 0 | 1 | 2:
                return Op(rng.choice(("get", "j_field")), (self.expr("V", depth),), (rng.choice(_KEYS),))
            case 3:
                return Op(rng.choice(("index", "j_index")), (self.expr("V", depth), self.expr("I", depth)))
            case 4:
                return Op(rng.choice(("absent_null", "j_found")), (self.expr("V", depth),))
            case 5:
                return Invoke(rng.choice(("jmes.flatten", "jmes.compact")), (self.expr("V", depth),))
        return self.expr(rng.choice("BSILM"), depth) if rng.randrange(3) == 0 else self.leaf("V")

    def text(self, depth: int) -> Expr:
        if self.rng.randrange(3):
            return Op(self.rng.choice(("as_text", "to_text")), (self.expr("V", depth),))
        parts = tuple(self.expr("S", depth) for _ in range(self.rng.randrange(4)))
        return Op("concat", parts, (len(parts),))

    def number(self, depth: int) -> Expr:
        return Op("length", (self.expr("V", depth),))
