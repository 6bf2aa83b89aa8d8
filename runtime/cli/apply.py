"""``thesmos apply``: policies against resources, without a cluster, in Kyverno's flags, texts and exit codes."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runtime.bundles import is_bundle
from runtime.cli.crdfiles import add_crd_flag, read_crds
from runtime.cli.files import STDIN, identity, read_policies, read_resources, without_duplicates
from runtime.cli.generated_exceptions import DEFAULT_TTL, ttl_text
from runtime.cli.problem import Problem, counted
from runtime.cli.unbuilt import accept_registry, refuse

if TYPE_CHECKING:
    from runtime.cli.offline import Answer, Policies


UNBUILT_FLAGS: Final = (
    ("--context",),
    ("-b", "--git-branch"),
    ("--context-path",),
    ("--context-file",),
    ("--json",),
    ("--http-payload",),
    ("--envoy-payload",),
    ("--batch-size",),
    ("--concurrent",),
)
UNBUILT_SWITCHES: Final = (("-c", "--cluster"), ("--cluster-wide-resources",))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``apply``: Kyverno's names and letters, with the same meaning."""
    parser.epilog = (
        "Exit code 0 when nothing failed, 1 when a rule failed or could not be evaluated, 2 for bad input; "
        "--warn-exit-code and --warn-no-pass add a code of their own."
    )
    given = parser.add_argument_group("input")
    given.add_argument(
        "policies",
        nargs="*",
        metavar="POLICY",
        help="policy files, folders, globs, .tar.gz archives or bundles; - reads policies from stdin",
    )  # fmt: skip
    given.add_argument(
        "-r", "--resource", "--resources", dest="resources", action="append", default=[], metavar="PATH",
        help="resource files, folders, globs or archives, joined by commas or given several times",
    )  # fmt: skip
    given.add_argument("-n", "--namespace", metavar="NAME", help="take the resources of this namespace only")
    given.add_argument("-f", "--values-file", metavar="FILE", help="values for variables (kind Values)")
    given.add_argument("-s", "--set", action="append", default=[], metavar="NAME=VALUE", help="a value for a variable")
    given.add_argument("-u", "--userinfo", metavar="FILE", help="who makes the request (kind UserInfo)")
    given.add_argument(
        "-e", "--exception", "--exceptions", dest="exceptions", action="append", default=[], metavar="PATH",
        help="policy exceptions",
    )  # fmt: skip
    given.add_argument(
        "--exceptions-with-resources", action="store_true", help="take the exceptions among the resources"
    )
    given.add_argument(
        "--exceptions-within-policies", action="store_true", help="accepted for Kyverno's sake: they always count here"
    )
    given.add_argument(
        "--param-resource", "--param-resources", "--parameter-resource", "--parameter-resources", dest="params",
        action="append", default=[], metavar="PATH",
        help="objects that CEL rules may see as params",
    )  # fmt: skip
    given.add_argument(
        "--target-resource", "--target-resources", dest="targets", action="append", default=[], metavar="PATH",
        help="objects that rules with targets may change, beside those of --cluster-dump",
    )  # fmt: skip
    given.add_argument("--cel-strict", action="store_true", help="plain CEL: quantities are texts")
    given.add_argument(
        "--quirks", choices=("kyverno",), default="", help="give Kyverno's answers where they are known to be wrong"
    )
    add_crd_flag(given)
    given.add_argument(
        "--cluster-dump", action="append", default=[], metavar="PATH",
        help="objects of a cluster (files or folders) that API calls and ConfigMaps of contexts are answered from",
    )  # fmt: skip
    given.add_argument("--replay", metavar="FILE", help="answer contexts from a recording")
    given.add_argument(
        "--record", metavar="FILE", help="ask a cluster for contexts and write a recording of its answers"
    )
    given.add_argument("--kubeconfig", metavar="FILE", help="the cluster that --record asks (default: as for kubectl)")
    given.add_argument("-i", "--stdin", action="store_true", help="read resources from stdin, print what mutation made")
    given.add_argument("--tier", choices=("1", "2", "check"), default="2", help="1: exact VM, 2: generated code, check")
    shown = parser.add_argument_group("output")
    shown.add_argument(
        "-o", "--output", metavar="PATH", help="write mutated and generated resources to this file or folder"
    )
    shown.add_argument("-p", "--policy-report", action="store_true", help="print policy reports")
    shown.add_argument("-t", "--table", action="store_true", help="print a table")
    shown.add_argument("--detailed-results", action="store_true", help="show the message of each result in the table")
    shown.add_argument(
        "--output-format",
        choices=("yaml", "json", "table", "markdown", "junit", "sarif"),
        help="print the results in this form",
    )
    shown.add_argument(
        "--generate-exceptions", action="store_true", help="print a policy exception for each violation instead"
    )
    shown.add_argument(
        "--generated-exception-ttl", default=DEFAULT_TTL, metavar="DURATION", help="how long they are to live (720h)"
    )
    shown.add_argument(
        "--explain", action="store_true", help="tell of each rule and resource which clause of the policy decided"
    )
    shown.add_argument("--remove-color", action="store_true", help="print no colours")
    codes = parser.add_argument_group("exit code")
    codes.add_argument("--warn-exit-code", type=int, default=0, metavar="N", help="exit with N when there are warnings")
    codes.add_argument("--warn-no-pass", action="store_true", help="exit with --warn-exit-code when nothing passed")
    codes.add_argument("--audit-warn", action="store_true", help="count violations of Audit rules as warnings")
    codes.add_argument("--continue-on-fail", action="store_true", help="accepted for Kyverno's sake: always so here")
    accept_registry(parser)
    refuse(parser, UNBUILT_FLAGS, UNBUILT_SWITCHES)


def run(args: argparse.Namespace) -> int:
    from runtime.cli.apply_output import Counts, Writer, show
    from runtime.cli.namespaces import unlabelled
    from runtime.cli.offline import evaluate
    from runtime.cli.progress import progress
    from runtime.cli.supplies import of_flags
    from runtime.cli.values import NO_VALUES, load_user_info, load_values_file, with_assignments

    if not args.policies:
        raise Problem("no policy given: name policy files, folders or bundles")
    if not args.resources and not args.stdin:
        raise Problem("no resource given: use -r FILE, or -i to read from stdin")
    if args.stdin and STDIN in args.policies:
        raise Problem("stdin cannot hold policies and resources at once")
    values = load_values_file(args.values_file) if args.values_file else NO_VALUES
    if args.set:
        values = with_assignments(values, args.set)
    user = load_user_info(args.userinfo) if args.userinfo else None
    paths = [part for given in args.resources for part in given.split(",") if part]
    resources, dropped = without_duplicates(read_resources([*paths, *([STDIN] if args.stdin else [])]))
    for name in dropped:
        print(f"warning: resource {name} is given twice, the first one counts", file=sys.stderr)
    if args.namespace:
        resources = [r for r in resources if identity(r)[2] == args.namespace]
    params = [part for given in args.params for part in given.split(",") if part]
    values = values.with_objects(resources, read_resources(params))
    targets = read_resources(part for given in args.targets for part in given.split(",") if part)
    values = replace(values, targets=tuple(without_duplicates(targets)[0]))
    policies = load(args)
    if args.exceptions_with_resources:
        resources = [r for r in resources if r.get("kind") != "PolicyException"]
    writer = Writer(args.output)
    answers: list[Answer] = []
    ttl_text(args.generated_exception_ttl)  # says so before the work when it is no duration
    quiet = args.policy_report or args.generate_exceptions or args.output_format not in (None, "table")
    if not (args.stdin or quiet):
        with_exceptions = f" with {policies.exceptions} exception(s)" if policies.exceptions else ""
        count = len(policies.loaded.rules)
        print(f"\nApplying {count} policy rule(s) to {len(resources)} resource(s){with_exceptions}...")
    explainer = None
    if args.explain:
        from runtime.cli.why import Explainer

        explainer = Explainer(args)
    with of_flags(args, resources, policies.entries) as outside:
        values = replace(values, outside=outside, sources=tuple(resources))
        if outside.objects is not None:
            values = values.with_namespaces(outside.objects.all())
        for remark in unlabelled(policies.loaded, resources, values):
            print(f"warning: {remark}", file=sys.stderr)
        for resource in progress(resources, "resources"):
            found = evaluate(policies.loaded, resource, values=values, user=user)
            answers += found
            if explainer is not None:
                explainer.add(resource, found, values, user)
            for answer in found:
                if answer.mutation and not quiet and any(r.patched is not None for r in answer.results):
                    writer.mutation(answer, stdin=args.stdin)
                if answer.made and not quiet:
                    writer.generated(answer, stdin=args.stdin)
    for remark in outside.lacking:
        print(f"warning: {remark}", file=sys.stderr)
    counts = Counts()
    for answer in answers:
        for result in answer.results:
            counts.add(result.report_status(audit_warn=args.audit_warn))
    show(args, answers, counts)
    if explainer is not None:
        explainer.show(sys.stderr if quiet or args.stdin else sys.stdout)
    _report_mismatches(policies)
    return counts.exit_code(args.warn_exit_code, args.warn_no_pass)


def load(args: argparse.Namespace) -> Policies:
    """Compiles the policies and exceptions of a command line. Raises :class:`Problem` when one is refused."""
    from compiler.diagnostics import render, render_all
    from runtime.bundles import BundleProblem, read_file
    from runtime.cli.offline import load_policies
    from vm.bundle import BundleError
    from vm.verify import VerifyError

    bundles, sources = [], []
    for path in args.policies:
        if path != STDIN and is_bundle(Path(path)):
            bundles.append(path)
        else:
            sources.append(path)
    files, diagnostics, texts = read_policies(sources)
    exceptions = []
    given = (args.exceptions, False), (args.resources if args.exceptions_with_resources else [], True)
    for written, among_others in given:
        paths = [part for one in written for part in one.split(",") if part]
        exception_files, more, more_texts = read_policies(paths, among_others=among_others)
        diagnostics, texts = [*diagnostics, *more], texts | more_texts
        exceptions += [d for f in exception_files for d in f.documents if d.value.get("kind") == "PolicyException"]
    errors = [d for d in diagnostics if d.severity == "error"]
    if errors:
        raise Problem(_refusal(len(errors)), render_all(errors, texts))
    try:
        policies = load_policies(
            files,
            bundles=[read_file(b) for b in bundles],
            exceptions=exceptions,
            tier=args.tier,
            at_once=True,
            cel_strict=args.cel_strict,
            quirks=args.quirks,
            crds=read_crds(args.crds),
        )
    except (BundleError, VerifyError) as error:
        raise BundleProblem(f"{', '.join(map(str, bundles)) or 'compiled policies'}: {error}") from None
    if policies.refused:
        errors = [d for r in policies.refused for d in r.diagnostics if d.severity == "error"]
        raise Problem(_refusal(len(errors)), render_all(errors, texts))
    remarks = [d for d in policies.diagnostics if d.severity == "warning"]
    if not args.stdin:
        for remark in remarks:
            print(render(remark).partition("\n")[0], file=sys.stderr)
        for name in policies.loaded.idle_exemptions():
            print(f"warning: the exception {name} names no rule of these policies", file=sys.stderr)
    return policies


def _refusal(errors: int) -> str:
    return f"{counted(errors, 'error')} in the policies"


def _report_mismatches(policies: Policies) -> None:
    seen = policies.loaded.mismatches
    if seen.count:
        first: Any = seen.last[0]
        raise Problem(f"the tiers differ in {seen.count} of {seen.compared} answers, as in {first}")
