"""``thesmos create``: files to begin with, for tests, values, users, exceptions, metrics and roles.

``create test`` runs the policies on the resources and writes down what they answer (``runtime.cli.created_test``);
the others write what their flags say, in the forms that Kyverno reads.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from runtime.bundles import reason
from runtime.cli.problem import Problem

TEST_API: Final = "cli.kyverno.io/v1alpha1"
VERBS: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
FILTERS: Final = {"kind": "kinds", "name": "names", "namespace": "namespaces", "operation": "operations"}
USER_FILTERS: Final = {"role": "roles", "clusterRole": "clusterRoles"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A command for each kind of file, by Kyverno's names and flags."""
    commands = parser.add_subparsers(dest="what", metavar="WHAT", title="what", required=True)

    def command(name: str, text: str) -> Callable[..., Any]:
        made = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        made.add_argument("-o", "--output", metavar="FILE", help="where to write it (default: standard output)")
        return made.add_argument

    flag = command("test", "a test of policies and resources, with what they answer now")
    flag("-p", "--policy", action="append", required=True, metavar="PATH", help="policy files")
    flag("-r", "--resource", action="append", required=True, metavar="PATH", help="resource files")
    flag("-f", "--values", metavar="FILE", help="values for variables (kind Values)")
    flag("-u", "--userinfo", metavar="FILE", help="who makes the request (kind UserInfo)")
    flag("-e", "--exception", action="append", default=[], metavar="PATH", help="policy exceptions")
    flag("-n", "--name", default="test-name", help="name of the test")
    for status in ("pass", "fail", "skip"):
        flag(
            f"--{status}", dest=f"{status}ed", action="append", default=[], metavar="POLICY,RULE,NAME[,NAMESPACE,KIND]",
            help=f"expect {status} here; with one of these flags nothing is run",
        )  # fmt: skip
    flag = command("values", "values for variables")
    flag("-g", "--global", dest="everywhere", action="append", default=[], metavar="NAME=VALUE", help="for everything")
    flag(
        "-n", "--ns-selector", dest="namespaces", action="append", default=[], metavar="NAMESPACE,LABEL=VALUE,...",
        help="labels of a namespace",
    )  # fmt: skip
    flag("--rule", action="append", default=[], metavar="POLICY,RULE,NAME=VALUE,...", help="for one rule of a policy")
    flag(
        "--resource", action="append", default=[], metavar="POLICY,RESOURCE,NAME=VALUE,...",
        help="for one resource under a policy",
    )  # fmt: skip
    flag = command("user-info", "who makes a request")
    flag("-u", "--username", default="", metavar="NAME", help="user name")
    flag("-g", "--group", action="append", default=[], metavar="NAME", help="groups of the user")
    flag("-r", "--role", action="append", default=[], metavar="NAMESPACE:NAME", help="roles of the user")
    flag("-c", "--cluster-role", action="append", default=[], metavar="NAME", help="cluster roles of the user")
    flag = command("exception", "a policy exception")
    flag("name", metavar="NAME", help="name of the exception")
    flag("--namespace", default="", metavar="NAME", help="namespace of the exception")
    flag(
        "--policy-rules", action="append", required=True, metavar="POLICY,RULE,...",
        help="a policy and those of its rules that are meant",
    )  # fmt: skip
    known = ", ".join((*FILTERS, *USER_FILTERS))
    for mode in ("any", "all"):
        text = f"a filter for resources ({known})"
        flag(f"--{mode}", action="append", default=[], metavar="KEY=VALUE,...", help=text)
    flag(
        "-b", "--background", type=_truth, nargs="?", const=True, default=True, metavar="BOOL",
        help="false: it does not count in background scans",
    )  # fmt: skip
    flag = command("metrics-config", "which namespaces metrics tell of")
    flag("-n", "--name", default="kyverno-metrics", help="name of the ConfigMap (kyverno-metrics)")
    flag("--namespace", default="kyverno", help="namespace of the ConfigMap (kyverno)")
    flag("-i", "--include", action="append", default=[], metavar="NAMESPACE", help="namespaces to tell of (all)")
    flag("-e", "--exclude", action="append", default=[], metavar="NAMESPACE", help="namespaces to leave out")
    flag = command("cluster-role", "a role for kinds that rules make, change or remove")
    flag("name", metavar="NAME", help="name of the role")
    flag("-g", "--api-groups", required=True, metavar="GROUP,...", help='API groups of the resources ("" is the core)')
    flag("--resources", action="append", required=True, metavar="NAME,...", help="resources, in the plural")
    flag("--verbs", action="append", required=True, metavar="VERB,...", help="verbs, or all")
    flag(
        "--controllers", action="append", default=[], metavar="NAME,...",
        help="controllers that get the role (background-controller)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    match args.what:
        case "test":
            from runtime.cli.created_test import created_test

            document, files = created_test(args)
            for path, text in files.items():
                write(path, text)
        case "values":
            document = _values(args)
        case "user-info":
            document = _user_info(args)
        case "exception":
            document = _exception(args)
        case "metrics-config":
            document = _metrics(args)
        case _:
            document = _cluster_role(args)
    text = as_yaml(document)
    if args.output:
        write(Path(args.output), text)
    else:
        print(text, end="")
    return 0


def as_yaml(value: Any) -> str:
    """YAML in the order of the value's keys, as people write it."""
    import yaml

    return yaml.safe_dump(value, sort_keys=False, default_flow_style=False, allow_unicode=True, width=1 << 30)


def write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Problem(f"{path}: {reason(error)}") from None


def _values(args: argparse.Namespace) -> dict[str, Any]:
    document: dict[str, Any] = {"apiVersion": TEST_API, "kind": "Values", "metadata": {"name": "values"}}
    if args.everywhere:
        document["globalValues"] = _pairs([p for text in args.everywhere for p in text.split(",")], "--global")
    policies: dict[str, dict[str, Any]] = {}
    for kind in ("rule", "resource"):
        for text in getattr(args, kind):
            words = text.split(",")
            if len(words) < 3:
                raise Problem(f"--{kind} {text}: expected a policy, a {kind} and values as NAME=VALUE")
            policy = policies.setdefault(words[0], {"name": words[0]})
            entry = {"name": words[1], "values": _pairs(words[2:], f"--{kind}")}
            policy.setdefault(f"{kind}s", []).append(entry)
    if policies:
        document["policies"] = list(policies.values())
    if args.namespaces:
        document["namespaceSelector"] = [
            {"name": words[0], "labels": _pairs(words[1:], "--ns-selector")}
            for words in (text.split(",") for text in args.namespaces)
        ]
    return document


def _user_info(args: argparse.Namespace) -> dict[str, Any]:
    document: dict[str, Any] = {"apiVersion": TEST_API, "kind": "UserInfo", "metadata": {"name": "user-info"}}
    if roles := _words(args.role):
        document["roles"] = roles
    if roles := _words(args.cluster_role):
        document["clusterRoles"] = roles
    user: dict[str, Any] = {"username": args.username} if args.username else {}
    if groups := _words(args.group):
        user["groups"] = groups
    if user:
        document["userInfo"] = user
    return document


def _exception(args: argparse.Namespace) -> dict[str, Any]:
    exceptions = []
    for text in args.policy_rules:
        policy, *rules = text.split(",")
        if not policy or not rules:
            raise Problem(f"--policy-rules {text}: expected a policy and at least one of its rules, joined by commas")
        exceptions.append({"policyName": policy, "ruleNames": rules})
    matched = {mode: [_filter(text, mode) for text in getattr(args, mode)] for mode in ("any", "all")}
    matched = {mode: filters for mode, filters in matched.items() if filters}
    if len(matched) != 1:
        raise Problem("one of --any and --all is needed: which resources the exception is for")
    metadata = {"name": args.name, **({"namespace": args.namespace} if args.namespace else {})}
    spec: dict[str, Any] = {} if args.background else {"background": False}
    spec |= {"exceptions": exceptions, "match": matched}
    return {"apiVersion": "kyverno.io/v2", "kind": "PolicyException", "metadata": metadata, "spec": spec}


def _filter(text: str, mode: str) -> dict[str, Any]:
    resources: dict[str, list[str]] = {}
    user: dict[str, list[str]] = {}
    for word in text.split(","):
        key, sign, value = word.partition("=")
        if sign and value and key in FILTERS:
            resources.setdefault(FILTERS[key], []).append(value)
        elif sign and value and key in USER_FILTERS:
            user.setdefault(USER_FILTERS[key], []).append(value)
        else:
            known = ", ".join((*FILTERS, *USER_FILTERS))
            raise Problem(f"--{mode} {text}: expected KEY=VALUE joined by commas, with KEY one of {known}")
    return {**user, **({"resources": resources} if resources else {})}


def _metrics(args: argparse.Namespace) -> dict[str, Any]:
    namespaces = {"include": _words(args.include), "exclude": _words(args.exclude)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": args.name, "namespace": args.namespace},
        "data": {"namespaces": json.dumps(namespaces)},
    }


def _cluster_role(args: argparse.Namespace) -> dict[str, Any]:
    verbs = _words(args.verbs)
    if verbs == ["all"]:
        verbs = ["*"]
    for verb in verbs:
        if verb not in (*VERBS, "*"):
            raise Problem(f"--verbs {verb}: expected all, or some of {', '.join(VERBS)}")
    controllers = _words(args.controllers) or ["background-controller"]
    labels = {f"rbac.kyverno.io/aggregate-to-{controller}": "true" for controller in controllers}
    rule = {"apiGroups": args.api_groups.split(","), "resources": _words(args.resources), "verbs": verbs}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": args.name, "labels": labels},
        "rules": [rule],
    }


def _pairs(words: list[str], flag: str) -> dict[str, str]:
    found = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise Problem(f"{flag} {word}: expected NAME=VALUE")
        found[name] = value
    return found


def _words(given: list[str]) -> list[str]:
    return [word for text in given for word in text.split(",") if word]


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text}: expected true or false")
    return text.lower() == "true"
