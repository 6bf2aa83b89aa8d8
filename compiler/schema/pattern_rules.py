"""Checks of the shape of validate patterns: anchors and lists; called by policy_rules.

What the texts in a pattern mean is the business of the front ends; here only what no text can mend is refused.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.frontends.pattern import parse_key
from compiler.source import Document, pointer, type_name

Json: TypeAlias = Any

_ODD_ANCHOR = re.compile(r"\s*([!~&|%@#>:x-])\(([^()]+)\)\s*")
_MEANING: Final = "( ) condition, <( ) global condition, =( ) if there, ^( ) at least one, X( ) must not be there"


def check(doc: Document, pattern: Json, at: str, reporter: Reporter) -> None:
    """Reports anchors that a validate pattern cannot have (T1202, T1204) and lists without an element (T1203)."""
    spans = doc.spans
    match pattern:
        case dict():
            for key, value in pattern.items():
                place = at + pointer(key)
                read = parse_key(key)
                if read.anchor is not None:
                    _anchor(doc, read.anchor, read.name, value, place, reporter)
                elif (odd := _ODD_ANCHOR.fullmatch(key)) is not None:
                    reporter.error("T1202", spans.key_span(place), f'"{odd.group(1)}( )" is no anchor', _MEANING, "")
                check(doc, value, place, reporter)
        case list():
            if not pattern:
                reporter.error(
                    "T1203",
                    spans.span(at),
                    "a list pattern needs an element",
                    "the pattern of an element",
                    "to ask that the list is not there: X(key): null",
                )
            for i, value in enumerate(pattern):
                check(doc, value, f"{at}/{i}", reporter)


def check_any(doc: Document, patterns: Json, at: str, reporter: Reporter) -> None:
    """Reports the same of an ``anyPattern``, and one that is no list (T0202) or has none (T0315)."""
    if type(patterns) is not list:
        reporter.error("T0202", doc.spans.span(at), "anyPattern must be a list of patterns", "a list")
    elif not patterns:
        reporter.error("T0315", doc.spans.span(at), "anyPattern has no pattern", "a list of patterns")
    for i, pattern in enumerate(patterns if type(patterns) is list else ()):
        check(doc, pattern, f"{at}/{i}", reporter)


def _anchor(doc: Document, mark: str, name: str, value: Json, at: str, reporter: Reporter) -> None:
    if mark == "+":
        reporter.error(
            "T1202",
            doc.spans.key_span(at),
            "+( ) adds a field and has no meaning in a validate pattern",
            _MEANING,
            f'write "=({name})" to check it where it is there, or use mutate to add it',
        )
    elif mark == "^" and (type(value) is not list or not all(type(v) is dict for v in value)):
        shown = type_name(value) if type(value) is not list else "a list of other things"
        reporter.error(
            "T1204",
            doc.spans.key_span(at),
            f"^( ) asks for an element of a list, its value is {shown}",
            "a list of maps",
            f"write the value as a list:\n^({name}):\n- …",
        )
