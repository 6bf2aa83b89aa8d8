"""Generate rules in standard form: API versions found from kinds, and bare data written out (decision 5).

Called by ``read_policies`` on the normalised spec, before it is checked. Each rewriting leaves a note with the standard
form. What is wrong with a target is told here too, since most of it hangs on what is known of its kind.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.frontends.pattern import parse_kind
from compiler.schema.kinds import Schemas, provider
from compiler.schema.kinds.schemas import ResourceInfo
from compiler.source import Document

Json: TypeAlias = Any

BODY: Final = ("apiVersion", "kind", "metadata", "spec", "data", "binaryData", "stringData", "type")
"""Keys that say that data is the body of an object."""
_WRAPPED: Final = ("ConfigMap", "Secret")
_WAYS: Final = ("data", "clone", "cloneList", "foreach")
_WHOLE: Final = re.compile(r"\{\{(?:\{[^{}]*\}|[^{}])*\}\}\Z")
_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?\Z")
_SELF: Final = re.compile(r"\{\{\s*request\.object\.metadata\.(name|namespace)\s*\}\}\Z")


def complete(
    doc: Document,
    kind: str,
    spec: dict[str, Json],
    schemas: Schemas | None,
    reporter: Reporter,
    *,
    quirks: bool = False,
) -> None:
    """Rewrites and checks every generate rule of a normalised spec, whose maps it copies. ``quirks`` leaves a namespace
    to objects of kinds that have none, as the reference does."""
    if "generateExistingOnPolicyUpdate" in spec:
        reporter.error(
            "T1365",
            doc.spans.key_span("/spec/generateExistingOnPolicyUpdate"),
            "generateExistingOnPolicyUpdate is a field of older versions",
            "",
            "write generateExisting under generate",
        )
    for i, rule in enumerate(spec["rules"]):
        generate = rule.get("generate")
        if type(generate) is not dict:
            continue
        checker = _Checker(doc, kind, rule, schemas if schemas is not None else provider(), reporter, quirks)
        at = f"/spec/rules/{i}/generate"
        loops = generate.get("foreach")
        if loops:
            checker.ways(generate, at)
            loops = [checker.target(dict(loop), f"{at}/foreach/{n}", loop=True) for n, loop in enumerate(loops)]
            rule["generate"] = {**generate, "foreach": loops}
        else:
            rule["generate"] = checker.target(dict(generate), at)


class _Checker:
    __slots__ = ("_doc", "_namespace", "_quirks", "_reporter", "_rule", "_schemas")

    def __init__(
        self,
        doc: Document,
        kind: str,
        rule: dict[str, Json],
        schemas: Schemas,
        reporter: Reporter,
        quirks: bool,
    ) -> None:
        self._doc = doc
        self._quirks = quirks
        self._rule = rule
        self._schemas = schemas
        self._reporter = reporter
        metadata = doc.value.get("metadata") or {}
        self._namespace = str(metadata.get("namespace") or "default") if kind == "Policy" else None

    def ways(self, target: dict[str, Json], at: str) -> None:
        """Reports several ways of making objects in one target."""
        given = [way for way in _WAYS if target.get(way)]
        if len(given) > 1:
            self._reporter.error(
                "T1353",
                self._doc.spans.key_span(f"{at}/{given[1]}"),
                f"a target is made in one way, not by {' and '.join(given)}",
                "one of data, clone, cloneList",
            )

    def target(self, target: dict[str, Json], at: str, *, loop: bool = False) -> dict[str, Json]:
        """The target in standard form; its map is the caller's to keep."""
        self.ways({k: v for k, v in target.items() if k != "foreach"}, at)
        if target.get("cloneList"):
            self._clone_list(target, at, loop=loop)
            return target
        self._from_data(target)
        kind = target.get("kind")
        spans = self._doc.spans
        if type(kind) is not str or not kind:
            self._reporter.error("T1352", spans.key_span(at), "the target has no kind", "kind: …")
            return target
        if "*" in kind or "?" in kind:
            self._reporter.error("T1352", spans.span(at + "/kind"), "the kind of a target is one kind", "a fixed kind")
            return target
        known = self._known(target, kind, at)
        self._bare(target, kind, at)
        if not target.get("name"):
            self._reporter.error("T1354", spans.key_span(at), "the target has no name", "name: …")
        clone = target.get("clone")
        if type(clone) is dict and clone and not clone.get("name"):
            self._reporter.error("T1354", spans.key_span(at + "/clone"), "the source has no name", "name: …")
        if known is not None:
            self._place(target, known, at)
        self._own(target, at, loop=loop)
        if not loop:
            self._trigger(target, kind, at)
        return target

    def _from_data(self, target: dict[str, Json]) -> None:
        """What only the data says of the target (guide form): its kind, API version, name and namespace."""
        data = target.get("data")
        if type(data) is not dict:
            return
        for key in ("apiVersion", "kind"):
            if not target.get(key) and type(data.get(key)) is str:
                target[key] = data[key]
        metadata = data.get("metadata")
        for key in ("name", "namespace"):
            if not target.get(key) and type(metadata) is dict and type(metadata.get(key)) is str:
                target[key] = metadata[key]

    def _known(self, target: dict[str, Json], kind: str, at: str) -> ResourceInfo | None:
        """The resource of a target; its API version is filled in where none is written."""
        spans = self._doc.spans
        version = target.get("apiVersion")
        if type(version) is str and version:
            group, _, name = version.rpartition("/")
            return None if "{{" in version + kind else self._schemas.of_kind(group, name, kind)
        if "{{" in kind:
            self._reporter.error(
                "T1352", spans.span(at + "/kind"), "a kind with variables needs an apiVersion", "apiVersion: …"
            )
            return None
        found = _preferred(provider(), kind) or _preferred(self._schemas, kind)
        shown = [_api_version(info) for info in found]
        if len(found) != 1:
            problem = (
                f"no kind {kind} is known, so that its apiVersion must be written"
                if not found
                else f"the kind {kind} is that of {' and '.join(shown)}"
            )
            self._reporter.error("T1352", spans.span(at + "/kind"), problem, "apiVersion: …")
            return None
        target["apiVersion"] = shown[0]
        self._reporter.note(
            "T1351",
            spans.span(at + "/kind"),
            f"the target has no apiVersion, {shown[0]} is meant",
            "",
            f"the standard form is: apiVersion: {shown[0]}",
        )
        return found[0]

    def _bare(self, target: dict[str, Json], kind: str, at: str) -> None:
        """Bare data of a ConfigMap or a Secret becomes its ``data``."""
        data = target.get("data")
        bare = (type(data) is dict and data and not any(key in BODY for key in data)) or (
            type(data) is str and _WHOLE.match(data.strip())
        )
        if data is not None and not bare and type(data) is not dict:
            self._reporter.error(
                "T1350", self._doc.spans.span(at + "/data"), "data must be a map, or one variable", "a map"
            )
        if not bare or kind not in _WRAPPED:
            return
        target["data"] = {"data": data}
        self._doc.spans.move(at + "/data/data", at + "/data")
        self._reporter.note(
            "T1359",
            self._doc.spans.key_span(at + "/data"),
            f"data is read as the data of the {kind}",
            "",
            "the standard form is: data: {data: …}",
        )

    def _place(self, target: dict[str, Json], known: ResourceInfo, at: str) -> None:
        spans, namespace = self._doc.spans, target.get("namespace")
        if known.namespaced and not namespace:
            self._reporter.error(
                "T1356", spans.key_span(at), f"a {known.kind} needs a namespace to be made in", "namespace: …"
            )
        elif not known.namespaced and self._namespace is not None:
            self._reporter.error(
                "T1358",
                spans.span(at + "/kind"),
                f"a policy of a namespace makes no {known.kind}, which has none",
                "a kind of objects in namespaces",
                "use a ClusterPolicy",
            )
        elif not known.namespaced and namespace and not self._quirks:
            # Right here (decision 4): the reference tries to create the object in a namespace.
            self._reporter.warning(
                "T1355",
                spans.key_span(at + "/namespace") if "namespace" in _written(self._doc, at) else spans.key_span(at),
                f"a {known.kind} has no namespace, this one is left out",
                "",
                "remove it",
            )
            del target["namespace"]

    def _own(self, target: dict[str, Json], at: str, *, loop: bool) -> None:
        """A policy of a namespace makes and copies objects of its own alone. As in the reference a variable will not do
        for the namespace of the target, but in a loop; there it is looked at when the rule runs."""
        if self._namespace is None:
            return
        for place, holder in (("", target), ("/clone", target.get("clone")), ("/cloneList", target.get("cloneList"))):
            if type(holder) is not dict or (place and not holder):
                continue
            found = holder.get("namespace")
            late = "{{" in str(found or "") and (loop or place)
            if (found or place) and found != self._namespace and not late:
                pointer = f"{at}{place}/namespace" if found else f"{at}{place}"
                self._reporter.error(
                    "T1358",
                    self._doc.spans.span(pointer) if found else self._doc.spans.key_span(pointer),
                    f"a policy of the namespace {self._namespace} {'reads' if place else 'makes'} nothing elsewhere",
                    f"namespace: {self._namespace}",
                )

    def _clone_list(self, target: dict[str, Json], at: str, *, loop: bool) -> None:
        spans, clones = self._doc.spans, target["cloneList"]
        for field in ("kind", "name", "apiVersion"):
            if target.get(field):
                self._reporter.error(
                    "T1353",
                    spans.key_span(f"{at}/{field}"),
                    f"a target with cloneList has no {field}, the sources have theirs",
                    "cloneList.kinds",
                )
        if not clones.get("kinds"):
            self._reporter.error("T1352", spans.key_span(at + "/cloneList"), "cloneList names no kinds", "kinds: […]")
        scopes: dict[bool, str] = {}
        kinds = list(clones.get("kinds") or ())
        for i, selector in enumerate(kinds):
            place = spans.span(f"{at}/cloneList/kinds/{i}")
            key = parse_kind(selector)
            if key is None or "{{" in selector or "*" in key.kind or "?" in key.kind or key.subresource:
                self._reporter.error("T1352", place, f'"{selector}" does not name one kind', "group/version/Kind")
                continue
            if key.version == "*":
                found = _preferred(provider(), key.kind) or _preferred(self._schemas, key.kind)
                if len(found) != 1:
                    self._reporter.error("T1352", place, f"{selector} does not say its version", "group/version/Kind")
                    continue
                info: ResourceInfo | None = found[0]
                kinds[i] = f"{_api_version(found[0])}/{key.kind}"
            else:
                info = self._schemas.of_kind("" if key.group == "*" else key.group, key.version, key.kind)
            if info is not None:
                scopes.setdefault(info.namespaced, selector)
        target["cloneList"] = {**clones, "kinds": kinds}
        if len(scopes) > 1:
            self._reporter.error(
                "T1353",
                spans.span(at + "/cloneList/kinds"),
                f"{scopes[True]} has a namespace, {scopes[False]} has none",
                "kinds of one sort",
                "make a rule of each",
            )
        elif False in scopes and self._namespace is not None:
            self._reporter.error(
                "T1358",
                spans.span(at + "/cloneList/kinds"),
                f"a policy of a namespace makes no {scopes[False]}, which has none",
                "kinds of objects in namespaces",
            )
        elif True in scopes:
            for where, holder, what in ((at, target, "copies"), (at + "/cloneList", clones, "sources")):
                if not holder.get("namespace"):
                    self._reporter.error("T1356", spans.key_span(where), f"the {what} need a namespace", "namespace: …")
        elif False in scopes and clones.get("namespace"):
            self._reporter.error(
                "T1356",
                spans.span(at + "/cloneList/namespace"),
                f"{scopes[False]} has no namespace to look in",
                "",
                "remove it",
            )
        self._own(target, at, loop=loop)

    def _trigger(self, target: dict[str, Json], kind: str, at: str) -> None:
        """Warns of a target that is the object that sets the rule off (decision 5: nothing is made then)."""
        match = self._rule.get("match") or {}
        filters = [match, *(match.get("any") or ()), *(match.get("all") or ())]
        kinds = [k for f in filters for k in (f.get("resources") or {}).get("kinds") or ()]
        if kind not in {key.kind if (key := parse_kind(k)) is not None else k for k in kinds}:
            return
        name, namespace = (_SELF.match(str(target.get(key) or "").strip()) for key in ("name", "namespace"))
        if name and name[1] == "name" and (not target.get("namespace") or (namespace and namespace[1] == "namespace")):
            self._reporter.warning(
                "T1357",
                self._doc.spans.span(at + "/name"),
                "the target is the object that sets the rule off, so that there is nothing to make",
                "",
                "give the target another name or namespace",
            )


def _preferred(schemas: Schemas, kind: str) -> list[ResourceInfo]:
    """The resources of a kind, of each group the one of the version that clients prefer."""
    best: dict[str, ResourceInfo] = {}
    for info in schemas.resources():
        if info.kind == kind and (info.group not in best or _rank(info.version) > _rank(best[info.group].version)):
            best[info.group] = info
    return [best[group] for group in sorted(best)]


def _rank(version: str) -> tuple[int, int, int]:
    found = _VERSION.match(version)
    if found is None:
        return (-1, 0, 0)
    return ({None: 2, "beta": 1, "alpha": 0}[found[2]], int(found[1]), int(found[3] or 0))


def _api_version(info: ResourceInfo) -> str:
    return f"{info.group}/{info.version}" if info.group else info.version


def _written(doc: Document, at: str) -> Json:
    value: Json = doc.value
    for step in at.split("/")[1:]:
        value = value[int(step)] if type(value) is list else value.get(step, {})
    return value
