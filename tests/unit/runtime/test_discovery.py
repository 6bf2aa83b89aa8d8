"""What the API server says it serves, also while one of the servers behind it is away."""

from __future__ import annotations

from typing import Any

from runtime.k8s.discovery import Discovery, entries_of


def document(resources: list[Any], freshness: str = "Current") -> Any:
    version = {"version": "v1", "resources": resources, "freshness": freshness}
    return {"items": [{"metadata": {"name": "example.org"}, "versions": [version]}]}


THING = {"resource": "things", "scope": "Namespaced", "responseKind": {"kind": "Thing"}, "verbs": ["get"]}


def test_kinds_of_a_server_that_is_away_stay() -> None:
    before = Discovery(entries_of(document([THING, {"no": "resource"}])))
    assert [e.resource.plural for e in before.find("example.org", "v1", "Thing")] == ["things"]
    away = Discovery(entries_of(document([], "Stale"), before))
    assert away.entries == before.entries
    assert Discovery(entries_of(document([], "Stale"))).entries == ()
    # What is gone while its server answers is gone.
    assert Discovery(entries_of(document([]), before)).entries == ()
