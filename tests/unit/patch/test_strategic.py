"""Strategic merge: anchors, directives, merge keys and order.

Conditions are tested by plain text equality with ``*`` here; the pattern walk has tests of its own.
"""

from __future__ import annotations

import copy
from fnmatch import fnmatchcase
from typing import Any

import pytest

from vm.patch.preprocess import preprocess
from vm.patch.strategic import merge
from vm.values import Err, json_equal


def match(value: Any, pattern: Any) -> Err | None:
    """A small stand-in for the pattern walk: maps by key, lists by every element, texts with ``*``."""
    if isinstance(pattern, dict):
        if not isinstance(value, dict):
            return Err("mismatch", "no map")
        return next((e for k, p in pattern.items() if (e := match(value.get(k.strip("()")), p)) is not None), None)
    if isinstance(pattern, list):
        if not isinstance(value, list):
            return Err("mismatch", "no list")
        return next((e for v in value if (e := match(v, pattern[0])) is not None), None)
    if fnmatchcase(str(value), str(pattern)):
        return None
    return Err("mismatch", f"{value} is not {pattern}")


def patched(resource: Any, patch: Any, kind: tuple[str, str] = ("", "Pod")) -> Any:
    ready = preprocess(resource, patch, match)
    return ready if isinstance(ready, Err) else merge(resource, ready, kind)


def pod(*containers: Any, **spec: Any) -> Any:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}


A, B = {"name": "a", "image": "gcr.io/x:1"}, {"name": "b", "image": "nginx"}

CASES = [
    ("a plain field is set", pod(A), {"spec": {"hostPID": False}}, pod(A, hostPID=False)),
    ("null removes", pod(A, hostPID=True), {"spec": {"hostPID": None}}, pod(A)),
    ("maps merge", pod(A, x={"p": 1}), {"spec": {"x": {"q": 2}}}, pod(A, x={"p": 1, "q": 2})),
    (
        "every container by wildcard",
        pod(A, B),
        {"spec": {"containers": [{"(name)": "*", "pull": "Always"}]}},
        pod({**A, "pull": "Always"}, {**B, "pull": "Always"}),
    ),
    (
        "only where all conditions hold",
        pod(A, B),
        {"spec": {"containers": [{"(name)": "*", "(image)": "gcr.io/*", "new": "v"}]}},
        pod({**A, "new": "v"}, B),
    ),
    (
        "two conditional elements, each to its own",
        pod(A, B),
        {"spec": {"containers": [{"(name)": "b", "n": 1}, {"(name)": "a", "n": 2}]}},
        pod({**A, "n": 2}, {**B, "n": 1}),
    ),
    (
        "two conditional elements meet",
        pod(A, B),
        {"spec": {"containers": [{"(name)": "*", "n": 1}, {"(name)": "a", "m": 2}]}},
        pod({**A, "n": 1, "m": 2}, {**B, "n": 1}),
    ),
    (
        "additions are decided element by element",
        pod({**A, "r": {"cpu": 1}}, {**B, "r": {"mem": 1}}),
        {"spec": {"containers": [{"(name)": "*", "r": {"+(cpu)": 9, "+(mem)": 9}}]}},
        pod({**A, "r": {"cpu": 1, "mem": 9}}, {**B, "r": {"mem": 1, "cpu": 9}}),
    ),
    (
        "an addition to a named element leaves the others",
        pod(A, B),
        {"spec": {"containers": [{"name": "b", "+(pull)": "Never"}]}},
        pod(A, {**B, "pull": "Never"}),
    ),
    (
        "an addition to a named element that is not there adds it",
        pod(A),
        {"spec": {"containers": [{"name": "c", "+(pull)": "Never"}]}},
        pod({"name": "c", "pull": "Never"}, A),
    ),
    ("an addition where the key is", pod(A, s={"x": False}), {"spec": {"s": {"+(x)": True}}}, pod(A, s={"x": False})),
    ("an addition where the key is null", pod(A, s=None), {"spec": {"+(s)": True}}, pod(A, s=None)),
    ("an addition below missing parents", pod(A), {"spec": {"s": {"+(x)": True}}}, pod(A, s={"x": True})),
    (
        "a condition that holds additions is met and adds",
        pod({**A, "e": {}}),
        {"spec": {"containers": [{"(e)": {"+(size)": "1Gi"}}]}},
        pod({**A, "e": {"size": "1Gi"}}),
    ),
    (
        "elements without a name stay",
        pod({"image": "x"}),
        {"spec": {"containers": [{"(image)": "*", "n": 1}]}},
        pod({"image": "x"}),
    ),
    ("no list to test", pod(A), {"spec": {"initContainers": [{"(name)": "*", "n": 1}]}}, pod(A)),
    ("a condition outside lists", pod(A, h=True), {"spec": {"(h)": True, "n": 1}}, pod(A, h=True, n=1)),
    (
        "a global test of a list, met by one",
        pod(A, B),
        {"metadata": {"l": 1}, "spec": {"containers": [{"<(image)": "gcr.io/*"}]}},
        {"metadata": {"name": "p", "l": 1}, "spec": {"containers": [A, B]}},
    ),
    ("an empty map of the patch stays", pod(A), {"spec": {"e": {}}}, pod(A, e={})),
    (
        "new elements come first",
        pod(A),
        {"spec": {"containers": [{"name": "z"}, {"name": "y"}]}},
        pod({"name": "z"}, {"name": "y"}, A),
    ),
    (
        "elements that the patch names come first",
        pod(A, B),
        {"spec": {"containers": [{"name": "z"}, {"name": "b", "n": 1}]}},
        pod({"name": "z"}, {**B, "n": 1}, A),
    ),
    ("an element is deleted", pod(A, B), {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}, pod(B)),
    (
        "a list is replaced",
        pod(A, B),
        {"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}},
        pod({"name": "c"}),
    ),
    ("a map is replaced", pod(A, x={"p": 1}), {"spec": {"x": {"$patch": "replace", "q": 2}}}, pod(A, x={"q": 2})),
    ("a map is deleted", pod(A, x={"p": 1}), {"spec": {"x": {"$patch": "delete"}}}, pod(A)),
    (
        "retained keys",
        pod(A, x={"p": 1, "q": 2}),
        {"spec": {"x": {"$retainKeys": ["q", "r"], "r": 3}}},
        pod(A, x={"q": 2, "r": 3}),
    ),
    (
        "tolerations are atomic",
        pod(A, tolerations=[{"key": "x"}]),
        {"spec": {"tolerations": [{"key": "y"}]}},
        pod(A, tolerations=[{"key": "y"}]),
    ),
    (
        "ports merge by number and protocol",
        pod({"name": "a", "ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]}),
        {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": "UDP", "name": "dns"}]}]}},
        pod({"name": "a", "ports": [{"containerPort": 53, "protocol": "UDP", "name": "dns"}, {"containerPort": 53}]}),
    ),
    ("nulls of new maps are dropped", pod(A), {"spec": {"x": {"a": None, "b": 1}}}, pod(A, x={"b": 1})),
]


@pytest.mark.parametrize(("resource", "patch", "want"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_merges(resource: Any, patch: Any, want: Any) -> None:
    before = copy.deepcopy((resource, patch))
    got = patched(resource, patch)
    assert json_equal(got, want), got
    assert json_equal([resource, patch], list(before)), "an input changed"
    if json_equal(got, resource):
        assert got is resource, "an unchanged resource must be the same object"


def test_finalizers_are_a_set() -> None:
    old = {"metadata": {"finalizers": ["a", "b"]}}
    got = patched(old, {"metadata": {"finalizers": ["c", "a"]}}, ("example.com", "Thing"))
    assert got == {"metadata": {"finalizers": ["c", "a", "b"]}}
    gone = merge(old, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, ("", "Pod"))
    assert gone == {"metadata": {"finalizers": ["b"]}}


def test_a_kind_without_schema_merges_by_a_key_that_all_elements_carry() -> None:
    old = {"spec": {"routes": [{"name": "x", "w": 1}, {"name": "y"}], "args": ["1"]}}
    got = patched(old, {"spec": {"routes": [{"name": "y", "w": 2}], "args": ["2"]}}, ("example.com", "Thing"))
    assert got == {"spec": {"routes": [{"name": "y", "w": 2}, {"name": "x", "w": 1}], "args": ["2"]}}
    replaced = patched(old, {"spec": {"routes": [{"w": 2}]}}, ("example.com", "Thing"))
    assert replaced == {"spec": {"routes": [{"w": 2}], "args": ["1"]}}


STOPS = [
    ("a condition outside lists fails", {"spec": {"(h)": True, "n": 1}}, "conditional"),
    ("a condition on an absent key fails", {"metadata": {"(labels)": {"a": "*"}}}, "conditional"),
    ("a global condition fails", {"spec": {"<(h)": True}}, "global"),
    ("a global condition on an absent key fails", {"spec": {"<(z)": True}}, "global"),
    ("no element satisfies a global condition", {"spec": {"containers": [{"<(image)": "quay.io/*"}]}}, "global"),
    ("no list for a global condition", {"spec": {"volumes": [{"<(emptyDir)": {}}]}}, "global"),
    ("kinds differ", {"spec": {"containers": {"a": 1}}}, "patch"),
    ("a list for a map", {"metadata": [1]}, "patch"),
    ("a list with anchors for a scalar", {"spec": {"h": [{"(a)": 1}]}}, "patch"),
]


@pytest.mark.parametrize(("patch", "code"), [c[1:] for c in STOPS], ids=[c[0] for c in STOPS])
def test_stops(patch: Any, code: str) -> None:
    got = patched(pod(A, B, h=False), patch)
    assert isinstance(got, Err)
    assert got.code == code
