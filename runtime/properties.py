"""The properties of a result in a policy report (semantics §26), and the message that they may put in its place.

``runtime.cli.output`` calls :func:`of_result`; the engine, which knows what a rule has broken, :func:`of_pod_security`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from vm.intrinsics.images import parse_image
from vm.values import Value

if TYPE_CHECKING:
    from runtime.engine import RuleResult

_WITH_IMAGES: Final = frozenset(
    (
        "allowPrivilegeEscalation",
        "appArmorProfile",
        "capabilities_baseline",
        "capabilities_restricted",
        "privileged",
        "procMount",
        "procMount_restricted",
        "runAsNonRoot",
        "runAsUser",
        "seccompProfile_baseline",
        "seccompProfile_restricted",
        "windowsHostProcess",
    )
)
"""Checks whose violations Kyverno knows the containers of."""


def of_pod_security(wanted: Mapping[str, Any], excluded: list[Any], resource: Value) -> dict[str, str]:
    """The standard and the controls that an object breaks; nothing for one that keeps to it."""
    import orjson

    from vm.intrinsics.pod_security import containers_of, exclusions_of, violations

    exclusions = exclusions_of([*wanted.get("exclude", ()), *excluded])
    found = violations(resource, wanted["level"], wanted["version"], exclusions)
    if not found:
        return {}
    images = {c.name: c.image for c in reversed(containers_of(resource))}
    controls = []
    for violation in found:
        names = dict.fromkeys(e.container for e in violation.errors if e.container is not None)
        shown = [_reference(images.get(name, ""), name) for name in names]
        kept = shown if violation.check.id in _WITH_IMAGES and shown else None
        controls.append({"ID": violation.check.id, "Name": violation.check.control, "Images": kept})
    return {
        "standard": wanted["level"],
        "version": wanted["version"],
        "controls": ",".join(v.check.id for v in found),
        "controlsJSON": orjson.dumps(controls).decode(),
    }


def _reference(image: str, name: str) -> str:
    info = parse_image(image)
    return name if info is None else info["reference"]


def of_result(result: RuleResult) -> dict[str, str]:
    """All properties of a result."""
    info = result.info
    found = dict(result.properties)
    if info is not None and not info.kind.endswith("AdmissionPolicy"):
        found["process"] = "background scan" if info.background else "admission review" if info.admission else ""
    if result.exceptions:
        found["exceptions"] = ",".join(key.rpartition("/")[2] for key in result.exceptions)
    return found


def message_of(result: RuleResult, status: str) -> str:
    """The message of a result in a report: the property ``<status>Message``, else ``message``, else its own."""
    for key in (f"{status}Message", "message"):
        if key in result.properties:
            return result.properties[key]
    return result.message
