"""CEL expressions mean what an outside implementation says, the C++ one of ``cel-expr-python``.

Where the two differ on purpose, ``fuzz/cel_differences.py`` says so, with the paragraph of the specification. Half of
the expressions are well typed, half have parts of any type.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from time import monotonic
from typing import Any, Final

from compiler.frontends.cel.program import CelProgram
from fuzz.cel_cases import Failed, compiled, many_bindings, of_product
from fuzz.cel_differences import Case, explained
from fuzz.explore import Counterexample, Skipped
from fuzz.gen.cel import Texts
from tests.reference.cel_values import V, plain
from tests.support.cel_forms import to_reference
from tests.support.cel_judge import GROUPS, Crashed, Judge, Missing, Raised, Refused, Told
from vm.values import Err

NAME: Final = "f16_cel_judge"
PROPERTY: Final = "run(cel, bindings) = cel-cpp(cel, bindings): value, or that it is an error"
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class Tally:
    """What was compared, and what was not and why: nothing is passed over without being counted."""

    expressions: int = 0
    evaluations: int = 0
    refused: int = 0
    """Evaluations that the judge has no answer for."""
    differences: Counter[str] = field(default_factory=Counter)
    """How often each known difference was met."""
    crashes: Counter[str] = field(default_factory=Counter)
    """How often the judge crashed on an expression. What it answers in a new process is compared."""

    def __str__(self) -> str:
        lines = [
            f"{self.evaluations} evaluations of {self.expressions} expressions are the same, "
            f"{self.differences.total()} known differences, {self.refused} without an answer, "
            f"{self.crashes.total()} crashes of the judge"
        ]
        lines += [f"  difference {n:>6}  {name}" for name, n in self.differences.most_common()]
        lines += [f"  crash      {n:>6}  {name}" for name, n in self.crashes.most_common()]
        return "\n".join(lines)


def run(seconds: float, seed: int) -> int:
    tally = run_cases(seconds, seed)
    print(f"{NAME}: {tally}", file=sys.stderr)
    return tally.evaluations


def run_cases(seconds: float, seed: int) -> Tally:
    """Raises :class:`Counterexample`, and :class:`Skipped` where there is no judge."""
    rng = Random(seed)
    streams = (Texts(rng, groups=GROUPS), Texts(rng, groups=GROUPS, confusion=0.15))
    tally = Tally()
    count = 0
    try:
        with Judge() as judge:
            end = monotonic() + seconds
            while monotonic() < end:
                text = streams[count % 2].expression("bool" if rng.random() < 0.4 else "")
                compare(judge, text, many_bindings(rng), tally)
                count += 1
    except Missing as problem:
        raise Skipped(str(problem)) from None
    return tally


def compare(judge: Judge, text: str, sets: list[dict[str, Any]], tally: Tally) -> None:
    """Raises :class:`Counterexample` for an evaluation that differs without a reason."""
    program = compiled(text, 2, "1")
    if program is None:
        return
    before = tally.evaluations
    for values in sets:
        answer = judge.answer(text, values)
        if isinstance(answer, Crashed):
            again = judge.answer(text, values)
            alone = "" if isinstance(again, Crashed) else f", not when asked alone but after {answer.answers} answers"
            tally.crashes[f"status {answer.status}{alone}: {text}"] += 1
            if isinstance(again, Crashed):
                continue
            answer = again
        if isinstance(answer, Refused):
            tally.refused += 1
            continue
        case = difference(text, program, values, answer)
        if case is None:
            tally.evaluations += 1
            continue
        known = explained(case, Sides(judge, values))
        if known is None:
            ours, theirs = case.ours or case.our_error, case.theirs or case.their_error
            raise Counterexample(f"{text}\nours: {ours}\njudge: {theirs}\nbindings: {case.values}")
        tally.differences[known] += 1
    tally.expressions += tally.evaluations > before


def difference(text: str, program: CelProgram, values: dict[str, Any], answer: Told | Raised) -> Case | None:
    """How the product differs from an answer of the judge."""
    result = program.run(values)
    if isinstance(result, Err) and isinstance(answer, Raised):
        return None
    theirs = Failed("") if isinstance(answer, Raised) else plain(_untold(answer.value))
    ours = of_product(result) if isinstance(result, Err) else plain(_untold(to_reference(result)))
    if ours == theirs:
        return None
    used = set(_WORD.findall(text))
    return Case(
        text,
        ours="" if isinstance(result, Err) else str(ours),
        our_error=result.text if isinstance(result, Err) else "",
        theirs="" if isinstance(answer, Raised) else str(theirs),
        their_error=answer.text if isinstance(answer, Raised) else "",
        values=str({name: value for name, value in values.items() if name in used}),
    )


@dataclass(frozen=True, slots=True)
class Sides:
    """The product and the judge with some bindings, to explain a difference."""

    judge: Judge
    values: dict[str, Any]

    def agree(self, here: str, there: str, exact: bool) -> bool:
        """Whether both have a value for the expressions of each, the same one, or with ``exact`` both an error."""
        program = compiled(here, 2, "1")
        if program is None:
            return False
        answer = self.judge.answer(there, self.values)
        if not isinstance(answer, (Told, Raised) if exact else Told):
            return False
        return difference(here, program, self.values, answer) is None

    def our_error(self, text: str) -> str:
        """The error of the product for an expression, empty for a value."""
        program = compiled(text, 2, "1")
        result = program.run(self.values) if program is not None else None
        return result.text if isinstance(result, Err) else ""


def _untold(v: V) -> V:
    """The value with what the judge does not tell taken away: the types of keys, fractions of a microsecond."""
    match v[0]:
        case "list":
            return ("list", [_untold(x) for x in v[1]])
        case "map":
            return ("map", [(("int", k[1]) if k[0] == "uint" else k, _untold(x)) for k, x in v[1]])
        case "timestamp":
            return ("timestamp", v[1] // 1000 * 1000)
        case "duration":
            return ("duration", abs(v[1]) // 1000 * (1000 if v[1] >= 0 else -1000))
    return v
