"""Checks of ``patchesJson6902``: the text holds a list of operations with fixed paths; called by mutate_rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from compiler.diagnostics import Reporter
from compiler.source import Document, SourceError, load_values

_VARIABLE = re.compile(r"\{\{(?:\{[^{}]*\}|[^{}])*\}\}")
_STAND_IN: Final = "\ue000"
_NUMBERED: Final = re.compile(f"{_STAND_IN}([0-9]+){_STAND_IN}")
_OPS: Final = ("add", "remove", "replace", "move", "copy", "test")
_VALUE_OPS: Final = ("add", "replace", "test")


def check(doc: Document, text: str, at: str, reporter: Reporter, *, in_loop: bool = False) -> None:
    """Reports bad shape, ``op``, ``path`` or ``value`` (T0314) and, but in loops, variables in paths (T0311). A text
    that is one variable cannot be looked at."""
    # Stand-ins keep the length, so that places in the text stay right.
    plain = _without_variables(text)
    try:
        values = load_values(plain)
    except SourceError as e:
        offset = sum(len(line) + 1 for line in plain.split("\n")[: e.span.line - 1]) + e.span.column - 1
        reporter.error("T0314", doc.spans.text_span(at, offset, offset + 1), f"the patch is {e.message}", "", e.help)
        return
    patch = values[0] if len(values) == 1 else None
    if in_loop and type(patch) is str and patch.strip(_STAND_IN) == "":
        return
    if type(patch) is not list:
        reporter.error(
            "T0314",
            doc.spans.span(at),
            "a JSON patch must be a list of operations",
            "[{op: add, path: /…, value: …}, …]",
        )
        return
    for i, operation in enumerate(patch):
        if (
            not in_loop
            and type(operation) is dict
            and any(_STAND_IN in str(operation.get(k, "")) for k in ("path", "from"))
        ):
            reporter.error(
                "T0311",
                _place(doc, text, at, i),
                "the path of a JSON patch cannot hold variables",
                "a fixed path",
                "use mutate.foreach, or patchStrategicMerge with the variable as key",
            )
        elif problem := _problem(operation):
            reporter.error(
                "T0314", _place(doc, text, at, i), f"operation {i + 1} of the patch {problem[0]}", problem[1]
            )


def operations(text: str) -> Iterator[dict[str, Any]]:
    """The operations of a patch; a path within one holds each variable as it is written, the last of them if variables
    stand in variables. None for a text that holds no list of maps."""
    written = [m.group() for m in _VARIABLE.finditer(text)]
    names = iter(range(len(written)))
    try:
        values = load_values(_without_variables(_VARIABLE.sub(lambda m: f"{_STAND_IN}{next(names)}{_STAND_IN}", text)))
    except SourceError:
        return
    for operation in values[0] if len(values) == 1 and type(values[0]) is list else ():
        if type(operation) is dict and type(path := operation.get("path")) is str:
            yield {**operation, "path": _NUMBERED.sub(lambda m: written[int(m[1])], path)}


def _without_variables(text: str) -> str:
    """The text with stand-ins of the same length for variables, inner ones first."""
    while (plain := _VARIABLE.sub(lambda m: _STAND_IN * len(m.group()), text)) != text:
        text = plain
    return text


def _problem(operation: Any) -> tuple[str, str] | None:
    if type(operation) is not dict:
        return "is not a map", "op, path and value"
    op, path = operation.get("op"), operation.get("path")
    if op not in _OPS:
        return (f'has the unknown op "{op}"' if op is not None else "has no op"), "one of " + ", ".join(_OPS)
    if type(path) is not str:
        return "has no path", "path: /…"
    if not path.startswith(("/", _STAND_IN)):
        return f'has the path "{path}"', "a path that begins with /"
    if op in ("move", "copy") and type(operation.get("from")) is not str:
        return "has no from", "from: /…"
    if op in _VALUE_OPS and "value" not in operation:
        return "has no value", "value: …"
    return None


def _place(doc: Document, text: str, at: str, index: int) -> Any:
    """The place of an operation in the text: where its ``path`` or ``op`` line stands, else the whole text."""
    starts = [m.start() for m in re.finditer(r"^\s*-\s+", text, re.MULTILINE)]
    if index < len(starts):
        start = starts[index]
        end = text.find("\n", start + 1)
        lead = len(text[start:]) - len(text[start:].lstrip())
        return doc.spans.text_span(at, start + lead, end if end > 0 else len(text))
    return doc.spans.span(at)
