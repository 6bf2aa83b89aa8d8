"""CEL expressions mean what an outside implementation says, the C++ one of ``cel-expr-python``.

Where the two differ on purpose, ``fuzz/cel_differences.py`` says so, with the paragraph of the specification.
"""

from __future__ import annotations

from random import Random
from time import monotonic
from typing import Any, Final

from fuzz.cel_cases import Failed, compiled, many_bindings, of_product
from fuzz.cel_differences import explained
from fuzz.explore import Counterexample
from fuzz.gen.cel import Texts
from tests.reference.cel_values import CelError, V, plain
from tests.support import cel_judge
from tests.support.cel_forms import to_reference
from vm.values import Err

NAME: Final = "f16_cel_judge"
PROPERTY: Final = "run(cel, bindings) = cel-cpp(cel, bindings): value, or that it is an error"


def run(seconds: float, seed: int) -> int:
    end = monotonic() + seconds
    rng = Random(seed)
    texts = Texts(rng, groups=cel_judge.GROUPS)
    count = 0
    while monotonic() < end:
        count += compare(texts.expression("bool" if rng.random() < 0.4 else ""), many_bindings(rng))
    return count


def compare(text: str, sets: list[dict[str, Any]]) -> int:
    """How many evaluations were compared. Raises :class:`Counterexample` for one that differs without a reason."""
    program = compiled(text, 2, "1")
    if program is None:
        return 0
    try:
        other = cel_judge.compiled(text)
    except cel_judge.NotAsked:
        return 0
    compared = 0
    for values in sets:
        result = program.run(values)
        ours = of_product(result)
        try:
            theirs: Any = plain(_untold(cel_judge.judged(other, values)))
        except CelError:
            theirs = Failed("")
        except cel_judge.NotAsked:
            continue
        if not isinstance(result, Err):
            ours = plain(_untold(to_reference(result)))
        same = isinstance(theirs, Failed) if isinstance(ours, Failed) else ours == theirs
        error = result.text if isinstance(result, Err) else ""
        if not same and explained(text, error, ours, theirs) is None:
            used = {name: value for name, value in values.items() if name in text}
            raise Counterexample(f"{text}\nours: {ours}\njudge: {theirs}\nbindings: {used}")
        compared += 1
    return compared


def _untold(v: V, top: bool = True) -> V:
    """The value with what the judge does not tell of inner values taken away: signed from unsigned, fractions of a
    microsecond."""
    match v[0]:
        case "list":
            return ("list", [_untold(x, False) for x in v[1]])
        case "map":
            return ("map", [(_untold(k, False), _untold(x, False)) for k, x in v[1]])
        case "uint" if not top:
            return ("int", v[1])
        case "timestamp" | "duration":
            return (v[0], v[1] // 1000 * 1000)
    return v
