"""CEL expressions on the product and on those it is compared with: one case, and what each says of it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final, Literal

from compiler.frontends.cel.declarations import KUBERNETES_LIBRARIES, PLAIN_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.program import CelProgram, compile_program
from compiler.frontends.cel.types import parse_type
from fuzz.gen.cel import VARIABLES, bindings
from tests.reference.cel_values import CelError, V, plain
from tests.support.cel_forms import to_reference
from vm.values import Err, Value

ENV: Final = Env(
    {name: parse_type(kind) for name, kind in VARIABLES.items()},
    tuple(dict.fromkeys((*PLAIN_LIBRARIES, *KUBERNETES_LIBRARIES))),
    strict=True,
)
SETS: Final = 8
"""Sets of bindings that one expression is run on: compiling it takes a hundred times as long as a run."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An evaluation that ended in an error of this kind; empty where an engine does not tell kinds."""

    code: str


Answer = Failed | Any
"""What an engine says: a failure, or a value in the form of ``tests.reference.cel_values.plain``."""


def compiled(text: str, level: int, tier: Literal["1", "2"]) -> CelProgram | None:
    """The program of an expression; None where it is refused, which the other side is then not asked."""
    found = compile_program(text, ENV, level=level, tier=tier)
    return None if isinstance(found, tuple) else found


def of_product(value: Value) -> Answer:
    """A result of the product to compare."""
    return Failed(value.code) if isinstance(value, Err) else plain(to_reference(value))


def of_reference(value: V | CelError) -> Answer:
    """A result of the reference evaluator to compare."""
    return Failed(value.code) if isinstance(value, CelError) else plain(value)


def many_bindings(rng: Random) -> list[dict[str, Any]]:
    return [bindings(rng) for _ in range(SETS)]
