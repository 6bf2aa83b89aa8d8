"""Apply configurations and JSON patches of mutations. Lists are ordered as structured-merge-diff v6 orders them."""

from __future__ import annotations

from typing import Any

import pytest

from vm.cel.values import Record
from vm.host import Meter
from vm.patch.apply_configuration import apply_configuration, json_patches
from vm.values import Err

SHAPE = {
    "fields": {
        "set": {"list": "set"},
        "map": {"list": "map", "keys": ["k"], "item": {"fields": {"inner": {"list": "set"}}}},
        "ports": {"list": "map", "keys": ["port", "protocol"]},
        "whole": {"list": "atomic"},
        "struct": {"atomic": True},
    }
}


def applied(live: dict[str, Any], **patch: Any) -> Any:
    return apply_configuration(Meter(10_000), live, Record("Object", patch), SHAPE)


def keyed(text: str, **more: Any) -> list[dict[str, Any]]:
    return [{"k": k, **more} for k in text]


@pytest.mark.parametrize(
    ("live", "patch", "merged"),
    [
        ("", "ab", "ab"),
        ("ab", "", "ab"),
        ("abc", "cba", "cba"),
        ("ab", "xb", "axb"),
        ("ab", "xa", "xab"),
        ("abc", "bx", "abcx"),
        ("abcd", "dxa", "bcdxa"),
        ("affc", "fgd", "afgcd"),
        ("eed", "eb", "ebd"),
    ],
)
def test_lists_merge_by_identity(live: str, patch: str, merged: str) -> None:
    assert applied({"set": list(live)}, set=list(patch)) == {"set": list(merged)}
    found = applied({"map": keyed(live, v=1)}, map=keyed(patch, w=2))["map"]
    assert "".join(x["k"] for x in found) == merged
    for element in found:
        in_live, in_patch = live.count(element["k"]), element["k"] in patch
        wanted = {"k": element["k"]} | ({"w": 2} if in_patch else {})
        # What the object has twice is replaced, not merged.
        assert element == wanted | ({"v": 1} if in_live and not (in_live > 1 and in_patch) else {})


def test_elements_merge_deeply_and_the_object_stays_as_it_was() -> None:
    live = {"map": [{"k": "a", "inner": ["x"], "n": {"p": 1}}]}
    found = applied(live, map=[{"k": "a", "inner": ["y"], "n": {"q": 2}}])
    assert found == {"map": [{"k": "a", "inner": ["x", "y"], "n": {"p": 1, "q": 2}}]}
    assert live == {"map": [{"k": "a", "inner": ["x"], "n": {"p": 1}}]}


def test_a_port_without_protocol_is_one_of_tcp() -> None:
    live = {"ports": [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]}
    found = applied(live, ports=[{"port": 80, "name": "web"}])
    assert found["ports"] == [{"port": 80, "protocol": "TCP", "name": "web"}, {"port": 80, "protocol": "UDP"}]


def test_null_leaves_a_list_that_merges() -> None:
    assert applied({"set": ["a"], "x": 1}, set=None, x=None) == {"set": ["a"], "x": None}


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"whole": [1]}, "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .whole"),
        ({"struct": {}}, "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .struct"),
        (
            {"map": keyed("aa")},
            'failed to convert patch object to typed object: .map: duplicate entries for key [k="a"]',
        ),
        (
            {"set": ["a", "a"], "map": keyed("bb")},
            'failed to convert patch object to typed object: errors:\n  .set: duplicate entries for key [="a"]\n'
            '  .map: duplicate entries for key [k="b"]',
        ),
        (
            {"map": [{"v": 1}]},
            "failed to convert patch object to typed object: .map: element 0: associative list with keys has an element"
            ' that omits all key fields ["k"] (and doesn\'t have default values for any key fields)',
        ),
        (
            {"map": [None]},
            "failed to convert patch object to typed object: .map: element 0: associative list with keys may not have a"
            " null element",
        ),
    ],
)
def test_what_cannot_be_merged(patch: dict[str, Any], text: str) -> None:
    found = applied({}, **patch)
    assert isinstance(found, Err)
    assert found.text == f"error applying patch: {text}"


def patched(live: Any, *operations: dict[str, Any]) -> Any:
    return json_patches(Meter(10_000), live, [Record("JSONPatch", o) for o in operations])


def test_json_patch_operations() -> None:
    found = patched(
        {"a": 1, "l": [1]},
        {"op": "test", "path": "/a", "value": 1},
        {"op": "add", "path": "/l/-", "value": Record("Object.l", {"x": 2})},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "remove", "path": "/a"},
    )
    assert found == {"l": [1, {"x": 2}], "b": 1}


def test_a_test_that_does_not_hold_leaves_the_object() -> None:
    live = {"a": 1}
    add = {"op": "add", "path": "/b", "value": 1}
    assert patched(live, add, {"op": "test", "path": "/b", "value": 2}, {"op": "remove", "path": "/none"}) == live


def test_a_json_patch_that_fails() -> None:
    found = patched({}, {"op": "replace", "path": "/a", "value": 1})
    assert isinstance(found, Err)
    assert found.text.startswith("JSON Patch: ")
