"""Drives every fuzz target: ``python -m fuzz.run [SECONDS] [--only NAME]... [--seed N] [--save]``.

Each module of ``fuzz/targets`` has ``NAME``, ``PROPERTY`` and ``run(seconds, seed)``, which answers the number of
inputs it tried and raises for an input that breaks the property, ``Skipped`` where it cannot run. The seconds are
shared out by the ``WEIGHT`` of a module (1 where it has none), and what a target leaves over goes to those after it.
Exit code 1 when some target found something, 2 for bad usage.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time_ns
from types import ModuleType

import yaml

from fuzz import targets
from fuzz.explore import Counterexample, Skipped

HERE = Path(__file__).parent
CASES = HERE.parent / "tests" / "cases" / "found"
CORPUS = HERE / "corpus"
README = HERE / "README.md"


@dataclass(frozen=True, slots=True)
class Report:
    """How a target went; ``inputs`` is None when it stopped at a counterexample or did not run."""

    name: str
    inputs: int | None
    seconds: float
    error: BaseException | None = None

    @property
    def state(self) -> str:
        if isinstance(self.error, Skipped):
            return "skipped"
        return "ok" if self.error is None else "counterexample"


def modules() -> list[ModuleType]:
    """The targets in the order of their names."""
    names = sorted(m.name for m in pkgutil.iter_modules(targets.__path__))
    return [importlib.import_module(f"fuzz.targets.{name}") for name in names]


def _weight(module: ModuleType) -> float:
    """A target's part of the seconds beside the others': its ``WEIGHT``, 1 where it has none."""
    return float(getattr(module, "WEIGHT", 1))


def run_target(module: ModuleType, seconds: float, seed: int) -> Report:
    began = monotonic()
    try:
        inputs = module.run(seconds, seed)
    except (Exception, RecursionError) as error:
        return Report(module.NAME, None, monotonic() - began, error)
    return Report(module.NAME, inputs, monotonic() - began)


def save(report: Report, seed: int) -> Path:
    """Writes a counterexample as a case file where it has that form, else as a text that says how to see it again."""
    error = report.error
    if isinstance(error, Counterexample) and error.case is not None:
        CASES.mkdir(parents=True, exist_ok=True)
        path = CASES / f"{report.name}_{seed}.yaml"
        path.write_text(yaml.safe_dump(error.case, sort_keys=False, allow_unicode=True), encoding="utf-8")
        return path
    CORPUS.mkdir(exist_ok=True)
    path = CORPUS / f"{report.name}_{seed}.txt"
    again = f"python -m fuzz.run {max(1, round(report.seconds))} --only {report.name} --seed {seed}"
    told = "".join(traceback.format_exception(error)) if error is not None else ""
    path.write_text(f"# {again}\n{told}", encoding="utf-8")
    return path


def table(reports: Iterable[Report]) -> str:
    rows = [("target", "inputs", "seconds", "state")]
    rows += [(r.name, "-" if r.inputs is None else f"{r.inputs:,}", f"{r.seconds:.1f}", r.state) for r in reports]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip() for a, b, c, d in rows)


def readme() -> str:
    """``fuzz/README.md``: what each target checks."""
    rows = "\n".join(f"| `{m.NAME}` | {m.PROPERTY.replace('|', '&#124;')} |" for m in modules())
    return f"""# Fuzzing

For those who change the compiler, the VM or the runtime. `make fuzz SECONDS=600` runs every target, the seconds shared
out; `make test` gives each about two with a fixed seed. One property a file:

| target | property |
|---|---|
{rows}

    python -m fuzz.run 60 --only f04_reference --seed 7 --save

`--seed` makes a run repeatable, `--save` keeps what was found: as a case file under `tests/cases/found/` when it is a
policy and a resource, else as a text with the command that shows it again under `fuzz/corpus/`. A case file states
what the reference evaluator answers; whether that is right, the semantics decide.

The long run compares product and reference on policies with contexts, loops, Pod security, exceptions, mutations,
targets and generate rules, each on many objects; the figures can be had again from the seed:

    python -m fuzz.long --pairs 1000000 --per-policy 50 --seed 1000000 --engines "O2,tier 2" --jobs 2

The long run of the tiers compares tier 2 and fused code with the exact VM on policies as they are made, then on the
same bent: other kinds of values, missing keys, repeated elements anywhere in rules and objects. Fuel left, what is left
of the CEL budget, and the questions to the host are compared too:

    python -m fuzz.tiers --pairs 1000000 --per-policy 50 --seed 7000000 --jobs 2

Generators are in `gen/`, in twins: type-directed ones reach deep code, arbitrary ones make what nobody would write.
`python -m fuzz.run --readme` writes this page anew.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuzz.run", description="runs the fuzz targets")
    parser.add_argument("seconds", nargs="?", type=float, default=60.0, help="seconds in all (default 60)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this target; may be repeated")
    parser.add_argument("--seed", type=int, default=None, help="seed (default: from the clock)")
    parser.add_argument("--save", action="store_true", help="keep counterexamples as files")
    parser.add_argument("--readme", action="store_true", help="write fuzz/README.md anew and stop")
    options = parser.parse_args(arguments)
    if options.readme:
        README.write_text(readme(), encoding="utf-8")
        return 0
    found = modules()
    unknown = [n for n in options.only if n not in {m.NAME for m in found}]
    if unknown or options.seconds <= 0:
        known = ", ".join(m.NAME for m in found)
        print(f"no such target: {', '.join(unknown)} (there are {known})" if unknown else "seconds must be above 0")
        return 2
    chosen = [m for m in found if not options.only or m.NAME in options.only]
    seed = options.seed if options.seed is not None else time_ns() % 1_000_000
    reports: list[Report] = []
    end = monotonic() + options.seconds
    for i, module in enumerate(chosen):
        left = sum(map(_weight, chosen[i:]))
        share = max(0.5, (end - monotonic()) * _weight(module) / left)
        report = run_target(module, share, seed)
        reports.append(report)
        print(f"{report.name}: {report.state}", file=sys.stderr, flush=True)
        if isinstance(report.error, Skipped):
            print(f"  {report.error}", file=sys.stderr)
        elif report.error is not None:
            print("".join(traceback.format_exception(report.error)[-40:])[-6000:], file=sys.stderr)
            if options.save:
                print(f"saved as {save(report, seed)}", file=sys.stderr)
    print(f"seed {seed}")
    print(table(reports))
    return 1 if any(r.state == "counterexample" for r in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
