"""Context entries (semantics §8): names that are worked out when a query mentions them, from those declared before.

A :class:`Context` is the plain data root as a map; :func:`tests.reference.query.search` asks it for the data of a
query, and it adds the entries that the text of the query mentions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from tests.reference.query import QueryError, search
from tests.reference.variables import SubstitutionError, of_deletion, substitute
from tests.reference.world import NoAnswer, Unsupplied, World

SIZE_LIMIT = 2 * 1024 * 1024
OUTSIDE = ("configMap", "apiCall", "globalReference", "imageRegistry")


class ContextError(QueryError):
    """An entry that cannot be loaded; the query that mentions it fails with it."""


class _Entry:
    """One declared entry, with the context in which it was declared: it sees what stands there and no more."""

    def __init__(self, name: str, declaration: dict[str, Any], seen: Context) -> None:
        self.name = name
        self.declaration = declaration
        self.seen = seen
        self.answer: tuple[Any, ContextError | None] | None = None

    def mentioned(self, query: str) -> bool:
        return re.search(rf"(?:\A|[^.0-9A-Za-z]){re.escape(self.name)}\b", query) is not None

    def value(self) -> Any:
        if self.answer is None:
            try:
                self.answer = (self._load(), None)
            except ContextError as error:
                self.answer = (None, error)
            except (QueryError, SubstitutionError, NoAnswer, Unsupplied) as error:
                self.answer = (None, ContextError(f"failed to load context entry {self.name}: {error}"))
        value, problem = self.answer
        if problem is not None:
            raise problem
        return value

    def _load(self) -> Any:
        value = load(self.name, self.declaration, self.seen)
        if len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()) > SIZE_LIMIT:
            raise ContextError(f"context entry {self.name} is larger than the context may be")
        return value


class Context(dict[str, Any]):
    """The plain data (``request``, ``images``, ``element`` …) and the entries declared so far, in order."""

    def __init__(self, data: dict[str, Any], world: World, namespace: str | None) -> None:
        super().__init__(data)
        self.world = world
        self.namespace = namespace  # of a namespaced policy
        self.entries: list[_Entry] = []

    def with_data(self, **more: Any) -> Context:
        """A copy with other plain data; what was loaded stays loaded."""
        made = Context({**self, **more}, self.world, self.namespace)
        made.entries = list(self.entries)
        return made

    def with_values(self, values: dict[str, Any]) -> Context:
        """A copy with given values by dotted names."""
        data = dict(self)
        for name, value in values.items():
            data = merged(data, nested(name, value))
        made = Context(data, self.world, self.namespace)
        made.entries = list(self.entries)
        return made

    def declare(self, entries: Iterable[dict[str, Any]] | None) -> Context:
        """A copy with more entries. Given values win over entries that would ask outside."""
        here = self
        for declaration in entries or ():
            name = declaration["name"]
            if name in here and any(declaration.get(kind) is not None for kind in OUTSIDE):
                continue
            following = here.with_data()
            following.entries = [*here.entries, _Entry(name, declaration, here)]
            here = following
        return here

    def of_query(self, query: str) -> dict[str, Any]:
        """The data for a query: the entries that it mentions are loaded in order, the last of a name counts."""
        data = dict(self)
        for entry in self.entries:
            if entry.mentioned(query):
                data[entry.name] = entry.value()
        return data


def nested(name: str, value: Any) -> dict[str, Any]:
    """``a.b`` as maps in maps."""
    steps = _steps(name)
    made = value
    for step in reversed(steps):
        made = {step: made}
    return dict(made)


def _steps(name: str) -> list[str]:
    """The parts of a dotted name; a part in double quotes may hold dots."""
    return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|([^."]+)', name)]


def merged(old: Any, new: Any) -> Any:
    """Maps merge at every depth, everything else is replaced."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{k: merged(old.get(k), v) for k, v in new.items()}}
    return new


def load(name: str, declaration: dict[str, Any], seen: Context) -> Any:
    """The value of an entry. Raises :class:`ContextError`, and what queries and substitutions raise."""
    if declaration.get("variable") is not None:
        return _variable(name, declaration["variable"], seen)
    if declaration.get("configMap") is not None:
        return _config_map(declaration["configMap"], seen)
    if declaration.get("apiCall") is not None:
        return _api_call(name, declaration["apiCall"], seen)
    if declaration.get("globalReference") is not None:
        return _global(name, declaration["globalReference"], seen)
    if declaration.get("imageRegistry") is not None:
        return _image(name, declaration["imageRegistry"], seen)
    raise ContextError(f"context entry {name} is of no known kind")


def _path(text: Any, seen: Context) -> str:
    path = substitute(text or "", seen)
    if not isinstance(path, str):
        raise ContextError("jmesPath must be a text")
    return path


def _variable(name: str, spec: dict[str, Any], seen: Context) -> Any:
    path = _path(spec.get("jmesPath"), seen)
    default = substitute(spec.get("default"), seen)
    found = default
    if spec.get("value") is not None:
        value = substitute(spec["value"], seen)
        if path:
            try:
                found = search(path, value)
            except QueryError:
                if default is None:
                    raise
        else:
            found = value
    elif path:
        try:
            asked = search(of_deletion(path, seen), seen)
        except QueryError:
            if default is None:
                raise
            asked = None
        if asked is not None:
            found = asked
    if found is None:
        raise ContextError(f"context entry {name} evaluated to nil")
    return found


def _config_map(spec: dict[str, Any], seen: Context) -> Any:
    called = substitute(spec.get("name") or "", seen)
    namespace = substitute(spec.get("namespace") or "", seen) or seen.namespace or "default"
    if not isinstance(called, str) or not isinstance(namespace, str):
        raise ContextError("name and namespace of a ConfigMap must be texts")
    if seen.namespace is not None and namespace != seen.namespace:
        raise ContextError(f"a policy of namespace {seen.namespace} may not read namespace {namespace}")
    found = seen.world.config_map(namespace, called)
    return {"data": found.get("data"), "metadata": found.get("metadata")}


def _api_call(name: str, spec: dict[str, Any], seen: Context) -> Any:
    asked = substitute({k: v for k, v in spec.items() if k not in ("jmesPath", "default")}, seen)
    body = {part["key"]: part.get("value") for part in asked.get("data") or ()}
    method = asked.get("method") or "GET"
    try:
        if asked.get("service"):
            answer = seen.world.service(asked["service"].get("url"), method, body)
        else:
            path = asked.get("urlPath") or ""
            if seen.namespace is not None and f"/namespaces/{seen.namespace}/" not in path + "/":
                raise NoAnswer(f"a policy of namespace {seen.namespace} may not call {path}")
            answer = seen.world.api(path, method, body)
    except NoAnswer:
        if spec.get("default") is None:
            raise
        return substitute(spec["default"], seen)
    return _applied(spec, seen, answer)


def _applied(spec: dict[str, Any], seen: Context, answer: Any) -> Any:
    path = _path(spec.get("jmesPath"), seen)
    return search(path, answer) if path else answer


def _global(name: str, spec: dict[str, Any], seen: Context) -> Any:
    if seen.namespace is not None:  # decision 4: nothing of outside its namespace
        raise ContextError(f"a policy of namespace {seen.namespace} may not read the global context")
    called = substitute(spec.get("name") or "", seen)
    return _applied(spec, seen, seen.world.global_entry(called))


def _image(name: str, spec: dict[str, Any], seen: Context) -> Any:
    reference = substitute(spec.get("reference") or "", seen)
    return _applied(spec, seen, seen.world.image(reference))
