"""What rules may ask the outside for, as an offline run has it: objects of a cluster, recorded answers, values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.reference.matching import selector_matches


class NoAnswer(Exception):
    """The answer is a failure; an entry may have a default for it."""


class Unsupplied(Exception):
    """Nothing was given that could answer: offline, that is an error which no default hides."""


@dataclass(frozen=True)
class World:
    """``calls`` are recorded answers (``urlPath`` or ``url``, ``method``, ``response``), ``global_entries`` values by
    ``name`` or ``name.projection``, ``images`` image data by reference; ``rule_values`` and ``foreach_values`` are
    values by dotted name for a (policy, rule), the latter one a list by element. ``sources`` are more objects that
    rules may copy.
    """

    objects: tuple[dict[str, Any], ...] = ()
    calls: tuple[dict[str, Any], ...] = ()
    global_entries: dict[str, Any] = field(default_factory=dict)
    images: dict[str, Any] = field(default_factory=dict)
    rule_values: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    foreach_values: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    sources: tuple[dict[str, Any], ...] = ()

    def config_map(self, namespace: str, name: str) -> dict[str, Any]:
        for one in self.objects:
            metadata = one.get("metadata") or {}
            same = (metadata.get("namespace") or "default", metadata.get("name")) == (namespace, name)
            if one.get("apiVersion") == "v1" and one.get("kind") == "ConfigMap" and same:
                return one
        raise (NoAnswer if self.objects else Unsupplied)(f"ConfigMap {namespace}/{name} is not known")

    def service(self, url: Any, method: str, body: Any) -> Any:
        return self._recorded("url", url, method)

    def api(self, path: str, method: str, body: Any) -> Any:
        """An answer of the API server: a recorded one, else from the objects."""
        try:
            return self._recorded("urlPath", path, method)
        except LookupError:
            pass
        if not self.objects or method != "GET":
            raise Unsupplied(f"{method} {path}: nothing is known that would answer")
        return self._from_objects(path)

    def _recorded(self, key: str, where: Any, method: str) -> Any:
        for call in self.calls:
            if call.get(key) == where and (call.get("method") or "GET") == method:
                response = call.get("response") or {}
                status = response.get("statusCode") or 200
                if not 200 <= status < 300:
                    raise NoAnswer(f"{method} {where}: status {status}")
                return response.get("body")
        if key == "url":
            raise Unsupplied(f"{method} {where}: nothing is known that would answer")
        raise LookupError(where)

    def _from_objects(self, path: str) -> Any:
        parts = urlsplit(path)
        steps = [unquote(s) for s in parts.path.strip("/").split("/")]
        if steps[:1] == ["api"]:
            group, version, steps = "", steps[1], steps[2:]
        elif steps[:1] == ["apis"] and len(steps) > 3:
            group, version, steps = steps[1], steps[2], steps[3:]
        else:
            raise NoAnswer(f"{path}: no path of objects")
        namespace = None
        if steps[:1] == ["namespaces"] and len(steps) > 2:
            namespace, steps = steps[1], steps[2:]
        api_version = f"{group}/{version}" if group else version
        mine = [
            o
            for o in self.objects
            if o.get("apiVersion") == api_version
            and self._plural(o) == steps[0]
            and (namespace is None or (o["metadata"].get("namespace") or "default") == namespace)
        ]
        if len(steps) > 1:
            for one in mine:
                if one["metadata"].get("name") == steps[1]:
                    return one
            raise NoAnswer(f"{path}: not found")
        query = parse_qs(parts.query)
        for text in query.get("labelSelector", []):
            mine = [o for o in mine if selector_matches(_selector(text), o["metadata"].get("labels") or {})]
        for text in query.get("fieldSelector", []):
            mine = [o for o in mine if _fields(text, o)]
        kind = f"{mine[0]['kind']}List" if mine else "List"
        mine.sort(key=lambda o: (o["metadata"].get("namespace") or "", o["metadata"].get("name") or ""))
        if "." not in group or group.endswith(".k8s.io"):  # of its own kinds the API server says the kind once
            mine = [{k: v for k, v in o.items() if k not in ("apiVersion", "kind")} for o in mine]
        return {"apiVersion": api_version, "kind": kind, "metadata": {}, "items": mine}

    def _plural(self, one: dict[str, Any]) -> str:
        for crd in self.objects:
            names = (
                ((crd.get("spec") or {}).get("names") or {}) if crd.get("kind") == "CustomResourceDefinition" else {}
            )
            if names.get("kind") == one.get("kind") and crd["spec"].get("group") == one["apiVersion"].partition("/")[0]:
                return str(names.get("plural"))
        return plural(str(one.get("kind")))

    def global_entry(self, name: Any) -> Any:
        if name not in self.global_entries:
            raise NoAnswer(f"global context entry {name} is not known")
        return self.global_entries[name]

    def image(self, reference: Any) -> Any:
        if reference not in self.images:
            raise Unsupplied(f"image {reference}: nothing is recorded of it")
        return self.images[reference]


def plural(kind: str) -> str:
    """The resource name of a kind as English makes it, which is how Kubernetes names its own."""
    word = kind.lower()
    if word == "endpoints":
        return word
    if re.search(r"(s|x|ch|sh)$", word):
        return word + "es"
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + "s"


def _selector(text: str) -> dict[str, Any]:
    """A label selector as it stands in a URL."""
    expressions: list[dict[str, Any]] = []
    for part in re.split(r",(?![^(]*\))", text):
        part = part.strip()
        if found := re.fullmatch(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)", part):
            values = [v.strip() for v in found[3].split(",")]
            expressions.append(
                {"key": found[1], "operator": {"in": "In", "notin": "NotIn"}[found[2]], "values": values}
            )
        elif found := re.fullmatch(r"([^!=]+)(==|=|!=)(.*)", part):
            operator = "NotIn" if found[2] == "!=" else "In"
            expressions.append({"key": found[1].strip(), "operator": operator, "values": [found[3].strip()]})
        elif part.startswith("!"):
            expressions.append({"key": part[1:].strip(), "operator": "DoesNotExist"})
        elif part:
            expressions.append({"key": part, "operator": "Exists"})
    return {"matchExpressions": expressions}


def _fields(text: str, one: dict[str, Any]) -> bool:
    for part in text.split(","):
        found = re.fullmatch(r"([^!=]+)(==|=|!=)(.*)", part.strip())
        if not found:
            raise NoAnswer(f"field selector {text}")
        value: Any = one
        for step in found[1].split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if (str(value if value is not None else "") == found[3]) == (found[2] == "!="):
            return False
    return True
