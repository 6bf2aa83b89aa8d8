"""The merge keys of the engine against those of the kinds table, which is Kubernetes' own word."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.frontends.cel.types import ListOf, Object, Soft, Type
from compiler.schema.kinds import merging, provider, table
from vm.patch import merge_keys
from vm.patch.merge_keys import MapOf

SCHEMAS = provider()

KNOWN = {
    # They stand in lists that are replaced whole.
    ("JSONSchemaProps", "x-kubernetes-validations", None, "rule"),
    ("ObjectMeta", "finalizers", None, ""),
    ("ObjectMeta", "ownerReferences", None, "uid"),
}
"""Definition, field, the engine's key, the table's key; the key is empty where scalars merge, None where the list is
replaced."""


def _bare(type_: Type) -> Type:
    return type_.of if isinstance(type_, Soft) else type_


def _lists(
    type_: Type, engine: MapOf, above: frozenset[str] = frozenset()
) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Every list field below a type, without the status of objects, with both answers."""
    found = _bare(type_)
    if not isinstance(found, Object) or found.name in above:
        return
    inside = above | {found.name}
    for field, field_type in (SCHEMAS.fields(found.name) or {}).items():
        mine = engine.fields.get(field, merge_keys.PLAIN)
        if field == "status":
            continue
        inner = _bare(field_type)
        if isinstance(inner, ListOf):
            info = SCHEMAS.list_info(found.name, field)
            assert info is not None
            theirs = (info.merge or "") if "merge" in info.strategy.split(",") else None
            if not isinstance(mine, merge_keys.ListOf):
                yield found.name.rpartition(".")[2], field, None, theirs
                yield from _lists(inner.item, merge_keys.PLAIN, inside)
                continue
            assert len(mine.keys) <= 1 or mine.keys == info.keys
            yield found.name.rpartition(".")[2], field, mine.keys[0] if mine.keys else "", theirs
            yield from _lists(inner.item, mine.item, inside)
        else:
            yield from _lists(inner, mine if isinstance(mine, MapOf) else merge_keys.PLAIN, inside)


def test_the_engine_merges_by_the_keys_of_kubernetes() -> None:
    seen: set[tuple[str, str, str | None, str | None]] = set()
    for group, version, _, _, kind, *_ in table.stored().resources:
        if (found := SCHEMAS.kind(group, version, kind)) is not None:
            seen.update(_lists(found, merge_keys.schema_of(group, kind)))
    assert {s for s in seen if s[2] != s[3]} == KNOWN
    assert ("PodSpec", "containers", "name", "name") in seen


def test_every_group_of_the_table_is_one_that_the_engine_has_a_schema_for() -> None:
    missing = {row[0] for row in table.stored().resources if merge_keys.schema_of(row[0], row[4]).infer}
    assert missing == set()


def test_the_table_of_the_engine_is_made_of_that_of_the_kinds() -> None:
    assert merging.TARGET.read_text("utf-8") == merging.rendered(table.stored())


def test_a_type_that_holds_itself_has_one_shape() -> None:
    spec = merge_keys.schema_of("", "Pod").fields["spec"]
    assert isinstance(spec, MapOf)
    assert spec is merge_keys.schema_of("", "Pod").fields["spec"]
    containers = spec.fields["containers"]
    assert isinstance(containers, merge_keys.ListOf)
    assert containers.item.fields["ports"] == merge_keys.ListOf(("containerPort", "protocol"), merge_keys.PLAIN)
