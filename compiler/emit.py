"""IR to code objects: pools for constants, paths, patterns and imports, slots for locals, bytes for trees.

``emit`` is the last step before :mod:`compiler.bundle_writer`; it takes a module that :mod:`compiler.ir.check` has
passed. The same IR gives the same code: pools fill in order of first use, functions keep their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from compiler.ir import ops as ir
from compiler.ir.build import negate
from vm import code
from vm.functions import INTRINSICS
from vm.isa import BY_NAME, Imm
from vm.values import MISSING, canonical_key

_NUMBER: Final = {name: op.number for name, op in BY_NAME.items()}
_AND_AS_IFS: Final = 8
"""Longest conjunction that becomes nested ``if`` blocks; a longer one would come near the limit of nesting."""


class EmitError(Exception):
    """A function that does not fit the limits of the bytecode, with the pointer of the policy text it came from."""

    def __init__(self, function: str, detail: str, at: str | None = None, policy: int | None = None) -> None:
        super().__init__(f"{function}: {detail}")
        self.function = function
        self.detail = detail
        self.at = at
        self.policy = policy


@dataclass(slots=True)
class Pools:
    """The side tables of a module while they fill."""

    constants: dict[Any, int] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)
    paths: dict[tuple[str, ...], int] = field(default_factory=dict)
    patterns: dict[Any, int] = field(default_factory=dict)
    pattern_forms: list[Any] = field(default_factory=list)
    imports: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)
    cells: dict[str, int] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)

    def constant(self, value: Any) -> int:
        """Index of a constant; equal constants of one kind share it."""
        key = canonical_key(value)
        at = self.constants.setdefault(key, len(self.values))
        if at == len(self.values):
            self.values.append(value)
        return at

    def path(self, path: tuple[str, ...]) -> int:
        return self.paths.setdefault(path, len(self.paths))

    def pattern(self, source: Any) -> int:
        """Index of a scalar pattern given in source form: the text or value that stands in the policy."""
        key = canonical_key(source)
        at = self.patterns.get(key)
        if at is None:
            from compiler.frontends.pattern import compile_scalar

            at = self.patterns[key] = len(self.pattern_forms)
            self.pattern_forms.append(compile_scalar(source).to_json())
        return at

    def intrinsic(self, name: str) -> int:
        return self.imports.setdefault(name, len(self.imports))


class _FunctionEmitter:
    def __init__(self, fn: ir.Function, pools: Pools, parts: bool = False) -> None:
        self.fn = fn
        self.pools = pools
        self.parts = parts
        self.out = bytearray()
        self.slots = {name: i for i, name in enumerate(fn.locals)}
        self.height = 0
        self.max_stack = 0
        self.marks: list[tuple[int, str]] = []
        self.ready: str | None = None  # the local whose value already lies on the stack for the read that comes next

    def op(self, name: str, *immediates: int, pops: int = 0, pushes: int = 0) -> None:
        out = self.out
        out.append(_NUMBER[name])
        for n in immediates:
            if n < 0x80:
                out.append(n)
            else:
                out += code.uleb(n)
        self.height += pushes - pops
        if self.height > self.max_stack:
            self.max_stack = self.height

    def mark(self, at: str | None) -> None:
        if at is not None and (not self.marks or self.marks[-1][1] != at):
            if self.marks and self.marks[-1][0] == len(self.out):
                self.marks.pop()
            self.marks.append((len(self.out), at))

    # statements; each answers whether control may go on behind it

    def body(self, body: tuple[ir.Stmt, ...]) -> bool:
        for i, stmt in enumerate(body):
            following = body[i + 1] if i + 1 < len(body) else None
            if isinstance(stmt, ir.Set) and following is not None and _reads_first(following) == stmt.name:
                # The value stays on the stack for the statement behind, which begins with reading it.
                self.mark(stmt.at)
                self.expr(stmt.value)
                self.op("tee", self.slots[stmt.name])
                self.ready = stmt.name
            elif not self.stmt(stmt):
                return False
        return True

    def stmt(self, stmt: ir.Stmt) -> bool:
        match stmt:
            case ir.Set():
                self.mark(stmt.at)
                self.expr(stmt.value)
                self.op("set", self.slots[stmt.name], pops=1)
            case ir.Do():
                self.mark(stmt.at)
                self.expr(stmt.value)
                self.op("pop", pops=1)
            case ir.Return():
                self.mark(stmt.at)
                self.expr(stmt.value)
                self.op("ret", pops=1)
                return False
            case ir.If():
                self.mark(stmt.at)
                return self.branch(stmt)
            case ir.Each():
                self.mark(stmt.at)
                self.expr(stmt.over)
                slots = [self.slots[stmt.item]]
                if stmt.index is not None:
                    slots.append(self.slots[stmt.index])
                self.op("each" if len(slots) == 1 else "each_index", *slots, pops=1)
                self.body(stmt.body)
                self.op("end")
            case ir.EachPair():
                self.mark(stmt.at)
                self.expr(stmt.over)
                self.op("each_pair", self.slots[stmt.key], self.slots[stmt.value], pops=1)
                self.body(stmt.body)
                self.op("end")
            case ir.Break():
                self.op("break")
                return False
            case ir.Next():
                self.op("next")
                return False
        return True

    def branch(self, stmt: ir.If) -> bool:
        if not stmt.other and _short(stmt.then):
            # A way out this short is cheaper twice than a disjunction as a value.
            match stmt.cond:
                case ir.Or((_, _, *_) as found):
                    for term in found:
                        self.branch(ir.If(term, stmt.then))
                    return True
                case ir.Op("not", (ir.And((_, _, *_) as found),)):
                    for term in found:
                        self.branch(ir.If(negate(term), stmt.then))
                    return True
        terms: tuple[ir.Expr, ...] = (stmt.cond,)
        match stmt.cond:
            case ir.And(found) if not stmt.other and 0 < len(found) <= _AND_AS_IFS:
                terms = found
            case ir.Op("not", (ir.Or(found),)) if not stmt.other and 0 < len(found) <= _AND_AS_IFS:
                terms = tuple(negate(t) for t in found)
        for term in terms:
            self.expr(term)
            self.op("if", 0, pops=1)
        height = self.height
        goes_on = self.body(stmt.then)
        if stmt.other:
            self.height = height
            self.op("else")
            goes_on = self.body(stmt.other) or goes_on
        else:
            goes_on = True
        self.height = height
        for _ in terms:
            self.op("end")
        return goes_on

    # expressions; each leaves one value

    def expr(self, expr: ir.Expr) -> None:
        match expr:
            case ir.Const():
                self.const(expr.value)
            case ir.Local():
                if self.ready == expr.name:
                    self.ready = None
                else:
                    self.op("local", self.slots[expr.name], pushes=1)
            case ir.Load():
                self.op("path", self.pools.path(expr.path), pushes=1)
            case ir.Op():
                self.apply(expr)
            case ir.Invoke():
                for arg in expr.args:
                    self.expr(arg)
                if self.parts:
                    self.mark(expr.at)
                self.op("invoke", self.pools.intrinsic(expr.name), pops=len(expr.args), pushes=1)
            case ir.Call():
                for arg in expr.args:
                    self.expr(arg)
                self.op("call", self.pools.functions[expr.name], pops=len(expr.args), pushes=1)
            case ir.Choose():
                self.choose(expr.cond, expr.then, expr.other)
            case ir.And():
                self.joined(expr.terms, 0, all_of=True)
            case ir.Or():
                self.joined(expr.terms, 0, all_of=False)
            case ir.Block():
                self.block(expr)

    def const(self, value: Any) -> None:
        if value is True or value is False:
            self.op("true" if value else "false", pushes=1)
        elif value is None:
            self.op("null", pushes=1)
        elif value is MISSING:
            self.op("missing", pushes=1)
        else:
            self.op("const", self.pools.constant(value), pushes=1)

    def apply(self, expr: ir.Op) -> None:
        if expr.name == "get" and isinstance(expr.args[0], ir.Local):
            self.op("local_get", self.slots[expr.args[0].name], self.pools.constant(expr.imm[0]), pushes=1)
            return
        for arg in expr.args:
            self.expr(arg)
        numbers = [self.immediate(kind, value) for kind, value in zip(BY_NAME[expr.name].imm, expr.imm, strict=True)]
        self.op(expr.name, *numbers, pops=len(expr.args), pushes=1)

    def immediate(self, kind: Imm, value: Any) -> int:
        match kind:
            case Imm.KEY | Imm.CONST:
                return self.pools.constant(value)
            case Imm.PATTERN:
                return self.pools.pattern(value)
            case Imm.PATH:
                return self.pools.path(tuple(value))
            case Imm.FUNC:
                return self.pools.functions[value]
            case Imm.IMPORT:
                return self.pools.intrinsic(value)
            case Imm.LOCAL:
                return self.slots[value]
            case Imm.CELL:
                return self.pools.cells[value]
            case Imm.UINT | Imm.UNITS | Imm.ARITY | Imm.HOST:
                return int(value)

    def choose(self, cond: ir.Expr, then: ir.Expr, other: ir.Expr) -> None:
        self.expr(cond)
        self.op("if", 1, pops=1)
        self.expr(then)
        self.height -= 1
        self.op("else")
        self.expr(other)
        self.op("end")

    def joined(self, terms: tuple[ir.Expr, ...], at: int, *, all_of: bool) -> None:
        """``a && b`` is ``a if b else false end``; ``a || b`` is ``a if true else b end``."""
        if not terms:
            self.const(all_of)
            return
        self.expr(terms[at])
        if at == len(terms) - 1:
            return
        self.op("if", 1, pops=1)
        if all_of:
            self.joined(terms, at + 1, all_of=True)
        else:
            self.const(True)
        self.height -= 1
        self.op("else")
        if all_of:
            self.const(False)
        else:
            self.joined(terms, at + 1, all_of=False)
        self.op("end")

    def block(self, expr: ir.Block) -> None:
        body = expr.body
        last = body[-1] if body else None
        if isinstance(last, ir.Set) and isinstance(expr.value, ir.Local) and expr.value.name == last.name:
            # The value that a block stores last and hands on need not be read back.
            if self.body(body[:-1]):
                self.mark(last.at)
                self.expr(last.value)
                self.op("tee", self.slots[last.name])
            else:
                self.height += 1
        elif self.body(body):
            self.expr(expr.value)
        else:
            self.height += 1  # the block always returns; nothing stands behind it

    def finish(self) -> code.CodeObject:
        fn = self.fn
        if self.body(fn.body):
            raise EmitError(fn.name, "does not return on every path", policy=fn.policy)
        at = self.marks[0][1] if self.marks else None
        for limit, value, what in (
            (code.MAX_CODE, len(self.out), "bytes of code"),
            (code.MAX_STACK, self.max_stack, "values on the stack"),
            (code.MAX_LOCALS, len(fn.locals), "locals"),
        ):
            if value > limit:
                raise EmitError(fn.name, f"needs {value} {what}, more than {limit}", at, fn.policy)
        return code.CodeObject(
            name=fn.name,
            params=len(fn.params),
            locals="".join(fn.locals.values()),
            result=fn.result,
            code=bytes(self.out),
            max_stack=self.max_stack,
            role=fn.role,
        )


def _short(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether a body is one way out of two or three instructions."""
    match body:
        case (ir.Break() | ir.Next(),):
            return True
        case (ir.Return(ir.Const() | ir.Local() | ir.Op(_, () | (ir.Const() | ir.Local(),))),):
            return True
    return False


def _reads_first(stmt: ir.Stmt) -> str | None:
    """The local that a statement reads before it does anything else, unless as the map of a field, where ``local_get``
    does."""
    match stmt:
        case ir.Set() | ir.Return() | ir.Do():
            expr = stmt.value
        case ir.If():
            expr = stmt.cond
        case ir.Each() | ir.EachPair():
            expr = stmt.over
        case _:
            return None
    while True:
        match expr:
            case ir.Local(name):
                return name
            case ir.Op("get", (ir.Local(),)):
                return None
            case ir.Op(_, (first, *_)) | ir.Invoke(_, (first, *_)) | ir.Call(_, (first, *_)):
                expr = first
            case ir.And((first, *_)) | ir.Or((first, *_)):
                expr = first
            case ir.Choose(cond):
                expr = cond
            case _:
                return None


def emit(
    m: ir.Module, *, header: code.Header | None = None, texts: Mapping[str, str] | None = None, parts: bool = False
) -> code.Module:
    """The module in bytecode form, with debug spans; ``texts`` (file name to text) lends the lines that spans point at.
    ``parts``: spans for the parts of statements too.

    Raises :class:`EmitError` when a function does not fit the limits.
    """
    pools = Pools(functions={fn.name: i for i, fn in enumerate(m.functions)})
    inits = [i for i, fn in enumerate(m.functions) if fn.role == "cell"]
    pools.cells = {m.functions[i].name: cell for cell, i in enumerate(inits)}
    functions: list[code.CodeObject] = []
    marks: list[list[tuple[int, str]]] = []
    for fn in m.functions:
        emitter = _FunctionEmitter(fn, pools, parts)
        functions.append(emitter.finish())
        marks.append(emitter.marks)
    policies = tuple(_policy(p, pools.functions) for p in m.policies)
    if len(pools.values) > code.MAX_CONSTANTS:
        raise EmitError(m.functions[0].name, f"the policies need more than {code.MAX_CONSTANTS} constants")
    return code.Module(
        constants=tuple(pools.values),
        paths=tuple(pools.paths),
        patterns=tuple(pools.pattern_forms),
        imports=tuple(code.Import(name, INTRINSICS[name].version) for name in pools.imports),
        functions=tuple(functions),
        cells=tuple(inits),
        policies=policies,
        exemptions=tuple(
            code.Exemption(x.name, x.namespace, x.rules, pools.functions[x.entry], x.meta) for x in m.exemptions
        ),
        index=code.build_index(policies),
        debug=_debug(m, marks, texts or {}),
        header=header or code.Header(),
    )


def _policy(policy: ir.Policy, functions: Mapping[str, int]) -> code.Policy:
    return code.Policy(
        policy.name,
        policy.namespace,
        tuple(
            code.Rule(rule.name, functions[rule.entry], rule.kind, tuple(map(_key, rule.keys)), rule.meta)
            for rule in policy.rules
        ),
        policy.meta,
    )


def _key(key: ir.MatchKey) -> code.MatchKey:
    kind = key.kind
    return code.MatchKey(code.KindKey(kind.group, kind.version, kind.kind, kind.subresource), key.operations)


def _debug(m: ir.Module, marks: list[list[tuple[int, str]]], texts: Mapping[str, str]) -> code.Debug:
    files: dict[str, int] = {}
    lines: list[set[int]] = []
    spans: list[tuple[code.CodeSpan, ...]] = []
    for fn, found in zip(m.functions, marks, strict=True):
        mine: list[code.CodeSpan] = []
        for pc, at in found:
            place = m.spans.get((fn.policy, at)) if fn.policy is not None else None
            if place is None:
                continue
            name, line, column = place
            number = files.setdefault(name, len(files))
            if number == len(lines):
                lines.append(set())
            lines[number].add(line)
            mine.append(code.CodeSpan(pc, number, line, column))
        spans.append(tuple(mine))
    sources: list[code.SourceFile] = []
    for name, found_lines in zip(files, lines, strict=True):
        text = texts.get(name, "").splitlines()
        shown = tuple((n, text[n - 1]) for n in sorted(found_lines) if n <= len(text))
        sources.append(code.SourceFile(name, shown))
    return code.Debug(tuple(sources), tuple(spans))
