"""The findings of ``thesmos lint`` as text, JSON, SARIF 2.1.0 and GitHub annotations; each is a text to print."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from compiler.diagnostics import Diagnostic
    from runtime.cli.lint import Findings

VERSION: Final = 1
"""Of the JSON form: fields may be added within it, none changes its meaning."""
_SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"error": "error", "warning": "warning", "note": "note", "advice": "note"}
_ANNOTATIONS: Final = {"error": "error", "warning": "warning", "note": "notice", "advice": "notice"}


def text(found: Findings, *, color: bool = False) -> str:
    """Each finding with its line and a caret, a blank line between two."""
    from compiler.diagnostics import render_all

    shown = render_all(found.diagnostics, found.texts, color=color)
    return shown + "\n\n" if shown else ""


def as_json(found: Findings, *, color: bool = False) -> str:
    """``version``, ``files``, ``policies``, ``counts`` by severity, and ``findings`` with their places."""
    out = {
        "version": VERSION,
        "files": found.files,
        "policies": found.policies,
        "counts": found.counts(),
        "findings": [d.to_json() for d in found.diagnostics],
    }
    return json.dumps(out, indent=2, ensure_ascii=False) + "\n"


def sarif(found: Findings, *, color: bool = False) -> str:
    """A log of one run, with a rule for each code that was found."""
    from importlib.metadata import version

    codes = sorted({d.code for d in found.diagnostics})
    driver = {
        "name": "thesmos",
        "version": version("thesmos"),
        "rules": [_sarif_rule(code) for code in codes],
    }
    results = [_sarif_result(d, codes.index(d.code)) for d in found.diagnostics]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return (
        json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"
    )


def _sarif_rule(code: str) -> dict[str, Any]:
    from compiler.catalogue import CODES

    entry = CODES[code]
    rule: dict[str, Any] = {
        "id": code,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.explanation},
        "defaultConfiguration": {"level": _LEVELS[entry.severity]},
    }
    from compiler.explain import page_of

    page = page_of(code)
    if page is not None:
        rule["help"] = {"text": page.fix}
    return rule


def _sarif_result(d: Diagnostic, index: int) -> dict[str, Any]:
    words = [d.message, f"expected: {d.expected}" if d.expected else "", d.help]
    result: dict[str, Any] = {
        "ruleId": d.code,
        "ruleIndex": index,
        "level": _LEVELS[d.severity],
        "message": {"text": "\n".join(w for w in words if w)},
    }
    if (s := d.span) is not None:
        region = {"startLine": s.line, "startColumn": s.column, "endLine": s.end_line, "endColumn": s.end_column}
        place = {"artifactLocation": {"uri": _uri(s.file)}, "region": region}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path.replace("\\", "/"))


def github(found: Findings, *, color: bool = False) -> str:
    """Workflow commands, one a line, which GitHub shows beside the lines they are about."""
    from compiler.catalogue import CODES

    lines = []
    for d in found.diagnostics:
        properties = {"title": f"{d.code} {CODES[d.code].title}"}
        if (s := d.span) is not None:
            properties = {"file": s.file, "line": str(s.line), "col": str(s.column), **properties}
            properties["endLine"] = str(s.end_line)
            properties["endColumn"] = str(s.end_column)
        told = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
        message = "\n".join(w for w in (d.message, d.help) if w)
        lines.append(f"::{_ANNOTATIONS[d.severity]} {told}::{_data(message)}")
    return "".join(line + "\n" for line in lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMATS: Final[dict[str, Callable[..., str]]] = {"text": text, "json": as_json, "sarif": sarif, "github": github}
