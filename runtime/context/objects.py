"""Answers calls to the Kubernetes API from given objects, as an API server that holds them would.

For offline commands: ``clusterResources`` of a test, ``--cluster-dump DIR``, the resources of ``apply``. It knows
single objects, lists of one namespace or of all, label and field selectors, and the error an API server gives for what
is not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from runtime.context.apipath import ApiPath, PathError, parse
from runtime.request import split_api_version
from vm.intrinsics.labels import selects
from vm.values import Err, Value

if TYPE_CHECKING:
    from compiler.schema.kinds import Schemas
    from compiler.schema.kinds.schemas import ResourceInfo

Object = Mapping[str, Any]

_TERM: Final = re.compile(r"\s*([^\s=!(),]+)\s*(?:(==|=|!=)\s*([^\s,()]*)|\s+(in|notin)\s*\(([^()]*)\))?\s*(?:,|\Z)")
_ABSENT: Final = re.compile(r"\s*!\s*([^\s=!(),]+)\s*(?:,|\Z)")
_FIELD: Final = re.compile(r"\s*([^\s=!,]+?)\s*(==|=|!=)\s*([^,]*?)\s*(?:,|\Z)")


class SelectorError(Exception):
    """A label or field selector that does not parse."""


class Objects:
    """Objects by resource. CustomResourceDefinitions among them, and ``crds``, say how their kinds are called; of a
    kind that nobody has told of the plural is guessed, as it is written in English. ``whole``: what is not among them
    is not in the cluster; else nobody knows of kinds of which there is no object (``Err unsupplied``)."""

    def __init__(self, objects: Iterable[Object], crds: Sequence[dict[str, Any]] = (), *, whole: bool = True) -> None:
        self._whole = whole
        self._given = [dict(o) for o in objects]
        self._crds = (*crds, *(o for o in self._given if o.get("kind") == "CustomResourceDefinition"))

    @cached_property
    def _schemas(self) -> Schemas:
        """What is known of kinds; most command lines need not know it, and it takes the compiler's reader of policies
        to be imported."""
        from compiler.schema.kinds import provider

        return provider(self._crds)

    @cached_property
    def _held(self) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
        """The objects by group, version and plural."""
        held: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for obj in self._given:
            group, version = split_api_version(str(obj.get("apiVersion") or ""))
            known = self._schemas.of_kind(group, version, str(obj.get("kind") or ""))
            if known is not None and known.namespaced and not _meta(obj).get("namespace"):
                obj = {**obj, "metadata": {**_meta(obj), "namespace": "default"}}
            held.setdefault((group, version, self._called(obj)[0]), []).append(obj)
        return held

    @cached_property
    def _kinds(self) -> dict[tuple[str, str, str], tuple[str, bool]]:
        """By group, version and plural: the kind, and whether its objects have namespaces."""
        kinds: dict[tuple[str, str, str], tuple[str, bool]] = {}
        for obj in self._given:
            group, version = split_api_version(str(obj.get("apiVersion") or ""))
            plural, namespaced = self._called(obj)
            kinds[group, version, plural] = str(obj.get("kind") or ""), namespaced
        return kinds

    def _called(self, obj: Mapping[str, Any]) -> tuple[str, bool]:
        """The plural of an object's kind, and whether such objects have namespaces."""
        group, version = split_api_version(str(obj.get("apiVersion") or ""))
        kind = str(obj.get("kind") or "")
        known = self._schemas.of_kind(group, version, kind)
        if known is not None:
            return known.plural, known.namespaced
        return plural_of(kind), bool(_meta(obj).get("namespace"))

    def all(self) -> list[dict[str, Any]]:
        """Every object, if what is not among them is not in the cluster; else none, since nobody knows of the rest."""
        return [obj for held in self._held.values() for obj in held] if self._whole else []

    def get(self, url: str) -> Value:
        """The answer to a GET, or the error of an API server as an ``Err`` of code ``host``."""
        try:
            path = parse(url)
            return self._version(path) if path.plain else self._found(path)
        except (PathError, SelectorError) as problem:
            return Err("host", str(problem))

    def find(self, group: str, version: str, plural: str, namespace: str = "", name: str = "") -> Value:
        """An object by name, or the list of them (not their List); an ``Err`` for an object that is not there."""
        path = ApiPath(group, version, namespace, plural, name)
        found = self._found(path)
        return found if name or type(found) is Err else found["items"]

    def kind(self, group: str, version: str, plural: str) -> dict[str, str]:
        """The ``apiVersion`` and ``kind`` of a resource, empty for one that is not known."""
        info = self._schemas.resource(group, version, plural)
        kind = info.kind if info is not None else self._kinds.get((group, version, plural), ("", False))[0]
        return {"apiVersion": f"{group}/{version}" if group else version, "kind": kind} if kind else {}

    def _version(self, path: ApiPath) -> Value:
        if path.plain != "/version":
            return Err("host", "the server could not find the requested resource")
        major, minor, *_ = self._schemas.version.removeprefix("v").split(".")
        return {"major": major, "minor": minor, "gitVersion": self._schemas.version}

    def _found(self, path: ApiPath) -> Value:
        key = path.group, path.version, path.plural
        info = self._schemas.resource(*key)
        held = self._held.get(key, [])
        if not held and not self._whole:
            return Err("unsupplied", f"no {path.plural} are given")
        if info is None and not held:
            return Err("host", "the server could not find the requested resource")
        kind, namespaced = (info.kind, info.namespaced) if info is not None else self._kinds[key]
        if path.namespace and not namespaced:
            return Err("host", "the server could not find the requested resource")
        inside = [o for o in held if not path.namespace or _meta(o).get("namespace") == path.namespace]
        if path.name:
            return self._one(path, info, inside, namespaced)
        items = [o for o in inside if _chosen(o, path.query)]
        items.sort(key=lambda o: (str(_meta(o).get("namespace", "")), str(_meta(o).get("name", ""))))
        # The items of a list do not say what they are.
        bare = [{k: v for k, v in o.items() if k not in ("apiVersion", "kind")} for o in items]
        version = f"{path.group}/{path.version}" if path.group else path.version
        return {"apiVersion": version, "kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": bare}

    def _one(self, path: ApiPath, info: ResourceInfo | None, held: list[dict[str, Any]], namespaced: bool) -> Value:
        if namespaced and not path.namespace:
            return Err("host", "the server could not find the requested resource")
        found = next((o for o in held if _meta(o).get("name") == path.name), None)
        if found is None:
            where = f"{path.plural}.{path.group}" if path.group else path.plural
            return Err("host", f'{where} "{path.name}" not found')
        if path.subresource == "scale":
            return _scale(found)
        if path.subresource not in ("", "status"):
            return Err("host", "the server could not find the requested resource")
        return found


def _scale(obj: dict[str, Any]) -> Value:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {k: v for k, v in _meta(obj).items() if k in ("name", "namespace", "uid", "creationTimestamp")},
        "spec": {"replicas": (obj.get("spec") or {}).get("replicas", 1)},
        "status": {"replicas": (obj.get("status") or {}).get("replicas", 0)},
    }


def _meta(obj: Object) -> dict[str, Any]:
    found = obj.get("metadata")
    return found if type(found) is dict else {}


def _chosen(obj: Object, query: Mapping[str, str]) -> bool:
    labels = _meta(obj).get("labels") or {}
    if (text := query.get("labelSelector")) and not selects(label_selector(text), labels):
        return False
    return all(
        (_field(obj, name) == value) is same for name, same, value in field_selector(query.get("fieldSelector") or "")
    )


def _field(obj: Object, name: str) -> str:
    value: Any = obj
    for step in name.split("."):
        value = value.get(step) if type(value) is dict else None
    if value is None:
        return ""
    return str(value).lower() if type(value) is bool else str(value)


def label_selector(text: str) -> dict[str, Any]:
    """A label selector as it stands in a URL, as JSON. Raises :class:`SelectorError`."""
    expressions: list[dict[str, Any]] = []
    at = 0
    while at < len(text):
        if found := _ABSENT.match(text, at):
            expressions.append({"key": found[1], "operator": "DoesNotExist"})
        elif found := _TERM.match(text, at):
            key, sign, value, word, values = found.groups()
            if word:
                operator = "In" if word == "in" else "NotIn"
                wanted = [v.strip() for v in values.split(",")]
            elif sign:
                operator, wanted = ("NotIn" if sign == "!=" else "In"), [value]
            else:
                operator, wanted = "Exists", []
            expressions.append({"key": key, "operator": operator, **({"values": wanted} if wanted else {})})
        else:
            raise SelectorError(f"unable to parse the label selector {text!r}")
        at = found.end()
    return {"matchExpressions": expressions}


def field_selector(text: str) -> list[tuple[str, bool, str]]:
    """A field selector as (path, whether it must be equal, text). Raises :class:`SelectorError`."""
    terms = []
    at = 0
    while at < len(text):
        found = _FIELD.match(text, at)
        if found is None:
            raise SelectorError(f"unable to parse the field selector {text!r}")
        terms.append((found[1], found[2] != "!=", found[3]))
        at = found.end()
    return terms


def plural_of(kind: str) -> str:
    """The plural of a kind by the rule that Kubernetes guesses by."""
    word = kind.lower()
    if word.endswith("s"):
        return word + "es"
    return word[:-1] + "ies" if word.endswith("y") else word + "s"
