"""Unverified modules to verified ones: proves once, so that nothing is checked while a request waits.

A verified program never raises, never leaves its stack, ends (calls are acyclic, loops go over finite lists that
nobody changes meanwhile, and fuel bounds them all), suspends only where it may, and reads only what is there.
``runtime`` and the compiler's facade call :func:`verify`; only it can make a :class:`VerifiedModule`, so the type
checker proves that nobody runs code that was not verified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from vm.catalogue import Intrinsic
from vm.code import (
    MAX_CALL_DEPTH,
    MAX_CONSTANTS,
    MAX_LOCALS,
    MAX_STACK,
    MODES,
    ROLES,
    RULE_KINDS,
    CodeObject,
    Debug,
    Exemption,
    Header,
    IndexEntry,
    Module,
    PathKey,
    Policy,
    UnverifiedModule,
    build_index,
    const_kind,
)
from vm.flow import Budget, Flow, Tables, check_immediates
from vm.functions import INTRINSICS
from vm.host import Imports
from vm.scalar import Predicate, ScalarPattern, compile_matcher, leaf_matcher
from vm.structure import Structure, VerifyError, decode, structure
from vm.values import Value

if TYPE_CHECKING:
    from vm.kept_code import KeptCode
    from vm.premises import Premise

__all__ = ["VerifiedFunction", "VerifiedModule", "VerifyError", "verify"]

_TOKEN: Final = object()
_LOCAL_KINDS: Final = frozenset("VBISLMEO")
_KINDS: Final = frozenset("VBISLMEO")
FOUND: Final = "what the verifier found"
"""The name under which that is kept."""
Found: TypeAlias = tuple[int, dict[int, int], dict[int, int], dict[int, tuple[int, ...]], bool]
"""Of a function: cost, loops, drops, measured operands, and whether it may suspend."""
MAX_TABLE: Final = 64 * 1024
"""Entries in any side table, and functions in a module."""


class VerifiedFunction:
    """A function whose code is proved: its bytes, its fuel by segment, and what the tiers need to know beside them.

    ``cost`` is charged on entry, ``loops[i]`` for each iteration of the loop at instruction ``i``; ``drops[i]`` are
    the values a ``break``, ``next`` or ``ret`` leaves behind; ``measured[i]`` are the operands of an intrinsic that the
    program built itself."""

    __slots__ = (
        "code",
        "cost",
        "drops",
        "locals",
        "loops",
        "max_stack",
        "may_suspend",
        "measured",
        "name",
        "number",
        "params",
        "result",
        "role",
        "scope",
    )

    def __init__(
        self,
        number: int,
        code: CodeObject,
        found: Found,
    ) -> None:
        self.number = number
        self.name = code.name
        self.params = code.params
        self.locals = code.locals
        self.result = code.result
        self.role = code.role
        self.code = code.code
        self.max_stack = code.max_stack
        self.cost, self.loops, self.drops, self.measured, self.may_suspend = found
        self.scope: str | None = None

    def structure(self) -> Structure:
        """The instructions and how they belong together, made anew: a module in use keeps its bytes only. The fuel in
        it leaves intrinsics out; that of this function is right."""
        return structure(decode(self.code, self.name), self.name, lambda n: 0)


class VerifiedModule:
    """A module that may be run. ``lent`` are the functions the embedding lends; ``warnings`` say what was dropped on
    the way (debug spans that do not fit). ``warnings`` never affect results."""

    def __init__(
        self,
        token: object,
        source: UnverifiedModule,
        functions: tuple[VerifiedFunction, ...],
        intrinsics: tuple[Intrinsic, ...],
        patterns: tuple[ScalarPattern, ...],
        lent: Imports,
        debug: Debug | None,
        warnings: tuple[str, ...],
    ) -> None:
        if token is not _TOKEN:
            raise TypeError("only vm.verify.verify makes verified modules")
        m = source.module
        self.header: Header = m.header
        self.digest = source.digest
        self.key_id = source.key_id
        self.constants: tuple[Value, ...] = m.constants
        self.paths: tuple[PathKey, ...] = m.paths
        self.intrinsics = intrinsics
        self.patterns = patterns
        self.functions = functions
        self.cells: tuple[int, ...] = m.cells
        self.policies: tuple[Policy, ...] = m.policies
        self.exemptions: tuple[Exemption, ...] = m.exemptions
        self.index: tuple[IndexEntry, ...] = m.index
        self.debug = debug
        self.lent = lent
        self.warnings = warnings
        self.premises: dict[int, Premise] = {}
        """What ``vm.premises`` has found, by the number of a function."""
        self._leaves: dict[int, Predicate] = {}
        self._scalars: dict[int, Predicate] = {}

    def leaf(self, pattern: int) -> Predicate:
        """The predicate of ``p_leaf``, made on first use."""
        found = self._leaves.get(pattern)
        if found is None:
            found = self._leaves[pattern] = leaf_matcher(self.patterns[pattern])
        return found

    def scalar(self, pattern: int) -> Predicate:
        """The predicate of ``p_scalar``, made on first use."""
        found = self._scalars.get(pattern)
        if found is None:
            found = self._scalars[pattern] = compile_matcher(self.patterns[pattern])
        return found


def verify(m: UnverifiedModule, imports: Imports, kept: KeptCode | None = None) -> VerifiedModule:
    """Proves a module or raises :class:`VerifyError`; nothing else is raised for any module.

    ``kept`` remembers what was found of the code of this very bundle by this very verifier, so that it is walked once
    and not at each start: half a second for 1,000 policies. It has the code that was generated of it too, and whoever
    could write the one could write the other.
    """
    module = m.module
    _sizes(module)
    intrinsics = tuple(_intrinsic(i.name, i.version) for i in module.imports)
    patterns = tuple(_pattern(number, form) for number, form in enumerate(module.patterns))
    found: list[Found] | None = kept.get(FOUND) if kept is not None else None
    if found is None:
        functions = _functions(module, intrinsics)
        if kept is not None:
            kept.put(FOUND, [(fn.cost, fn.loops, fn.drops, fn.measured, fn.may_suspend) for fn in functions])
    else:
        functions = tuple(VerifiedFunction(n, *of) for n, of in enumerate(zip(module.functions, found, strict=True)))
    _policies(module, functions)
    if build_index(module.policies) != module.index:
        raise VerifyError("index", "the match index is not the one that follows from the rules")
    debug, warnings = _debug(module, functions)
    return VerifiedModule(_TOKEN, m, functions, intrinsics, patterns, imports, debug, warnings)


def _sizes(m: Module) -> None:
    for table, limit, what in (
        (m.constants, MAX_CONSTANTS, "constants"),
        (m.paths, MAX_TABLE, "paths"),
        (m.patterns, MAX_TABLE, "patterns"),
        (m.imports, MAX_TABLE, "imports"),
        (m.functions, MAX_TABLE, "functions"),
        (m.cells, MAX_TABLE, "cells"),
    ):
        if len(table) > limit:
            raise VerifyError("size", f"{len(table)} {what}, more than {limit}")
    for number, path in enumerate(m.paths):
        if not path:
            raise VerifyError("path", f"path {number} has no step")


def _intrinsic(name: str, version: int) -> Intrinsic:
    entry = INTRINSICS.get(name)
    if entry is None:
        raise VerifyError("import", f"no intrinsic is called {name}")
    if entry.version != version:
        raise VerifyError("import", f"intrinsic {name} has version {entry.version}, the code wants {version}")
    if "*" in entry.params:
        raise VerifyError("import", f"intrinsic {name} has no fixed number of operands")
    return entry


def _pattern(number: int, form: Any) -> ScalarPattern:
    try:
        return ScalarPattern.from_json(form)
    except ValueError as problem:
        raise VerifyError("pattern", f"pattern {number}: {problem}") from None


def _functions(m: Module, intrinsics: Sequence[Intrinsic]) -> tuple[VerifiedFunction, ...]:
    for fn in m.functions:
        _shape(fn)
    for n in m.cells:
        if not 0 <= n < len(m.functions) or m.functions[n].params or m.functions[n].result == "O":
            raise VerifyError("cell", f"function {n} cannot be the init function of a cell")
    tables = Tables(
        [const_kind(c) for c in m.constants],
        len(m.paths),
        len(m.patterns),
        intrinsics,
        m.functions,
        m.cells,
        {},
        Budget(1_000_000 + 8 * sum(len(fn.code) for fn in m.functions)),
    )
    verified: dict[int, VerifiedFunction] = {}
    depth: dict[int, int] = {}
    for root in range(len(m.functions)):
        # Callees first, each function decoded once and only those on the way to it held.
        chain = [] if root in verified else [_Open(m, root, intrinsics)]
        while chain:
            top = chain[-1]
            callee = next((c for c in top.waiting if c not in verified), None)
            if callee is None:
                chain.pop()
                n, fn = top.number, m.functions[top.number]
                depth[n] = 1 + max((depth[c] for c in top.callees), default=0)
                if depth[n] > MAX_CALL_DEPTH:
                    raise VerifyError("recursion", f"calls go more than {MAX_CALL_DEPTH} deep", fn.name)
                suspends = top.awaits or any(verified[c].may_suspend for c in top.callees)
                verified[n] = _function(top, fn, tables, suspends)
            elif any(o.number == callee for o in chain):
                name = m.functions[callee].name
                raise VerifyError("recursion", f"calls itself by way of {name}", m.functions[top.number].name)
            elif len(chain) > MAX_CALL_DEPTH:
                raise VerifyError("recursion", f"calls go more than {MAX_CALL_DEPTH} deep", m.functions[root].name)
            else:
                chain.append(_Open(m, callee, intrinsics))
    return tuple(verified[n] for n in range(len(m.functions)))


class _Open:
    """A function decoded, while those it calls are verified."""

    __slots__ = ("awaits", "callees", "number", "struct", "waiting")

    def __init__(self, m: Module, number: int, intrinsics: Sequence[Intrinsic]) -> None:
        fn = m.functions[number]
        self.number = number
        self.struct = structure(
            decode(fn.code, fn.name), fn.name, lambda n: intrinsics[n].fuel if n < len(intrinsics) else 0
        )
        # Numbers that point nowhere are reported when the immediates are checked.
        reaches = self.struct.reaches
        self.callees = {n for name, n in reaches if name in ("call", "scoped", "o_scoped") and n < len(m.functions)}
        self.callees |= {m.cells[n] for name, n in reaches if name == "cell" and n < len(m.cells)}
        self.awaits = any(name == "await" for name, _ in reaches)
        self.waiting = iter(sorted(self.callees))


def _function(opened: _Open, fn: CodeObject, tables: Tables, suspends: bool) -> VerifiedFunction:
    check_immediates(fn, opened.struct, tables)
    facts = Flow(fn, opened.struct, tables).run()
    if facts.max_stack > fn.max_stack:
        raise VerifyError("stack", f"needs {facts.max_stack} values, claims {fn.max_stack}", fn.name)
    tables.signatures[opened.number] = facts.signature
    struct = opened.struct
    return VerifiedFunction(opened.number, fn, (struct.cost, struct.loops, facts.drops, facts.measured, suspends))


def _shape(fn: CodeObject) -> None:
    if not _LOCAL_KINDS.issuperset(fn.locals) or fn.result not in _KINDS or len(fn.result) != 1:
        raise VerifyError("kind", "names a kind that is none", fn.name)
    if not 0 <= fn.params <= len(fn.locals):
        raise VerifyError("size", f"{fn.params} parameters, but {len(fn.locals)} locals", fn.name)
    if len(fn.locals) > MAX_LOCALS:
        raise VerifyError("size", f"{len(fn.locals)} locals, more than {MAX_LOCALS}", fn.name)
    if not 0 <= fn.max_stack <= MAX_STACK:
        raise VerifyError("stack", f"claims {fn.max_stack} values, more than {MAX_STACK}", fn.name)
    if fn.mode not in MODES or fn.role not in ROLES:
        raise VerifyError("mode", "has a mode or a role that is none", fn.name)


def _policies(m: Module, functions: tuple[VerifiedFunction, ...]) -> None:
    scopes: dict[int, str | None] = {}
    names: set[tuple[str | None, str]] = set()

    def entry(n: int, result: str, scope: str | None, what: str) -> None:
        if not 0 <= n < len(functions) or functions[n].params or functions[n].result != result:
            raise VerifyError("policy", f"{what}: function {n} is no entry of result kind {result}")
        if functions[n].may_suspend and scopes.setdefault(n, scope) != scope:
            raise VerifyError("policy", f"{what}: function {n} asks the host in the name of several namespaces")
        scopes[n] = functions[n].scope = scope

    for policy in m.policies:
        if (policy.namespace, policy.name) in names:
            raise VerifyError("policy", f"two policies are called {policy.name}")
        names.add((policy.namespace, policy.name))
        for rule in policy.rules:
            what = f"rule {rule.name} of policy {policy.name}"
            if rule.kind not in RULE_KINDS:
                raise VerifyError("policy", f"{what} is of kind {rule.kind}")
            entry(rule.entry, "O", policy.namespace, what)
    for exemption in m.exemptions:
        entry(exemption.entry, "B", exemption.namespace, f"exception {exemption.name}")


def _debug(m: Module, functions: tuple[VerifiedFunction, ...]) -> tuple[Debug | None, tuple[str, ...]]:
    """The debug part when it fits the code, else None and a warning: nothing that runs depends on it."""
    debug = m.debug
    if debug is None:
        return None, ()
    if len(debug.spans) != len(functions):
        return None, ("debug spans do not fit the functions and were dropped",)
    for fn, spans in zip(functions, debug.spans, strict=True):
        last = -1
        for span in spans:
            if not (last < span.pc < len(fn.code) and span.file < len(debug.files) and span.line and span.column):
                return None, (f"debug spans of function {fn.name} do not fit its code and were dropped",)
            last = span.pc
    return debug, ()
