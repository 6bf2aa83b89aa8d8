"""Cells, host calls and the code itself."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.emit import emit
from compiler.frontends.cel.check import check
from compiler.frontends.cel.declarations import PLAIN_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.expression import CelFrame, checked_expression, lower_expression
from compiler.frontends.cel.parse import parse
from compiler.frontends.cel.types import DYN
from compiler.ir import ops as ir
from compiler.ir.build import FunctionBuilder
from compiler.ir.check import CheckError
from compiler.pipeline import optimise
from fuzz.gen.bytecode import lent
from vm.code import UnverifiedModule
from vm.host import HostCall, Meter, Program
from vm.interp import interpret
from vm.tier2 import translate
from vm.verify import verify

TIERS = [interpret, translate]


def _cells(level: int) -> ir.Module:
    """An expression over two variables, one of which reads the other and counts the calls of the host."""
    env = Env({"variables.a": DYN, "variables.b": DYN}, PLAIN_LIBRARIES)
    cell = FunctionBuilder("v.a", result="V", role="cell")
    cell.ret(ir.Op("await", (ir.Const("a"),), (0,)))
    functions = [cell.function()]
    known: dict[str, Any] = {"variables.a": ir.Op("cell", (), ("v.a",))}
    for name, text, role in (("v.b", "variables.a + 1", "cell"), ("main", "variables.a + variables.b", "entry")):
        builder = FunctionBuilder(name, result="V", role=role)
        builder.ret(lower_expression(check(parse(text), env), CelFrame(builder, known, functions, name)))
        functions.append(builder.function())
        known["variables.b"] = ir.Op("cell", (), ("v.b",))
    return optimise(ir.Module(tuple(functions), ()), level)


def _answer(program: Program, entry: int, replies: list[Any]) -> tuple[Any, list[HostCall]]:
    calls: list[HostCall] = []
    execution = program.start(entry, {}, Meter())
    try:
        calls.append(next(execution))
        while True:
            calls.append(execution.send(replies[len(calls) - 1]))
    except StopIteration as stop:
        return stop.value, calls


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("level", [0, 2])
def test_a_variable_runs_once_in_a_run_and_anew_in_the_next(tier: Any, level: int) -> None:
    verified = verify(UnverifiedModule(emit(_cells(level))), lent())
    entry = next(n for n, fn in enumerate(verified.functions) if fn.role == "entry")
    program = tier(verified)
    assert _answer(program, entry, [1])[0] == 3
    answer, calls = _answer(program, entry, [20])
    assert answer == 41
    assert len(calls) == 1


def test_a_cell_must_be_a_function_of_that_role() -> None:
    builder = FunctionBuilder("main", result="V", role="entry")
    builder.ret(ir.Op("cell", (), ("main2",)))
    other = FunctionBuilder("main2", result="V")
    other.ret(ir.Const(1))
    with pytest.raises(CheckError, match="cell cannot take the constant"):
        optimise(ir.Module((builder.function(), other.function()), ()), 0)


def test_cells_that_read_one_another_are_refused() -> None:
    functions = []
    for name, of in (("a", "b"), ("b", "a")):
        builder = FunctionBuilder(name, result="V", role="cell")
        builder.ret(ir.Op("cell", (), (of,)))
        functions.append(builder.function())
    with pytest.raises(CheckError, match="which calls it"):
        optimise(ir.Module(tuple(functions), ()), 0)


@pytest.mark.parametrize("tier", ["1", "2"])
def test_the_authorizer_asks_the_host(tier: Any) -> None:
    from compiler.frontends.cel.declarations import KUBERNETES_LIBRARIES
    from compiler.frontends.cel.program import CelProgram, compile_program
    from compiler.frontends.cel.types import parse_type
    from vm.cel.k8s_authz import authorizer

    env = Env({"authorizer": parse_type("kubernetes.authorization.Authorizer"), "v": DYN}, KUBERNETES_LIBRARIES)
    text = "v.all(x, authorizer.group('apps').resource(x).namespace('n').check('get').allowed())"
    found = compile_program(text, env, tier=tier)
    assert isinstance(found, CelProgram)
    asked: list[Any] = []

    def host(call: HostCall) -> Any:
        asked.append((call.kind, call.payload["resourceAttributes"]["resource"]))
        return {"allowed": asked[-1][1] == "pods"}

    who = authorizer({"username": "u", "groups": ["g"]})
    assert found.run({"authorizer": who, "v": ["pods", "secrets", "nodes"]}, host=host) is False
    assert asked == [("authorize", "pods"), ("authorize", "secrets")]
    assert found.run({"authorizer": who, "v": [1]}, host=host).code == "overload"


def test_expressions_are_checked_once() -> None:
    env = Env({"v": DYN}, PLAIN_LIBRARIES)
    assert checked_expression("v.a == 1", env) is checked_expression("v.a == 1", env)
    problem = checked_expression("v.a ==", env)
    assert not hasattr(problem, "root")
