"""Preconditions that cannot hold (T1413): conditions that must hold together and exclude each other, or the operations
of the match. Called by :mod:`compiler.schema.model_rules`.

Only conditions of one key with constant values are compared, by the operators that ask for equality; everything else
counts as possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.schema.model import Policy, Rule
from vm.intrinsics.wildcard import contains_wildcard

Json: TypeAlias = Any

_ONE_OF: Final = frozenset(("equals", "equal", "anyin", "in"))
_NONE_OF: Final = frozenset(("notequals", "notequal", "anynotin", "allnotin", "notin"))
_OPERATION: Final = "{{request.operation}}"


def check_preconditions(policy: Policy, rule: Rule, reporter: Reporter) -> None:
    """Warns of the first condition that leaves no value for its key."""
    allowed: dict[str, tuple[frozenset[str], str]] = {}
    if operations := _operations(rule):
        allowed[_OPERATION] = (operations, "the operations of the match")
    refused: dict[str, frozenset[str]] = {}
    for condition, at in _together(rule.preconditions, f"{rule.pointer}/preconditions"):
        key, operator = condition.get("key"), str(condition.get("operator")).lower()
        values = _constants(condition.get("value"))
        if not isinstance(key, str) or "{{" not in key or values is None:
            continue
        name = key.replace(" ", "")
        line = f"the condition of line {policy.doc.spans.span(at).line}"
        if operator in _ONE_OF:
            before, where = allowed.get(name, (values, ""))
            left = before & values
            blamed = where if not left else "another condition" if not left - refused.get(name, frozenset()) else ""
            if blamed:
                _report(policy, at, blamed, reporter)
                return
            allowed[name] = (left, line)
        elif operator in _NONE_OF and not (operator == "anynotin" and len(values) > 1):
            refused[name] = refused.get(name, frozenset()) | values
            before, where = allowed.get(name, (frozenset(), ""))
            if before and before <= refused[name]:
                _report(policy, at, where, reporter)
                return


def _report(policy: Policy, at: str, where: str, reporter: Reporter) -> None:
    reporter.warning(
        "T1413",
        policy.doc.spans.span(f"{at}/value"),
        f"the condition never holds together with {where}, so the rule never applies",
        "",
        "put conditions of which one is enough under any",
    )


def _together(block: Json, at: str) -> Iterator[tuple[dict[str, Json], str]]:
    """The conditions that must all hold."""
    if isinstance(block, dict):
        block, at = block.get("all"), f"{at}/all"
    for i, condition in enumerate(block if isinstance(block, list) else ()):
        if isinstance(condition, dict):
            yield condition, f"{at}/{i}"


def _constants(value: Json) -> frozenset[str] | None:
    """The texts of a condition's value; None when it holds anything else, a wildcard, a range or a variable."""
    values = value if isinstance(value, list) else [value]
    for v in values:
        if not isinstance(v, str) or not v or contains_wildcard(v) or not v.replace("_", "").isalpha():
            return None
    return frozenset(values)


def _operations(rule: Rule) -> frozenset[str]:
    """The operations that the match lets through; empty for all. Background scans count as CREATE."""
    filters = rule.match.filters
    if not filters or not all(f.operations for f in filters) or rule.match.mode == "all":
        return frozenset()
    return frozenset(o for f in filters for o in f.operations)
