"""The ``images`` variable (semantics §28): images by kind and name, of Pods, of controllers' Pods, or from where the
``imageExtractors`` of a rule say.
"""

from __future__ import annotations

from typing import Any

from tests.reference.query import search

_PATHS = (("spec",), ("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec"))


class ImageError(Exception):
    """Images that cannot be read where an extractor says."""


def images(resource: dict[str, Any], extractors: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """``{"containers": {"web": {"registry": …}}}``; kinds without a container are left out."""
    found: dict[str, Any] = {}
    if extractors:
        for extractor in extractors:
            _extract(resource, extractor, found)
        return found
    for path in _PATHS:
        spec: Any = resource
        for step in path:
            spec = spec.get(step) if isinstance(spec, dict) else None
        if not isinstance(spec, dict):
            continue
        for kind in ("initContainers", "containers", "ephemeralContainers"):
            entries = spec.get(kind)
            for i, container in enumerate(entries if isinstance(entries, list) else []):
                if isinstance(container, dict) and isinstance(container.get("image"), str):
                    info = parse(container["image"])
                    info["jsonPointer"] = "/" + "/".join((*path, kind, str(i), "image"))
                    found.setdefault(kind, {})[container.get("name", "")] = info
    return found


def _extract(resource: dict[str, Any], extractor: dict[str, Any], found: dict[str, Any]) -> None:
    fields = [f.strip() for f in str(extractor.get("path")).split("/") if f.strip()]
    value = extractor.get("value") or fields.pop()
    for steps, holder in _holders(resource, fields, []):
        if not isinstance(holder, dict):
            raise ImageError("images are not where the extractor says")
        text = holder.get(value)
        if not isinstance(text, str):
            continue
        pointer = "/" + "/".join((*steps, value))
        key = holder.get(extractor["key"]) if extractor.get("key") else pointer
        if not isinstance(key, str):
            raise ImageError("the key of an image must be a text")
        if extractor.get("jmesPath"):
            text = search(extractor["jmesPath"], text)
            if not isinstance(text, str):
                raise ImageError("an image must be a text")
        info = parse(text)
        info["jsonPointer"] = pointer
        found.setdefault(extractor.get("name") or "custom", {})[key] = info


def _holders(value: Any, fields: list[str], steps: list[str]) -> list[tuple[list[str], Any]]:
    if value is None:
        return []
    if not fields:
        return [(steps, value)]
    first, rest = fields[0], fields[1:]
    if first == "*":
        if isinstance(value, list):
            pairs = [(str(i), v) for i, v in enumerate(value)]
        elif isinstance(value, dict):
            pairs = sorted(value.items())
        else:
            raise ImageError("images are not where the extractor says")
        return [h for step, v in pairs for h in _holders(v, rest, [*steps, step])]
    if not isinstance(value, dict):
        raise ImageError("images are not where the extractor says")
    return _holders(value.get(first), rest, [*steps, first])


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
