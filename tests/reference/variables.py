"""Substitution of ``$( )`` references and ``{{ }}`` variables over a JSON document (semantics §6)."""

from __future__ import annotations

import re
from typing import Any

from tests.reference.query import QueryError, search
from tests.reference.scalars import json_text
from tests.reference.walk import anchor

_VARIABLE = re.compile(r"\{\{(?:\{[^{}]*\}|[^{}])*\}\}")
_REFERENCE = re.compile(r"(^|[^\\])\$\(([^\s()]+)\)")
_OPERATORS = (">=", "<=", ">", "<", "!")


class SubstitutionError(Exception):
    """A variable or reference that cannot be resolved; the whole document fails with it."""


def substitute(document: Any, context: dict[str, Any]) -> Any:
    """The document with references, then variables resolved."""
    return _variables(references(document), context, [])


def _variables(node: Any, context: dict[str, Any], path: list[str]) -> Any:
    if isinstance(node, dict):
        result = {}
        for key, value in node.items():
            new_key = _text(key, context, path)
            if not isinstance(new_key, str):
                raise SubstitutionError("a key must resolve to a text")
            result[new_key] = _variables(value, context, [*path, key])
        return result
    if isinstance(node, list):
        return [_variables(value, context, [*path, str(i)]) for i, value in enumerate(node)]
    if not isinstance(node, str):
        return node
    value = _text(node, context, path)
    return _variables(value, context, path) if isinstance(value, (dict, list)) else value


def _text(text: str, context: dict[str, Any], path: list[str]) -> Any:
    while True:
        found = list(_find(text))
        if not found:
            return text.replace("\\{{", "{{")
        pieces: list[str] = []
        at = 0
        last_shallow = False
        for start, end in found:
            variable = text[start:end]
            last_shallow = variable.startswith("{{-")
            body = variable.replace("{{-", "", 1) if last_shallow else variable
            value = _resolve(body.replace("{{", "").replace("}}", "").strip(), context, path)
            if (start, end) == (0, len(text)):
                return value
            if last_shallow:
                if value is not None and not isinstance(value, str):
                    raise SubstitutionError("a shallow variable inside a text must be a text")
                inserted = "null" if value is None else value.replace("{{", "\\{{")
            else:
                inserted = value if isinstance(value, str) else json_text(value)
            pieces += [text[at:start], inserted]
            at = end
        text = "".join([*pieces, text[at:]])
        if last_shallow:
            return text.replace("\\{{", "{{")


def _find(text: str) -> list[tuple[int, int]]:
    """Where the variables are: those that no backslash stands before; what touches the end of another counts too."""
    return [m.span() for m in _VARIABLE.finditer(text) if m.start() == 0 or text[m.start() - 1] != "\\"]


def of_deletion(query: str, context: dict[str, Any]) -> str:
    """A query as it is meant when an object goes away: about the old object (§6.4)."""
    if context.get("request", {}).get("operation") == "DELETE":
        return query.replace("request.object", "request.oldObject")
    return query


def _resolve(body: str, context: dict[str, Any], path: list[str]) -> Any:
    body = of_deletion(body, context)
    if body == "@":
        body = "request.object" + "".join(
            f"[{step}]" if step.isdigit() else '."' + step.replace('"', '\\"') + '"' for step in path[2:]
        )
    try:
        return search(body, context)
    except QueryError as error:
        raise SubstitutionError(f"failed to resolve {body}: {error}") from None


def references(document: Any) -> Any:
    """Only the ``$( )`` of a document."""
    return _references(document, document, [])


def _references(node: Any, document: Any, path: list[str]) -> Any:
    if isinstance(node, dict):
        return {k: _references(v, document, [*path, k]) for k, v in node.items()}
    if isinstance(node, list):
        return [_references(v, document, [*path, str(i)]) for i, v in enumerate(node)]
    if not isinstance(node, str):
        return node
    while match := _REFERENCE.search(node):
        operator = next((o for o in _OPERATORS if match[2].startswith(o)), "")
        value = _lookup(document, path, match[2][len(operator) :])
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise SubstitutionError(f"reference {match[2]} does not lead to a text")
        if not isinstance(value, str):
            if not operator:
                raise SubstitutionError(f"reference {match[2]} does not lead to a text")
            value = f"{value:.6f}" if isinstance(value, float) else str(value)
        node = node[: match.start()] + match[1] + operator + value + node[match.end() :]
    return node.replace("\\$(", "$(")


def _lookup(document: Any, path: list[str], target: str) -> Any:
    if target.startswith("/"):
        steps: list[str] = []
    else:
        steps = list(path)
    for step in target.strip("/").split("/"):
        if step in ("", "."):
            continue
        if step == "..":
            if not steps:
                raise SubstitutionError("reference leaves the document")
            steps.pop()
        else:
            steps.append(step)
    value = document
    for step in steps:
        value = _child(value, step)
    if value is None:
        raise SubstitutionError(f"reference {target} leads to nothing")
    return value


def _child(value: Any, step: str) -> Any:
    plain = (anchor(step) or ("", step))[1]
    if isinstance(value, dict):
        for key in value:
            if key == step or (anchor(key) or ("", key))[1] == plain:
                return value[key]
    if isinstance(value, list) and step.isdigit() and int(step) < len(value):
        return value[int(step)]
    raise SubstitutionError(f"reference to {step} leads to nothing")
