"""A Pod, or the Pod that a controller makes, as the checks of the Pod Security Standards read it.

``vm.intrinsics.pod_security`` builds it from a resource and hands it to the checks. Kubernetes decodes a Pod into typed
fields, where null is the zero value and a wrong type an error; the readers here do the same for the fields that some
check looks at, so that an object that is no Pod is an error of the rule and never passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

Kind: TypeAlias = Literal["forbidden", "required"]

CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
"""The lists of containers, in the order in which Kubernetes goes through them."""

_TEMPLATE: Final = (("spec", "template"), "spec.template.spec")
TEMPLATES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "Pod": ((), "spec"),
    "DaemonSet": _TEMPLATE,
    "Deployment": _TEMPLATE,
    "Job": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "ReplicationController": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "CronJob": (("spec", "jobTemplate", "spec", "template"), "spec.jobTemplate.spec.template.spec"),
}
"""By kind: where the Pod stands, and what messages write for its ``spec``. The metadata are the Pod's own. Kyverno
reads those of a CronJob's Job, so that annotations of its Pods go unseen; its own policy library wants them seen."""


class UnreadableError(Exception):
    """A field of the Pod is not of its type; the text names it."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """A field that breaks a check. ``bad`` is the value found there (text, boolean, number or list of texts), empty for
    none. ``container`` is the name of the container that the field belongs to, None for fields of the Pod."""

    field: str
    kind: Kind = "forbidden"
    bad: str | bool | int | tuple[str, ...] = ""
    container: str | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """A container and its place, ``spec.containers[0]``."""

    name: str
    image: str
    place: str
    body: dict[str, Any]


Context: TypeAlias = tuple[dict[str, Any], str, str | None]
"""A security context (empty for none), its place, and the name of the container, None for that of the Pod."""


class Pod:
    """The parts of a Pod: ``annotations`` of its metadata, its spec without containers, and all containers in order.

    ``contexts`` are the security contexts of all containers, ``all_contexts`` that of the Pod before them: most checks
    go through these, so that they are found once.
    """

    __slots__ = ("all_contexts", "annotations", "containers", "contexts", "spec")

    def __init__(self, annotations: dict[str, str], spec: dict[str, Any], containers: tuple[Container, ...]) -> None:
        self.annotations = annotations
        self.spec = spec
        self.containers = containers
        self.contexts: tuple[Context, ...] = tuple(
            (obj(c.body, "securityContext", c.place) or {}, f"{c.place}.securityContext", c.name) for c in containers
        )
        own = obj(spec, "securityContext", "spec") or {}
        self.all_contexts: tuple[Context, ...] = ((own, "spec.securityContext", None), *self.contexts)

    @property
    def windows(self) -> bool:
        """Whether the Pod says that it runs on Windows."""
        os = obj(self.spec, "os", "spec")
        return os is not None and text(os, "name", "spec.os") == "windows"

    @property
    def own_users(self) -> bool:
        """Whether the Pod has a user namespace of its own (``hostUsers: false``)."""
        return flag(self.spec, "hostUsers", "spec") is False

    def with_images(self, chosen: tuple[Container, ...]) -> Pod:
        """A Pod of these containers alone: nothing of the Pod itself, and places counted anew."""
        counts: dict[str, int] = {}
        placed = []
        for container in chosen:
            kind = container.place.removeprefix("spec.").partition("[")[0]
            index = counts.get(kind, 0)
            counts[kind] = index + 1
            placed.append(Container(container.name, container.image, f"spec.{kind}[{index}]", container.body))
        return Pod({}, {}, tuple(placed))

    def without_containers(self) -> Pod:
        """The same Pod with one container that says nothing in the place of all others."""
        return Pod(self.annotations, self.spec, (Container("fake", "", "spec.containers[0]", {}),))


def pod_of(resource: Any) -> Pod:
    """The Pod of a resource. Raises :class:`UnreadableError` for a kind without one and for fields of a wrong type."""
    kind = resource.get("kind") if type(resource) is dict else None
    where = TEMPLATES.get(kind) if type(kind) is str else None
    if where is None:
        raise UnreadableError("could not find correct resource type")
    template = _at(resource, where[0])
    metadata = obj(template, "metadata", "") or {}
    annotations = obj(metadata, "annotations", "metadata") or {}
    for key in annotations:
        text(annotations, key, "metadata.annotations")
    spec = obj(template, "spec", "") or {}
    found = []
    for name in CONTAINERS:
        for i, body in enumerate(items(spec, name, "spec")):
            place = f"spec.{name}[{i}]"
            found.append(Container(text(body, "name", place), text(body, "image", place), place, body))
    return Pod({k: v or "" for k, v in annotations.items()}, spec, tuple(found))


def _at(resource: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    found, place = resource, ""
    for key in path:
        found = obj(found, key, place) or {}
        place = _join(place, key)
    return found


def obj(holder: dict[str, Any], key: str, place: str) -> dict[str, Any] | None:
    """A map under a key, None for null and for nothing."""
    value = holder.get(key)
    if value is None or type(value) is dict:
        return value
    raise UnreadableError(f"{_join(place, key)} must be a map")


def text(holder: dict[str, Any], key: str, place: str) -> str:
    """A text under a key, empty for null and for nothing."""
    value = holder.get(key)
    if value is None:
        return ""
    if type(value) is str:
        return value
    raise UnreadableError(f"{_join(place, key)} must be a text")


def flag(holder: dict[str, Any], key: str, place: str) -> bool | None:
    """A boolean under a key, None for null and for nothing."""
    value = holder.get(key)
    if value is None or type(value) is bool:
        return value
    raise UnreadableError(f"{_join(place, key)} must be true or false")


def number(holder: dict[str, Any], key: str, place: str) -> int | None:
    """A whole number under a key, None for null and for nothing; the command line reads all numbers as floats."""
    value = holder.get(key)
    if value is None or type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise UnreadableError(f"{_join(place, key)} must be a whole number")


def items(holder: dict[str, Any], key: str, place: str) -> list[dict[str, Any]]:
    """A list of maps under a key, empty for null and for nothing; null elements are empty maps."""
    value = holder.get(key)
    if value is None:
        return []
    if type(value) is not list:
        raise UnreadableError(f"{_join(place, key)} must be a list")
    for i, item in enumerate(value):
        if item is not None and type(item) is not dict:
            raise UnreadableError(f"{_join(place, key)}[{i}] must be a map")
    return [item or {} for item in value]


def texts(holder: dict[str, Any], key: str, place: str) -> list[str]:
    """A list of texts under a key, empty for null and for nothing."""
    value = holder.get(key)
    if value is None:
        return []
    if type(value) is not list or any(type(item) is not str for item in value):
        raise UnreadableError(f"{_join(place, key)} must be a list of texts")
    return value


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key
