"""What the VM borrows from the compiler for texts formed at run time, and one-off queries.

``make_imports`` is called by the embedding (``runtime.policyset``, tests) once a process; :func:`search` by
``thesmos jp`` and the conformance runner. Every text goes the whole way: parse, lower, check, emit, verify, run.
All caches are bounded, since texts come from the objects of strangers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

from compiler.frontends.jmes import lower as jmes
from compiler.frontends.template.lower import lower_pass, parsed
from compiler.frontends.template.scope import Scope
from compiler.frontends.template.split import LONGEST_KEPT, Variable, split
from compiler.ir import ops as ir
from compiler.ir.build import FunctionBuilder
from grammar.errors import SyntaxProblem
from vm.code import UnverifiedModule
from vm.host import Imports, Meter, OutOfFuel, Program
from vm.interp import interpret
from vm.intrinsics.context import ENTRIES, untold
from vm.intrinsics.text import MAX_DEPTH, deep, resolved, unescaped
from vm.values import Err, Value
from vm.verify import VerifyError, verify

MAX_PASSES: Final = 64
"""Passes over one text; a text that still holds variables then is taken to hold itself."""

COMPILE_FUEL: Final = 400
"""Charged for a pass beside its own cost: about what compiling a short text costs in time against one instruction."""

_CODES: Final = {"name": "unknown_function", "arity": "arity", "type": "type"}


@dataclass(frozen=True, slots=True)
class _Pass:
    """A compiled pass over a text. ``whole``: the text is one variable; ``shallow``: its last variable is shallow."""

    program: Program
    whole: bool
    shallow: bool


def make_imports() -> Imports:
    """The functions that the embedding lends the VM, with caches of their own."""
    passes = _kept(lambda text: _compile_pass(text, imports), 1024)

    def substitute(text: str, root: Any, meter: Meter) -> Value:
        if meter.depth >= MAX_DEPTH:
            return Err("substitution", "variables lead back to themselves or are nested too deeply")
        meter.depth += 1
        try:
            return _passes(text, root, meter)
        finally:
            meter.depth -= 1

    def _passes(text: str, root: Any, meter: Meter) -> Value:
        for _ in range(MAX_PASSES):
            if not any(isinstance(p, Variable) for p in split(text)):
                return unescaped(text)
            meter.charge(COMPILE_FUEL + (len(text) >> 4))
            if ENTRIES in root and (missing := _untold(text, root)) is not None:
                return missing
            compiled = passes(text)
            if isinstance(compiled, Err):
                return compiled
            value = compiled.program.run(0, root, meter)
            if meter.left < 0:
                raise OutOfFuel
            if type(value) is Err:
                return value
            if compiled.whole:
                return deep(imports, meter, value, root)
            text = value
            if compiled.shallow:
                return unescaped(text)
        return Err("substitution", "variables lead back to themselves or are nested too deeply")

    on_root = _kept(lambda text: _query_program(text, (), imports), 512)
    on_document = _kept(lambda text: _query_program(text, ("$document",), imports), 512)

    def query(text: str, root: Any, meter: Meter) -> Value:
        meter.charge(COMPILE_FUEL + (len(text) >> 4))
        program = on_document(text) if "$document" in root else on_root(text)
        if isinstance(program, Err):
            return program
        value = program.run(0, root, meter)
        if meter.left < 0:
            raise OutOfFuel
        return value

    imports = Imports(substitute, _kept(_pattern, 4096), _kept(_yaml, 256), query)
    return imports


def _untold(text: str, root: Any) -> Err | None:
    """Why a text cannot be put in yet: a context entry that it mentions is not loaded, or has failed."""
    for piece in split(text):
        if isinstance(piece, Variable) and (missing := untold(piece.body, root)) is not None:
            answer: Err = resolved(missing, piece.body, "", root.get("$operation"))
            return answer
    return None


def _kept(work: Callable[[str], Any], entries: int) -> Callable[[str], Any]:
    """The work with its answers for the texts seen last, long texts left out."""
    cached = lru_cache(maxsize=entries)(work)
    return lambda text: cached(text) if len(text) <= LONGEST_KEPT else work(text)


def _compile_pass(text: str, imports: Imports) -> _Pass | Err:
    pieces = split(text)
    variables = [p for p in pieces if isinstance(p, Variable)]
    program = _program(lambda scope: lower_pass(text, scope), imports)
    if isinstance(program, Err):
        return program
    return _Pass(program, len(pieces) == 1, variables[-1].shallow)


def _query_program(text: str, base: tuple[str, ...], imports: Imports) -> Program | Err:
    node = parsed(text)
    if isinstance(node, SyntaxProblem):
        return Err(_CODES.get(node.code, "syntax"), f"incorrect query {text}: {node.message}")
    return _program(lambda scope: jmes.lower(node, scope).expr, imports, base=base)


def _program(build: Callable[[Scope], ir.Expr], imports: Imports, **scope: Any) -> Program | Err:
    """A program whose only function answers an expression."""
    from compiler.emit import EmitError, emit

    b = FunctionBuilder("query", result="V")
    b.ret(build(Scope(b, **scope)))
    try:
        return interpret(verify(UnverifiedModule(emit(ir.Module((b.function(),), ()))), imports))
    except (EmitError, VerifyError) as e:
        return Err("syntax", f"too complex: {e}")


def _pattern(text: str) -> Any:
    from compiler.frontends.pattern import compile_scalar

    try:
        return compile_scalar(text)
    except SyntaxProblem as e:
        return Err("pattern", f"{text!r} is no pattern: {e.message}")


def _yaml(text: str) -> Value:
    from compiler.source import SourceError, load_values

    try:
        values = load_values(text)
    except SourceError as e:
        return Err("value", f"not YAML: {e}")
    return values[0] if values else None


# One-off queries


@cache
def shared_imports() -> Imports:
    """Those of the compiler itself, which runs and verifies code too."""
    return make_imports()


@lru_cache(maxsize=512)
def _query(expression: str, standard: bool) -> Program | Err:
    node = parsed(expression)
    if isinstance(node, SyntaxProblem):
        return Err(_CODES.get(node.code, "syntax"), node.message)

    return _program(
        lambda scope: jmes.lower(node, scope).expr, shared_imports(), base=("$document",), standard=standard
    )


def search(expression: str, document: Any, *, compliance: bool = True, fuel: int = 10_000_000) -> Value:
    """The value of a query on any JSON document, or an ``Err``.

    With ``compliance`` a missing key is null and functions are those of standard JMESPath; without, both are the
    policy dialect's (``Err not_found`` for a missing key). Codes of errors: ``syntax``, ``unknown_function``,
    ``arity``, ``type``, ``value``, ``not_found``, ``fuel``.
    """
    program = _query(expression, compliance)
    if isinstance(program, Err):
        return program
    return program.run(0, {"$document": document}, Meter(fuel))
