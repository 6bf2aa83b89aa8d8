"""podSecurity rules: which checks an object violates after exclusions, and the text of it (semantics §14)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tests.reference.exceptions import Excepted
from tests.reference.pod_security_checks import CHECKS, FieldError, Pod
from tests.reference.pod_shape import NoPod, check_shape
from tests.reference.scalars import wildcard

CONTROLS = {
    "HostProcess": ["windowsHostProcess"],
    "Host Namespaces": ["hostNamespaces"],
    "Privileged Containers": ["privileged"],
    "Capabilities": ["capabilities_baseline", "capabilities_restricted"],
    "HostPath Volumes": ["hostPathVolumes"],
    "Host Ports": ["hostPorts"],
    "Host Probes / Lifecycle Hooks": ["hostProbesAndHostLifecycle"],
    "AppArmor": ["appArmorProfile"],
    "SELinux": ["seLinuxOptions"],
    "/proc Mount Type": ["procMount", "procMount_restricted"],
    "Seccomp": ["seccompProfile_baseline", "seccompProfile_restricted"],
    "Sysctls": ["sysctls"],
    "Volume Types": ["restrictedVolumes"],
    "Privilege Escalation": ["allowPrivilegeEscalation"],
    "Running as Non-root": ["runAsNonRoot"],
    "Running as Non-root user": ["runAsUser"],
}
_KINDS = (
    "Pod",
    "DaemonSet",
    "Deployment",
    "Job",
    "StatefulSet",
    "ReplicaSet",
    "ReplicationController",
    "CronJob",
)
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


@dataclass(frozen=True)
class Violation:
    """A check that does not hold, and the fields for which it does not."""

    check: str
    reason: str
    errors: list[FieldError]


@dataclass(frozen=True)
class _Where:
    """Where the Pod of an object is: the prefix of ``spec`` in messages."""

    metadata: Any
    spec: Any
    prefix: str


def pod_security(rule: dict[str, Any], resource: dict[str, Any], excepted: list[Excepted]) -> tuple[str, str]:
    """Status and message. ``excepted``: exceptions that all name controls, which count after the rule's own."""
    body = rule["validate"]["podSecurity"]
    if resource.get("kind") not in _KINDS:
        return "error", "Error while getting new resource: could not find correct resource type"
    level, version = body.get("level") or "", str(body.get("version") or "latest")
    where = _pod_of(resource)
    try:
        check_shape(where.metadata, where.spec)
    except NoPod as error:
        return "error", f"Error while getting new resource: {error}"
    pod = Pod(where.metadata or {}, where.spec or {})
    number = (10**6, 0) if version == "latest" else _number(version)
    found = _excluded(_evaluate(pod, level, number), body.get("exclude") or [], pod, level, number)
    if not found:
        return "pass", f"Validation rule '{rule['name']}' passed."
    left = _excluded(found, [x for e in excepted for x in e.pod_security or ()], pod, level, number)
    if not left:
        return "skip", "rule is skipped due to policy exceptions " + ", ".join(e.key for e in excepted)
    texts = "".join(_text(v, where.prefix) for v in left)
    return "fail", f"Validation rule '{rule['name']}' failed. It violates PodSecurity \"{level}:{version}\": {texts}"


def _number(version: str) -> tuple[int, int]:
    found = re.fullmatch(r"v(\d+)\.(\d+)", version)
    if not found:
        raise ValueError(f"a version that is none: {version}")
    return int(found[1]), int(found[2])


def _pod_of(resource: dict[str, Any]) -> _Where:
    kind = resource.get("kind")
    if kind == "Pod":
        return _Where(resource.get("metadata"), resource.get("spec"), "spec")
    if kind == "CronJob":
        pod = _at(resource, "spec", "jobTemplate", "spec", "template")
        return _Where(_at(pod, "metadata"), _at(pod, "spec"), "spec.jobTemplate.spec.template.spec")
    template = _at(resource, "spec", "template")
    return _Where(_at(template, "metadata"), _at(template, "spec"), "spec.template.spec")


def _at(value: Any, *steps: str) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _evaluate(pod: Pod, level: str, number: tuple[int, int]) -> list[Violation]:
    """The violated checks: of each the newest version that is not newer than the one asked for."""
    found = []
    for check in CHECKS:
        if level == "baseline" and check.level != "baseline":
            continue
        bodies = [body for first, body in check.versions if first <= number]
        violated = bodies[-1](pod) if bodies else None
        if violated is not None:
            found.append(Violation(check.name, *violated))
    if any(v.check == "procMount_restricted" for v in found):  # says the same once more
        found = [v for v in found if v.check != "procMount"]
    return found


def _excluded(
    found: list[Violation], exclusions: list[dict[str, Any]], pod: Pod, level: str, number: tuple[int, int]
) -> list[Violation]:
    """What is left after exclusions, one after the other."""
    for exclusion in exclusions:
        part = _part(pod, exclusion.get("images") or [])
        ids = CONTROLS.get(exclusion.get("controlName") or "", [])
        gone = {v.check: [e for e in v.errors if _covers(exclusion, e)] for v in _evaluate(part, level, number)}
        left = []
        for violation in found:
            errors = list(violation.errors)
            for error in gone.get(violation.check, []) if violation.check in ids else []:
                # Without images one container stands for all, so that its place says nothing.
                place = (lambda e: e) if exclusion.get("images") else _anywhere
                there = [i for i, e in enumerate(errors) if place(e) == place(error)]
                if there:  # the last one moves into the hole
                    errors[there[0]] = errors[-1]
                    errors.pop()
            if errors:
                left.append(Violation(violation.check, violation.reason, errors))
        found = left
    return found


def _part(pod: Pod, images: list[str]) -> Pod:
    """What an exclusion is about: the Pod but for its containers, or the containers of some images and nothing else."""
    if not images:
        rest = {k: v for k, v in pod.spec.items() if k not in _CONTAINERS}
        return Pod(pod.metadata, {**rest, "containers": [{"name": "fake"}]})
    spec: dict[str, Any] = {}
    for kind in _CONTAINERS:
        spec[kind] = [
            {**container, "$at": i}
            for i, container in enumerate(pod.spec.get(kind) or [])
            if any(wildcard(image, container.get("image") or "") for image in images)
        ]
    return Pod({}, spec)


def _anywhere(error: FieldError) -> FieldError:
    return FieldError(re.sub(r"\d+", "*", error.field), error.bad, error.required)


def _covers(exclusion: dict[str, Any], error: FieldError) -> bool:
    field = exclusion.get("restrictedField")
    if field and re.sub(r"\[\d+\]", "[*]", error.field) != field:
        return False
    values = exclusion.get("values") or []
    if values and error.required:
        return False
    return not values or all(any(wildcard(v, bad) for v in values) for bad in error.bad_texts)


def _text(violation: Violation, prefix: str) -> str:
    shown = []
    for error in violation.errors:
        field = error.field.replace("spec", prefix).replace("metadata", "spec.template.metadata")
        shown.append(error.text(field))
    return f"(Forbidden reason: {violation.reason}, field error list: [{', '.join(shown)}])"
