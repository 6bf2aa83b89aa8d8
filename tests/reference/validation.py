"""Validate rules: pattern, anyPattern, deny and foreach (semantics §4, §5 and §10), each to a status and a message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.reference.conditions import ConditionError, holds
from tests.reference.context import Context
from tests.reference.query import NotFound, QueryError, search
from tests.reference.scalars import json_text
from tests.reference.variables import SubstitutionError, substitute
from tests.reference.walk import Mismatch, match_pattern

Outcome = tuple[str, str]


@dataclass(frozen=True)
class Checked:
    """A rule's name and ``validate``; what a foreach element is checked with takes the message from here."""

    name: str
    validate: dict[str, Any]
    deleting: bool
    foreach_values: dict[str, Any]


def validate(rule: Checked, resource: Any, context: Context) -> Outcome | None:
    """Deny goes before patterns, patterns before foreach; None when the rule gives no result."""
    body = rule.validate
    if "deny" in body:
        return _deny(rule, body["deny"], context)
    if "pattern" in body or "anyPattern" in body:
        return _patterns(rule, body, resource, context, deleting=rule.deleting)
    if "foreach" in body:
        return _foreach(rule, body["foreach"] or [], resource, context, 0)
    return None


def _patterns(
    rule: Checked, body: dict[str, Any], resource: Any, context: Context, *, deleting: bool
) -> Outcome | None:
    """None when what is deleted would be looked at; what cannot be substituted is an error even then."""
    many = body.get("pattern") is None
    try:
        wanted = substitute(body["anyPattern"] if many else body["pattern"], context)
    except SubstitutionError as error:
        return "error", f"variable substitution failed: {error}"
    if deleting:
        return None
    return (_any_pattern if many else _pattern)(rule, wanted, resource, context)


def _with_stop(message: str) -> str:
    return message if message.endswith(".") else message + "."


def _pattern(rule: Checked, wanted: Any, resource: Any, context: Context) -> Outcome:
    found = match_pattern(resource, wanted)
    if found is None:
        return "pass", f"validation rule '{rule.name}' passed."
    if found.skip:
        return "skip", found.text
    return ("fail" if found.path else "error"), _pattern_message(rule, found, context)


def _pattern_message(rule: Checked, found: Mismatch, context: Context) -> str:
    try:
        message = substitute(rule.validate.get("message") or "", context)
    except SubstitutionError:
        return f"validation error: variables substitution error in rule {rule.name} execution error: {found.text}"
    text = message if isinstance(message, str) else json_text(message)
    before = f"{_with_stop(text)} " if rule.validate.get("message") else ""
    if found.path:
        return f"validation error: {before}rule {rule.name} failed at path {found.path}"
    return f"validation error: {before}rule {rule.name} execution error: {found.text}"


def _any_pattern(rule: Checked, patterns: Any, resource: Any, context: Context) -> Outcome:
    name = rule.name
    failed, skipped = [], []
    for i, wanted in enumerate(patterns):
        found = match_pattern(resource, wanted)
        if found is None:
            return "pass", f"validation rule '{name}' anyPattern[{i}] passed."
        if found.skip:
            skipped.append(f"rule {name}[{i}] skipped: {found.text}")
        elif found.path:
            failed.append(f"rule {name}[{i}] failed at path {found.path}")
        else:
            failed.append(f"rule {name}[{i}] failed: {found.text}")
    if not failed:
        return ("skip", " ".join(skipped)) if skipped else ("pass", f"validation rule '{name}' passed.")
    message = rule.validate.get("message") or ""  # as written: Kyverno resolves no variables in it here
    before = f"{_with_stop(message)} " if message else ""
    return "fail", f"validation error: {before}{' '.join(failed)}"


def _deny(rule: Checked, block: dict[str, Any] | None, context: Context) -> Outcome:
    try:
        denied, messages = holds((block or {}).get("conditions"), context)
    except ConditionError as error:
        return "error", f"failed to check deny conditions: {error}"
    if not denied:
        return "pass", f"validation rule '{rule.name}' passed."
    texts = [t for t in (rule.validate.get("message"), *messages) if t]
    if not texts:
        return "fail", f"validation error: rule {rule.name} failed"
    try:
        message = substitute("; ".join(texts), context)
    except SubstitutionError:
        return "fail", "; ".join(messages)
    if not isinstance(message, str):
        message = "the produced message didn't resolve to a string, check your policy definition."
    return "fail", message


# --- foreach, §10 --------------------------------------------------------------------------------------------------


def elements(query: str, context: Context) -> list[Any]:
    """What a foreach goes over. Raises :class:`QueryError`. The list is no variable: when an object goes away there is
    no ``request.object`` in it."""
    text = _resolved(query, context)
    if context["request"].get("operation") == "DELETE":
        context = context.with_data(request={**context["request"], "object": None})
    found = search(text, context)
    return found if isinstance(found, list) else [found]


def _resolved(query: str, context: Context) -> str:
    """A list is a query; variables inside it are resolved first."""
    try:
        text = substitute(query, context)
    except SubstitutionError as error:
        raise QueryError(str(error)) from None
    if not isinstance(text, str):
        raise QueryError("a list must be a query")
    return text


def of_element(context: Context, element: Any, index: int, depth: int) -> Context:
    return context.with_data(
        **{
            "element": element,
            "elementIndex": index,
            f"element{depth}": element,
            f"elementIndex{depth}": index,
        }
    )


def element_context(
    entry: dict[str, Any], context: Context, element: Any, index: int, depth: int, values: dict[str, Any]
) -> Context:
    """The context of one element: its own variables, values given for it, and the entries of the foreach."""
    inside = of_element(context, element, index, depth)
    given = {k: v[index] for k, v in values.items() if isinstance(v, list) and index < len(v)}
    return inside.with_values(given).declare(entry.get("context"))


def _foreach(
    rule: Checked, entries: list[dict[str, Any]], resource: Any, context: Context, depth: int
) -> Outcome | None:
    applied = 0
    unread: Outcome | None = None
    for entry in entries:
        try:
            found = elements(entry.get("list") or "", context)
        except NotFound:
            continue
        except QueryError as error:
            unread = "error", f"failed to evaluate list {entry.get('list')}: {error}"
            continue
        for outcome in _each(rule, entry, found, resource, context, depth):
            if outcome[0] != "pass":
                return outcome[0], f"validation failure: {outcome[1]}"
            applied += 1
    if unread is not None:  # right here: what could not be evaluated is no pass
        return unread
    return ("pass", "rule passed") if applied else None


def _each(
    rule: Checked, entry: dict[str, Any], found: list[Any], resource: Any, context: Context, depth: int
) -> Iterator[Outcome]:
    """The outcomes of the elements that have one: pass, fail or error."""
    for index, element in enumerate(found):
        if element is None:
            continue
        outcome = _element(rule, entry, element, index, resource, context, depth)
        if outcome is not None and outcome[0] != "skip":
            yield outcome


def _element(
    rule: Checked, entry: dict[str, Any], element: Any, index: int, resource: Any, context: Context, depth: int
) -> Outcome | None:
    scoped = isinstance(element, dict)
    if entry.get("elementScope") is not None:
        if entry["elementScope"] and not scoped:
            return "error", "failed to process foreach: elementScope is for elements that are maps"
        scoped = bool(entry["elementScope"])
    inside = element_context(entry, context, element, index, depth, rule.foreach_values)
    try:
        met, _ = holds(entry.get("preconditions"), inside)
    except ConditionError:
        return None
    if not met:
        return None
    if entry.get("deny") is not None:
        return _deny(rule, entry["deny"], inside)
    if entry.get("pattern") is not None or entry.get("anyPattern") is not None:
        return _patterns(rule, entry, element if scoped else resource, inside, deleting=rule.deleting and not scoped)
    if entry.get("foreach") is not None:
        # within an element that patterns look at, "the whole resource" of an inner loop is that element
        within = replace(rule, deleting=rule.deleting and not scoped)
        return _foreach(within, entry["foreach"], element if scoped else resource, inside, depth + 1)
    return None
