"""Labels and annotations in patterns, patches and generated objects must be texts (T1407); called by policy_rules.

Kyverno refuses numbers, booleans and null there, under ``metadata`` and ``spec.template.metadata``, as these read; keys
with an anchor are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from compiler.diagnostics import Reporter
from compiler.source import Document, pointer, type_name

Json: TypeAlias = Any


def check(doc: Document, rule: dict[str, Json], at: str, reporter: Reporter) -> None:
    """Reports every label and annotation of a normalised rule that is no text."""
    for body, place in _objects(rule, at):
        for metadata, where in _metadata(body, place):
            for field in ("labels", "annotations"):
                values = metadata.get(field)
                if type(values) is not dict:
                    continue
                for key, value in values.items():
                    if type(value) is not str:
                        spot = f"{where}/{field}{pointer(key)}"
                        source = doc.spans.source_text(spot)
                        reporter.error(
                            "T1407",
                            doc.spans.span(spot),
                            f"the values of {field} are texts, and this is {type_name(value)}",
                            "a text",
                            f'put it in quotes: "{source}"'
                            if type(value) in (int, float, bool)
                            else f'to ask that it is not there: X({key}): "*"'
                            if value is None
                            else "",
                        )


def _objects(rule: dict[str, Json], at: str) -> Iterator[tuple[Json, str]]:
    validate, mutate = rule.get("validate") or {}, rule.get("mutate") or {}
    generate = rule.get("generate") or {}
    yield validate.get("pattern"), f"{at}/validate/pattern"
    patterns = validate.get("anyPattern")
    for i, pattern in enumerate(patterns if type(patterns) is list else ()):
        yield pattern, f"{at}/validate/anyPattern/{i}"
    yield mutate.get("patchStrategicMerge"), f"{at}/mutate/patchStrategicMerge"
    yield generate.get("data"), f"{at}/generate/data"
    for part, holder in (("validate", validate), ("mutate", mutate), ("generate", generate)):
        yield from _loops(holder.get("foreach"), f"{at}/{part}/foreach")


def _loops(entries: Json, at: str) -> Iterator[tuple[Json, str]]:
    for i, entry in enumerate(entries if type(entries) is list else ()):
        if type(entry) is dict:
            for field in ("pattern", "patchStrategicMerge", "data"):
                yield entry.get(field), f"{at}/{i}/{field}"
            yield from _loops(entry.get("foreach"), f"{at}/{i}/foreach")


def _metadata(body: Json, at: str) -> Iterator[tuple[dict[str, Json], str]]:
    if type(body) is not dict:
        return
    if type(found := body.get("metadata")) is dict:
        yield found, f"{at}/metadata"
    inner = body.get("spec")
    template = inner.get("template") if type(inner) is dict else None
    if type(template) is dict and type(found := template.get("metadata")) is dict:
        yield found, f"{at}/spec/template/metadata"
