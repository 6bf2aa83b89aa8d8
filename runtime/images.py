"""The ``images`` variable: what the image references of a Pod, or of a controller's Pods, are made of (semantics §28).

The engine makes it for policy sets that mention it.
"""

from __future__ import annotations

from typing import Final

from vm.values import Value

DEFAULT_REGISTRY: Final = "docker.io"
DEFAULT_TAG: Final = "latest"
CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")

_TEMPLATE: Final = ("spec", "template", "spec")
POD_SPECS: Final = {
    "Pod": ("spec",),
    "DaemonSet": _TEMPLATE,
    "Deployment": _TEMPLATE,
    "Job": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "ReplicationController": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
"""Where a kind keeps the Pod's spec."""


def image_infos(resource: Value) -> dict[str, dict[str, dict[str, str]]]:
    """``{"containers": {NAME: {"registry": …}}}``; lists without an image are left out; other kinds have none."""
    if type(resource) is not dict:
        return {}
    named = resource.get("kind")
    path = POD_SPECS.get(named) if type(named) is str else None
    if path is None:
        return {}
    spec: Value = resource
    for key in path:
        spec = spec.get(key) if type(spec) is dict else None
    if type(spec) is not dict:
        return {}
    found: dict[str, dict[str, dict[str, str]]] = {}
    for kind in CONTAINERS:
        containers = spec.get(kind)
        if type(containers) is not list:
            continue
        for position, container in enumerate(containers):
            if type(container) is not dict or type(container.get("image")) is not str:
                continue
            info = parse_image(container["image"])
            if info is not None:
                info["jsonPointer"] = f"/{'/'.join(path)}/{kind}/{position}/image"
                found.setdefault(kind, {})[str(container.get("name", ""))] = info
    return found


def parse_image(reference: str) -> dict[str, str] | None:
    """The parts of an image reference, with the default registry and tag put in; None for an empty path."""
    first, slash, rest = reference.partition("/")
    # Kyverno quirk: an upper-case first part is a registry too, and no "library/" is put in.
    named = bool(slash) and ("." in first or ":" in first or first == "localhost" or first.lower() != first)
    registry, rest = (first, rest) if named else (DEFAULT_REGISTRY, reference)
    rest, _, digest = rest.partition("@")
    path, tag = rest, ""
    if ":" in rest.rpartition("/")[2]:
        path, _, tag = rest.rpartition(":")
    if not path:
        return None
    if not tag and not digest:
        tag = DEFAULT_TAG
    whole = f"{registry}/{path}"
    info = {
        "registry": registry,
        "name": path.rpartition("/")[2],
        "path": path,
        "reference": f"{whole}@{digest}" if digest else f"{whole}:{tag}",
        "referenceWithTag": f"{whole}:{tag}",
    }
    if tag:
        info["tag"] = tag
    if digest:
        info["digest"] = digest
    return info
