"""What the API server's libraries answer, through the whole compiler: a table of expressions, variables and answers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from compiler.frontends.cel.declarations import KUBERNETES_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.program import CelProgram, compile_program
from compiler.frontends.cel.types import DYN
from vm.cel.values import Optional, TypeValue, UInt
from vm.values import MISSING, Err

_HERE = Path(__file__).parent


def _table(name: str) -> list[Any]:
    return [json.loads(line) for line in (_HERE / name).read_text(encoding="utf-8").splitlines()]


@cache
def program(text: str, names: tuple[str, ...]) -> CelProgram:
    made = compile_program(text, Env(variables=dict.fromkeys(names, DYN), libraries=KUBERNETES_LIBRARIES))
    assert isinstance(made, CelProgram), made
    return made


def shown(v: Any) -> Any:
    """A value as the table writes it: ``= text``, ``! error``, doubles with 17 digits, other values by their type."""
    if type(v) is Err:
        return f"! {v.text}"
    if type(v) is Optional:
        return "= none" if v.value is MISSING else shown(v.value)
    return f"= {v}" if type(v) is str else _inner(v)


def _inner(v: Any) -> Any:
    if v is None or type(v) in (bool, int, str):
        return v
    if type(v) is UInt:
        return {"uint": str(int(v))}
    if type(v) is float:
        return {"double": {"inf": "+Inf", "-inf": "-Inf"}.get(repr(v)) or f"{v:.17g}"}
    if type(v) is list:
        return [_inner(x) for x in v]
    if type(v) is dict:
        return {k: _inner(x) for k, x in v.items()}
    if type(v) is Optional:
        return "none" if v.value is MISSING else _inner(v.value)
    return {"type": v.name if type(v) is TypeValue else v.CEL_TYPE}


def test_answers_of_the_api_servers_libraries() -> None:
    table = _table("k8s_answers.jsonl")
    wrong = []
    for text, variables, answer in table:
        got = shown(program(text, tuple(variables)).run(variables))
        if got != answer:
            wrong.append((text, variables, got, answer))
    assert wrong == []
    assert len(table) > 1000


@pytest.mark.parametrize(
    ("text", "variables", "cost"), _table("k8s_costs.jsonl"), ids=lambda x: x if isinstance(x, str) else ""
)
def test_costs_as_the_api_server_counts_them(text: str, variables: dict[str, Any], cost: int) -> None:
    from vm.host import Meter

    meter = Meter(10_000_000)
    program(text, tuple(variables)).run(variables, meter=meter)
    assert meter.spent + meter.cost == cost
