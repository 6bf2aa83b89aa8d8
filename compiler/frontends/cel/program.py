"""One CEL expression the whole way: parse, check, lower, passes, bytecode, verify, a tier.

For ``thesmos cel``, tests, fuzzing and the benchmark; policies go through :mod:`compiler.lower` with the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from compiler.frontends.cel.check import check
from compiler.frontends.cel.checked import Checked, Problem
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.expression import lower_expression, syntax
from compiler.frontends.cel.lowered import CelFrame
from compiler.frontends.cel.parse import parse
from compiler.ir import ops as ir
from compiler.ir.build import FunctionBuilder
from grammar.errors import SyntaxProblem
from vm.host import HostCall, Meter, Program
from vm.values import Err, Value

FUEL: Final = 10_000_000
Host = Callable[[HostCall], Value]


@dataclass(frozen=True, slots=True)
class CelProgram:
    """A verified expression, ready to run. ``module`` is its IR after the passes, for people and tests."""

    checked: Checked
    module: ir.Module
    program: Program
    entry: int
    suspends: bool

    def run(
        self,
        bindings: Mapping[str, Value],
        fuel: int = FUEL,
        *,
        cost_limit: int | None = None,
        host: Host | None = None,
        meter: Meter | None = None,
    ) -> Value:
        """The value, or an ``Err``. ``bindings`` are the variables by full name; ``host`` answers host calls, which
        fail without one. ``meter`` tells what the run cost: it is made here when it is not given."""
        meter = meter or Meter(fuel, cost_limit=cost_limit)
        root = dict(bindings)
        if not self.suspends:
            return self.program.run(self.entry, root, meter)
        execution = self.program.start(self.entry, root, meter)
        try:
            call = next(execution)
            while True:
                answer = Err("host", f"nobody answers {call.kind}") if host is None else host(call)
                call = execution.send(answer)
        except StopIteration as stop:
            return stop.value


def compile_program(
    text: str,
    env: Env,
    *,
    level: int = 2,
    tier: Literal["1", "2"] = "1",
    block: bool = False,
    checker: Callable[[Any, Env], Checked] = check,
) -> CelProgram | tuple[Problem, ...]:
    """The program of an expression, or its errors. ``block`` reads ``cel.block`` and its kin (as test suites write
    them); ``checker`` finds names and functions."""
    try:
        checked = checker(parse(text, block=block), env)
        if not checked.ok:
            return tuple(p for p in checked.problems if p.level == "error")
        return _compiled(checked, env, level, tier)
    except SyntaxProblem as problem:
        return (syntax(problem),)
    except RecursionError:
        return (Problem("depth", "the expression is nested too deeply", (0, len(text))),)


def _compiled(checked: Checked, env: Env, level: int, tier: str) -> CelProgram | tuple[Problem, ...]:
    from compiler.dynamic import shared_imports
    from compiler.emit import EmitError, emit
    from compiler.pipeline import optimise
    from vm.code import UnverifiedModule
    from vm.verify import VerifyError, verify

    builder = FunctionBuilder("cel", result="V", role="entry")
    functions: list[ir.Function] = []
    frame = CelFrame(builder, {name: (name,) for name in env.variables}, functions, "cel")
    try:
        builder.ret(lower_expression(checked, frame))
        module = optimise(ir.Module((builder.function(), *functions), ()), level)
        verified = verify(UnverifiedModule(emit(module)), shared_imports())
    except (EmitError, VerifyError) as problem:
        return (Problem("depth", problem.detail, (0, 0)),)
    entry = next(n for n, fn in enumerate(verified.functions) if fn.role == "entry")
    return CelProgram(checked, module, _tier(tier)(verified), entry, verified.functions[entry].may_suspend)


def _tier(tier: str) -> Callable[..., Program]:
    if tier == "2":
        from vm.tier2 import translate

        return translate
    from vm.interp import interpret

    return interpret
