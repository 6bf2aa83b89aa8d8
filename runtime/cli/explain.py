"""``thesmos explain CODE``: the page of a diagnostic code."""

from __future__ import annotations

import argparse
import difflib
from textwrap import fill

from runtime.cli.problem import Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``explain``."""
    parser.epilog = "Without CODE: the list of all codes."
    parser.add_argument("code", nargs="?", metavar="CODE", help="a code as diagnostics show it, for example T1204")


def run(args: argparse.Namespace) -> int:
    from compiler.catalogue import CODES
    from runtime.cli.output import table

    if args.code is None:
        print(table(["CODE", "SEVERITY", "TITLE"], [[code, c.severity, c.title] for code, c in sorted(CODES.items())]))
        return 0
    print(page(args.code))
    return 0


def page(code: str) -> str:
    """The page of a code as the command prints it. Raises ``Problem`` when there is no such code."""
    from compiler.catalogue import CODES
    from compiler.explain import findings, page_of

    name = code.upper()
    entry = CODES.get(name)
    if entry is None:
        near = difflib.get_close_matches(name, CODES, 1)
        raise Problem(f"{code}: is no code of a diagnostic" + (f", did you mean {near[0]}?" if near else ""))
    parts = [f"{name}: {entry.title} ({entry.severity})", fill(entry.explanation, 100)]
    found = page_of(name)
    if found is not None:
        parts.append("How to mend it:\n" + fill(found.fix, 100, initial_indent="  ", subsequent_indent="  "))
        if found.example:
            parts.append("For example, policy.yaml:\n\n" + _indented(found.example))
            if said := findings(found):
                parts.append("is answered by:\n\n" + _indented(said))
    return "\n\n".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.rstrip("\n").split("\n"))
