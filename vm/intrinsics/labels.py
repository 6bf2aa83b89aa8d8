"""Label selectors, with Kyverno's wildcards in ``matchLabels`` (semantics §11). Called by ``vm.intrinsics.match``."""

from __future__ import annotations

import re
from typing import Any, Final

from vm.intrinsics.wildcard import contains_wildcard, match
from vm.values import Value

_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


def text_map(v: Value) -> dict[str, str]:
    """Labels or annotations: a map of texts. One entry that is no text spoils them all, as in the API machinery."""
    if type(v) is not dict or any(type(x) is not str for x in v.values()):
        return {}
    return v


def selects(selector: Value, labels: dict[str, str]) -> bool:
    """Whether labels meet a label selector. An empty selector meets all; one that Kubernetes would refuse meets
    none."""
    if type(selector) is not dict:
        return False
    wanted = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or []
    if type(wanted) is not dict or type(expressions) is not list:
        return False
    if any(type(v) is not str for v in wanted.values()):
        return False
    pairs = dict(_expand(k, v, labels) for k, v in sorted(wanted.items()))
    if not all(_valid_key(k) and _valid_value(v) for k, v in pairs.items()):
        return False
    return all(labels.get(k) == v for k, v in pairs.items()) and all(_holds(e, labels) for e in expressions)


def _expand(key: str, value: str, labels: dict[str, str]) -> tuple[str, str]:
    """A pair with wildcards becomes the first actual pair, in sorted order, that it matches. What matches nothing
    gets a ``0`` for each wildcard, so that it stays a label and normally meets nothing (Kyverno quirk)."""
    if not contains_wildcard(key) and not contains_wildcard(value):
        return key, value
    for k in sorted(labels):
        if match(key, k) and match(value, labels[k]):
            return k, labels[k]
    return _zeros(key), _zeros(value)


def _zeros(text: str) -> str:
    return text.replace("*", "0").replace("?", "0")


def _holds(expression: Any, labels: dict[str, str]) -> bool:
    if type(expression) is not dict:
        return False
    key, operator = expression.get("key"), expression.get("operator")
    values = expression.get("values") or []
    if type(key) is not str or not _valid_key(key) or type(values) is not list:
        return False
    match operator:
        case "In" | "NotIn":
            if not values or not all(type(v) is str and _valid_value(v) for v in values):
                return False
            inside = key in labels and labels[key] in values
            return inside is (operator == "In")
        case "Exists" | "DoesNotExist":
            return not values and (key in labels) is (operator == "Exists")
    return False


def _valid_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix)):
        return False
    return len(name) <= 63 and _NAME.fullmatch(name) is not None


def _valid_value(value: str) -> bool:
    return not value or (len(value) <= 63 and _NAME.fullmatch(value) is not None)
