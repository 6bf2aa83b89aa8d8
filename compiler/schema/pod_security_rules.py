"""What ``podSecurity`` and its exclusions may say beyond their structure; called by ``policy_rules`` for rules and by
``exceptions`` for exceptions.

An exclusion that can never apply is refused, since whoever wrote it thinks that it does.
"""

from __future__ import annotations

import difflib
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.source import Document
from vm.intrinsics.pod_security_checks import CHECKS

Json: TypeAlias = Any

_OF_POD: Final = ("Host Namespaces", "HostPath Volumes", "Sysctls", "Volume Types")
_OF_CONTAINERS: Final = (
    "Capabilities",
    "Privileged Containers",
    "Host Ports",
    "/proc Mount Type",
    "Privilege Escalation",
    "Host Probes / Lifecycle Hooks",
)
_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
_SELINUX: Final = tuple(f"securityContext.seLinuxOptions.{key}" for key in ("type", "user", "role"))
_BY_CONTROL: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    # fields of the Pod below spec, fields of a container
    "HostProcess": (
        ("securityContext.windowsOptions.hostProcess",),
        ("securityContext.windowsOptions.hostProcess",),
    ),
    "Host Namespaces": (("hostNetwork", "hostPID", "hostIPC"), ()),
    "Privileged Containers": ((), ("securityContext.privileged",)),
    "Capabilities": ((), ("securityContext.capabilities.add", "securityContext.capabilities.drop")),
    "HostPath Volumes": (("volumes[*].hostPath",), ()),
    "Host Ports": ((), ("ports[*].hostPort",)),
    "Host Probes / Lifecycle Hooks": (
        (),
        tuple(
            f"{handler}.{action}.host"
            for handler in (
                "livenessProbe",
                "readinessProbe",
                "startupProbe",
                "lifecycle.postStart",
                "lifecycle.preStop",
            )
            for action in ("httpGet", "tcpSocket")
        ),
    ),
    "AppArmor": (("securityContext.appArmorProfile.type",), ("securityContext.appArmorProfile.type",)),
    "SELinux": (_SELINUX, _SELINUX),
    "/proc Mount Type": ((), ("securityContext.procMount",)),
    "Seccomp": (("securityContext.seccompProfile.type",), ("securityContext.seccompProfile.type",)),
    "Sysctls": (("securityContext.sysctls[*].name",), ()),
    "Privilege Escalation": ((), ("securityContext.allowPrivilegeEscalation",)),
    "Running as Non-root": (("securityContext.runAsNonRoot",), ("securityContext.runAsNonRoot",)),
    "Running as Non-root user": (("securityContext.runAsUser",), ("securityContext.runAsUser",)),
}
_OPEN: Final = ("metadata.annotations", "spec.volumes[*]")
"""How fields begin whose ends are not told by the control alone: annotations, kinds of volumes."""


def check(doc: Document, wanted: dict[str, Json], at: str, reporter: Reporter) -> None:
    """Checks ``podSecurity`` of a rule."""
    level = wanted.get("level")
    if level == "privileged":
        reporter.warning(
            "T1344",
            doc.spans.span(at + "/level"),
            'level "privileged" runs the checks of every level, as in Kyverno',
            "",
            "remove the rule where everything is allowed",
        )
    for i, entry in enumerate(wanted.get("exclude") or ()):
        place = f"{at}/exclude/{i}"
        check_exclusion(doc, entry, place, reporter)
        control = entry.get("controlName")
        if level == "baseline" and not any(c.control == control and c.level == "baseline" for c in CHECKS):
            reporter.error(
                "T1340",
                doc.spans.span(place + "/controlName"),
                f'"{control}" is a control of level restricted, so that excluding it from baseline says nothing',
                "a control of level baseline",
                "remove the exclusion, or set level: restricted",
            )


def check_exclusion(doc: Document, entry: dict[str, Json], at: str, reporter: Reporter) -> None:
    """Checks one exclusion of a rule or an exception."""
    control, images = entry.get("controlName"), entry.get("images")
    field, values = entry.get("restrictedField"), entry.get("values")
    spans = doc.spans
    if control in _OF_CONTAINERS and not images:
        reporter.error(
            "T1341",
            spans.span(at + "/controlName"),
            f'"{control}" is a control of containers, and no images are named',
            "images",
            'name them, or all of them: images: ["*"]',
        )
    elif control in _OF_POD and images:
        reporter.error(
            "T1341",
            spans.key_span(at + "/images"),
            f'"{control}" is a control of the Pod, not of its containers',
            "no images",
            "remove images",
        )
    if field and not values:
        reporter.error(
            "T1342",
            spans.key_span(at + "/restrictedField"),
            "restrictedField without values excludes nothing",
            "values",
            "list the values of the field that are allowed",
        )
    elif values and not field:
        reporter.error(
            "T1342",
            spans.key_span(at + "/values"),
            "values without restrictedField exclude nothing",
            "restrictedField",
            "name the field that may have them",
        )
    if field:
        _field(doc, str(control), field, bool(images), at + "/restrictedField", reporter)


def _field(doc: Document, control: str, field: str, images: bool, at: str, reporter: Reporter) -> None:
    """Warns of a field that the control never names, so that the exclusion never applies."""
    if control == "AppArmor" and field.startswith(_OPEN[0]):
        return
    if control == "Volume Types":
        if field.startswith(_OPEN[1]):
            return
        known = ["spec.volumes[*].hostPath"]
    else:
        of_pod, of_container = _BY_CONTROL.get(control, ((), ()))
        known = [f"spec.{list}[*].{name}" for list in _LISTS for name in of_container] if images else []
        known = known or [f"spec.{name}" for name in of_pod] + [
            f"spec.{list}[*].{name}" for list in _LISTS for name in of_container
        ]
    if field in known:
        return
    close = difflib.get_close_matches(field, known, 1, 0.6)
    reporter.warning(
        "T1343",
        doc.spans.span(at),
        f'"{field}" is no field that the control "{control}" looks at{" in containers" if images else ""}',
        "one of " + ", ".join(known[:6]) + (", …" if len(known) > 6 else ""),
        f'did you mean "{close[0]}"?' if close else "",
    )
