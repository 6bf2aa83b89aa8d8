"""The ``thesmos`` command, which also answers as ``kubectl thesmos``.

Each subcommand is a module with ``add_arguments(parser)`` and ``run(args) -> exit code``; only the one asked for
is imported, so that ``--help`` and usage errors cost nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from runtime.cli.problem import Problem

COMMANDS: Final = {
    "compile": ("runtime.cli.compile", "compile policies into a verified bundle"),
    "verify": ("runtime.cli.verify", "check that bundles are sound, and signed when a key is given"),
    "inspect": ("runtime.cli.inspect", "show what a bundle holds: header, sizes, policies, index, code"),
    "apply": ("runtime.cli.apply", "apply policies to resources without a cluster"),
    "test": ("runtime.cli.test", "run kyverno-test.yaml files"),
    "diff": ("runtime.cli.diff", "show which answers change between two versions of policies"),
    "create": ("runtime.cli.create", "write files to begin with: tests, values, users, exceptions, roles"),
    "jp": ("runtime.cli.jp", "run, parse and look up JMESPath"),
    "cel": ("runtime.cli.cel", "run, check and price CEL expressions"),
    "lint": ("runtime.cli.lint", "find mistakes and bad style in policies, and mend some"),
    "why": ("runtime.cli.why", "tell why a rule says of a resource what it says"),
    "explain": ("runtime.cli.explain", "tell what a diagnostic code means and how to mend it"),
    "serve": ("runtime.webhook.serve", "run the admission webhook"),
    "controller": ("runtime.webhook.controller", "run the controllers without the webhook"),
    "crds": ("runtime.cli.crds", "print the custom resource definitions"),
    "docs": ("runtime.cli.docs", "write the reference pages that follow from tables"),
}

HIDDEN: Final = {"demo": "runtime.cli.demo"}
"""Commands of the source tree (``make run``) that the help does not list."""

PASSED: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line; the exit code is 0 (all passed), 1 (a policy failed) or 2 (bad usage or input)."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        parser = _parser(words)
        args = parser.parse_args(words)
        if args.command is None:
            parser.print_help()
            return USAGE
        return _run(args)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else USAGE if stop.code else PASSED


def _run(args: argparse.Namespace) -> int:
    from runtime.bundles import BundleProblem
    from runtime.request import RequestError

    try:
        code: int = import_module(_module(args.command)).run(args)
        sys.stdout.flush()
    except Problem as problem:
        if problem.details:
            print(problem.details, file=sys.stderr)
        return _error(str(problem))
    except (BundleProblem, RequestError) as problem:
        return _error(str(problem))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader went away (``| head``): nothing to say, and nowhere to say it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PASSED
    except Exception as error:
        if os.environ.get("THESMOS_DEBUG"):
            raise
        return _error(f"internal error: {error} (set THESMOS_DEBUG=1 for where)")
    return code


def _error(text: str) -> int:
    print(f"error: {text}", file=sys.stderr)
    return USAGE


def _parser(words: list[str]) -> argparse.ArgumentParser:
    program = "kubectl thesmos" if os.path.basename(sys.argv[0]).startswith("kubectl") else "thesmos"
    parser = argparse.ArgumentParser(
        prog=program,
        description="Kubernetes policies compiled to verified bytecode; one bundle answers here and in a cluster.",
        epilog="Exit codes: 0 all passed, 1 a policy failed or could not be evaluated, 2 bad usage or input.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    if "--version" in words[:1]:
        from importlib.metadata import version

        print(f"thesmos {version('thesmos')}")
        raise SystemExit(PASSED)
    chosen = next((word for word in words if not word.startswith("-")), None)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name == chosen:
            import_module(module).add_arguments(command)
    if chosen in HIDDEN:
        import_module(HIDDEN[chosen]).add_arguments(commands.add_parser(chosen))
    return parser


def _module(command: str) -> str:
    return HIDDEN.get(command) or COMMANDS[command][0]


if __name__ == "__main__":
    sys.exit(main())
