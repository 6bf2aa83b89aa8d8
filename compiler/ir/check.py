"""The checker that runs on the IR after lowering and after every pass: a pass that breaks the IR is found at once, by
name.

It proves of each function what the emitter and the verifier count on: kinds fit, locals are declared and set before
they are read, all paths return, ``break`` and ``next`` stand in loops, lists and maps that are changed were made here,
names exist and calls make no cycle. A :class:`Checker` that is kept skips functions which the last pass left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

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
    Load,
    Local,
    Module,
    Next,
    Op,
    Or,
    Return,
    Set,
    Stmt,
)
from compiler.ir.types import KindError, ir_op, operand_kinds, parameter_kinds
from compiler.ir.walk import iter_exprs, iter_stmts
from vm.code import RULE_KINDS, const_kind
from vm.functions import INTRINSICS
from vm.isa import BY_NAME, KINDS, Effect, Imm, kind_join, kind_le

ROLES: Final = frozenset({"entry", "message", "exception", "cell", "helper"})


class CheckError(Exception):
    """The IR is not well formed: a mistake of the compiler, never of a policy. ``str`` names the function and the
    fault."""

    def __init__(self, function: str, detail: str) -> None:
        super().__init__(f"{function}: {detail}" if function else detail)
        self.function = function
        self.detail = detail


class _Checker:
    def __init__(self, fn: Function, functions: Mapping[str, Function]) -> None:
        self.fn = fn
        self.functions = functions
        self.kinds = fn.locals
        self.loops = 0
        self.bound: list[str] = []
        self.fresh: AbstractSet[str] | None = None

    def fail(self, detail: str) -> CheckError:
        return CheckError(self.fn.name, detail)

    def function(self) -> None:
        fn = self.fn
        if fn.role not in ROLES:
            raise self.fail(f"role {fn.role} is none")
        if fn.result not in KINDS:
            raise self.fail(f"result kind {fn.result} is none")
        if tuple(fn.locals)[: len(fn.params)] != fn.params:
            raise self.fail("parameters are not the first locals")
        for name, kind in fn.locals.items():
            if kind not in KINDS or (kind == "O" and name in fn.params):
                raise self.fail(f"local {name} has kind {kind}")
        if self.body(fn.body, frozenset(fn.params)) is not None:
            raise self.fail("does not return on every path")

    # Each statement takes the locals set before it and answers those set behind it, None when nothing comes behind.

    def body(self, body: tuple[Stmt, ...], known: frozenset[str]) -> frozenset[str] | None:
        after: frozenset[str] | None = known
        for stmt in body:
            if after is None:
                return None  # code behind a return is dead: legal here, dropped by the emitter
            after = self.stmt(stmt, after)
        return after

    def stmt(self, stmt: Stmt, known: frozenset[str]) -> frozenset[str] | None:
        match stmt:
            case Set():
                kind, known = self.expr(stmt.value, known)
                self.writable(stmt.name)
                self.fits(kind, self.local(stmt.name), f"local {stmt.name}")
                return known if stmt.name in known else known | {stmt.name}
            case Do():
                return self.expr(stmt.value, known)[1]
            case Return():
                kind, _ = self.expr(stmt.value, known)
                self.fits(kind, self.fn.result, "the result")
                return None
            case If():
                kind, known = self.expr(stmt.cond, known)
                self.fits(kind, "B", "a condition")
                then = self.body(stmt.then, known)
                other = self.body(stmt.other, known)
                if then is None:
                    return other
                return then if other is None else then & other
            case Each():
                kind, known = self.expr(stmt.over, known)
                self.fits(kind, "L", "what each goes over")
                names = (stmt.item,) if stmt.index is None else (stmt.item, stmt.index)
                if stmt.index is not None:
                    self.fits("I", self.local(stmt.index), f"index {stmt.index}")
                self.fits("V", self.local(stmt.item), f"element {stmt.item}")
                self.loop(stmt.body, names, known)
                return known
            case EachPair():
                kind, known = self.expr(stmt.over, known)
                self.fits(kind, "M", "what each pair goes over")
                self.fits("S", self.local(stmt.key), f"key {stmt.key}")
                self.fits("V", self.local(stmt.value), f"value {stmt.value}")
                self.loop(stmt.body, (stmt.key, stmt.value), known)
                return known
            case Break() | Next():
                if not self.loops:
                    raise self.fail("break or next outside a loop")
                return None

    def loop(self, body: tuple[Stmt, ...], names: tuple[str, ...], known: frozenset[str]) -> None:
        for name in names:
            self.writable(name)
        self.loops += 1
        self.bound.extend(names)
        self.body(body, known | set(names))
        del self.bound[-len(names) :]
        self.loops -= 1

    def local(self, name: str) -> str:
        kind = self.kinds.get(name)
        if kind is None:
            raise self.fail(f"local {name} is not declared")
        return kind

    def writable(self, name: str) -> None:
        if name in self.bound:
            raise self.fail(f"{name} is bound by a loop around and may not be set in it")

    def fits(self, kind: str, wanted: str, what: str) -> None:
        if not kind_le(kind, wanted):
            raise self.fail(f"{what} has kind {kind}, not {wanted}")

    def expr(self, expr: Expr, known: frozenset[str]) -> tuple[str, frozenset[str]]:
        """(kind, locals set behind it); an expression that always returns counts as setting every local."""
        match expr:
            case Const():
                return const_kind(expr.value), known
            case Local():
                if expr.name not in known:
                    self.local(expr.name)
                    raise self.fail(f"local {expr.name} is read before it is set")
                return self.kinds[expr.name], known
            case Load():
                if not expr.path:
                    raise self.fail("a load has no path")
                return "V", known
            case Op():
                return self.op(expr, known)
            case Invoke():
                try:
                    wanted = parameter_kinds(expr.name, len(expr.args))
                except KindError as problem:
                    raise self.fail(str(problem)) from None
                known = self.operands(expr.args, wanted, expr.name, known)
                if INTRINSICS[expr.name].changes and not self.is_fresh(expr.args[0]):
                    raise self.fail(f"{expr.name} would change what this function did not make")
                return INTRINSICS[expr.name].result, known
            case Call():
                callee = self.functions.get(expr.name)
                if callee is None:
                    raise self.fail(f"no function is called {expr.name}")
                if len(expr.args) != len(callee.params):
                    raise self.fail(f"{expr.name} takes {len(callee.params)} operands, not {len(expr.args)}")
                wanted = tuple(callee.locals[p] for p in callee.params)
                known = self.operands(expr.args, wanted, expr.name, known)
                return callee.result, known
            case Choose():
                kind, known = self.expr(expr.cond, known)
                self.fits(kind, "B", "a condition")
                then, known_then = self.expr(expr.then, known)
                other, known_other = self.expr(expr.other, known)
                joined = kind_join(then, other)
                if joined is None:
                    raise self.fail(f"the arms of a choice have kinds {then} and {other}")
                return joined, known_then & known_other
            case And() | Or():
                # Only the first term surely runs, so only what it sets is set behind the whole.
                if not expr.terms:
                    return "B", known
                first: frozenset[str] | None = None
                for term in expr.terms:
                    kind, known = self.expr(term, known)
                    self.fits(kind, "B", "a term of a condition")
                    if first is None:
                        first = known
                return "B", known if first is None else first
            case Block():
                after = self.body(expr.body, known)
                if after is None:
                    raise self.fail("a block does not reach its value")
                return self.expr(expr.value, after)

    def op(self, expr: Op, known: frozenset[str]) -> tuple[str, frozenset[str]]:
        if not ir_op(expr.name):
            raise self.fail(f"no operation is called {expr.name}")
        row = BY_NAME[expr.name]
        if len(row.imm) != len(expr.imm):
            raise self.fail(f"{expr.name} takes {len(row.imm)} constants, not {len(expr.imm)}")
        for imm, value in zip(row.imm, expr.imm, strict=True):
            good = (
                isinstance(value, str)
                if imm is Imm.KEY
                else type(value) is int and value >= 0
                if imm in (Imm.UINT, Imm.UNITS, Imm.HOST)
                else self.is_cell(value)
                if imm is Imm.CELL
                else self.is_scope(value, row.pushes[0])
                if imm is Imm.FUNC
                else True
            )
            if not good:
                raise self.fail(f"{expr.name} cannot take the constant {value!r}")
        known = self.operands(expr.args, operand_kinds(expr.name, expr.imm), expr.name, known)
        if row.effect is Effect.MUTATES and not self.is_fresh(expr.args[0]):
            raise self.fail(f"{expr.name} would change what this function did not make")
        return row.pushes[0], known

    def is_cell(self, name: object) -> bool:
        fn = self.functions.get(name) if isinstance(name, str) else None
        return fn is not None and fn.role == "cell" and not fn.params

    def is_scope(self, name: object, kind: str) -> bool:
        fn = self.functions.get(name) if isinstance(name, str) else None
        return fn is not None and not fn.params and (fn.result == "O") == (kind == "O")

    def operands(
        self, args: tuple[Expr, ...], wanted: tuple[str, ...], what: str, known: frozenset[str]
    ) -> frozenset[str]:
        if len(args) != len(wanted):
            raise self.fail(f"{what} takes {len(wanted)} operands, not {len(args)}")
        for arg, kind in zip(args, wanted, strict=True):
            got, known = self.expr(arg, known)
            self.fits(got, kind, f"an operand of {what}")
        return known

    def is_fresh(self, expr: Expr) -> bool:
        if self.fresh is None:
            self.fresh = fresh_locals(self.fn)
        return _is_fresh(expr, self.fresh)


def _is_fresh(expr: Expr, fresh: AbstractSet[str]) -> bool:
    match expr:
        case Op("new_list" | "new_map"):
            return True
        case Op("append" | "put" | "put_key"):
            return _is_fresh(expr.args[0], fresh)
        case Invoke(name, (first, *_)):
            return INTRINSICS[name].changes and _is_fresh(first, fresh)
        case Local():
            return expr.name in fresh
        case Block():
            return _is_fresh(expr.value, fresh)
        case Choose():
            return _is_fresh(expr.then, fresh) and _is_fresh(expr.other, fresh)
    return False


def fresh_locals(fn: Function) -> frozenset[str]:
    """Locals that only ever hold a list or map which the function itself made."""
    values: dict[str, list[Expr]] = {}
    other: set[str] = set(fn.params)
    for stmt in iter_stmts(fn.body):
        match stmt:
            case Set():
                values.setdefault(stmt.name, []).append(stmt.value)
            case Each():
                other.add(stmt.item)
            case EachPair():
                other.update((stmt.key, stmt.value))
    fresh = frozenset(values.keys() - other)
    while True:
        kept = frozenset(name for name in fresh if all(_is_fresh(v, fresh) for v in values[name]))
        if kept == fresh:
            return fresh
        fresh = kept


class Checker:
    """Checks one version of a module after the other and skips the functions that it has seen, by identity.

    A function that stays may still call one that has gone, so calls are looked at each time.
    """

    def __init__(self) -> None:
        # The functions are kept beside their calls, so that an id stays that function's.
        self._seen: dict[int, tuple[Function, tuple[str, ...]]] = {}

    def check(self, m: Module) -> None:
        """Raises :class:`CheckError`."""
        functions: dict[str, Function] = {}
        for fn in m.functions:
            if fn.name in functions:
                raise CheckError(fn.name, "two functions have this name")
            functions[fn.name] = fn
        seen: dict[int, tuple[Function, tuple[str, ...]]] = {}
        for fn in m.functions:
            known = self._seen.get(id(fn))
            if known is None:
                _Checker(fn, functions).function()
                known = (fn, tuple(callees(fn)))
            seen[id(fn)] = known
        self._seen = seen
        _check_calls({fn.name: calls for fn, calls in seen.values()})
        for policy in m.policies:
            for rule in policy.rules:
                if rule.kind not in RULE_KINDS:
                    raise CheckError("", f"rule {rule.name} of {policy.name} is of kind {rule.kind}")
                _check_entry(rule.entry, "O", functions, f"rule {rule.name} of {policy.name}")
        for exemption in m.exemptions:
            _check_entry(exemption.entry, "B", functions, f"exception {exemption.name}")


def check(m: Module) -> None:
    """Checks a module. Raises :class:`CheckError`."""
    Checker().check(m)


def _check_entry(name: str, result: str, functions: Mapping[str, Function], what: str) -> None:
    fn = functions.get(name)
    if fn is None:
        raise CheckError("", f"{what}: no function is called {name}")
    if fn.params or fn.result != result:
        raise CheckError("", f"{what}: {name} is no function () -> {result}")


def callees(fn: Function) -> list[str]:
    """Names of the functions that a function calls, on a root of their own too, and of the cells that it reads."""
    found: list[str] = []
    for e in iter_exprs(fn.body):
        if isinstance(e, Call):
            found.append(e.name)
        elif isinstance(e, Op) and e.name in ("cell", "scoped", "o_scoped"):
            found.append(e.imm[0])
    return found


def _check_calls(calls: Mapping[str, tuple[str, ...]]) -> None:
    state: dict[str, bool] = {}  # False while open, True when done

    def visit(name: str, caller: str) -> None:
        if name not in calls:
            raise CheckError(caller, f"no function is called {name}")
        state[name] = False
        for callee in calls[name]:
            if state.get(callee) is False:
                raise CheckError(name, f"calls {callee}, which calls it")
            if callee not in state:
                visit(callee, name)
        state[name] = True

    for name in calls:
        if name not in state:
            visit(name, "")
