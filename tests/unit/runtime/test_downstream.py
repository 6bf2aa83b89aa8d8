"""Generated objects are written when they differ, and only then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.controllers.downstream import CannotGenerate, Downstream, likeness, place_of
from runtime.generate import CLONE_SOURCE, LABELS, MANAGED_BY
from runtime.k8s.client import Object, Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import CONFIG_MAP, NAMESPACE
from tests.unit.runtime.fake_api import FakeApi

DISCOVERY = Discovery([Entry(CONFIG_MAP), Entry(NAMESPACE)])


async def _discovery(fresh: bool) -> Discovery:
    return DISCOVERY


def downstream(api: FakeApi) -> Downstream:
    return Downstream(api, _discovery)  # type: ignore[arg-type]


def config_map(name: str = "made", namespace: str = "tenant", **more: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": more or {"a": "1"}}


@pytest.mark.parametrize(
    ("wanted", "live", "found"),
    [
        ({"spec": {"a": 1}}, {"spec": {"a": 1}, "status": {"x": 1}, "metadata": {"uid": "u"}}, "same"),
        ({"spec": {"a": 1}}, {"spec": {"a": 1, "defaulted": True}}, "more"),
        ({"spec": {"a": 1}}, {"spec": {"a": 2}}, "differs"),
        ({"spec": {"a": [1, 2]}}, {"spec": {"a": [1]}}, "differs"),
        ({"spec": {"a": [{"b": 1}]}}, {"spec": {"a": [{"b": 1, "c": 2}]}}, "more"),
        ({"spec": {"empty": {}, "none": None, "list": []}}, {"spec": {}}, "same"),
        ({"spec": {"a": []}}, {"spec": {"a": [1]}}, "differs"),
        ({"spec": {"a": {}}}, {"spec": {"a": {"b": 1}}}, "more"),
        ({"spec": {"a": True}}, {"spec": {"a": 1}}, "differs"),
        ({"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"a": "b", "c": "d"}}}, "more"),
        ({"metadata": {"labels": {"a": "b"}}}, {"metadata": {"annotations": {"a": "b"}}}, "differs"),
    ],
)
def test_what_counts_as_different(wanted: Object, live: Object, found: str) -> None:
    assert likeness(wanted, live) == found


def test_it_is_made_and_then_left_alone() -> None:
    async def main() -> None:
        api = FakeApi()
        made = downstream(api)
        change, obj = await made.ensure(config_map(), sync=True)
        assert change == "created"
        assert made.is_in_step(place_of(obj), obj["metadata"]["resourceVersion"])
        api.calls.clear()
        assert (await made.ensure(config_map(), sync=True))[0] == "none"
        assert [verb for verb, *_ in api.calls] == ["get"]

    asyncio.run(main())


def test_an_edit_is_taken_back_and_what_others_need_stays() -> None:
    async def main() -> None:
        api = FakeApi()
        made = downstream(api)
        edited = config_map(a="2", extra="x")
        edited["metadata"] |= {"finalizers": ["their/own"], "labels": {"added": "later"}}
        api.put(CONFIG_MAP, edited)
        change, obj = await made.ensure(config_map(), sync=True)
        assert (change, obj["data"]) == ("updated", {"a": "1"})
        assert obj["metadata"]["finalizers"] == ["their/own"]
        assert "labels" not in obj["metadata"]

    asyncio.run(main())


def test_without_synchronize_what_is_there_stays() -> None:
    async def main() -> None:
        api = FakeApi()
        api.put(CONFIG_MAP, config_map(a="2"))
        assert (await downstream(api).ensure(config_map(), sync=False))[0] == "none"
        assert api.objects["configmaps"]["tenant", "made"]["data"] == {"a": "2"}

    asyncio.run(main())


def test_another_writer_is_met_again() -> None:
    async def main() -> None:
        api = FakeApi()
        api.put(CONFIG_MAP, config_map(a="2"))
        await_get = api.get

        async def changing(resource: Resource, name: str, namespace: str = "") -> Object:
            found = await await_get(resource, name, namespace)
            if len(api.calls) < 4:
                api.put(resource, config_map(a="3"))
            return found

        api.get = changing  # type: ignore[method-assign]
        assert (await downstream(api).ensure(config_map(), sync=True))[0] == "updated"
        # One that is there although nobody thought so is looked at too.
        assert (await downstream(api).ensure(config_map(a="4"), sync=True, fresh=True))[0] == "updated"

    asyncio.run(main())


def test_defaults_are_written_over_once() -> None:
    class Defaulting(FakeApi):
        def put(self, resource: Resource, obj: Object) -> Object:
            current = self.objects.get(resource.plural, {}).get((obj["metadata"].get("namespace", ""), "made"))
            whole = {**obj, "data": {"defaulted": "yes", **obj["data"]}}
            if current is not None and current["data"] == whole["data"]:
                return current
            return super().put(resource, whole)

    async def main() -> None:
        api = Defaulting()
        api.put(CONFIG_MAP, config_map())
        made = downstream(api)
        assert (await made.ensure(config_map(), sync=True))[0] == "none"
        assert [verb for verb, *_ in api.calls] == ["get", "replace"]
        api.calls.clear()
        assert (await made.ensure(config_map(), sync=True))[0] == "none"
        assert [verb for verb, *_ in api.calls] == ["get"]

    asyncio.run(main())


def test_what_is_immutable_is_no_error_when_all_that_is_asked_for_is_there() -> None:
    async def main() -> None:
        api = FakeApi()
        api.put(CONFIG_MAP, config_map(a="1", defaulted="yes"))

        async def refused(resource: Resource, obj: Object, namespace: str = "") -> Object:
            raise ApiProblem(422, "Invalid", "field is immutable")

        api.replace = refused  # type: ignore[method-assign]
        assert (await downstream(api).ensure(config_map(), sync=True))[0] == "none"
        with pytest.raises(ApiProblem, match="immutable"):
            await downstream(api).ensure(config_map(a="2"), sync=True)

    asyncio.run(main())


def test_server_side_apply_leaves_what_others_add() -> None:
    class Applying(FakeApi):
        async def apply(self, resource: Resource, obj: Object, manager: str, namespace: str = "") -> Object:
            self._enter("apply", resource, f"{obj['metadata']['name']} {manager}")
            current = self.objects.get(resource.plural, {}).get((namespace, obj["metadata"]["name"])) or {"data": {}}
            return self.put(resource, {**obj, "data": {**current["data"], **obj["data"]}})

    async def main() -> None:
        api = Applying()
        made = downstream(api)
        assert (await made.ensure(config_map(), sync=True, apply=True))[0] == "created"
        api.put(CONFIG_MAP, config_map(a="1", theirs="x"))
        assert (await made.ensure(config_map(), sync=True, apply=True))[0] == "none"
        change, obj = await made.ensure(config_map(a="2"), sync=True, apply=True)
        assert (change, obj["data"]) == ("updated", {"a": "2", "theirs": "x"})
        assert [name for verb, _, name in api.calls if verb == "apply"] == ["made generate"] * 2
        assert (await made.ensure(config_map(a="3"), sync=False, apply=True))[0] == "none"

    asyncio.run(main())


def test_a_namespaced_policy_makes_nothing_elsewhere() -> None:
    async def main() -> None:
        wanted = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "namespace": "tenant"}}
        with pytest.raises(CannotGenerate, match="makes nothing elsewhere"):
            await downstream(FakeApi()).ensure(wanted, sync=True, scope="tenant")
        change, made = await downstream(FakeApi()).ensure(wanted, sync=True)
        assert change == "created"
        assert "namespace" not in made["metadata"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"apiVersion": "x/v1", "kind": "Odd", "metadata": {"name": "n"}}, "the cluster has no Odd of x/v1"),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}},
            "the target ConfigMap n has no namespace",
        ),
    ],
)
def test_what_cannot_be_made(wanted: Object, text: str) -> None:
    with pytest.raises(CannotGenerate, match=text):
        asyncio.run(downstream(FakeApi()).ensure(wanted, sync=True))


def test_labels_come_off_and_sources_are_marked_once() -> None:
    async def main() -> None:
        api = FakeApi()
        labels = {MANAGED_BY: "kyverno", LABELS + "rule-name": "r", "own": "x"}
        obj = api.put(CONFIG_MAP, config_map(metadata={"labels": labels, "uid": "u"}))
        made = downstream(api)
        await made.let_go(obj)
        assert api.objects["configmaps"]["tenant", "made"]["metadata"]["labels"] == {"own": "x"}
        assert not await made.mark_source(obj)
        marked = api.objects["configmaps"]["tenant", "made"]
        assert await made.mark_source(marked)
        assert api.objects["configmaps"]["tenant", "made"]["metadata"]["labels"] == {"own": "x", CLONE_SOURCE: ""}
        assert [verb for verb, *_ in api.calls].count("replace") == 2
        assert "patch" not in [verb for verb, *_ in api.calls]

    asyncio.run(main())


def test_only_the_object_that_was_meant_is_removed() -> None:
    async def main() -> None:
        api = FakeApi()
        made = downstream(api)
        obj = api.put(CONFIG_MAP, config_map(metadata={"uid": "old"}))
        api.put(CONFIG_MAP, config_map(metadata={"uid": "new"}))
        assert not await made.remove(obj)
        assert await made.remove(api.objects["configmaps"]["tenant", "made"])
        assert not await made.remove(obj)

    asyncio.run(main())
