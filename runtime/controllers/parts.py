"""Which controllers an installation runs: one line each, by the part of ``--parts`` that they belong to."""

from __future__ import annotations

from collections.abc import Callable

from runtime.controllers.admissionpolicies import AdmissionPolicies
from runtime.controllers.audittrail import AuditTrail
from runtime.controllers.cleaning import Cleaning
from runtime.controllers.generatepart import GeneratePart
from runtime.controllers.globalcontext import GlobalContextEntries
from runtime.controllers.installation import Installation, Part
from runtime.controllers.mutatepolicies import MutatePart
from runtime.controllers.triggers import Triggers
from runtime.controllers.ttl import TimesToLive


def make_parts(installation: Installation) -> list[Part]:
    """The controllers that the settings ask for, in the order in which they start; in the shadow of another engine
    there are none, since both would do the work."""
    rows: list[tuple[str, Callable[[Installation], Part]]] = [
        ("admission", Triggers),
        ("admission", AdmissionPolicies),
        ("background", GeneratePart),
        ("background", MutatePart),
        ("background", lambda i: i.requests),
        ("cleanup", Cleaning),
        ("cleanup", TimesToLive),
    ]
    if installation.settings.shadow:
        return []
    # Every part has something to report, and reads the global context; the scan alone is of the part that is named so.
    parts: list[Part] = [AuditTrail(installation), GlobalContextEntries(installation)]
    return parts + [make(installation) for part, make in rows if part in installation.settings.parts]
