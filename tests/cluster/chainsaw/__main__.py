"""``make chainsaw SUITES="validate mutate"``: the public cluster suites against real control planes, side by side.

Prints a table by suite, writes a JUnit file and the output of each failed case. Ends with 1 when a case failed that the
reference passes in such an environment, or one passed that ``chainsaw.toml`` says cannot run.
"""

from __future__ import annotations

import argparse
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as xml

from tests.cluster.chainsaw.cases import SUITES, ClusterCase, cases, representative, root
from tests.cluster.chainsaw.site import Result, Site
from tests.cluster.control_plane import StartProblem
from tests.cluster.controlplane.build import BuildProblem, build
from tests.cluster.gotools import chainsaw as build_chainsaw


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.chainsaw", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"suites to run (all: {' '.join(SUITES)})")
    parser.add_argument("--case", action="append", default=[], metavar="TEXT", help="only cases whose path holds it")
    parser.add_argument("--representative", action="store_true", help="the cases that the cluster tests run")
    parser.add_argument("--planes", type=int, default=4, metavar="N", help="control planes side by side (4)")
    parser.add_argument("--seconds", type=int, default=90, metavar="S", help="what an assertion may take (90)")
    parser.add_argument("--out", type=Path, default=Path("build/chainsaw"), metavar="DIR", help="where results go")
    args = parser.parse_args(argv)
    wanted = representative() if args.representative else cases(tuple(args.suites) or SUITES, tuple(args.case))
    if not wanted:
        print(f"no such cases below {root()} (THESMOS_CONFORMANCE names the folder)", file=sys.stderr)
        return 2
    try:
        results = run(wanted, args.planes, args.seconds, args.out)
    except (BuildProblem, StartProblem, AssertionError) as problem:
        print(problem, file=sys.stderr)
        return 2
    print(table(results))
    bad = [r for r in results if wrong(r)]
    for result in bad:
        print(f"{'PASSES' if result.passed else 'FAILED'} {result.case.path}")
    return 1 if bad else 0


def wrong(result: Result) -> bool:
    """Whether a result is one that must not be: see the text of the module."""
    if result.case.reason:
        return result.passed
    return not result.passed and result.case.reference == "pass"


def run(wanted: Sequence[ClusterCase], planes: int, seconds: int, out: Path) -> list[Result]:
    """Runs cases on as many planes as asked for; each takes the next when it is done with one."""
    assets, chainsaw = build(), build_chainsaw()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    todo: queue.SimpleQueue[ClusterCase] = queue.SimpleQueue()
    for case in wanted:
        todo.put(case)
    results: list[Result] = []
    problems: list[str] = []
    sites: list[Site] = []
    ended = threading.Event()

    def end(*_: object) -> None:
        # Without it the control planes would stay behind.
        ended.set()
        for site in sites:
            site.end_case()

    before = signal.signal(signal.SIGTERM, end)
    with tempfile.TemporaryDirectory(prefix="thesmos-chainsaw-") as scratch:

        def work(number: int) -> None:
            site = Site(assets, chainsaw, Path(scratch), number, seconds)
            sites.append(site)
            try:
                site.start()
                while not ended.is_set():
                    try:
                        case = todo.get_nowait()
                    except queue.Empty:
                        return
                    result = site.run(case)
                    results.append(result)
                    told(result, len(results), len(wanted), out)
            except (AssertionError, StartProblem, OSError, subprocess.TimeoutExpired) as problem:
                problems.append(str(problem))
            finally:
                if site.thesmos is not None:
                    shutil.copy(site.thesmos.log, out / f"thesmos-{number}.log")
                site.stop()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(min(planes, len(wanted)))]
        for thread in threads:
            thread.start()
            # Two cores: control planes that start at once slow each other down beyond their time.
            time.sleep(3)
        for thread in threads:
            thread.join()
    signal.signal(signal.SIGTERM, before)
    if len(results) < len(wanted):
        raise AssertionError("\n".join(problems) or "not every case was run")
    write_junit(results, out / "junit.xml")
    (out / "table.txt").write_text(table(results) + "\n", encoding="utf-8")
    return results


def told(result: Result, done: int, total: int, out: Path) -> None:
    word = "ok  " if result.passed else "FAIL"
    print(f"[{done}/{total}] {word} {result.case.path} {result.seconds:.1f} s", flush=True)
    if not result.passed:
        name = result.case.path.replace("/", "__")
        (out / f"{name}.txt").write_text(result.output, encoding="utf-8")


def table(results: Sequence[Result]) -> str:
    """By suite: of the cases that the reference passes how many pass, and of those that it fails."""
    rows = [f"{'suite':<24}{'reference passes':>18}{'reference fails':>17}{'cannot run':>12}{'seconds':>9}"]
    suites = sorted({r.case.suite for r in results})
    for suite in [*suites, "all"]:
        of = [r for r in results if suite in ("all", r.case.suite)]
        passes = [r for r in of if r.case.reference == "pass" and not r.case.reason]
        fails = [r for r in of if r.case.reference != "pass" and not r.case.reason]
        cells = [f"{sum(r.passed for r in group)}/{len(group)}" for group in (passes, fails)]
        listed = sum(1 for r in of if r.case.reason)
        rows.append(f"{suite:<24}{cells[0]:>18}{cells[1]:>17}{listed:>12}{sum(r.seconds for r in of):>9.0f}")
    return "\n".join(rows)


def write_junit(results: Sequence[Result], path: Path) -> None:
    tree = xml.Element("testsuites")
    for suite in sorted({r.case.suite for r in results}):
        of = [r for r in results if r.case.suite == suite]
        failures = str(sum(not r.passed for r in of))
        element = xml.SubElement(tree, "testsuite", name=suite, tests=str(len(of)), failures=failures)
        for result in of:
            one = xml.SubElement(element, "testcase", name=result.case.path, time=f"{result.seconds:.1f}")
            if not result.passed:
                clean = "".join(c for c in result.output[-4000:] if c.isprintable() or c in "\n\t")
                xml.SubElement(one, "failure", message="the case failed").text = clean
    xml.ElementTree(tree).write(path, encoding="unicode", xml_declaration=True)


if __name__ == "__main__":
    raise SystemExit(main())
