"""Label selectors as the API server takes them in a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selector_text(selector: Mapping[str, Any]) -> str:
    """A label selector as the API server takes it in a query."""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression.get("key"), ",".join(map(str, expression.get("values") or ()))
        match expression.get("operator"):
            case "In":
                parts.append(f"{key} in ({values})")
            case "NotIn":
                parts.append(f"{key} notin ({values})")
            case "Exists":
                parts.append(str(key))
            case "DoesNotExist":
                parts.append(f"!{key}")
    return ",".join(parts)
