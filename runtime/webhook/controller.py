"""``thesmos controller``: the parts of an installation that answer no requests, as a Deployment of their own.

The flags are those of ``thesmos serve``; ``runtime.cli.main`` calls :func:`add_arguments` and :func:`run`.
"""

from __future__ import annotations

import argparse
import sys

from runtime.config import PARTS
from runtime.webhook import serve

WORKING = PARTS - {"admission"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``thesmos serve``; ``--parts`` is background, reports and cleanup unless it says less."""
    serve.add_arguments(parser)
    parser.set_defaults(parts=WORKING)


def run(args: argparse.Namespace) -> int:
    """Works until SIGTERM or SIGINT. 0 at the end, 2 when it cannot start."""
    if "admission" in args.parts:
        print("thesmos controller: admission is of thesmos serve", file=sys.stderr)
        return 2
    return serve.run(args)
