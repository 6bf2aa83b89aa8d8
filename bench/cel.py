"""The CEL corpus on the VM and on cel-go, side by side: one process of each, asked in turn, so that both see the same
phases of the machine. cel-go is built from ``bench/celgo`` with the Go tool chain where there is one.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import measure
from bench.cel_corpus import Expression, Json, conformance_folder, corpus, pair
from bench.figures import Figure, figure
from compiler.frontends.cel.declarations import KUBERNETES_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.program import CelProgram, compile_program
from compiler.frontends.cel.types import DYN

ENV: Final = Env({"object": DYN, "oldObject": DYN}, KUBERNETES_LIBRARIES, strict=True)
_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Timed:
    """One expression on one object: nanoseconds on tier 1, tier 2 and cel-go (0.0 where it is not there)."""

    policy: str
    value: bool
    tier1: float
    tier2: float
    cel_go: float


def program(text: str, tier: Any = "1") -> CelProgram:
    """Raises ``ValueError`` for an expression that does not compile."""
    found = compile_program(text, ENV, tier=tier)
    if isinstance(found, tuple):
        raise ValueError(f"{text}: {found[0].message}")
    return found


def ask(text: str, new: Json, old: Json) -> Json:
    """The value of an expression on an object and an old one."""
    return program(text).run({"object": new, "oldObject": old})


class CelGo:
    """The other side, a process that answers one case a line."""

    def __init__(self, binary: Path) -> None:
        self._process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def clock(self, text: str, new: Json, old: Json) -> tuple[str, float]:
        """What it answers, and the nanoseconds it takes."""
        question = {"expression": text, "object": new, "oldObject": old, "seconds": _SECONDS}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question, default=str) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["error"] or answer["value"], answer["nanoseconds"]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


@contextmanager
def cel_go(scratch: Path) -> Iterator[CelGo | None]:
    """The built cel-go side; None (and a line that says why) without a Go tool chain or its modules."""
    go = shutil.which("go")
    if go is None:
        print("no go on this machine: the CEL corpus is timed without cel-go")
        yield None
        return
    binary = scratch / "celgo"
    built = subprocess.run(
        [go, "build", "-o", str(binary), "."],
        cwd=Path(__file__).parent / "celgo",
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        print(f"cel-go does not build, the corpus is timed without it: {built.stderr.strip()[-200:]}")
        yield None
        return
    other = CelGo(binary)
    try:
        yield other
    finally:
        other.close()


def measure_corpus(scratch: Path) -> Iterator[Timed]:
    """Times every expression of the corpus on an object where it is true and on one where it is false. Raises
    ``ValueError`` where the two sides differ."""
    expressions = corpus(conformance_folder())
    with cel_go(scratch) as other:
        for expression in expressions:
            cases = pair(expression, ask)
            if cases is None:
                print(f"{expression.policy}: no object makes the expression true and another false")
                continue
            for value, (new, old) in zip((True, False), cases, strict=True):
                yield _time(expression, value, new, old, other)


def _time(expression: Expression, value: bool, new: Json, old: Json, other: CelGo | None) -> Timed:
    root = {"object": new, "oldObject": old}
    tiers = [
        measure.microseconds(lambda p=p: p.run(root), rounds=5, at_least=_SECONDS / 5) * 1e3  # type: ignore[misc]
        for p in (program(expression.text, "1"), program(expression.text, "2"))
    ]
    said, theirs = other.clock(expression.text, new, old) if other is not None else (str(value).lower(), 0.0)
    if said != str(value).lower():
        raise ValueError(f"{expression.policy}: {value} here, {said} on cel-go")
    return Timed(expression.policy, value, tiers[0], tiers[1], theirs)


def summary(timed: list[Timed]) -> dict[str, float]:
    """Geometric mean and worst of the ratios to cel-go, for each tier."""
    found: dict[str, float] = {"cases": float(len(timed))}
    ours = {"tier1": [t.tier1 for t in timed], "tier2": [t.tier2 for t in timed]}
    for tier, times in ours.items():
        ratios = [t / c.cel_go for t, c in zip(times, timed, strict=True) if c.cel_go]
        if ratios:
            found[f"{tier}_mean"] = math.exp(sum(map(math.log, ratios)) / len(ratios))
            found[f"{tier}_worst"] = max(ratios)
    return found


def measured(scratch: Path) -> Iterator[Figure]:
    """Part ``cel``: the ratios to cel-go, of each case and over all; nothing without the conformance data."""
    timed: list[Timed] = []
    for case in measure_corpus(scratch):
        timed.append(case)
        name = f"cel/{Path(case.policy).stem} is {str(case.value).lower()}"
        yield figure(f"{name}, tier 2", "ns", [case.tier2], yardstick=[case.cel_go] if case.cel_go else ())
    if not timed:
        print("no conformance data: set THESMOS_CONFORMANCE to its folder to time the CEL corpus")
        return
    found = summary(timed)
    for tier, target in (("tier1", None), ("tier2", 0.5)):
        if f"{tier}_mean" in found:
            name = f"cel/{tier[:-1]} {tier[-1]}"
            mean, worst = [found[f"{tier}_mean"]], [found[f"{tier}_worst"]]
            yield figure(f"{name} over cel-go, geometric mean", "ratio", mean, comparable="ratio", target=target)
            yield figure(f"{name} over cel-go, worst", "ratio", worst, target=None if target is None else 2.0)
