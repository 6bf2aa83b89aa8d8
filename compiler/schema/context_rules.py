"""What a ``context`` may say beyond its structure (semantics §8, §27), and a GlobalContextEntry; called by
:mod:`compiler.schema.policy_rules` and ``read_policies`` on normalised JSON.

Queries are checked by the front end that lowers them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.schema.decode_loops import CONTEXT_KINDS
from compiler.source import Document

Json: TypeAlias = Any

RESERVED: Final = frozenset(
    {"request", "serviceAccountName", "serviceAccountNamespace", "images", "target", "element", "elementIndex"}
)
_NUMBERED: Final = re.compile(r"element(Index)?\d+\Z")
_WORD: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*\Z")
_DURATION: Final = re.compile(r"(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+\Z")
_LOOPS: Final = ("validate", "mutate", "generate")


def check_rule(doc: Document, kind: str, rule: dict[str, Json], at: str, reporter: Reporter) -> None:
    """Every ``context`` of a rule: its own, those of its loops, at any depth, and of its targets."""
    for entries, where in contexts(rule, at):
        if type(entries) is list:
            _Entries(doc, kind, reporter).check(entries, where)


def contexts(rule: dict[str, Json], at: str) -> Iterator[tuple[Json, str]]:
    """The contexts of a rule with their places."""
    yield rule.get("context"), f"{at}/context"
    for part in _LOOPS:
        body = rule.get(part)
        if type(body) is dict:
            yield from _of_loops(body.get("foreach"), f"{at}/{part}/foreach")
    mutate = rule.get("mutate")
    targets = mutate.get("targets") if type(mutate) is dict else None
    for i, target in enumerate(targets if type(targets) is list else ()):
        if type(target) is dict:
            yield target.get("context"), f"{at}/mutate/targets/{i}/context"


def _of_loops(loops: Json, at: str) -> Iterator[tuple[Json, str]]:
    for i, loop in enumerate(loops if type(loops) is list else ()):
        if type(loop) is dict:
            yield loop.get("context"), f"{at}/{i}/context"
            yield from _of_loops(loop.get("foreach"), f"{at}/{i}/foreach")


class _Entries:
    def __init__(self, doc: Document, kind: str, reporter: Reporter) -> None:
        self._doc = doc
        self._spans = doc.spans
        self._namespaced = kind in ("Policy", "CleanupPolicy")
        self._namespace = str((doc.value.get("metadata") or {}).get("namespace") or "default")
        self._reporter = reporter

    def check(self, entries: list[Json], at: str) -> None:
        first: dict[str, int] = {}
        for i, entry in enumerate(entries):
            if type(entry) is not dict or type(entry.get("name")) is not str:
                continue
            where = f"{at}/{i}"
            self._name(entry["name"], f"{where}/name")
            given = [k for k in CONTEXT_KINDS if entry.get(k) is not None]
            if len(given) != 1:
                self._error(
                    "T1310",
                    f"{where}/{given[1]}" if given else where,
                    f'the entry "{entry["name"]}" is {" and ".join(given)}' if given else "the entry gives no value",
                    f"one of {', '.join(CONTEXT_KINDS)}",
                )
                continue
            body = entry[given[0]]
            earlier = first.setdefault(entry["name"], i)
            if earlier != i and not _mentions(body, entry["name"]):
                line = self._spans.span(f"{at}/{earlier}/name").line
                self._reporter.warning(
                    "T1312",
                    self._spans.span(f"{where}/name"),
                    f'"{entry["name"]}" is given in line {line} already, and not read here',
                    "",
                    "remove the first one, or give this one a name of its own",
                )
            if type(body) is dict:
                self._body(given[0], body, f"{where}/{given[0]}")

    def _name(self, name: str, at: str) -> None:
        if name in RESERVED or _NUMBERED.match(name) or not _WORD.match(name):
            reserved = name in RESERVED or _NUMBERED.match(name)
            self._error(
                "T1311",
                at,
                f'the name "{name}" is taken' if reserved else f'"{name}" is no name of an entry',
                "a name of its own" if reserved else "a name of letters, digits, - and _",
            )

    def _body(self, kind: str, body: dict[str, Json], at: str) -> None:
        match kind:
            case "variable":
                if all(body.get(k) is None for k in ("value", "jmesPath", "default")):
                    self._error("T1313", at, "the variable has no value", "value or jmesPath")
            case "configMap":
                self._config_map(body, at)
            case "apiCall":
                self._call(body, at)
            case "globalReference" if self._namespaced:
                self._outside(at, "global context")

    def _config_map(self, body: dict[str, Json], at: str) -> None:
        namespace = body.get("namespace")
        if type(body.get("name")) is str and not body["name"]:
            self._error("T0203", f"{at}/name", "the ConfigMap has no name", "name: …")
        constant = type(namespace) is str and namespace and "{{" not in namespace
        if self._namespaced and constant and namespace != self._namespace:
            self._outside(f"{at}/namespace", f"ConfigMap of {namespace}")

    def _call(self, body: dict[str, Json], at: str) -> None:
        url, service = body.get("urlPath"), body.get("service")
        if (not url) == (service is None):
            self._error(
                "T1314",
                at,
                "the call goes to the API server and to a service" if url else "the call goes nowhere",
                "one of urlPath and service",
            )
        if body.get("data") and (body.get("method") or "GET") != "POST":
            self._reporter.warning(
                "T1315", self._spans.key_span(f"{at}/data"), "a GET sends no data", "", "add method: POST"
            )
        if service is not None and self._namespaced:
            self._reporter.warning(
                "T1318",
                self._spans.key_span(f"{at}/service"),
                "a namespaced policy calls no service, unless the installation lets it",
                "",
                "make it a ClusterPolicy, or start with --allowHTTPInNamespacedPolicies",
            )
        if type(url) is str and url:
            self._path(url, f"{at}/urlPath")

    def _path(self, url: str, at: str) -> None:
        path = url.strip().partition("?")[0]
        steps = path.split("/")[1:]
        if not path.startswith("/") and not path.startswith("{{"):
            self._error("T1317", at, "the path does not begin with a slash", "/api/v1/…, or /apis/GROUP/VERSION/…")
        elif "{{" not in path and any(step in ("", ".", "..") for step in steps[:-1] or steps):
            self._error("T1317", at, "the path has an empty step, or . or ..", "/api/v1/…, or /apis/GROUP/VERSION/…")
        elif self._namespaced and "{{" not in path and not self._own(steps):
            self._outside(at, f"path {path}")

    def _own(self, steps: list[str]) -> bool:
        head = 2 if steps[:1] == ["api"] else 3
        return steps[head : head + 2] == ["namespaces", self._namespace] and len(steps) > head + 2

    def _outside(self, at: str, what: str) -> None:
        self._error(
            "T1316",
            at,
            f"a policy of the namespace {self._namespace} reads no {what}",
            f"something of the namespace {self._namespace}",
            "make it a ClusterPolicy",
        )

    def _error(self, code: str, at: str, message: str, expected: str, help: str = "") -> None:
        self._reporter.error(code, self._spans.span(at), message, expected, help)


def _mentions(body: Json, name: str) -> bool:
    stack = [body]
    while stack:
        x = stack.pop()
        if type(x) is str and name in x:
            return True
        if type(x) is dict:
            stack.extend(x)
            stack.extend(x.values())
        elif type(x) is list:
            stack.extend(x)
    return False


def check_global(doc: Document, reporter: Reporter) -> None:
    """The spec of a GlobalContextEntry that has the right structure."""
    spec, spans = doc.value.get("spec") or {}, doc.spans
    resource, call = spec.get("kubernetesResource"), spec.get("apiCall")
    if (resource is None) == (call is None):
        reporter.error(
            "T1320",
            spans.key_span("/spec"),
            "the entry is both" if call else "the entry has no data",
            "one of kubernetesResource and apiCall",
        )
    if call is not None:
        _global_call(doc, call, reporter)
    seen: set[str] = {str(doc.value["metadata"].get("name"))}
    for i, projection in enumerate(spec.get("projections") or ()):
        at = f"/spec/projections/{i}"
        if projection["name"] in seen:
            reporter.error("T1321", spans.span(f"{at}/name"), f'the name "{projection["name"]}" is taken', "another")
        seen.add(projection["name"])


def _global_call(doc: Document, call: dict[str, Json], reporter: Reporter) -> None:
    spans, at = doc.spans, "/spec/apiCall"
    if (not call.get("urlPath")) == (call.get("service") is None):
        reporter.error("T1314", spans.key_span(at), "the call goes to one place", "one of urlPath and service")
    if call.get("data") and (call.get("method") or "GET") != "POST":
        reporter.error("T1320", spans.key_span(f"{at}/data"), "a GET sends no data", "method: POST")
    interval = call.get("refreshInterval")
    if interval is not None and (not _DURATION.match(interval) or not any(c in "123456789" for c in interval)):
        reporter.error(
            "T1320", spans.span(f"{at}/refreshInterval"), f'"{interval}" is no time to wait', "a duration such as 10m"
        )
