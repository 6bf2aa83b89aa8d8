"""What command lines have compiled, kept in the user's cache folder: the same text is compiled once.

``runtime.cli.offline`` looks here before it asks the compiler, since to import it and to compile ten policies is most
of what ``apply`` does for one Pod. A file is named by all that the code depends on, and counts when nobody else may
have written it (``grammar.private``). A bundle that comes from here is verified like any other; what cannot be read is
compiled again.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from grammar import private
from runtime.bundles import FAMILY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compiler.diagnostics import Diagnostic

MOST: Final = 2000
"""Files that are kept; beyond that the older half goes. A policy takes 2 to 10 KB."""


def get(key: str) -> tuple[bytes, tuple[Diagnostic, ...]] | None:
    """The bundle and the diagnostics that were kept under a key; None where nothing was, or what was is of no use."""
    folder = _folder()
    found = None if folder is None else private.read(folder / key)
    if found is None:
        return None
    written, _, bundle = found.partition(b"\n")
    try:
        forms = orjson.loads(written)
        return (bundle, _diagnostics(forms)) if type(forms) is list and bundle.startswith(FAMILY) else None
    except (ValueError, TypeError):
        return None


def put(key: str, bundle: bytes, diagnostics: Sequence[Diagnostic]) -> None:
    """Keeps a bundle with its diagnostics where that can be done."""
    folder = _folder()
    if folder is not None:
        private.write(folder / key, orjson.dumps([_form(d) for d in diagnostics]) + b"\n" + bundle)
        private.prune(folder, MOST)


def key_of(*parts: str) -> str:
    """The name of what is compiled of these texts by the compiler as it is installed now."""
    digest = sha256(private.installed("compiler", "grammar", "vm"))
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d\0" % len(data) + data)
    return digest.hexdigest()


def _folder() -> Path | None:
    found = None if os.environ.get(private.SWITCH) else private.folder()
    return None if found is None else found / "compiled"


def _form(d: Diagnostic) -> list[object]:
    s = d.span
    place = None if s is None else [s.file, s.line, s.column, s.end_line, s.end_column]
    return [d.code, d.severity, place, d.message, d.expected, d.help]


def _diagnostics(written: list[list[Any]]) -> tuple[Diagnostic, ...]:
    if not written:
        return ()
    from compiler.diagnostics import Diagnostic
    from compiler.source import Span

    made = []
    for code, severity, place, message, expected, text in written:
        span = Span(*place) if isinstance(place, list) else None
        made.append(Diagnostic(code, severity, span, message, expected, text))
    return tuple(made)
