"""The sets made of ``kyverno-test.yaml`` files: seed, kyverno-cli, policies, and the messages of the last two.

Judging is stricter than the reference's: a result that comes from silence passes only where silence is what is
expected, or what the reference gives too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from runtime.cli.files import identity
from runtime.cli.offline import MACHINE, Backend
from runtime.cli.problem import Problem
from runtime.cli.testfile import Check, Entry, TestRun, load_tests, names, run_test
from tests.conformance.layout import Case, Layout
from tests.conformance.tally import Result, Tally

_MASKS: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)"), "<time>"),
    (re.compile(r"-?\b\d+h\d+m\d+(?:\.\d+)?s"), "<duration>"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
)


class Runner:
    """Runs each test file once per process; several sets look at the same run."""

    def __init__(self, backend: Backend = MACHINE) -> None:
        self.backend = backend
        self._runs: dict[Path, list[TestRun] | Problem] = {}

    def run(self, path: Path) -> list[TestRun] | Problem:
        """The documents of a test file as they ran, or why they could not be run."""
        found = self._runs.get(path)
        if found is None:
            try:
                found = [run_test(d, self.backend) for d in load_tests(path)]
            except Problem as problem:
                found = problem
            self._runs[path] = found
        return found

    def mismatches(self) -> list[str]:
        """Where the two tiers differed, when both ran: the last few of each test."""
        runs = [run for found in self._runs.values() if not isinstance(found, Problem) for run in found]
        return [f"{r.document.path}: {text}" for r in runs for text in r.policies.loaded.mismatches.last]


def run_seed(layout: Layout, runner: Runner) -> Tally:
    """The user's guide: silence is right only where a skip is expected."""
    tally = Tally("seed")
    for path in sorted(layout.seed.glob("*/kyverno-test.yaml")):
        case = path.parent.name
        ran = runner.run(path)
        if isinstance(ran, Problem):
            for _ in range(_declared(path)):
                tally.add(Result(case, "run", False, "a run", _told(ran, layout)))
            continue
        for run in ran:
            for check in run.checks:
                tally.add(_judge(case, run, check, None, lenient=False))
    return tally


def run_suite(layout: Layout, runner: Runner, name: str) -> Tally:
    """``kyverno-cli`` or ``policies``."""
    tally = Tally(name)
    for case in layout.cases(name):
        if case.out_of_scope:
            tally.out_of_scope += 1
            continue
        ran = runner.run(layout.root / case.path)
        if case.expected_to_fail:
            _judge_whole(tally, case, ran)
        elif isinstance(ran, Problem):
            for _ in range(max(case.expected, 1)):
                tally.add(Result(case.path, "run", False, "a run", _told(ran, layout)))
        else:
            reference = layout.reference_answers(case)
            for run in ran:
                for check in run.checks:
                    tally.add(_judge(case.path, run, check, reference, lenient=True))
    return tally


def _told(problem: Problem, layout: Layout) -> str:
    """A problem without the folders of this machine."""
    text = str(problem)
    for folder in (layout.root, layout.seed, layout.bugs):
        text = text.replace(f"{folder}/", "")
    return text


def _judge_whole(tally: Tally, case: Case, ran: list[TestRun] | Problem) -> None:
    passed, _, failed = case.reference_cli.partition("/")
    reference_fails = not (passed.isdigit() and failed == "0")
    fails = isinstance(ran, Problem) or any(not c.passed for run in ran for c in run.checks)
    words = {True: "a failing run", False: "a passing run"}
    for _ in range(max(case.expected, 1)):
        tally.add(Result(case.path, "run", fails == reference_fails, words[reference_fails], words[fails]))


def _judge(case: str, run: TestRun, check: Check, reference: list[dict[str, Any]] | None, *, lenient: bool) -> Result:
    entry = check.entry
    detail = f"{entry.policy}/{entry.rule or '*'} {check.resource}".strip()
    match check.state:
        case "ok":
            return Result(case, detail, True, entry.result, check.reason)
        case "differs":
            got = check.reason if check.message == "" else f"{check.reason}: {check.message[:200]}"
            return Result(case, detail, False, entry.result, got)
        case "dropped":
            return Result(case, detail, True, entry.result, "no such patched resource", excluded=True)
    silent = entry.result == "skip" and check.state != "missing"
    if lenient and not silent and reference is not None:
        silent = not any(_answers(entry, check.resource, r) for r in reference)
    got = check.reason if check.state != "refused" else f"refused: {_why(run, entry.policy)}"
    return Result(case, detail, silent, entry.result, got, excluded=silent)


def _is_refused(run: TestRun, policy: str) -> bool:
    name = policy.rpartition("/")[2]
    return any(r.name.rpartition("/")[2] == name for r in run.policies.refused)


def _why(run: TestRun, policy: str) -> str:
    name = policy.rpartition("/")[2]
    return next((r.reason for r in run.policies.refused if r.name.rpartition("/")[2] == name), "it does not compile")


def _answers(entry: Entry, resource: str, answer: dict[str, Any]) -> bool:
    """Whether a reference answer is of the entry's policy and rule, for the resource that a check names."""
    if str(answer["policy"]).rpartition("/")[2] != entry.policy.rpartition("/")[2]:
        return False
    if entry.rule and answer["rule"] not in (entry.rule, f"autogen-{entry.rule}", f"autogen-cronjob-{entry.rule}"):
        return False
    place = str(answer["resource"]).split("/")
    return not resource or resource in (place[-1], "/".join(place[-2:]))


def _declared(path: Path) -> int:
    """Results that a test file declares, for a run that never came to them."""
    try:
        return sum(max(len(e.resources), 1) for d in load_tests(path) for e in d.entries) or 1
    except Problem:
        return 1


def run_messages(layout: Layout, runner: Runner) -> tuple[Tally, Tally]:
    """Texts against the reference's: those of passes and all others apart, since the others are what people read."""
    others, passes = Tally("messages"), Tally("messages-pass")
    for folder in ("kyverno-cli", "policies"):
        for case in layout.cases(folder):
            if case.out_of_scope:
                others.out_of_scope += 1
                continue
            reference = layout.reference_answers(case)
            if reference is None:
                continue
            ran = runner.run(layout.root / case.path)
            texts = {} if isinstance(ran, Problem) else _texts(ran)
            for answer in _expected_answers(layout, case, reference):
                tally = passes if answer["result"] == "pass" else others
                silence = _told(ran, layout) if isinstance(ran, Problem) else _silence(ran, str(answer["policy"]))
                tally.add(_compare_text(case.path, answer, texts, silence))
    return others, passes


def _expected_answers(layout: Layout, case: Case, reference: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The reference answers whose status is the one that the case expects."""
    try:
        entries = [e for d in load_tests(layout.root / case.path) for e in d.entries]
    except Problem:
        return
    for answer in reference:
        place = str(answer["resource"]).split("/")
        for entry in entries:
            if entry.result != answer["result"] or not _answers(entry, "", answer):
                continue
            if not entry.resources or any(n in (place[-1], "/".join(place[-2:])) for n in entry.resources):
                yield answer
                break


def _texts(ran: Iterable[TestRun]) -> dict[tuple[str, str, str], list[tuple[str, str]]]:
    """(status, message) by policy, rule and resource."""
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for run in ran:
        for answer in run.answers:
            resource = "/".join(part for part in identity(answer.resource) if part)
            for result in answer.results:
                key = (answer.policy.name, result.rule, resource)
                found.setdefault(key, []).append((result.report_status(), result.message))
    return found


def _silence(ran: Iterable[TestRun], policy: str) -> str:
    """What to say of a policy that gave no such response."""
    return next((f"refused: {_why(run, policy)}" for run in ran if _is_refused(run, policy)), "no response")


def _compare_text(
    case: str, answer: dict[str, Any], texts: dict[tuple[str, str, str], list[tuple[str, str]]], silence: str
) -> Result:
    key = (str(answer["policy"]).rpartition("/")[2], str(answer["rule"]), str(answer["resource"]))
    want = mask(str(answer["message"]))
    found = texts.get(key, [])
    got = [mask(message) for status, message in found if status == answer["result"]]
    shown = got[0] if got else (f"{found[0][0]}: {found[0][1]}" if found else silence)
    return Result(case, "/".join(key), want in got, want, shown)


def mask(text: str) -> str:
    """A message with times and random values made equal, and the controls of Pod security in one order: after
    exclusions the reference names them as a Go map has them."""
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    begin, found, controls = text.partition("(Forbidden reason: ")
    return begin + found + "(Forbidden reason: ".join(sorted(controls.split("(Forbidden reason: ")))


__all__ = ["Runner", "mask", "names", "run_messages", "run_seed", "run_suite"]
