"""One compilation, stage by stage, with the time of each: the inside of :func:`compiler.compile_policies`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Final

from compiler import CompileResult, Options, PolicyStats, Stats
from compiler.bundle_writer import header, with_objects, write_bundle
from compiler.diagnostics import Reporter
from compiler.dynamic import shared_imports
from compiler.emit import EmitError, emit
from compiler.ir import ops as ir
from compiler.ir.check import CheckError
from compiler.ir.walk import iter_exprs, iter_stmts
from compiler.lower import lower
from compiler.pipeline import optimise
from compiler.schema import read_policies
from compiler.schema.kinds import provider
from compiler.schema.model import Policy
from compiler.schema.model_rules import check_models
from compiler.source import Document, Span
from vm.bundle import BundleError
from vm.code import Module, UnverifiedModule
from vm.verify import VerifyError, verify

_LIMITS: Final = frozenset(("complex", "depth", "nesting", "recursion", "size", "stack"))
"""What the verifier says of code that is sound, but more than a bundle may hold."""


class Compilation:
    """Runs once: documents in, a :class:`compiler.CompileResult` out."""

    def __init__(self, docs: tuple[Document, ...], options: Options) -> None:
        self.docs = docs
        self.options = options
        self.reporter = Reporter(strict=options.strict)
        self.schemas = provider(options.crds)
        self.stages: dict[str, float] = {}
        self.passes: dict[str, float] = {}

    def run(self) -> CompileResult:
        try:
            return self.compiled()
        except RecursionError:
            # Trees are walked by recursion; what is this deep is either hostile or better written another way.
            self.reporter.error("T2001", None, "the policies hold expressions that are nested too deeply to compile")
            return self.result(None)

    def compiled(self) -> CompileResult:
        with self.stage("schema"):
            policies, exceptions = read_policies(
                self.docs, self.reporter, self.schemas, quirks=bool(self.options.quirks)
            )
            check_models(policies, self.schemas, self.reporter)
        if self.reporter.failed:
            return self.result(None)
        with self.stage("lower"):
            module = lower(
                policies,
                exceptions,
                self.reporter,
                self.schemas,
                cel_strict=self.options.cel_strict,
                quirks=bool(self.options.quirks),
            )
            if self.options.quirks:
                from compiler.passes.kyverno import as_kyverno

                module = as_kyverno(module)
            if self.options.parts:
                module = _with_parts(module, policies)
        if self.reporter.failed:
            return self.result(None)
        try:
            with self.stage("optimise"):
                module = optimise(module, self.options.level, self.observe)
            with self.stage("emit"):
                texts = {doc.origin: doc.text for doc in self.docs}
                code = emit(
                    module,
                    header=header(texts.items(), self.options.fingerprint),
                    texts=texts,
                    parts=self.options.parts,
                )
            if self.options.objects:
                code = with_objects(code, [d.value for d in (*(p.doc for p in policies), *(x.doc for x in exceptions))])
            with self.stage("write"):
                bundle = write_bundle(code, sign=self.options.sign, strip=self.options.strip)
            # A twelfth of what compiling takes: who writes a policy hears of it, not who loads the bundle.
            with self.stage("verify"):
                verify(UnverifiedModule(code), shared_imports())
        except VerifyError as problem:
            number = "T2001" if problem.code in _LIMITS else "T2002"
            self.reporter.error(number, self.blamed(policies, problem.function or ""), str(problem))
            return self.result(None)
        except EmitError as problem:
            self.reporter.error("T2001", self.span(policies, problem.policy, problem.at), problem.detail)
            return self.result(None)
        except BundleError as problem:
            self.reporter.error("T2001", None, f"no bundle can hold the policies: {problem.detail}")
            return self.result(None)
        except CheckError as problem:
            self.reporter.error("T2002", self.blamed(policies, problem.function), str(problem))
            return self.result(None)
        return self.result(bundle, module, code)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self.stages[name] = perf_counter() - start

    def observe(self, name: str, module: ir.Module, seconds: float) -> None:
        self.passes[name] = seconds
        if self.options.observer is not None:
            self.options.observer(name, module, seconds)

    def span(self, policies: list[Policy], number: int | None, pointer: str | None) -> Span | None:
        if number is None or number >= len(policies):
            return None
        return policies[number].doc.spans.span(pointer or "")

    def blamed(self, policies: list[Policy], function: str) -> Span | None:
        """The policy that a function was made for, found by the number its name begins with."""
        number = function.partition(".")[0].removeprefix("p")
        return self.span(policies, int(number) if number.isdecimal() else None, None)

    def result(
        self, bundle: bytes | None, module: ir.Module | None = None, code: Module | None = None
    ) -> CompileResult:
        shares = _shares(module, code, sum(self.stages.values())) if module is not None and code is not None else ()
        stats = Stats(shares, self.stages, self.passes, len(bundle) if bundle is not None else 0)
        return CompileResult(bundle, tuple(self.reporter.diagnostics), stats)


def _with_parts(module: ir.Module, policies: list[Policy]) -> ir.Module:
    """The module with the places of all statements and of their parts."""
    spans = dict(module.spans)
    for fn in module.functions:
        if fn.policy is None:
            continue
        found = policies[fn.policy].doc.spans
        parts = (expr.at for expr in iter_exprs(fn.body) if isinstance(expr, ir.Invoke))
        statements = (getattr(stmt, "at", None) for stmt in iter_stmts(fn.body))
        for at in {at for at in (*parts, *statements) if at is not None}:
            span = found.span(at)
            spans[fn.policy, at] = (span.file, span.line, span.column)
    return replace(module, spans=spans)


def _shares(module: ir.Module, code: Module, seconds: float) -> tuple[PolicyStats, ...]:
    """Rules and code bytes of each policy; its share of the time is its share of the code, as stages take all at
    once."""
    sizes = [0] * len(module.policies)
    for fn, emitted in zip(module.functions, code.functions, strict=True):
        if fn.policy is not None:
            sizes[fn.policy] += len(emitted.code)
    total = sum(sizes) or 1
    return tuple(
        PolicyStats(policy.name, len(policy.rules), size, seconds * size / total)
        for policy, size in zip(module.policies, sizes, strict=True)
    )
