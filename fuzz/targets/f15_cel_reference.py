"""CEL expressions mean what the reference evaluator says, at every level and on both tiers.

Half of the expressions are well typed, half have parts of any type, which the checker lets pass as ``dyn`` or refuses.
"""

from __future__ import annotations

from random import Random
from time import monotonic
from typing import Any, Final, Literal

from fuzz.cel_cases import Answer, Failed, compiled, many_bindings, of_product, of_reference
from fuzz.explore import Counterexample
from fuzz.gen.cel import Texts
from tests.reference.cel_eval import Names
from tests.reference.cel_eval import run as reference
from tests.reference.cel_parse import parse
from tests.reference.cel_values import CelError, Unknown
from tests.support.cel_forms import to_reference

NAME: Final = "f15_cel_reference"
PROPERTY: Final = "run(cel, bindings) = reference(cel, bindings): value with its types, or kind of error"
WEIGHT: Final = 2

CONFIGURATIONS: Final[tuple[tuple[int, Literal["1", "2"]], ...]] = ((2, "1"), (2, "2"), (0, "1"))


def run_cases(seconds: float, seed: int) -> tuple[int, int]:
    """(expressions, evaluations) that were compared."""
    end = monotonic() + seconds
    rng = Random(seed)
    streams = (Texts(rng), Texts(rng, confusion=0.15))
    expressions = evaluations = 0
    while monotonic() < end:
        stream = streams[expressions % 2]
        text = stream.expression("bool" if rng.random() < 0.4 else "")
        level, tier = CONFIGURATIONS[expressions % len(CONFIGURATIONS)]
        evaluations += compare(text, many_bindings(rng), level, tier)
        expressions += 1
    return expressions, evaluations


def compare(text: str, sets: list[dict[str, Any]], level: int, tier: Literal["1", "2"]) -> int:
    """How many evaluations were compared. Raises :class:`Counterexample` for one that differs."""
    program = compiled(text, level, tier)
    if program is None:
        return 0
    tree = parse(text)
    compared = 0
    for values in sets:
        ours = of_product(program.run(values))
        names = Names({name: to_reference(value) for name, value in values.items()})
        try:
            theirs = of_reference(reference(tree, names))
        except CelError as e:
            theirs = Failed(e.code)
        except Unknown:
            return compared
        if not same(ours, theirs):
            used = {name: value for name, value in values.items() if name in text}
            raise Counterexample(f"{text}\nO{level} tier {tier}: {ours}\nreference: {theirs}\nbindings: {used}")
        compared += 1
    return compared


def same(ours: Answer, theirs: Answer) -> bool:
    if isinstance(ours, Failed) and isinstance(theirs, Failed):
        return ours.code == theirs.code
    return bool(ours == theirs)


def run(seconds: float, seed: int) -> int:
    return run_cases(seconds, seed)[1]
