"""The structural schemas of the kinds: checked at compile time, and written out as CustomResourceDefinitions.

One source for both, ``crds/*.yaml``: what the compiler lets pass is what the API server keeps. The cluster set-up
applies ``crd_manifests()``; ``read_policies`` calls ``check``.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.source import Document, load_values, pointer, type_name

Schema: TypeAlias = dict[str, Any]

GROUP: Final = "kyverno.io"
_OWN_PREFIX: Final = "x-thesmos-"
_FREE: Final = "x-kubernetes-preserve-unknown-fields"
_TYPES: Final = {
    "object": ("a map", dict),
    "array": ("a list", list),
    "string": ("a text", str),
    "boolean": ("true or false", bool),
    "integer": ("a whole number", int),
}


_ELEMENTS: Final = {
    "rules": "the rule",
    "any": "an element of any",
    "all": "an element of all",
    "subjects": "the subject",
    "matchExpressions": "the expression",
    "exceptions": "the exception",
    "context": "the context entry",
    "foreach": "the loop",
    "removeResources": "an element of removeResources",
    "failureActionOverrides": "the override",
    "validationFailureActionOverrides": "the override",
    "expressions": "the expression",
    "variables": "the variable",
    "auditAnnotations": "the audit annotation",
    "celPreconditions": "the precondition",
    "matchConditions": "the match condition",
}
"""What an element of a list field is called."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """``definitions`` by name; ``specs`` maps kind and version to the name of the definition of its ``spec``."""

    definitions: dict[str, Schema]
    kinds: list[dict[str, Any]]
    specs: dict[tuple[str, str], str]

    def versions(self, kind: str) -> list[str]:
        return [version for k, version in self.specs if k == kind]


@cache
def load() -> Kinds:
    """Reads the schema files; once a process."""
    folder = _folder()
    (definitions,) = load_values((folder / "definitions.yaml").read_text("utf-8"), "definitions.yaml")
    (kinds,) = load_values((folder / "kinds.yaml").read_text("utf-8"), "kinds.yaml")
    specs = {(k["kind"], v["name"]): v["spec"] for k in kinds for v in k["versions"]}
    return Kinds(definitions, kinds, specs)


def _folder() -> Traversable:
    return resources.files("compiler.schema") / "crds"


def check(doc: Document, kind: str, version: str, reporter: Reporter) -> None:
    """Reports unknown fields (T0201), wrong types (T0202), missing fields (T0203) and values not allowed (T0204)."""
    known = load()
    checker = _Checker(doc, known.definitions, reporter)
    value = doc.value
    checker.unknown(value, ("apiVersion", "kind", "metadata", "spec", "status"), "", kind)
    spec = value.get("spec")
    if spec is None:
        reporter.error("T0203", doc.spans.key_span("/kind"), f"a {kind} needs a spec", "spec")
        return
    checker.walk(spec, {"$ref": known.specs[kind, version]}, "/spec", "spec")


def check_part(doc: Document, value: Any, definition: str, at: str, name: str, reporter: Reporter) -> None:
    """Reports the same of a part that its schema takes as it is, as it may hold others of its own kind. ``name`` is
    what the user reads for it."""
    schema = {"$ref": definition}
    if value is None:
        reporter.error("T0202", doc.spans.span(at), f"{name} must be a map, not null", "a map")
    _Checker(doc, load().definitions, reporter).walk(value, schema, at, name)


def check_parts(doc: Document, values: list[Any], definition: str, at: str, name: str, reporter: Reporter) -> bool:
    """Checks each part of a list (:func:`check_part`); whether all of them are what their schema says."""
    before = reporter.errors
    for n, value in enumerate(values):
        check_part(doc, value, definition, f"{at}/{n}", name, reporter)
    return reporter.errors == before


class _Checker:
    __slots__ = ("_definitions", "_doc", "_reporter")

    def __init__(self, doc: Document, definitions: dict[str, Schema], reporter: Reporter) -> None:
        self._doc = doc
        self._definitions = definitions
        self._reporter = reporter

    def walk(self, value: Any, schema: Schema, at: str, name: str) -> None:
        """Checks a value; null counts as not given, as the API server treats it."""
        while (ref := schema.get("$ref")) is not None:
            schema = self._definitions[ref]
        kind = schema.get("type")
        if kind is None or value is None:
            return
        words, cls = _TYPES[kind]
        if type(value) is not cls:
            self._wrong_type(value, words, at, name)
        elif isinstance(value, dict):
            self._map(value, schema, at, name)
        elif isinstance(value, list):
            items = schema["items"]
            for i, item in enumerate(value):
                if item is None:
                    self._wrong_type(item, _TYPES[self._type(items)][0], f"{at}/{i}", f"an element of {name}")
                else:
                    self.walk(item, items, f"{at}/{i}", _ELEMENTS.get(name, name))
        elif (allowed := schema.get("enum")) is not None and value not in allowed:
            close = difflib.get_close_matches(value, allowed, 1) or [
                a for a in allowed if a.lower() == str(value).lower()
            ]
            self._reporter.error(
                # Conditions have a code of their own, whether the schema or the semantic check finds the operator.
                "T0312" if name == "operator" else "T0313" if name == "operations" else "T0204",
                self._doc.spans.span(at),
                f'"{value}" is not a value of {name}',
                "one of " + ", ".join(allowed),
                f'did you mean "{close[0]}"?' if close else "",
            )

    def _type(self, schema: Schema) -> str:
        while (ref := schema.get("$ref")) is not None:
            schema = self._definitions[ref]
        kind: str = schema["type"]
        return kind

    def _map(self, value: dict[str, Any], schema: Schema, at: str, name: str) -> None:
        fields: dict[str, Schema] | None = schema.get("properties")
        if fields is not None:
            for key, sub in value.items():
                if (field := fields.get(key)) is not None:
                    self.walk(sub, field, at + "/" + key, key)
            self.unknown(value, fields, at, name)
            for key in schema.get("required", ()):
                if value.get(key) is None and not (key in value and self._free(fields[key])):
                    self._reporter.error(
                        "T0203", self._place(at), f'the field "{key}" is missing in {name}', f"{key}: …"
                    )
        elif (extra := schema.get("additionalProperties")) is not None:
            for key, sub in value.items():
                self.walk(sub, extra, at + pointer(key), f"{name}.{key}")

    def _free(self, schema: Schema) -> bool:
        while (ref := schema.get("$ref")) is not None:
            schema = self._definitions[ref]
        return _FREE in schema

    def _place(self, at: str) -> Any:
        """Where to point at for something missing: the key of a map, or the first line of a list element."""
        spans = self._doc.spans
        return spans.key_span(at)

    def unknown(self, value: dict[str, Any], fields: Any, at: str, name: str) -> None:
        """Reports keys that are no fields, with the nearest name or another home."""
        for key in value:
            if key in fields:
                continue
            candidates = [f for f in fields if f not in value] or list(fields)
            close = difflib.get_close_matches(key, candidates, 1, 0.6) or [
                f for f in candidates if f.lower() == key.lower()
            ]
            if close:
                help = f'did you mean "{close[0]}"?'
            elif homes := self._homes(key):
                help = f'"{key}" is a field of {homes[0]}: look at the indentation'
            else:
                help = ""
            shown = ", ".join(list(fields)[:12]) + (", …" if len(fields) > 12 else "")
            self._reporter.error(
                "T0201",
                self._doc.spans.key_span(at + pointer(key)),
                f'{name} has no field "{key}"',
                f"one of {shown}",
                help,
            )

    def _homes(self, key: str) -> list[str]:
        names = {"PolicySpec": "spec", "Rule": "a rule", "Validate": "validate", "Mutate": "mutate"}
        names |= {"Resources": "resources", "MatchResources": "match", "Condition": "a condition"}
        return [shown for d, shown in names.items() if key in self._definitions[d].get("properties", {})]

    def _wrong_type(self, value: Any, words: str, at: str, name: str) -> None:
        help = ""
        if words == "a text" and type(value) in (bool, int, float):
            source = self._doc.spans.source_text(at)
            help = f'put it in quotes: "{source}"'
        elif words == "a list" and type(value) in (str, dict):
            help = "begin each element with a dash"
        elif words == "true or false" and type(value) is str:
            help = "write it without quotes"
        shown = type_name(value)
        self._reporter.error("T0202", self._doc.spans.span(at), f"{name} must be {words}, not {shown}", words, help)


def crd_manifests(asked: Collection[str] = ()) -> list[dict[str, Any]]:
    """The CustomResourceDefinitions (``apiextensions.k8s.io/v1``) of every kind; fresh objects at each call. ``asked``
    names the kinds that not every installation has: ``openreports``, ``*`` for all of them."""
    known = load()
    (records,) = load_values((_folder() / "records.yaml").read_text("utf-8"), "records.yaml")
    definitions = known.definitions | records["definitions"]
    return [
        _manifest(k, definitions)
        for k in (*known.kinds, *records["kinds"])
        if (option := k.get("optional")) is None or option in asked or "*" in asked
    ]


def _manifest(kind: dict[str, Any], definitions: dict[str, Schema]) -> dict[str, Any]:
    versions = []
    for v in kind["versions"]:
        properties: Schema = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
        }
        schema: Schema = {"type": "object", "properties": properties}
        version: dict[str, Any] = {
            "name": v["name"],
            "served": True,
            "storage": v["storage"],
            "schema": {"openAPIV3Schema": schema},
        }
        if v.get("deprecated"):
            version["deprecated"] = True
        for name, field in v.get("properties", {}).items():
            properties[name] = expand(field, definitions)
        if spec := v.get("spec"):
            schema["required"] = ["spec"]
            properties["spec"] = expand({"$ref": spec}, definitions)
        if status := v.get("status"):
            properties["status"] = expand({"$ref": status}, definitions)
            version["subresources"] = {"status": {}}
        if kind["columns"]:
            version["additionalPrinterColumns"] = [dict(c) for c in kind["columns"]]
        versions.append(version)
    name, group = kind["kind"], kind.get("group", GROUP)
    names = {
        "kind": name,
        "listKind": f"{name}List",
        "plural": kind["plural"],
        "shortNames": list(kind["shortNames"]),
        "singular": kind["singular"],
    }
    if group == GROUP:
        names["categories"] = ["kyverno"]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind['plural']}.{group}"},
        "spec": {"group": group, "names": names, "scope": kind["scope"], "versions": versions},
    }


def expand(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """A schema with every reference written out, without this compiler's own marks; fresh objects throughout."""

    def entries(s: Schema) -> Iterator[tuple[str, Any]]:
        if (ref := s.get("$ref")) is not None:
            yield from entries(definitions[ref])
        yield from s.items()

    out: Schema = {}
    for key, value in entries(schema):
        if key == "$ref" or key.startswith(_OWN_PREFIX):
            continue
        match key:
            case "properties":
                out[key] = {name: expand(sub, definitions) for name, sub in value.items()}
            case "items" | "additionalProperties":
                out[key] = expand(value, definitions)
            case _:
                out[key] = _copy(value)
    return out


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {k: _copy(v) for k, v in value.items()}
    return [_copy(v) for v in value] if type(value) is list else value
