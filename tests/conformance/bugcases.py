"""The set of public bug reports: each case has one right answer, written out in its ``expect.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from runtime.cli.files import read_policies, read_resources, read_values
from runtime.cli.offline import MACHINE, Answer, Backend, Policies
from runtime.cli.problem import Problem
from runtime.cli.testfile import same_resource
from runtime.cli.values import Values, load_values_file
from runtime.request import OPERATIONS
from tests.conformance.layout import Layout
from tests.conformance.tally import Result, Tally

NOT_BUILT = "T09"
"""Prefix of the diagnostics of parts that are not built yet: such a refusal is never the right answer."""


def run_bugs(layout: Layout, backend: Backend = MACHINE) -> Tally:
    tally = Tally("bugs")
    for path in sorted(layout.bugs.glob("*/expect.yaml")):
        expect = read_values(path)[0]
        if expect.get("cli_runnable") is False:
            tally.out_of_scope += 1
            continue
        try:
            tally.add(_judge(path.parent, expect, backend))
        except Problem as problem:
            tally.add(Result(path.parent.name, "run", False, str(expect["right"]["result"]), str(problem)))
    return tally


def _judge(folder: Path, expect: dict[str, Any], backend: Backend) -> Result:
    right = expect["right"]
    wanted = [right["result"], *right.get("alternatives", ())]
    files, problems, _ = read_policies([folder / "policy.yaml"])
    exceptions = []
    if (folder / "exception.yaml").exists():
        exception_files, more, _ = read_policies([folder / "exception.yaml"])
        exceptions = [d for file in exception_files for d in file.documents]
        problems = [*problems, *more]
    policies = backend.load(files, exceptions)
    detail = f"{right['policy']}/{right['rule'] or '*'}"
    got, text = _answer(folder, expect, policies, backend)
    if got is None:
        got = "policy_rejected"
        refused = [d for r in policies.refused for d in r.diagnostics if d.severity == "error"]
        text = "; ".join(d.message for d in refused) or "; ".join(d.message for d in problems)
        if any(d.code.startswith(NOT_BUILT) for d in refused):
            return Result(folder.name, detail, False, "/".join(wanted), f"not built yet: {text}")
    # A case says itself where the refusal of the policy is as right as an error of the rule.
    told = [expect.get(key) or {} for key in expect if key.startswith("kyverno_")]
    refusal_is_right = any(t.get("verdict") == "right" and "rejected" in str(t.get("got")) for t in told)
    refused_early = got == "policy_rejected" and right["result"] == "error" and refusal_is_right
    ok = (got in wanted or refused_early) and right.get("message_contains", "") in text
    return Result(folder.name, detail, ok, "/".join(wanted), f"{got}: {text}")


def _answer(folder: Path, expect: dict[str, Any], policies: Policies, backend: Backend) -> tuple[str | None, str]:
    """(status, message) of the case's rule; None when a policy was refused."""
    if policies.refused:
        return None, ""
    values = load_values_file(folder / "values.yaml") if (folder / "values.yaml").exists() else Values()
    operation = expect.get("operation") if expect.get("operation") in OPERATIONS else None
    right = expect["right"]
    answers: list[Answer] = []
    for resource in read_resources([folder / "resource.yaml"]):
        answers += backend.evaluate(policies, resource, values, None, operation)
    found = [(r.status, r.message) for a in answers for r in a.results if right["rule"] in ("", r.rule)]
    if "patched" in right and answers:
        expected = yaml.safe_load(right["patched"])
        actual = next((a.patched for a in reversed(answers) if a.mutation), None)
        if not same_resource(expected, actual):
            return "other patch", str(actual)
    if not found:
        return "none", ""
    return min(found, key=lambda f: ("error", "fail", "pass", "skip").index(f[0]))
