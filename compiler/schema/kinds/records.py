"""OpenAPI schemas to the records of the kinds table: what the stored file holds, and what a user's CRDs become.

A record is JSON. Of a value it is a word (:data:`WORDS`), ``#name`` for an object of that definition, ``{"list": …}``,
``{"map": …}`` or ``{"is": …}``, the last three with what else the schema says of the field (:data:`LIST_FACTS`,
``enum``, ``max``). Of a definition it is ``{"fields": {…}, "required": […], "open": true, "atomic": true}``, empty
parts left out. Descriptions and defaults are not kept. Called by :mod:`compiler.schema.kinds.custom` and by the script
that remakes the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

Record: TypeAlias = str | dict[str, Any]
Definition: TypeAlias = dict[str, Any]

WORDS: Final = ("string", "time", "bytes", "int", "double", "bool", "quantity", "int-or-string", "object", "any")
"""``time`` and ``bytes`` are texts in the JSON form of an object (RFC 3339, base64); ``object`` is any map."""

REF: Final = "#"
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
LIST_FACTS: Final = (
    ("x-kubernetes-list-type", "type", "atomic"),
    ("x-kubernetes-list-map-keys", "keys", None),
    ("x-kubernetes-patch-strategy", "patch", None),
    ("x-kubernetes-patch-merge-key", "merge", None),
)
"""Of a field: the key in OpenAPI, the key in a record, and the value that is not kept since it is the rule."""

_PREFIX: Final = "#/components/schemas/"
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_FREE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_SCALARS: Final[dict[tuple[Any, Any], str]] = {
    ("string", "byte"): "bytes",
    ("string", "date-time"): "time",
}
_TYPES: Final[dict[Any, str]] = {"string": "string", "integer": "int", "number": "double", "boolean": "bool"}
_BOUNDS: Final = {"list": "maxItems", "map": "maxProperties", "is": "maxLength"}
_DEEPEST: Final = 64
"""Levels of a user's schema that are read; what lies below is anything. The API server takes no deeper ones."""


class Encoder:
    """Makes records; the definitions that come up on the way are collected in ``definitions``.

    ``lookup`` gives the schema that a reference names (None where there are no references, as in a CRD). Whatever a
    schema says that is not understood becomes ``any``: a wrong schema makes the compiler know less, never wrong things.
    """

    def __init__(self, lookup: Callable[[str], Any] | None = None) -> None:
        self.definitions: dict[str, Definition] = {}
        self._lookup = lookup

    def value(self, schema: Any, name: str, depth: int = 0) -> Record:
        """The record of a value; ``name`` is what a definition is called that stands in the schema itself."""
        if type(schema) is not dict or depth > _DEEPEST:
            return "any"
        base = self._base(schema, name, depth)
        if base == "any":
            return base
        record: dict[str, Any] = base if isinstance(base, dict) else {"is": base}
        if isinstance(allowed := schema.get("enum"), list) and all(type(a) is str for a in allowed):
            record["enum"] = sorted(allowed)
        form = next(iter(record))
        bound = schema.get(_BOUNDS[form])
        if type(bound) is int and bound >= 0:
            record["max"] = bound
        for key, short, usual in LIST_FACTS:
            if (fact := schema.get(key)) is not None and fact != usual:
                record[short] = fact
        if form == "map" and schema.get("x-kubernetes-map-type") == "atomic":
            record["type"] = "atomic"
        return base if form == "is" and len(record) == 1 else record

    def definition(self, schema: dict[str, Any], name: str, depth: int = 0) -> None:
        """Collects an object schema with its fields under ``name``; again is no harm."""
        if name in self.definitions:
            return
        found: Definition = {"fields": {}}
        self.definitions[name] = found
        properties: dict[str, Any] = schema["properties"]
        found["fields"] = {
            field: self.value(properties[field], f"{name}.{field}", depth + 1) for field in sorted(properties, key=str)
        }
        if isinstance(required := schema.get("required"), list) and required:
            found["required"] = sorted(r for r in required if type(r) is str)
        if schema.get(_FREE) is True:
            found["open"] = True
        if schema.get("x-kubernetes-map-type") == "atomic":
            found["atomic"] = True

    def _base(self, schema: dict[str, Any], name: str, depth: int) -> Record:
        inner = schema.get("allOf")
        if "$ref" not in schema and isinstance(inner, list) and len(inner) == 1 and "type" not in schema:
            # Kubernetes writes a reference with a default or a description beside it as an allOf of one.
            schema = inner[0] if type(inner[0]) is dict else {}
        if (ref := schema.get("$ref")) is not None:
            return self._reference(ref, depth)
        if schema.get("x-kubernetes-int-or-string") is True or schema.get("format") == "int-or-string":
            return "int-or-string"
        match schema.get("type"):
            case "array":
                return {"list": self.value(schema.get("items"), name, depth + 1)}
            case "object":
                return self._object(schema, name, depth)
            case word if isinstance(word, str):
                return _SCALARS.get((word, schema.get("format")), _TYPES.get(word, "any"))
        return "any"

    def _object(self, schema: dict[str, Any], name: str, depth: int) -> Record:
        properties = schema.get("properties")
        if schema.get(_EMBEDDED) is True:
            properties = with_standard_fields(properties if isinstance(properties, dict) else {})
        if isinstance(properties, dict) and properties:
            self.definition({**schema, "properties": properties}, name, depth)
            return REF + name
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict) and extra:
            return {"map": self.value(extra, name, depth + 1)}
        return "object"

    def _reference(self, ref: Any, depth: int) -> Record:
        name = str(ref).removeprefix(_PREFIX)
        if name == _QUANTITY:
            return "quantity"
        if name == META and self._lookup is None:
            return REF + name
        target = self._lookup(name) if self._lookup is not None else None
        if type(target) is not dict:
            return "any"
        if isinstance(target.get("properties"), dict) and target["properties"]:
            self.definition(target, name, 0)
            return REF + name
        return self._base(target, name, depth + 1)


def with_standard_fields(properties: dict[str, Any]) -> dict[str, Any]:
    """The properties of a whole object: ``apiVersion``, ``kind`` and ``metadata`` are what they are in every kind,
    whatever its schema says of them."""
    standard: dict[str, Any] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": _PREFIX + META},
    }
    return {**properties, **standard}
