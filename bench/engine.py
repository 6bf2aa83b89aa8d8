"""Part ``engine``: one admission by the engine alone, on both tiers, and on tier 1 as ``make compiled`` has built it.

Sets: the ten reference policies; 10, 100 and 1,000 generated ones, all of which match; the ten with 900 of other kinds
beside them; the whole public library over the objects of its own tests. Each set is measured in a process of its own,
in turns with the yardstick.
"""

from __future__ import annotations

import filecmp
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench import measure
from bench.compiling import write_bundle
from bench.engine_child import YARDSTICK, Asked, Case
from bench.figures import Figure, figure
from bench.library import library_objects, library_policies
from bench.policies import generated_policies, policies_of_other_kinds, policies_of_other_pods, reference_policies
from bench.requests import denied_by_one, reference_pod

TIERS: Final = ("1", "2")
ROOT: Final = Path(__file__).resolve().parents[1]
COMPILED: Final = ROOT / "build/compiled/site"
"""Where ``make compiled`` puts its packages."""
TARGETS: Final[dict[str, float]] = {
    "reference/pass/tier 1": 100.0,
    "reference/pass/tier 1 compiled": 20.0,
    "reference/pass/tier 2": 15.0,
    "reference/deny of one/tier 2": 40.0,
    "100 generated/pass/tier 2": 100.0,
    "1000 generated/pass/tier 2": 1000.0,
}
OTHERS: Final = (90, 900)
EVERY: Final = 16
"""Of the objects of the library every so many-th is asked about."""
FLAT: Final = 1.05
"""What the policies of other kinds may make of the time for a Pod."""


def measured(folder: Path, scratch: Path, sizes: Sequence[int], rounds: int) -> Iterator[Figure]:
    """``folder`` holds the reference work; bundles are made in ``scratch``."""
    objects = {
        name: _write(scratch / f"{name}.json", [pod])
        for name, pod in (("pass", reference_pod(folder)), ("deny of one", denied_by_one(folder)))
    }
    reference = write_bundle(scratch / "reference.thb", reference_policies(folder))
    cases = [
        Case(f"{what}/tier {tier}", str(reference), tier, objects[what], failing)
        for what, failing in (("pass", 0), ("deny of one", 1))
        for tier in TIERS
    ]
    yield from _figures("reference", _ask(cases, rounds))
    yield from _compiled(str(reference), objects, rounds)
    for size in sizes:
        bundle = write_bundle(scratch / f"generated-{size}.thb", generated_policies(size))
        cases = [Case(f"pass/tier {tier}", str(bundle), tier, objects["pass"], 0) for tier in TIERS]
        yield from _figures(f"{size} generated", _ask(cases, rounds))
    yield from _with_others(folder, scratch, str(reference), objects["pass"], rounds)
    yield from _library(scratch, objects["pass"], rounds)


def _compiled(reference: str, objects: dict[str, str], rounds: int) -> Iterator[Figure]:
    """The exact machine as machine code: the same source, or there is nothing to measure."""
    if not COMPILED.is_dir():
        print("no tier 1 compiled: `make compiled` builds it")
        return
    if stale := _other_source():
        print(f"no tier 1 compiled: {stale} has changed since `make compiled`")
        return
    failing = {"pass": 0, "deny of one": 1}
    cases = [Case(f"{what}/tier 1 compiled", reference, "1", file, failing[what]) for what, file in objects.items()]
    # Bytecodes of machine code are none.
    yield from _figures("reference", _ask(cases, rounds, COMPILED) | {"opcodes": {}})


def _other_source() -> str:
    """A module that is another one than the compiled packages were built of; empty where there is none."""
    for package in ("grammar", "vm", "compiler", "runtime"):
        for built in (COMPILED / package).rglob("*.py"):
            name = built.relative_to(COMPILED)
            if not (ROOT / name).exists() or not filecmp.cmp(built, ROOT / name, shallow=False):
                return name.as_posix()
    return ""


def _with_others(folder: Path, scratch: Path, reference: str, pod: str, rounds: int) -> Iterator[Figure]:
    cases = [Case("0", reference, "2", pod, 0)]
    for count in OTHERS:
        policies = [*reference_policies(folder), *policies_of_other_kinds(count)]
        both = write_bundle(scratch / f"with-{count}.thb", policies)
        cases.append(Case(str(count), str(both), "2", pod, 0))
    others = policies_of_other_pods(OTHERS[-1])
    bundle = str(write_bundle(scratch / "elsewhere.thb", [*reference_policies(folder), *others]))
    elsewhere = Case("elsewhere", bundle, "2", pod, 0, silent=sum(len(p["spec"]["rules"]) for p in others))
    cases.append(elsewhere)
    answer = _ask(cases, rounds)
    samples, opcodes = answer["samples"], answer["opcodes"]
    for case in cases:
        which = f"{OTHERS[-1]} about other Pods" if case is elsewhere else f"{case.name} of other kinds"
        yield figure(f"engine/reference/with {which}/tier 2", "µs", samples[case.name])
    most = str(OTHERS[-1])
    ratios = [beside / alone for beside, alone in zip(samples[most], samples["0"], strict=True)]
    name = f"engine/reference/with {most} of other kinds over alone, tier 2"
    yield figure(name, "ratio", ratios, comparable="ratio", target=FLAT)
    # The same of what does not depend on how busy the machine is.
    counted = [opcodes[most] / opcodes["0"]]
    yield figure(f"{name}, bytecodes", "ratio", counted, comparable="count", target=FLAT)


def _library(scratch: Path, pod: str, rounds: int) -> Iterator[Figure]:
    policies, objects = library_policies(), library_objects()
    if not policies or not objects:
        print("no conformance data: set THESMOS_CONFORMANCE to its folder to time the policy library")
        return
    bundle = str(write_bundle(scratch / "library.thb", list(policies)))
    mix = _write(scratch / "library.json", objects[::EVERY])
    cases = [Case(f"{what}/tier {t}", bundle, t, file) for what, file in (("a Pod", pod), ("mix", mix)) for t in TIERS]
    yield from _figures(f"library of {len(policies)}", _ask(cases, rounds))


def _write(path: Path, objects: list[dict[str, Any]]) -> str:
    # The library's files hold dates that JSON has no word for; the API server would have refused them.
    path.write_text(json.dumps(objects, default=str), encoding="utf-8")
    return str(path)


def _ask(cases: list[Case], rounds: int, site: Path | None = None) -> dict[str, Any]:
    """``site`` holds the packages to be measured where they are not those of the checkout."""
    # -P: the folder one is in does not come first, where the pure source lies.
    command = [measure.python(), "-P", "-m", "bench.engine_child"]
    path = os.pathsep.join(map(str, [site, ROOT] if site else [ROOT]))
    text = Asked(cases, rounds, 0.03, compiled=site is not None).text()
    done = subprocess.run(
        command, input=text, stdout=subprocess.PIPE, text=True, check=False, env=os.environ | {"PYTHONPATH": path}
    )
    if done.returncode != 0:
        raise SystemExit("the engine could not be measured")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _figures(which: str, answer: dict[str, Any]) -> Iterator[Figure]:
    samples = answer["samples"]
    for name, found in samples.items():
        if name == YARDSTICK:
            continue
        yield figure(
            f"engine/{which}/{name}",
            "µs",
            found,
            yardstick=samples[YARDSTICK],
            comparable="ratio",
            target=TARGETS.get(f"{which}/{name}"),
        )
    for name, count in answer["opcodes"].items():
        if name != YARDSTICK:
            yield figure(f"engine/{which}/{name}/bytecodes", "instructions", [count], comparable="count")
