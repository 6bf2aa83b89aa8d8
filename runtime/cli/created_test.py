"""``thesmos create test``: a test file that says what policies answer now, to be looked through and kept.

What mutation and generation make goes into files beside it, so that the test compares the objects too.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.cli.problem import Problem

if TYPE_CHECKING:
    from runtime.cli.offline import Answer
    from runtime.cli.testfile import TestRun


def created_test(args: argparse.Namespace) -> tuple[dict[str, Any], dict[Path, str]]:
    """The document of a test, and the files that it needs beside it. Without ``--output`` there are no such files, and
    the test looks at results alone."""
    from runtime.cli.create import TEST_API

    folder = Path(args.output).parent if args.output else Path()
    document: dict[str, Any] = {"apiVersion": TEST_API, "kind": "Test", "metadata": {"name": args.name}}
    inputs = _inputs(args)
    for field, value in inputs.items():
        document[field] = [_relative(p, folder) for p in value] if type(value) is list else _relative(value, folder)
    given = [e for s in ("pass", "fail", "skip") for e in (_given(text, s) for text in getattr(args, f"{s}ed"))]
    if given:
        document["results"] = given
        return document, {}
    run = _run(inputs, args)
    files: dict[str, list[Any]] = {}
    document["results"] = _results(run, files, beside=bool(args.output))
    from runtime.cli.output import to_yaml

    return document, {folder / name: "---\n".join(map(to_yaml, objects)) for name, objects in files.items()}


def _inputs(args: argparse.Namespace) -> dict[str, Any]:
    """The files that the flags name, under the fields that a test has for them."""
    lists = {"policies": args.policy, "resources": args.resource, "exceptions": args.exception}
    found: dict[str, Any] = {
        field: [p for text in given for p in text.split(",") if p] for field, given in lists.items()
    }
    found |= {"variables": args.values, "userinfo": args.userinfo}
    return {field: value for field, value in found.items() if value}


def _run(inputs: dict[str, Any], args: argparse.Namespace) -> TestRun:
    from runtime.cli.offline import MACHINE
    from runtime.cli.testfile import TestDocument, run_test

    test = TestDocument(Path(args.output or "test"), 0, args.name, Path(), inputs, ())
    run = run_test(test, MACHINE)
    if run.policies.refused:
        from compiler.diagnostics import render_all

        refused = run.policies.refused[0]
        raise Problem(f"{refused.kind} {refused.name} is refused", render_all(refused.diagnostics, {}))
    return run


def _results(run: TestRun, files: dict[str, list[Any]], *, beside: bool) -> list[dict[str, Any]]:
    """An entry for each policy, rule, kind and result, with the resources that answered so."""
    from runtime.cli.files import identity
    from runtime.cli.testfile import CLASSIC
    from runtime.request import base_rule

    found: dict[tuple[str, str, str, str, str], list[str]] = {}
    generated: dict[tuple[str, str, str, str, str], str] = {}
    for answer in run.answers:
        _, kind, namespace, name = identity(answer.resource)
        for result in answer.results:
            rule = base_rule(result.rule) if answer.policy.kind in CLASSIC else ""
            status = result.report_status()
            patched = f"patched-{answer.policy.name}.yaml" if beside and _changed(answer, status) else ""
            key = (answer.policy.key, rule, kind, status, patched)
            shown = f"{namespace}/{name}" if namespace else name
            if shown not in found.setdefault(key, []):
                found[key].append(shown)
            if patched and answer.patched not in files.setdefault(patched, []):
                files[patched].append(answer.patched)
            if beside and (made := answer.made.get(result.rule)):
                generated[key] = f"generated-{answer.policy.name}.yaml"
                own = files.setdefault(generated[key], [])
                own += [one for one in made if one not in own]
    entries = []
    for key, resources in found.items():
        policy, rule, kind, status, patched = key
        entry: dict[str, Any] = {"policy": policy, "rule": rule, "kind": kind, "resources": resources}
        if patched:
            entry["patchedResources"] = patched
        if key in generated:
            entry["generatedResource"] = generated[key]
        entry["result"] = status
        entries.append({field: value for field, value in entry.items() if value})
    return entries


def _changed(answer: Answer, status: str) -> bool:
    return answer.mutation and status == "pass"


def _given(text: str, status: str) -> dict[str, Any]:
    words = text.split(",")
    if not 3 <= len(words) <= 5 or not all(words[:3]):
        raise Problem(f"--{status} {text}: expected a policy, a rule, a resource, and perhaps its namespace and kind")
    policy, rule, name, namespace, kind = [*words, "", ""][:5]
    entry = {"policy": policy, "rule": rule, "kind": kind}
    resources = [f"{namespace}/{name}" if namespace else name]
    return {**{k: v for k, v in entry.items() if v}, "resources": resources, "result": status}


def _relative(path: str, folder: Path) -> str:
    return os.path.relpath(path, folder)
