"""The ConfigMap of an installation as one frozen value: which objects and users policies are not asked about.

``runtime.controllers.cluster`` watches the ConfigMap and hands each form to :func:`parse`; admission and the scans ask
the value that is current.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """``update_request_threshold``: update requests that may wait at most; more are not made (semantics §19)."""

    update_request_threshold: int = 1000


def parse(config_map: Mapping[str, Any] | None) -> ClusterConfig:
    """The settings of a ConfigMap; those of none when it is not there. What cannot be read is passed over."""
    data = (config_map or {}).get("data") or {}
    threshold = str(data.get("updateRequestThreshold") or "")
    return ClusterConfig(int(threshold)) if threshold.isdigit() else ClusterConfig()
