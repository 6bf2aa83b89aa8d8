"""``validate.cel`` rules (semantics §21) in plain CEL: no quantities by schema, no parameters, no authorizer."""

from __future__ import annotations

from typing import Any

from tests.reference.cel_eval import Names, run
from tests.reference.cel_parse import BadSyntax, parse
from tests.reference.cel_values import CelError, V, from_json


def cel_rule(rule: dict[str, Any], root: dict[str, Any], namespace: dict[str, Any] | None) -> tuple[str, str]:
    """Status and message. ``root`` is the data of the request."""
    body = rule["validate"]["cel"]
    names = _names(root, namespace)
    met, problem = True, ""
    for condition in rule.get("celPreconditions") or ():
        try:
            met = met and _holds(condition["expression"], names)
        except (CelError, BadSyntax) as error:
            problem = str(error)
    if not met:
        return "skip", "cel preconditions not met"
    if problem:
        return "error", f"failed to evaluate cel preconditions: {problem}"
    for variable in body.get("variables") or ():
        names.later[f"variables.{variable['name']}"] = (parse(variable["expression"]), names)
    for expression in body.get("expressions") or ():
        try:
            good = _holds(expression["expression"], names)
        except (CelError, BadSyntax) as error:
            return "fail", f"expression '{expression['expression']}' resulted in error: {error}"
        if not good:
            return "fail", _message(rule, expression, names)
    return "pass", f"Validation rule '{rule['name']}' passed."


def _names(root: dict[str, Any], namespace: dict[str, Any] | None) -> Names:
    request = root["request"]
    return Names(
        {
            "object": from_json(request.get("object")),
            "oldObject": from_json(request.get("oldObject")),
            "request": from_json({k: v for k, v in request.items() if k not in ("object", "oldObject")}),
            "namespaceObject": from_json(namespace),
            "params": from_json(None),
        }
    )


def _holds(text: str, names: Names) -> bool:
    found: V = run(parse(text), names)
    if found[0] != "bool":
        raise CelError("overload")
    return bool(found[1])


def _message(rule: dict[str, Any], expression: dict[str, Any], names: Names) -> str:
    if expression.get("messageExpression"):
        try:
            found = run(parse(expression["messageExpression"]), names)
        except (CelError, BadSyntax):
            found = ("null", None)
        if found[0] == "string" and found[1].strip() and "\n" not in found[1]:
            return str(found[1]).strip()
    text = expression.get("message") or rule["validate"].get("message")
    return str(text) if text else f"failed expression: {expression['expression']}"
