"""The ``images`` variable: the containers of a Pod or of a controller's Pods by kind and name (semantics §28)."""

from __future__ import annotations

from typing import Any

_PATHS = (("spec",), ("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec"))


def images(resource: dict[str, Any]) -> dict[str, Any]:
    """``{"containers": {"web": {"registry": …}}}``; kinds without a container are left out."""
    found: dict[str, Any] = {}
    for path in _PATHS:
        spec: Any = resource
        for step in path:
            spec = spec.get(step) if isinstance(spec, dict) else None
        if not isinstance(spec, dict):
            continue
        for kind in ("initContainers", "containers", "ephemeralContainers"):
            for i, container in enumerate(spec.get(kind) or []):
                if isinstance(container, dict) and isinstance(container.get("image"), str):
                    info = parse(container["image"])
                    info["jsonPointer"] = "/" + "/".join((*path, kind, str(i), "image"))
                    found.setdefault(kind, {})[container.get("name", "")] = info
    return found


def parse(image: str) -> dict[str, Any]:
    first, slash, rest = image.partition("/")
    named = slash and ("." in first or ":" in first or first == "localhost" or first.lower() != first)
    registry, rest = (first, rest) if named else ("docker.io", image)
    rest, _, digest = rest.partition("@")
    path, tag = rest, ""
    if ":" in rest.rpartition("/")[2]:
        path, _, tag = rest.rpartition(":")
    if not tag and not digest:
        tag = "latest"
    info = {"registry": registry, "name": path.rpartition("/")[2], "path": path}
    reference = f"{registry}/{path}"
    info["reference"] = f"{reference}@{digest}" if digest else f"{reference}:{tag}"
    info["referenceWithTag"] = f"{reference}:{tag}"
    if tag:
        info["tag"] = tag
    if digest:
        info["digest"] = digest
    return info
