"""``thesmos why``: how a rule came to its answer on a resource, clause by clause, with the lines of the policy.

``apply --explain`` prints the same in short. Both evaluate a second time, on the exact VM with a record of what it does
(:mod:`runtime.tracing`), and say so should ordinary code have answered otherwise.
"""

from __future__ import annotations

import argparse
import difflib
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from runtime.cli.crdfiles import add_crd_flag, read_crds
from runtime.cli.files import STDIN, read_policies, read_resources, without_duplicates
from runtime.cli.problem import Problem, counted

if TYPE_CHECKING:
    from runtime.cli.offline import Answer
    from runtime.cli.values import Values
    from runtime.explanation import Explanation, Step
    from runtime.policyset import PolicySet
    from runtime.request import UserInfo
    from runtime.tracing import Place, Ran, Traced

_SIGNS: Final = {True: "+", False: "-", None: " "}
_LEAST_WIDTH: Final = 60


@dataclass(frozen=True, slots=True)
class Told:
    """An explanation with what it is about. ``ordinary`` is what ordinary code answered where that differs, empty
    else."""

    policy: str
    rule: str
    resource: str
    operation: str
    explanation: Explanation
    ordinary: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``why``, those of ``apply`` where they mean the same."""
    parser.epilog = "Exit code 0 when there was something to tell, 2 for bad input."
    parser.add_argument("policy", metavar="POLICY", help="a policy file or a folder of them")
    parser.add_argument("rule", metavar="RULE", help="the rule, or POLICY-NAME/RULE; * for every rule")
    parser.add_argument("resource", metavar="RESOURCE", help="a file with the resource, or several")
    parser.add_argument("-f", "--values-file", metavar="FILE", help="values for variables (kind Values)")
    parser.add_argument("-s", "--set", action="append", default=[], metavar="NAME=VALUE", help="a value for a variable")
    parser.add_argument("-u", "--userinfo", metavar="FILE", help="who makes the request (kind UserInfo)")
    parser.add_argument(
        "-e", "--exception", "--exceptions", dest="exceptions", action="append", default=[], metavar="PATH",
        help="policy exceptions",
    )  # fmt: skip
    parser.add_argument(
        "--operation", choices=("CREATE", "UPDATE", "DELETE", "CONNECT"), help="the operation asked for (CREATE)"
    )
    parser.add_argument(
        "--target-resource", "--target-resources", dest="targets", action="append", default=[], metavar="PATH",
        help="objects that rules with targets may change",
    )  # fmt: skip
    parser.add_argument(
        "--cluster-dump", action="append", default=[], metavar="PATH",
        help="objects of a cluster (files or folders) that contexts are answered from",
    )  # fmt: skip
    parser.add_argument("--replay", metavar="FILE", help="answer contexts from a recording")
    parser.add_argument("--cel-strict", action="store_true", help="plain CEL: quantities are texts")
    parser.add_argument("--quirks", choices=("kyverno",), default="", help="give Kyverno's answers")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="how the explanation is printed")
    add_crd_flag(parser)
    parser.set_defaults(record=None, kubeconfig=None)


def run(args: argparse.Namespace) -> int:
    from compiler.diagnostics import render_all
    from runtime.cli.offline import evaluate, grouped, load_policies
    from runtime.cli.supplies import of_flags
    from runtime.cli.values import NO_VALUES, load_user_info, load_values_file, with_assignments
    from runtime.tracing import trace_documents

    files, diagnostics, texts = read_policies([args.policy])
    paths = [part for one in args.exceptions for part in one.split(",") if part]
    more, found, more_texts = read_policies(paths) if paths else ((), (), {})
    texts = texts | more_texts
    crds = read_crds(args.crds)
    chosen: dict[str, Any] = {"cel_strict": args.cel_strict, "quirks": args.quirks, "crds": crds}
    exceptions = [d for f in more for d in f.documents]
    ordinary = load_policies(files, exceptions=exceptions, tier="1", **chosen)
    refused = [d for r in ordinary.refused for d in r.diagnostics]
    errors = [d for d in (*diagnostics, *found, *refused) if d.severity == "error"]
    if errors:
        raise Problem(f"{counted(len(errors), 'error')} in the policies", render_all(errors, texts))
    traced = trace_documents(grouped([*(d for f in files for d in f.documents), *exceptions]), **chosen)
    wanted = asked_rules(traced.policies, args.rule)
    resources = without_duplicates(read_resources([args.resource]))[0]
    if not resources:
        raise Problem(f"{args.resource}: holds no resource")
    values = load_values_file(args.values_file) if args.values_file else NO_VALUES
    if args.set:
        values = with_assignments(values, args.set)
    values = values.with_objects(resources, ())
    targets = read_resources(part for given in args.targets for part in given.split(",") if part)
    values = replace(values, targets=tuple(targets))
    user = load_user_info(args.userinfo) if args.userinfo else None
    told: list[Told] = []
    with of_flags(args, resources, ordinary.entries) as outside:
        values = replace(values, outside=outside, sources=tuple(resources))
        for resource in resources:
            answers = evaluate(ordinary.loaded, resource, values=values, user=user, operation=args.operation)
            told += tell(traced, resource, answers, values, user, args.operation, wanted)
    if args.output == "json":
        print(json.dumps([as_json(t) for t in told], indent=2, ensure_ascii=False))
    else:
        print("\n\n".join(text(t) for t in told))
    return 0


class Explainer:
    """What ``apply --explain`` adds: every rule on every resource, in short."""

    def __init__(self, args: argparse.Namespace) -> None:
        from runtime.bundles import is_bundle, read_file
        from runtime.cli.offline import grouped
        from runtime.tracing import trace_documents

        if STDIN in args.policies:
            raise Problem("--explain reads policies a second time, which stdin does not allow: name a file")
        bundles = [path for path in args.policies if is_bundle(Path(path))]
        found = [path for path in args.policies if path not in bundles]
        given = [*args.exceptions, *(args.resources if args.exceptions_with_resources else ())]
        exceptions = read_policies([part for one in given for part in one.split(",") if part], among_others=True)[0]
        documents = [d for f in read_policies(found)[0] for d in f.documents] if found else []
        documents += [d for f in exceptions for d in f.documents if d.value.get("kind") == "PolicyException"]
        self._traced = trace_documents(
            grouped(documents),
            [read_file(path) for path in bundles],
            cel_strict=args.cel_strict,
            quirks=args.quirks,
            crds=read_crds(args.crds),
        )
        self._told: list[Told] = []

    def add(self, resource: dict[str, Any], answers: Sequence[Answer], values: Values, user: UserInfo | None) -> None:
        """Explains what has been answered on a resource."""
        self._told += tell(self._traced, resource, answers, values, user, None)

    def show(self, to: TextIO) -> None:
        """Prints all explanations."""
        print("\n\n".join(["", *(text(told, short=True) for told in self._told)]), file=to)


def asked_rules(policies: PolicySet, asked: str) -> set[int]:
    """The ids of the rules that a name means: a rule's, with its policy's before a slash where it is to be one of that
    policy alone; wildcards as everywhere. Raises :class:`Problem` when there is none."""
    from vm.intrinsics.wildcard import match as wildcard

    found = {id(r) for r in policies.rules if wildcard(asked, r.name) or wildcard(asked, f"{r.policy.name}/{r.name}")}
    if not found:
        names = list(dict.fromkeys(r.name for r in policies.rules))
        near = difflib.get_close_matches(asked, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names) or 'none'}"
        raise Problem(f"there is no rule {asked}: {hint}")
    return found


def tell(
    traced: Traced,
    resource: dict[str, Any],
    ordinary: Sequence[Answer],
    values: Values,
    user: UserInfo | None,
    operation: str | None,
    wanted: set[int] | None = None,
) -> list[Told]:
    """An explanation for each rule (of those in ``wanted``) on a resource. ``ordinary`` are the answers of ordinary
    code on it, to compare with."""
    from runtime.cli.offline import evaluate, offline_request
    from runtime.cli.output import resource_label
    from runtime.explanation import explain

    traced.take()
    answers = evaluate(traced.policies, resource, values=values, user=user, operation=operation)
    runs: dict[tuple[int, int], list[Ran]] = {}
    for ran in traced.take():
        runs.setdefault((id(ran.unit), ran.entry), []).append(ran)
    exact, usual = _results(answers), _results(ordinary)
    told: list[Told] = []
    for plan, unit in traced.rules():
        if wanted is not None and id(plan) not in wanted:
            continue
        request = offline_request(resource, plan.policy, values, user, operation)
        key = (plan.policy.key, plan.name)
        results = exact.get(key, [])
        mine = runs.get((id(unit), plan.entry))
        ran = _deciding(mine, results) if mine else traced.run(plan, request.root_of(plan.name))
        explanation = explain(ran, plan, traced.imports)
        explanation = _judged(explanation, results, reached=bool(mine))
        ordinarily = "" if results == usual.get(key, []) else _words(usual.get(key, []))
        told.append(
            Told(plan.policy.key, plan.name, resource_label(resource), request.operation, explanation, ordinarily)
        )
    return told


Results = list[tuple[str, str, tuple[str, ...]]]


def _results(answers: Iterable[Answer]) -> dict[tuple[str, str], Results]:
    """Status, message and exceptions of the results of each rule, by policy and rule."""
    found: dict[tuple[str, str], Results] = {}
    for answer in answers:
        for r in answer.results:
            found.setdefault((answer.policy.key, r.rule), []).append((r.status, r.message, r.exceptions))
    return found


def _words(results: Results) -> str:
    return ", ".join(f"{status} ({message})" for status, message, _ in results) or "nothing"


def _deciding(runs: list[Ran], results: Results) -> Ran:
    """Of several runs of a rule the one that its result tells of: of a rule with targets the last on a target, else the
    first with the same status."""
    from runtime.exceptions import KEY as EXCLUSIONS
    from runtime.explanation import WORDS
    from vm.host import Outcome

    on_targets = [r for r in runs if "$target" in r.root]
    if on_targets:
        return on_targets[-1]
    statuses = {status for status, _, _ in results}
    same = [r for r in runs if isinstance(r.answer, Outcome) and WORDS[r.answer.status] in statuses]
    with_exceptions = [r for r in same if EXCLUSIONS in r.root]
    return (with_exceptions or same or runs)[0]


def _judged(explanation: Explanation, results: Results, *, reached: bool) -> Explanation:
    """The explanation with what the engine made of the answer of the code: exceptions, what existed before, rules that
    are not asked any more."""
    from runtime.explanation import Step

    if results:
        status, message, exceptions = next((r for r in results if r[0] == explanation.status), results[0])
        if exceptions or status != explanation.status:
            part, note = ("exception", "") if exceptions else ("end", message)
            step = Step(part, ", ".join(exceptions), None, None, note=note)
            return replace(explanation, status=status, message=message, decided=step)
        return replace(explanation, message=message or explanation.message)
    if reached or explanation.status in ("no match", "none"):
        return explanation
    note = "the rule was not asked: a rule before it decided (applyRules: One), or it has no part in this operation"
    return replace(explanation, status="none", message="", decided=Step("end", "", None, None, note=note))


# text and JSON


def text(told: Told, *, short: bool = False) -> str:
    """An explanation for a terminal; ``short`` leaves out what did not decide."""
    width = max(_LEAST_WIDTH, shutil.get_terminal_size((100, 24)).columns)
    e = told.explanation
    lines = [f"{told.policy}/{told.rule} on {told.resource} ({told.operation}): {e.status}"]
    if e.message:
        lines.append(_cut(f"  message: {_one_line(e.message)}", width * 2))
    if told.ordinary:
        lines.append(f"  optimised code answers otherwise: {_one_line(told.ordinary)}")
    if e.decided is not None:
        lines += _decided(e.decided, width)
    if not short and e.steps:
        lines.append("  looked at, with the lines of the policy:")
        lines += [_cut(line, width) for line in _looked_at(e.steps)]
    return "\n".join(lines)


def _decided(step: Step, width: int) -> Iterator[str]:
    held = {True: " holds", False: " does not hold", None: ""}[step.held] if step.part != "patch" else ""
    kind = "exception " if step.part == "exception" else ""
    yield f"  decided by: {kind}{step.clause or step.part}{held}"
    if step.place is not None:
        yield _cut(f"    {_at(step.place)} | {step.place.text.rstrip()}", width)
    if step.elements:
        yield f"    for:    {', '.join(step.elements)}"
    if step.path:
        yield f"    path:   {step.path}{' in the element' if step.elements else ''}"
    yield from (_cut(line, width) for line in _values(step))
    if step.note:
        yield _cut(f"    {'key:   ' if step.operator else 'note:  '} {_one_line(step.note)}", width * 3)


def _values(step: Step) -> Iterator[str]:
    if _shown(step.found) or _shown(step.wanted):
        yield f"    found:  {_value(step.found)}"
    if _shown(step.wanted):
        yield f"    wanted: {f'{step.operator} ' if step.operator else ''}{_value(step.wanted)}"


def _looked_at(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        indent = "  " * len(step.elements)
        number = "" if step.place is None else str(step.place.line)
        line = f"  {number:>5} {indent}{_SIGNS[step.held]} {step.clause or step.part}"
        if step.part == "context" and not step.note:
            line += f" = {_value(step.found)}"
        elif step.operator:
            line += f": {_value(step.found)} {step.operator} {_value(step.wanted)}"
        elif _shown(step.wanted):
            line += f": {_value(step.found)}, wanted {_value(step.wanted)}"
        elif step.note:
            line += f": {_one_line(step.note)}"
        yield line


def _at(place: Place) -> str:
    return f"{place.file}:{place.line}"


def _shown(value: Any) -> bool:
    from vm.values import MISSING

    return value is not MISSING


def _value(value: Any) -> str:
    from vm.values import Err

    if not _shown(value):
        return "nothing"
    return f"error: {value.text}" if type(value) is Err else json.dumps(value, ensure_ascii=False)


def _one_line(written: str) -> str:
    return " ".join(written.split())


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def as_json(told: Told) -> dict[str, Any]:
    """An explanation as JSON. Keys stay what they are; ``found`` and ``wanted`` are absent where there is nothing."""
    e = told.explanation
    return {
        "policy": told.policy,
        "rule": told.rule,
        "resource": told.resource,
        "operation": told.operation,
        "status": e.status,
        "message": e.message,
        **({"optimised": told.ordinary} if told.ordinary else {}),
        "decided": _step_json(e.decided) if e.decided is not None else None,
        "steps": [_step_json(step) for step in e.steps],
    }


def _step_json(step: Step) -> dict[str, Any]:
    from vm.values import Err

    made: dict[str, Any] = {"part": step.part, "clause": step.clause, "held": step.held}
    if step.place is not None:
        place = step.place
        made |= {"file": place.file, "line": place.line, "column": place.column, "text": place.text.strip()}
    for name, value in (("operator", step.operator), ("path", step.path), ("note", step.note)):
        if value:
            made[name] = value
    for name, value in (("found", step.found), ("wanted", step.wanted)):
        if _shown(value):
            made[name] = {"error": value.text} if type(value) is Err else value
    if step.elements:
        made["elements"] = list(step.elements)
    return made
