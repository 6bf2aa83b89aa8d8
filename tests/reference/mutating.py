"""Mutate rules: patches, foreach, and targets (semantics §10, §16 and §17)."""

from __future__ import annotations

from typing import Any

import yaml

from tests.reference.conditions import ConditionError, holds
from tests.reference.context import Context
from tests.reference.matching import parse_kind, selector_matches
from tests.reference.mutation import MutationError, NothingToDo, json_patch, strategic_merge
from tests.reference.query import QueryError, equal
from tests.reference.scalars import wildcard
from tests.reference.validation import element_context, elements
from tests.reference.variables import SubstitutionError, substitute

Mutated = tuple[str, str, dict[str, Any] | None]
"""Status, message, and the new resource when it changed."""


def mutate(rule: dict[str, Any], resource: dict[str, Any], context: Context, values: dict[str, Any]) -> Mutated:
    """A rule about the admitted object. ``values``: what a values file has for elements."""
    if (rule["mutate"] or {}).get("foreach") is not None:
        return _by_foreach(rule["mutate"]["foreach"], resource, context, values)
    try:
        ready = substitute(rule, context)["mutate"]
        patched = _patched(ready, resource)
    except NothingToDo:
        return "skip", "no patches applied", None
    except (SubstitutionError, MutationError) as error:
        return "error", str(error), None
    return _changed(resource, patched, "no patches applied")


def _changed(resource: dict[str, Any], patched: dict[str, Any], unchanged: str) -> Mutated:
    if equal(patched, resource):
        return "skip", unchanged, None
    metadata: Any = patched.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    kind, called, namespace = (
        v if isinstance(v, str) else "" for v in (patched.get("kind"), metadata.get("name"), metadata.get("namespace"))
    )
    message = f"mutated {kind}/{called}" + (f" in namespace {namespace}" if namespace else "")
    return "pass", message, patched


def _patched(ready: dict[str, Any], resource: dict[str, Any]) -> dict[str, Any]:
    """The resource after the patch of a rule or of a foreach element. Raises what patches raise."""
    if ready.get("patchStrategicMerge") is not None:
        return strategic_merge(resource, ready["patchStrategicMerge"])
    if ready.get("patchesJson6902"):
        return dict(json_patch(resource, _operations(ready["patchesJson6902"])))
    return resource


def _operations(patch: Any) -> list[dict[str, Any]]:
    try:
        decoded = yaml.safe_load(patch) if isinstance(patch, str) else patch
    except yaml.YAMLError as error:
        raise MutationError(f"a JSON patch that cannot be read: {error}") from None
    if not isinstance(decoded, list):
        raise MutationError("a JSON patch must be a list")
    return decoded


# --- foreach, §10 --------------------------------------------------------------------------------------------------


def _by_foreach(
    entries: list[dict[str, Any]], resource: dict[str, Any], context: Context, values: dict[str, Any]
) -> Mutated:
    try:
        patched = _foreach(entries, resource, context, values, 0)
    except (QueryError, ConditionError, SubstitutionError, MutationError) as error:
        return "error", f"failed to mutate elements: {error}", None
    if equal(patched, resource):
        return "skip", "0 elements processed", None
    return _changed(resource, patched, "0 elements processed")


def _foreach(
    entries: list[dict[str, Any]], resource: dict[str, Any], context: Context, values: dict[str, Any], depth: int
) -> dict[str, Any]:
    """Entries one after the other: each sees in ``request.object`` what those before it made."""
    for i, entry in enumerate(entries):
        here = _seeing(context, resource) if i else context
        found = list(enumerate(elements(entry.get("list") or "", here)))
        order = entry.get("order") or ("Descending" if entry.get("patchStrategicMerge") is not None else "Ascending")
        if order == "Descending":
            found.reverse()
        for index, element in found:
            if element is not None:
                resource = _element(entry, element, index, resource, here, values, depth)
    return resource


def _seeing(context: Context, resource: dict[str, Any]) -> Context:
    if "target" in context:
        return context.with_data(target=resource)
    return context.with_data(request={**context["request"], "object": resource})


def _element(
    entry: dict[str, Any],
    element: Any,
    index: int,
    resource: dict[str, Any],
    context: Context,
    values: dict[str, Any],
    depth: int,
) -> dict[str, Any]:
    inside = element_context(entry, context, element, index, depth, values)
    met, _ = holds(entry.get("preconditions"), inside)
    if not met:
        return resource
    if entry.get("foreach") is not None:
        return _foreach(entry["foreach"], resource, inside, values, depth + 1)
    ready = substitute({k: entry[k] for k in ("patchStrategicMerge", "patchesJson6902") if k in entry}, inside)
    try:
        return _patched(ready, resource)
    except NothingToDo:
        return resource


# --- targets, §17 --------------------------------------------------------------------------------------------------


def targets_of(spec: dict[str, Any], context: Context) -> list[dict[str, Any]]:
    """The objects that one entry of ``targets`` selects. Raises :class:`SubstitutionError`."""
    fields = ("apiVersion", "kind", "name", "namespace", "selector", "uid")
    asked = substitute({k: spec[k] for k in fields if spec.get(k)}, context)
    group, _, version = str(asked.get("apiVersion") or "").rpartition("/")
    kind = parse_kind(str(asked.get("kind")))[2]
    found = []
    for one in context.world.objects:
        metadata = one.get("metadata") or {}
        own_group, _, own_version = str(one.get("apiVersion", "")).rpartition("/")
        if not wildcard(kind, str(one.get("kind"))):
            continue
        if asked.get("apiVersion") and not (wildcard(group, own_group) and wildcard(version, own_version)):
            continue
        namespace = metadata.get("namespace") or ""
        if context.namespace is not None and namespace != context.namespace:
            continue
        if asked.get("namespace") and not wildcard(asked["namespace"], namespace):
            continue
        if asked.get("name") and not wildcard(asked["name"], metadata.get("name") or ""):
            continue
        if asked.get("uid") and asked["uid"] != metadata.get("uid"):
            continue
        if asked.get("selector") and not selector_matches(asked["selector"], metadata.get("labels") or {}):
            continue
        found.append(one)
    return found


def mutate_existing(
    rule: dict[str, Any], context: Context, values: dict[str, Any]
) -> list[tuple[Mutated, dict[str, Any] | None]]:
    """What becomes of each target: the outcome, and the target as it was, None when none can be named."""
    made: list[tuple[Mutated, dict[str, Any] | None]] = []
    for spec in rule["mutate"]["targets"]:
        try:
            found = targets_of(spec, context)
        except SubstitutionError as error:
            made.append((("error", str(error), None), None))
            continue
        made += [(_one(rule, spec, target, context, values), target) for target in found]
    return made


def _one(
    rule: dict[str, Any], spec: dict[str, Any], target: dict[str, Any], context: Context, values: dict[str, Any]
) -> Mutated:
    # The entries of the rule may look at the target, so that each target has them worked out for itself.
    inside = Context({**context, "target": target}, context.world, context.namespace)
    inside = inside.declare(e.declaration for e in context.entries).declare(spec.get("context"))
    try:
        met, messages = holds(spec.get("preconditions"), inside)
    except ConditionError as error:
        return "error", f"failed to evaluate preconditions: {error}", None
    if not met:
        return "skip", "; ".join(["preconditions not met", *messages]), None
    body = {**rule, "mutate": {k: v for k, v in rule["mutate"].items() if k != "targets"}}
    return mutate(body, target, inside, values)
