"""Flags of the reference product that are known but not built yet: refused by name, never ignored."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, NoReturn


class NotBuilt(argparse.Action):
    """Ends the command with a usage error that names the flag."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        parser.error(f"{'/'.join(self.option_strings)} is not built yet")


def refuse(
    parser: argparse.ArgumentParser, flags: Iterable[tuple[str, ...]], switches: Iterable[tuple[str, ...]]
) -> None:
    """Adds flags that take a value and switches that take none, out of sight of ``--help``."""
    for names in flags:
        parser.add_argument(*names, action=NotBuilt, help=argparse.SUPPRESS)
    for names in switches:
        parser.add_argument(*names, action=NotBuilt, nargs=0, help=argparse.SUPPRESS)


def accept_registry(parser: argparse.ArgumentParser) -> None:
    """``--registry`` allows reading image registries; nothing reads one yet, so that it changes nothing."""
    parser.add_argument("--registry", action="store_true", help=argparse.SUPPRESS)
