"""Advice about patterns and patches: lists that most objects lack, and mutations that overwrite what users have set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.frontends.pattern import parse_key, parse_kind
from compiler.schema.kinds import Schemas
from compiler.schema.model import Policy, Rule
from compiler.source import pointer

Json: TypeAlias = Any

_RARE: Final = frozenset(("initContainers", "ephemeralContainers", "volumes", "imagePullSecrets", "hostAliases"))
"""Lists of a Pod's spec that most Pods, as users write them, do not have."""
_POD_KINDS: Final = frozenset(
    ("Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob")
)
_IDENTITY: Final = frozenset(("name", "apiVersion", "kind", "namespace", "$patch"))
"""Keys of a patch that find an element rather than change it."""
_OWNED: Final = frozenset(
    ("imagePullPolicy", "resources", "securityContext", "limits", "requests", "nodeSelector", "priorityClassName",
     "serviceAccountName", "restartPolicy", "dnsPolicy", "terminationGracePeriodSeconds", "schedulerName", "cpu",
     "memory", "runAsUser", "runAsGroup", "fsGroup", "type", "replicas")
)  # fmt: skip
"""Fields that users set on purpose, and for which a policy usually means a default."""


def advise(policy: Policy, rule: Rule, schemas: Schemas, reporter: Reporter) -> None:
    """Reports T1434 for validate patterns and T1435 for merge patches."""
    kinds = {key.kind for f in rule.match.filters for kind in f.kinds if (key := parse_kind(kind)) is not None}
    if rule.validate is not None and kinds and kinds <= _POD_KINDS:
        for at, pattern in _patterns(rule):
            for place, name in _required(pattern, at):
                reporter.advice(
                    "T1434",
                    policy.doc.spans.key_span(place),
                    f"most Pods have no {name}, and fail",
                    "",
                    f'write "=({name})" to check it where it is there',
                )
    mutate = rule.mutate
    if mutate is None or mutate.targets or not isinstance(mutate.patch_strategic_merge, dict):
        return
    for place, name in _overwritten(mutate.patch_strategic_merge, f"{rule.pointer}/mutate/patchStrategicMerge"):
        reporter.advice(
            "T1435",
            policy.doc.spans.key_span(place),
            f"{name} is set whatever users have written there",
            "",
            f'write "+({name})" to set it only where it is missing',
        )


def _patterns(rule: Rule) -> Iterator[tuple[str, Json]]:
    validate = rule.validate
    if validate is None:
        return
    if validate.pattern is not None:
        yield f"{rule.pointer}/validate/pattern", validate.pattern
    # Of several patterns another one may be for those without the list, so that only a single one is looked at.
    if validate.any_pattern is not None and len(validate.any_pattern) == 1:
        yield f"{rule.pointer}/validate/anyPattern/0", validate.any_pattern[0]


def _required(pattern: Json, at: str) -> Iterator[tuple[str, str]]:
    """Lists of :data:`_RARE` under plain keys all the way, so that an object without them fails."""
    if not isinstance(pattern, dict):
        return
    if any(parse_key(key).anchor in ("", "<") for key in pattern):
        # A condition beside it may well say which objects have the list.
        return
    for key, value in pattern.items():
        if parse_key(key).anchor is not None:
            continue
        place = at + pointer(key)
        if key in _RARE and isinstance(value, list) and _asks(value):
            yield place, key
        else:
            yield from _required(value, place)


def _asks(elements: list[Json]) -> bool:
    """Whether an empty list fails too: some element has a plain key."""
    return any(isinstance(e, dict) and any(parse_key(k).anchor is None for k in e) for e in elements)


def _overwritten(patch: Json, at: str) -> Iterator[tuple[str, str]]:
    """Constants that a patch sets under plain keys, in maps in which no condition decides."""
    if isinstance(patch, list):
        for i, element in enumerate(patch):
            # An element with a fixed name is one that the patch brings along, such as a sidecar.
            if not (isinstance(element, dict) and isinstance(element.get("name"), str)):
                yield from _overwritten(element, f"{at}/{i}")
        return
    if not isinstance(patch, dict):
        return
    if any(parse_key(k).anchor in ("", "<") and not _finds_all(k, v) for k, v in patch.items()):
        return
    for key, value in patch.items():
        read = parse_key(key)
        place = at + pointer(key)
        if read.anchor is not None or key in _IDENTITY:
            continue
        if isinstance(value, (dict, list)):
            yield from _overwritten(value, place)
        elif value is not None and key in _OWNED and not (isinstance(value, str) and "{{" in value):
            yield place, key


def _finds_all(key: str, value: Json) -> bool:
    """Whether a conditional anchor holds for every element: the usual ``(name): "*"``."""
    return parse_key(key).name in _IDENTITY and value in ("*", "?*")
