"""Which resources a cluster has: kinds to plural names and scope, as the webhook configurations need them.

Read with the API server's one-request form of discovery. A group whose own server is away is left out by the API server
and told of; the rest is still right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from runtime.k8s.client import HttpKubeClient, Resource
from vm.intrinsics.wildcard import match as wildcard


@dataclass(frozen=True, slots=True)
class Entry:
    """A resource, or a part of one (``subresource``), with the kind that its requests carry, and what may be done with
    it (``list``, ``watch``, ``delete``, …)."""

    resource: Resource
    subresource: str = ""
    verbs: frozenset[str] = frozenset()

    @property
    def rule_name(self) -> str:
        """As a webhook rule names it: ``pods`` or ``pods/exec``."""
        return f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural


class Discovery:
    """A snapshot of what the API server serves."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)
        self._by_kind: dict[str, list[Entry]] = {}
        self._by_plural: dict[tuple[str, str, str], Resource] = {}
        for entry in self.entries:
            if not entry.subresource:
                resource = entry.resource
                self._by_plural[resource.group, resource.version, resource.plural] = resource
            self._by_kind.setdefault(entry.resource.kind, []).append(entry)

    def named(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource that is called so, as URLs and requests name it."""
        return self._by_plural.get((group, version, plural))

    def find(self, group: str, version: str, kind: str, subresource: str = "") -> list[Entry]:
        """Everything that a kind selector names; its parts may hold wildcards, the group and version may be ``*``."""
        candidates: Iterable[Entry] = self._by_kind.get(kind, ()) if "*" not in kind and "?" not in kind else ()
        if subresource:
            # A subresource's own kind is another one (pods/exec is PodExecOptions); selectors name the parent's.
            parents = {
                (e.resource.group, e.resource.version, e.resource.plural) for e in self.find(group, version, kind)
            }
            return [
                e
                for e in self.entries
                if e.subresource
                and (e.resource.group, e.resource.version, e.resource.plural) in parents
                and wildcard(subresource, e.subresource)
            ]
        if not candidates:
            candidates = (e for e in self.entries if wildcard(kind, e.resource.kind))
        return [
            e
            for e in candidates
            if not e.subresource and wildcard(group, e.resource.group) and wildcard(version, e.resource.version)
        ]


async def discover(client: HttpKubeClient, before: Discovery | None = None) -> Discovery:
    """Asks the API server. Raises the errors of the client.

    ``before`` is what was known: it stands for a version whose own server is away, so that webhooks for its kinds stay
    and are there when it comes back.
    """
    core = await client.aggregated("/api")
    groups = await client.aggregated("/apis")
    return Discovery([*entries_of(core, before), *entries_of(groups, before)])


def entries_of(document: Any, before: Discovery | None = None) -> Iterator[Entry]:
    """The entries of a document of aggregated discovery."""
    for group in document.get("items") or ():
        name = (group.get("metadata") or {}).get("name") or ""
        for version in group.get("versions") or ():
            found = version.get("resources") or ()
            if not found and version.get("freshness") == "Stale" and before is not None:
                place = (name, version.get("version"))
                yield from (e for e in before.entries if (e.resource.group, e.resource.version) == place)
            for resource in found:
                if resource.get("resource"):
                    yield from _of_resource(name, str(version.get("version")), resource)


def _of_resource(group: str, version: str, document: Any) -> Iterator[Entry]:
    plural = document["resource"]
    namespaced = document.get("scope") == "Namespaced"
    kind = (document.get("responseKind") or {}).get("kind") or document.get("singularResource") or plural
    yield Entry(Resource(group, version, plural, kind, namespaced), verbs=frozenset(document.get("verbs") or ()))
    for part in document.get("subresources") or ():
        part_kind = (part.get("responseKind") or {}).get("kind") or kind
        verbs = frozenset(part.get("verbs") or ())
        yield Entry(Resource(group, version, plural, part_kind, namespaced), part["subresource"], verbs)
