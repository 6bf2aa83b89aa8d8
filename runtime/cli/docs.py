"""``thesmos docs``: the reference pages that repeat a table, written from it, so that neither can fall behind.

For those who change Thesmos: run in a checkout. A test compares the pages with what this makes.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from runtime.bundles import reason
from runtime.cli.problem import Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``docs``."""
    parser.epilog = "Pages: " + ", ".join(PAGES) + ". Exit code 1 when --check finds a page that differs."
    parser.add_argument("--root", type=Path, metavar="DIR", help="the checkout (default: where this program lies)")
    parser.add_argument("--check", action="store_true", help="write nothing, say which pages differ")


def run(args: argparse.Namespace) -> int:
    root = args.root or Path(__file__).resolve().parents[2]
    if not (root / "pyproject.toml").is_file():
        raise Problem(f"{root}: is no checkout of thesmos (it has no pyproject.toml)")
    differ = 0
    for name, make in PAGES.items():
        path, text = root / name, make()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        differ += 1
        if args.check:
            print(f"{name}: differs from its table, run thesmos docs")
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise Problem(f"{path}: {reason(error)}") from None
        print(f"{name}: written")
    return 1 if args.check and differ else 0


def _diagnostics() -> str:
    from compiler.catalogue import document

    return document()


def instruction_set() -> str:
    """The page of ``vm/ISA.md``: every instruction, then every intrinsic."""
    from vm.isa_page import isa_markdown

    return isa_markdown()


def cel_functions() -> str:
    """The page of ``vm/cel/FUNCTIONS.md``: the functions of CEL by library."""
    from vm.cel.functions_page import functions_markdown

    return functions_markdown()


def command_line() -> str:
    """The page of ``docs/guide/cli.md``: the help text of every command."""
    from importlib import import_module

    from runtime.cli.main import COMMANDS

    lines = [
        "# Command line",
        "",
        "Made from the help texts by `thesmos docs`; a test compares them. `kubectl thesmos` answers the same.",
        "",
        "Exit codes: 0 all passed, 1 a policy failed or could not be evaluated, 2 bad usage or input.",
    ]
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "110"
    try:
        for name, (module, text) in COMMANDS.items():
            parser = argparse.ArgumentParser(prog=f"thesmos {name}", description=text[0].upper() + text[1:] + ".")
            import_module(module).add_arguments(parser)
            lines += ["", f"## {name}", "", "```", *parser.format_help().rstrip().splitlines(), "```"]
            for sub, child in _children(parser):
                lines += ["", f"### {name} {sub}", "", "```", *child.format_help().rstrip().splitlines(), "```"]
    finally:
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _children(parser: argparse.ArgumentParser) -> list[tuple[str, argparse.ArgumentParser]]:
    return [
        (name, child)
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, child in action.choices.items()
    ]


PAGES: Final[dict[str, Callable[[], str]]] = {
    "compiler/DIAGNOSTICS.md": _diagnostics,
    "vm/ISA.md": instruction_set,
    "vm/cel/FUNCTIONS.md": cel_functions,
    "docs/guide/cli.md": command_line,
}
"""Pages by their path in a checkout."""
