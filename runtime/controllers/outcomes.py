"""Results of rules of the background as the reports of their triggers show them: with the objects that were made or
changed among the properties (semantics §26).

The controllers of these rules call :func:`generated` and :func:`patched` and tell ``Installation.outcomes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from runtime.engine import ERROR, RuleResult
from runtime.request import split_api_version


def generated(result: RuleResult, made: Iterable[Mapping[str, Any]], problem: str = "") -> RuleResult:
    """The result of a generate rule with what it made, an error with ``problem`` where something could not be made."""
    if not result.message:
        result = replace(result, message="resource generated")
    return _with(result, "generated-resources", "; ".join(map(named, made)), problem)


def patched(result: RuleResult, target: Mapping[str, Any], problem: str = "") -> RuleResult:
    """The result of a rule with targets for one target."""
    return _with(result, "patched-target", named(target), problem)


def named(obj: Mapping[str, Any]) -> str:
    """``group/version, Kind=K Name=n Namespace=ns``, as Kyverno writes it; a core kind begins with the slash."""
    metadata = obj.get("metadata") or {}
    group, version = split_api_version(str(obj.get("apiVersion") or ""))
    text = f"{group}/{version}, Kind={obj.get('kind')} Name={metadata.get('name')}"
    namespace = metadata.get("namespace")
    return f"{text} Namespace={namespace}" if namespace else text


def _with(result: RuleResult, key: str, value: str, problem: str) -> RuleResult:
    properties = {**result.properties, key: value} if value else result.properties
    if problem:
        return replace(result, status=ERROR, message=problem, properties=properties)
    return replace(result, properties=properties)
