"""Checks of condition blocks: shape, operators, values of ``{{ request.operation }}``; called by policy_rules."""

from __future__ import annotations

import difflib
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.source import Document, pointer, type_name

Json: TypeAlias = Any

OPERATORS: Final = (
    "Equals",
    "NotEquals",
    "AnyIn",
    "AllIn",
    "AnyNotIn",
    "AllNotIn",
    "GreaterThan",
    "GreaterThanOrEquals",
    "LessThan",
    "LessThanOrEquals",
)
DEPRECATED: Final = {
    "Equal": "Equals",
    "NotEqual": "NotEquals",
    "In": "AllIn or AnyIn",
    "NotIn": "AllNotIn or AnyNotIn",
    "DurationGreaterThan": "GreaterThan",
    "DurationGreaterThanOrEquals": "GreaterThanOrEquals",
    "DurationLessThan": "LessThan",
    "DurationLessThanOrEquals": "LessThanOrEquals",
}
"""Operators that still work, with what to write instead."""

_KNOWN: Final = {o.lower() for o in (*OPERATORS, *DEPRECATED)}
_FIELDS: Final = ("key", "operator", "value", "message")
_OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")


def check(doc: Document, block: Json, at: str, reporter: Reporter) -> None:
    """Checks a preconditions or deny block: a list of conditions, or an object with ``any`` and ``all``."""
    match block:
        case list():
            for i, condition in enumerate(block):
                _condition(doc, condition, f"{at}/{i}", reporter)
        case dict():
            for key, conditions in block.items():
                place = at + pointer(key)
                if key not in ("any", "all"):
                    close = difflib.get_close_matches(key, ("any", "all"), 1, 0.4)
                    reporter.error(
                        "T0201",
                        doc.spans.key_span(place),
                        f'a block of conditions has no field "{key}"',
                        "any, all",
                        'write a single condition as a list: "- key: …"'
                        if key in _FIELDS
                        else f'did you mean "{close[0]}"?'
                        if close
                        else "",
                    )
                elif conditions is not None and type(conditions) is not list:
                    reporter.error(
                        "T0202",
                        doc.spans.span(place),
                        f"{key} must be a list of conditions, not {type_name(conditions)}",
                        "a list",
                        "begin each condition with a dash",
                    )
                else:
                    for i, condition in enumerate(conditions or ()):
                        _condition(doc, condition, f"{place}/{i}", reporter)
        case _:
            reporter.error(
                "T0202",
                doc.spans.span(at),
                f"conditions must be a list or a map with any and all, not {type_name(block)}",
                "any: […], all: […]",
            )


def _condition(doc: Document, condition: Json, at: str, reporter: Reporter) -> None:
    spans = doc.spans
    if type(condition) is not dict:
        reporter.error(
            "T0202", spans.span(at), f"a condition must be a map, not {type_name(condition)}", "key, operator, value"
        )
        return
    for field in condition:
        if field not in _FIELDS:
            close = difflib.get_close_matches(field, _FIELDS, 1)
            reporter.error(
                "T0201",
                spans.key_span(at + pointer(field)),
                f'a condition has no field "{field}"',
                ", ".join(_FIELDS),
                f'did you mean "{close[0]}"?' if close else "",
            )
    missing = [f for f in ("key", "operator", "value") if condition.get(f) is None]
    if missing:
        given = [f for f in missing if f in condition]
        reporter.error(
            "T0321",
            spans.span(f"{at}/{given[0]}") if given else spans.span(at),
            f"the condition has no {' and no '.join(missing)}",
            "key, operator and value",
            "give a value for what may not be there: {{ … || '' }}" if "value" in given or "key" in given else "",
        )
    message = condition.get("message")
    if message is not None and type(message) is not str:
        reporter.error("T0202", spans.span(at + "/message"), "the message must be a text", "a text")
    operator = condition.get("operator")
    if operator is None:
        return
    if type(operator) is not str or operator.lower() not in _KNOWN:
        shown = str(operator)
        close = difflib.get_close_matches(shown, OPERATORS, 1, 0.5)
        reporter.error(
            "T0312",
            spans.span(at + "/operator"),
            f'entered value of `operator` is invalid: "{shown}"',
            "one of " + ", ".join(OPERATORS),
            f'did you mean "{close[0]}"?' if close else "",
        )
        return
    if newer := DEPRECATED.get(operator):
        reporter.warning(
            "T0501",
            spans.span(at + "/operator"),
            f"Operator {operator} has been deprecated and will be removed soon. Use {newer} instead",
        )
    key = condition.get("key")
    if type(key) is str and key.replace(" ", "") == "{{request.operation}}":
        _operations(doc, condition.get("value"), at + "/value", reporter)


def _operations(doc: Document, value: Json, at: str, reporter: Reporter) -> None:
    """The operation of a request is one of four; a text in double braces may become one of them."""
    for i, item in enumerate(value if type(value) is list else [value]):
        place = f"{at}/{i}" if type(value) is list else at
        if type(item) is str and (item in _OPERATIONS or (item.startswith("{{") and item.endswith("}}"))):
            continue
        if item is None:
            continue
        close = difflib.get_close_matches(str(item).upper(), _OPERATIONS, 1)
        reporter.error(
            "T0313",
            doc.spans.span(place),
            f'"{item}" is no operation of a request' if type(item) is str else "an operation must be a text",
            "one of " + ", ".join(_OPERATIONS),
            f'did you mean "{close[0]}"?' if close else "",
        )
