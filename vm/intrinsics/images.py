"""The ``images`` variable: what the image references of an object are made of (semantics §28).

The engine makes it for Pods and controllers, for policy sets that mention it. A rule with ``imageExtractors`` makes its
own, in a cell that its code reads instead: ``images.extract``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from vm.host import Imports, Meter
from vm.values import Err, Value

DEFAULT_REGISTRY: Final = "docker.io"
DEFAULT_TAG: Final = "latest"
CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
CUSTOM: Final = "custom"
"""The name of images whose extractor gives none."""

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

Info: TypeAlias = dict[str, str]
Infos: TypeAlias = dict[str, dict[str, Info]]


class _Unextractable(Exception):
    """Images are not what an extractor says; the text is Kyverno's."""


def image_infos(resource: Value, registry: str = DEFAULT_REGISTRY) -> Infos:
    """``{"containers": {NAME: {"registry": …}}}``; lists without an image are left out; other kinds have none.

    ``registry`` is put before references that name none; empty: they stay without
    (``enableDefaultRegistryMutation: false``).
    """
    named = resource.get("kind") if type(resource) is dict else None
    path = POD_SPECS.get(named) if type(named) is str else None
    if path is None:
        return {}
    spec: Value = resource
    for key in path:
        spec = spec.get(key) if type(spec) is dict else None
    if type(spec) is not dict:
        return {}
    found: Infos = {}
    for kind in CONTAINERS:
        containers = spec.get(kind)
        if type(containers) is not list:
            continue
        for position, container in enumerate(containers):
            if type(container) is not dict or type(container.get("image")) is not str:
                continue
            info = parse_image(container["image"], registry)
            if info is not None:
                info["jsonPointer"] = f"/{'/'.join(path)}/{kind}/{position}/image"
                found.setdefault(kind, {})[str(container.get("name", ""))] = info
    return found


def parse_image(reference: str, default_registry: str = DEFAULT_REGISTRY) -> Info | None:
    """The parts of an image reference, with the default registry and tag put in; None for an empty path."""
    first, slash, rest = reference.partition("/")
    # Kyverno quirk: an upper-case first part is a registry too, and no "library/" is put in.
    named = bool(slash) and ("." in first or ":" in first or first == "localhost" or first.lower() != first)
    registry, rest = (first, rest) if named else (default_registry, reference)
    rest, _, digest = rest.partition("@")
    path, tag = rest, ""
    if ":" in rest.rpartition("/")[2]:
        path, _, tag = rest.rpartition(":")
    if not path:
        return None
    if not tag and not digest:
        tag = DEFAULT_TAG
    whole = f"{registry}/{path}" if registry else path
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


def extract(imports: Imports, meter: Meter, resource: Value, extractors: Value, registry: Value) -> Value:
    """The images of an object by the extractors of its kind, a map from kind to lists of ``{path, value?, name?, key?,
    jmesPath?}``; other kinds as ever. An ``Err`` where images are not what an extractor says.

    ``registry`` is the default registry, null for the usual one.
    """
    default = registry if type(registry) is str else DEFAULT_REGISTRY
    kind = resource.get("kind") if type(resource) is dict else None
    wanted = extractors.get(kind) if type(extractors) is dict and type(kind) is str else None
    found: Infos = {}
    if type(wanted) is not list:
        found = image_infos(resource, default)
        meter.charge(sum(map(len, found.values())))
    else:
        try:
            for extractor in wanted:
                if images := _images(imports, meter, resource, extractor, default):
                    # Kyverno quirk: of two extractors of one name the later counts.
                    found[extractor.get("name") or CUSTOM] = images
        except _Unextractable as problem:
            return Err("value", str(problem))
    return found


def _images(
    imports: Imports, meter: Meter, resource: Value, extractor: dict[str, Any], registry: str
) -> dict[str, Info]:
    fields = [field for part in extractor["path"].split("/") if (field := part.strip())]
    value = extractor.get("value") or (fields.pop() if fields else "")
    found: dict[str, Info] = {}
    for place, holder in _holders(meter, resource, fields, ()):
        if type(holder) is not dict:
            raise _Unextractable("invalid image config")
        pointer = "/" + "/".join((*place, value))
        key: Value = pointer
        if name := extractor.get("key"):
            key = holder.get(name)
            if type(key) is not str:
                raise _Unextractable("invalid key")
        reference = holder.get(value)
        if type(reference) is not str:
            continue
        if query := extractor.get("jmesPath"):
            reference = imports.query(query, {"$document": reference}, meter)
            if type(reference) is Err:
                raise _Unextractable(reference.text)
            if type(reference) is not str:
                raise _Unextractable("invalid result type")
        info = parse_image(reference, registry)
        if info is None:
            raise _Unextractable(f"invalid image '{reference}' (bad image: {reference})")
        found[key] = {**info, "jsonPointer": pointer}
    return found


def _holders(
    meter: Meter, value: Value, fields: list[str], place: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Value]]:
    """What a path of fields, ``*`` for every element, leads to, each with its place; what is not there is left out."""
    meter.charge(1)
    if value is None:
        return
    if not fields:
        yield place, value
        return
    first, rest = fields[0], fields[1:]
    if first == "*":
        if type(value) is list:
            inner = [(str(i), item) for i, item in enumerate(value)]
        elif type(value) is dict:
            inner = sorted(value.items())
        else:
            raise _Unextractable("invalid type")
        for step, item in inner:
            yield from _holders(meter, item, rest, (*place, step))
        return
    if type(value) is not dict:
        raise _Unextractable("invalid image config")
    yield from _holders(meter, value.get(first), rest, (*place, first))
