"""CustomResourceDefinitions that the user gives, as rows and records like those of the stored table.

Called by :class:`compiler.schema.kinds.schemas.Schemas`. Nothing here fails: what cannot be read is a kind, or a field,
about which nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from compiler.schema.kinds.records import Definition, Encoder, with_standard_fields

_SCALE: Final = ["scale", "autoscaling", "v1", "Scale", "io.k8s.api.autoscaling.v1.Scale"]


def read(crds: Sequence[dict[str, Any]]) -> tuple[list[list[Any]], dict[str, Definition]]:
    """The resources (rows as in :class:`compiler.schema.kinds.table.Table`) and definitions of the served versions.

    Both ``apiextensions.k8s.io/v1`` and the older form with one schema for all versions are read.
    """
    encoder = Encoder()
    rows: list[list[Any]] = []
    for crd in crds:
        spec = _map(_map(crd).get("spec"))
        names = _map(spec.get("names"))
        group, plural, kind = spec.get("group"), names.get("plural"), names.get("kind")
        if not (isinstance(group, str) and isinstance(plural, str) and isinstance(kind, str)):
            continue
        singular = names.get("singular")
        versions = spec.get("versions")
        for version in versions if isinstance(versions, list) else [{"name": spec.get("version")}]:
            entry = _map(version)
            name = entry.get("name")
            if not isinstance(name, str) or entry.get("served") is False:
                continue
            schema = _map(entry.get("schema") or spec.get("validation")).get("openAPIV3Schema")
            definition = f"{group}.{name}.{kind}"
            _definition(encoder, _map(schema), definition)
            parts = _map(entry.get("subresources") or spec.get("subresources"))
            subs: list[list[Any]] = [_SCALE] if "scale" in parts else []
            if "status" in parts:
                subs.append(["status", group, name, kind, definition])
            word = singular if isinstance(singular, str) else kind.lower()
            rows.append([group, name, plural, word, kind, spec.get("scope") != "Cluster", definition, subs])
    return rows, encoder.definitions


def _definition(encoder: Encoder, schema: dict[str, Any], name: str) -> None:
    properties = _map(schema.get("properties"))
    encoder.definitions.pop(name, None)
    encoder.definition({**schema, "properties": with_standard_fields(properties)}, name)
    if not properties:
        encoder.definitions[name]["open"] = True


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
