"""The flag ``--crd`` and the files it names: definitions of custom resources, by whose schemas policies are compiled.

For ``compile``, ``apply``, ``test`` and ``cel``, which hand what :func:`read_crds` gives to ``compiler.Options``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from runtime.cli.problem import Problem, counted


class _Flags(Protocol):
    """A parser, or a group of its flags."""

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action: ...


def add_crd_flag(flags: _Flags) -> None:
    """``--crd``, which Kyverno calls ``--crd-path``."""
    flags.add_argument(
        "--crd", "--crd-path", dest="crds", action="append", default=[], metavar="PATH",
        help="definitions of custom resources (files or folders), for the types of their fields",
    )  # fmt: skip


def read_crds(given: Iterable[Path | str]) -> tuple[dict[str, Any], ...]:
    """The CustomResourceDefinitions of files and folders, joined by commas or given several times.

    Other documents beside them are passed over, as are files of a folder that hold none; a file named by itself must
    hold one. Raises :class:`Problem`, with a diagnostic for each mistake.
    """
    paths = [part for path in given for part in str(path).split(",") if part]
    if not paths:
        return ()
    from compiler.diagnostics import Reporter, render_all
    from compiler.schema.kinds.manifests import KIND, definitions
    from compiler.source import load_documents
    from runtime.cli.files import STDIN, expand, read_text

    reporter = Reporter()
    texts: dict[str, str] = {}
    found: list[dict[str, Any]] = []
    for path in paths:
        if path == STDIN:
            raise Problem("--crd -: definitions are read from files, not from stdin")
        before = len(found), reporter.errors
        for file in expand([path]):
            name = str(file)
            texts[name] = read_text(file)
            found += definitions(load_documents(texts[name], name, reporter), reporter)
        if before == (len(found), reporter.errors):
            raise Problem(f"{path}: holds no {KIND}")
    if reporter.failed:
        raise Problem(
            f"{counted(reporter.errors, 'error')} in the custom resource definitions",
            render_all(reporter.diagnostics, texts),
        )
    return tuple(found)
