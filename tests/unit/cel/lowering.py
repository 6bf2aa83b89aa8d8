"""Runs an expression in every way there is, which must all answer the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from compiler.frontends.cel.declarations import KUBERNETES_LIBRARIES, PLAIN_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.program import CelProgram, Host, compile_program
from compiler.frontends.cel.types import DYN
from tests.conformance.cel_spec import shown
from vm.host import Meter
from vm.values import Err

WAYS: tuple[tuple[int, Literal["1", "2"]], ...] = ((0, "1"), (2, "1"), (0, "2"), (2, "2"))


def program(text: str, names: Mapping[str, Any], *, plain: bool = True, level: int = 2, tier: Any = "1") -> CelProgram:
    libraries = PLAIN_LIBRARIES if plain else KUBERNETES_LIBRARIES
    env = Env(dict.fromkeys(names, DYN), libraries, strict=plain, kubernetes=not plain)
    found = compile_program(text, env, level=level, tier=tier)
    assert isinstance(found, CelProgram), found
    return found


def run(text: str, *, plain: bool = True, host: Host | None = None, **variables: Any) -> Any:
    """The value of an expression, the same on both tiers, optimised or not."""
    answers = [
        program(text, variables, plain=plain, level=level, tier=tier).run(variables, host=host) for level, tier in WAYS
    ]
    assert len({shown(a) for a in answers}) == 1, answers
    return answers[0]


def error(text: str, *, plain: bool = True, **variables: Any) -> str:
    """The text of the error that an expression ends in."""
    answer = run(text, plain=plain, **variables)
    assert isinstance(answer, Err), answer
    return answer.text


def cost(text: str, **variables: Any) -> int:
    """What an expression of a policy costs, the same on both tiers."""
    spent = set()
    for tier in ("1", "2"):
        meter = Meter(1_000_000)
        program(text, variables, plain=False, tier=tier).run(variables, meter=meter)
        spent.add(meter.spent)
    (found,) = spent
    return found
