"""``validate.podSecurity``: the checks of a level and version over a Pod, less what is excluded, and the text of what
is left (semantics §14).

Called by the code of such rules (``podsec.evaluate``) and, for the properties of reports, by ``runtime.properties``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from vm.host import Meter
from vm.intrinsics.pod_security_checks import CHECKS, LATEST, Check, Errors, Run
from vm.intrinsics.pod_security_pod import TEMPLATES, Container, FieldError, Pod, UnreadableError, pod_of
from vm.intrinsics.wildcard import match as wildcard
from vm.values import Err, Value

_DIGITS: Final = re.compile(r"\d+")
_FUEL_PER_PART: Final = 20
"""What all checks of one container, volume or system control together are taken to cost."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """What one entry of ``exclude`` takes out, as it stands in the bundle; empty parts do not restrict."""

    control: str
    images: tuple[str, ...] = ()
    field: str = ""
    values: tuple[str, ...] = ()


@dataclass(slots=True)
class Violation:
    """A check that a Pod breaks, by these fields; ``reason`` was settled before anything was excluded."""

    check: Check
    reason: str
    errors: Errors


Minor: TypeAlias = int
"""The minor version of Kubernetes 1.x, ``LATEST`` for the newest."""


def evaluate(meter: Meter, resource: Value, level: str, version: str, excluded: Value, more: Value) -> Value:
    """Null when the Pod of a resource meets the level, else an ``Err``: ``mismatch`` with the list of violations as its
    text, or ``value`` when the resource has no readable Pod.

    ``excluded`` are the exclusions of the rule, ``more`` those of exceptions (null for none): lists of ``{controlName,
    images?, restrictedField?, values?}``.
    """
    exclusions = [*exclusions_of(excluded), *exclusions_of(more)]
    try:
        found = violations(resource, level, version, exclusions, meter)
    except UnreadableError as error:
        return Err("value", f"Error while getting new resource: {error}")
    return Err("mismatch", told(found, resource.get("kind"))) if found else None


def violations(
    resource: Value, level: str, version: str, exclusions: Iterable[Exclusion], meter: Meter | None = None
) -> list[Violation]:
    """What a resource breaks, in the order of the checks. Raises :class:`UnreadableError`."""
    pod = pod_of(resource)
    minor = minor_of(version)
    found = _run(pod, level, minor, meter)
    for exclusion in exclusions:
        if not found:
            break
        found = _without(found, exclusion, pod, level, minor, meter)
    return found


def minor_of(version: str) -> Minor:
    """The minor version of ``v1.N``; ``latest``, nothing, or a text that is no version: the newest."""
    digits = version.removeprefix("v1.")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 else LATEST


def exclusions_of(entries: Value) -> list[Exclusion]:
    """The exclusions of a list of JSON entries; whatever is of no right shape excludes nothing."""
    if type(entries) is not list:
        return []
    return [_exclusion(entry) for entry in entries if type(entry) is dict and type(entry.get("controlName")) is str]


def _exclusion(entry: Mapping[str, Any]) -> Exclusion:
    field = entry.get("restrictedField")
    return Exclusion(
        entry["controlName"],
        _texts(entry.get("images")),
        field if type(field) is str else "",
        _texts(entry.get("values")),
    )


def _texts(value: Value) -> tuple[str, ...]:
    return tuple(t for t in value if type(t) is str) if type(value) is list else ()


@lru_cache(maxsize=64)
def _checks(level: str, minor: Minor) -> tuple[tuple[Check, Run], ...]:
    """The checks of a level, each as it is at a version."""
    # Kyverno quirk: only baseline leaves checks out, so that level "privileged" runs them all.
    found = [(c, run) for c in CHECKS if (level != "baseline" or c.level == "baseline") and (run := c.at(minor))]
    replaced = {check.replaces for check, _ in found}
    return tuple((check, run) for check, run in found if check.id not in replaced)


def _run(pod: Pod, level: str, minor: Minor, meter: Meter | None) -> list[Violation]:
    if meter is not None:
        volumes = pod.spec.get("volumes")
        parts = 1 + len(pod.annotations) + (len(volumes) if type(volumes) is list else 0)
        parts += sum(1 + _length(c.body.get("ports")) for c in pod.containers)
        meter.charge(_FUEL_PER_PART * parts)
    found = []
    for check, run in _checks(level, minor):
        if errors := run(pod):
            found.append(Violation(check, check.named(errors), errors))
    return found


def _length(value: Value) -> int:
    return len(value) if type(value) is list else 0


def _without(
    found: list[Violation], exclusion: Exclusion, pod: Pod, level: str, minor: Minor, meter: Meter | None
) -> list[Violation]:
    """The violations without what an exclusion covers.

    The exclusion is asked of a Pod of its own: of the containers with its images, or of the Pod without any container.
    Each field that breaks a check of the control there is taken from the violations where it is the same field in a
    container of the same name, with the same bad value. Without images one container stands for all, so that such an
    exclusion also covers what one container does not say (Kyverno quirk).
    """
    if exclusion.images:
        chosen = tuple(c for c in pod.containers if any(wildcard(image, c.image) for image in exclusion.images))
        subject = pod.with_images(chosen)
        if meter is not None:
            meter.charge(len(pod.containers) * len(exclusion.images))
    else:
        subject = pod.without_containers()
    allowed = _run(subject, level, minor, meter)
    by_id = {v.check.id: v for v in found if v.check.control == exclusion.control}
    for violation in allowed:
        target = by_id.get(violation.check.id)
        if target is None:
            continue
        if meter is not None:
            meter.charge(len(violation.errors) * (1 + len(exclusion.values)) + len(target.errors))
        for error in violation.errors:
            if _covers(exclusion, error):
                _take(target.errors, error, by_container=bool(exclusion.images))
    return [v for v in found if v.errors]


def _covers(exclusion: Exclusion, error: FieldError) -> bool:
    if exclusion.field and _starred(error.field) != exclusion.field:
        return False
    if not exclusion.values:
        return True
    if error.kind == "required":
        return False  # nothing is there that could be one of the values
    bad = _bad_values(error)
    return all(any(wildcard(value, text) for value in exclusion.values) for text in bad)


def _take(errors: Errors, excluded: FieldError, *, by_container: bool) -> None:
    """Takes one error out; the last one moves into its place (Kyverno quirk, seen in messages)."""
    field = _starred(excluded.field)
    for i, error in enumerate(errors):
        same_container = not by_container or error.container == excluded.container
        same_kind = error.kind == excluded.kind and error.bad == excluded.bad
        if same_container and same_kind and _starred(error.field) == field:
            errors[i] = errors[-1]
            errors.pop()
            return


def _starred(field: str) -> str:
    return _DIGITS.sub("*", field)


def _bad_values(error: FieldError) -> list[str]:
    if type(error.bad) is tuple:
        return list(error.bad)
    shown = _shown(error.bad)
    return [shown] if shown else []


def _shown(bad: str | bool | int | tuple[str, ...]) -> str:
    """A bad value as Go prints it."""
    match bad:
        case bool():
            return "true" if bad else "false"
        case tuple():
            return f"[{' '.join(bad)}]"
        case _:
            return str(bad)


def told(found: Iterable[Violation], kind: str) -> str:
    """The violations as the message of a rule lists them, with the fields as they stand in a resource of this kind."""
    spec = TEMPLATES[kind][1]
    return "".join(
        f"(Forbidden reason: {v.reason}, field error list: [{', '.join(_error(e, spec) for e in v.errors)}])"
        for v in found
    )


def _error(error: FieldError, spec: str) -> str:
    # Kyverno quirk: it is the text that is replaced, and for "metadata" even in a Pod.
    field = error.field.replace("spec", spec).replace("metadata", "spec.template.metadata")
    if error.kind == "required":
        return f"{field}: Required value"
    shown = _shown(error.bad)
    return f"{field} is forbidden, forbidden values found: {shown}" if shown else f"{field}: Forbidden"


def containers_of(resource: Value) -> tuple[Container, ...]:
    """The containers of a resource's Pod; none when it has no readable one."""
    try:
        return pod_of(resource).containers
    except UnreadableError:
        return ()
