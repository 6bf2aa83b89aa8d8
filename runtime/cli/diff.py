"""``thesmos diff``: which answers of policies change between two versions of them, object by object.

Both versions, bundles or policy files, answer on the same objects; what differs is a verdict, a message, or what a
mutation or generation makes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runtime.bundles import is_bundle
from runtime.cli.crdfiles import add_crd_flag, read_crds
from runtime.cli.files import read_policies, read_resources, without_duplicates
from runtime.cli.problem import Problem, counted

if TYPE_CHECKING:
    from runtime.cli.offline import Answer, Policies

NONE: Final = "none"
"""The word for a rule that says nothing of an object."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a rule said of an object: its status, its message, and what it made (a patched object, generated ones)."""

    status: str = NONE
    message: str = ""
    made: Any = None


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. ``what`` is ``verdict``, ``message`` or ``patch``; of several the first of these."""

    resource: str
    policy: str
    rule: str
    what: str
    old: Said
    new: Said

    def as_json(self) -> dict[str, Any]:
        return {
            "resource": self.resource,
            "policy": self.policy,
            "rule": self.rule,
            "change": self.what,
            "old": {"status": self.old.status, "message": self.old.message},
            "new": {"status": self.new.status, "message": self.new.message},
            **({"patch": operations(self.old.made, self.new.made)} if self.what == "patch" else {}),
        }

    @property
    def why(self) -> list[str]:
        """The difference in a few lines."""
        if self.what == "patch":
            steps = operations(self.old.made, self.new.made)
            return [f"{step['op']} {step['path']} {json.dumps(step.get('value'))}" for step in steps]
        if self.what == "message":
            return [f"was: {_line(self.old.message)}", f"is:  {_line(self.new.message)}"]
        said = self.new if self.new.status != NONE else self.old
        return [_line(said.message)] if said.message else []


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit code 0 when every answer is the same, 1 when one is not, 2 for bad input."
    parser.add_argument("old", metavar="OLD", help="a bundle, a policy file or a folder")
    parser.add_argument("new", metavar="NEW", help="the same, as it is to be")
    parser.add_argument(
        "-r", "--resource", "--resources", dest="resources", action="append", default=[], metavar="PATH",
        help="objects to ask both of: files or folders, joined by commas or given several times",
    )  # fmt: skip
    parser.add_argument("-f", "--values-file", metavar="FILE", help="values for variables (kind Values)")
    parser.add_argument("-u", "--userinfo", metavar="FILE", help="who makes the requests (kind UserInfo)")
    parser.add_argument(
        "--operation", choices=("CREATE", "UPDATE", "DELETE", "CONNECT"), help="the operation asked for (CREATE)"
    )
    parser.add_argument("--output", choices=("text", "json"), default="text", help="how the differences are printed")
    parser.add_argument("--ignore-messages", action="store_true", help="leave out what changes in messages alone")
    add_crd_flag(parser)


def run(args: argparse.Namespace) -> int:
    from runtime.cli.offline import evaluate
    from runtime.cli.progress import progress
    from runtime.cli.values import NO_VALUES, load_user_info, load_values_file

    paths = [part for given in args.resources for part in given.split(",") if part]
    if not paths:
        raise Problem("no resource given: use -r FILE or -r FOLDER")
    resources, dropped = without_duplicates(read_resources(paths))
    for name in dropped:
        print(f"warning: resource {name} is given twice, the first one counts", file=sys.stderr)
    values = load_values_file(args.values_file) if args.values_file else NO_VALUES
    values = values.with_objects(resources, ())
    values = replace(values, targets=tuple(resources))
    user = load_user_info(args.userinfo) if args.userinfo else None
    crds = read_crds(args.crds)
    old, new = (load(Path(path), crds) for path in (args.old, args.new))
    changes: list[Change] = []
    for resource in progress(resources, "objects"):
        answers = [evaluate(p.loaded, resource, values=values, user=user, operation=args.operation) for p in (old, new)]
        changes += compare(*answers, messages=not args.ignore_messages)
    if args.output == "json":
        print(json.dumps([c.as_json() for c in changes], indent=2, ensure_ascii=False))
    else:
        _print(changes, len(resources))
    return 1 if changes else 0


def load(path: Path, crds: tuple[dict[str, Any], ...] = ()) -> Policies:
    """The policies of a bundle, a file or a folder. Raises :class:`Problem` when one of them is refused."""
    from compiler.diagnostics import render_all
    from runtime.bundles import read_file
    from runtime.cli.offline import load_policies

    if is_bundle(path):
        return load_policies([], bundles=[read_file(path)], at_once=True)
    files, diagnostics, texts = read_policies([str(path)])
    errors = [d for d in diagnostics if d.severity == "error"]
    policies = load_policies(files, at_once=True, crds=crds)
    errors += [d for refused in policies.refused for d in refused.diagnostics if d.severity == "error"]
    if errors:
        raise Problem(f"{counted(len(errors), 'error')} in {path}", render_all(errors, texts))
    return policies


def compare(old: Iterable[Answer], new: Iterable[Answer], *, messages: bool = True) -> Iterator[Change]:
    """The differences of two versions' answers on one object, rule by rule in the order of the old version."""
    before, after = _said(old), _said(new)
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key, Said()), after.get(key, Said())
        what = _difference(was, now)
        if what and (messages or what != "message"):
            resource, policy, rule = key
            yield Change(resource, policy, rule, what, was, now)


def operations(old: Any, new: Any) -> list[dict[str, Any]]:
    """The JSON patch from what one version made to what the other makes."""
    from vm.patch.diff import diff

    return diff(old, new)


def _said(answers: Iterable[Answer]) -> dict[tuple[str, str, str], Said]:
    from runtime.cli.output import resource_label

    found: dict[tuple[str, str, str], Said] = {}
    for answer in answers:
        for result in answer.results:
            made = result.product if result.product is not None else result.patched
            key = resource_label(answer.resource), answer.policy.key, result.rule
            found[key] = Said(result.report_status(), result.message, made)
    return found


def _difference(old: Said, new: Said) -> str:
    if old.status != new.status:
        return "verdict"
    if old.made != new.made:
        return "patch"
    return "message" if old.message != new.message else ""


def _print(changes: list[Change], resources: int) -> None:
    """Object by object, rule by rule: what it was, what it is, and beneath it why. Long lines are cut to the width of
    the terminal."""
    from shutil import get_terminal_size

    width = get_terminal_size((120, 24)).columns
    last = ""
    for change in changes:
        if change.resource != last:
            print(f"\n{change.resource}")
            last = change.resource
        shown = f"{change.old.status} → {change.new.status}" if change.what == "verdict" else change.what
        print(f"  {change.policy}/{change.rule}: {shown}")
        for line in change.why:
            print("    " + (line if len(line) <= width - 4 else line[: width - 5] + "…"))
    if changes:
        print()
    print(f"{counted(len(changes), 'difference')} in the answers on {counted(resources, 'object')}")


def _line(text: str) -> str:
    return " ".join(text.split())
