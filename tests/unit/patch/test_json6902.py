"""JSON patch as Kyverno applies it, and differences as JSON patches."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from vm.patch.diff import diff
from vm.patch.json6902 import apply
from vm.values import Err, json_equal

APPLIES = [
    ("add a field", {"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    ("add over a field", {"a": 1}, [{"op": "add", "path": "/a", "value": 2}], {"a": 2}),
    ("add makes parents", {}, [{"op": "add", "path": "/a/b/c", "value": 1}], {"a": {"b": {"c": 1}}}),
    ("add makes a list before -", {}, [{"op": "add", "path": "/a/-", "value": 1}], {"a": [1]}),
    ("add makes a list before an index", {}, [{"op": "add", "path": "/a/0/b", "value": 1}], {"a": [{"b": 1}]}),
    ("add pads a list", {}, [{"op": "add", "path": "/a/2", "value": 1}], {"a": [None, None, 1]}),
    ("add replaces a null parent", {"a": None}, [{"op": "add", "path": "/a/b", "value": 1}], {"a": {"b": 1}}),
    ("add inserts", {"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    ("add appends", {"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    ("add below the last of a missing list", {}, [{"op": "add", "path": "/a/-1/b", "value": 1}], {"a": [{"b": 1}]}),
    ("add below the last", {"a": [{}, {}]}, [{"op": "add", "path": "/a/-1/b", "value": 1}], {"a": [{}, {"b": 1}]}),
    ("add at -1 appends", {"a": [1]}, [{"op": "add", "path": "/a/-1", "value": 2}], {"a": [1, 2]}),
    (
        "add below a later element",
        {"a": [1, {}]},
        [{"op": "add", "path": "/a/1/x/-", "value": 2}],
        {"a": [1, {"x": [2]}]},
    ),
    ("remove a field", {"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
    ("remove what is not there", {"a": 1}, [{"op": "remove", "path": "/x/y"}], {"a": 1}),
    ("remove beyond a list", {"a": [1]}, [{"op": "remove", "path": "/a/7"}], {"a": [1]}),
    ("remove from the end", {"a": [1, 2]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1]}),
    ("replace", {"a": [1, 2]}, [{"op": "replace", "path": "/a/-2", "value": 9}], {"a": [9, 2]}),
    ("replace the document", {"a": 1}, [{"op": "replace", "path": "", "value": []}], []),
    ("escapes", {"a/b": {"~": 1}}, [{"op": "replace", "path": "/a~1b/~0", "value": 2}], {"a/b": {"~": 2}}),
    ("copy", {"a": {"x": 1}}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": {"x": 1}, "b": {"x": 1}}),
    ("move", {"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    ("move within a list", [1, 2, 3], [{"op": "move", "from": "/0", "path": "/2"}], [2, 3, 1]),
    ("test holds", {"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}),
    ("test of an absent field against null", {}, [{"op": "test", "path": "/a", "value": None}], {}),
]

REFUSED = [
    ("test fails", {"a": 1}, [{"op": "test", "path": "/a", "value": True}], "testing value /a failed: test failed"),
    (
        "replace of a missing key",
        {"a": {"x": 1}},
        [{"op": "replace", "path": "/a/b", "value": 1}],
        "replace operation does not apply: doc is missing key: /a/b: missing value",
    ),
    (
        "replace below a missing key",
        {},
        [{"op": "replace", "path": "/a/b", "value": 1}],
        "replace operation does not apply: doc is missing path: /a/b: missing value",
    ),
    (
        "copy from nowhere",
        {},
        [{"op": "copy", "from": "/a", "path": "/b"}],
        "copy operation does not apply: doc is missing from path: /a: missing value",
    ),
    (
        "add beyond a list",
        {"a": [1]},
        [{"op": "add", "path": "/a/5", "value": 1}],
        "error in add for path: '/a/5': Unable to access invalid index: 5: invalid index referenced",
    ),
    (
        "add below a scalar",
        {"a": 1},
        [{"op": "add", "path": "/a/b", "value": 1}],
        'add operation does not apply: doc is missing path: "/a/b": missing value',
    ),
    ("unknown operation", {}, [{"op": "merge", "path": "/a"}], "unexpected kind: merge"),
    ("no slash", {}, [{"op": "remove", "path": "a"}], "path must start with a slash: a"),
    ("no list", {}, {"op": "remove", "path": "/a"}, "a JSON patch must be a list of operations"),
    (
        "huge index",
        {},
        [{"op": "add", "path": "/a/99999999", "value": 1}],
        "error in add for path: '/a/99999999': more than 4096 missing elements before it",
    ),
]


@pytest.mark.parametrize(("doc", "ops", "want"), [c[1:] for c in APPLIES], ids=[c[0] for c in APPLIES])
def test_operations(doc: Any, ops: Any, want: Any) -> None:
    before = copy.deepcopy(doc)
    assert json_equal(apply(doc, ops), want)
    assert json_equal(doc, before), "the input changed"


@pytest.mark.parametrize(("doc", "ops", "text"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_refusals(doc: Any, ops: Any, text: str) -> None:
    assert apply(doc, ops) == Err("patch", text)


DIFFS = [
    ("equal", {"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, []),
    ("numbers of one value", {"a": 1}, {"a": 1.0}, []),
    ("a boolean is no number", {"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
    (
        "keys",
        {"a": 1, "b": 2},
        {"b": 3, "c": 4},
        [
            {"op": "remove", "path": "/a"},
            {"op": "replace", "path": "/b", "value": 3},
            {"op": "add", "path": "/c", "value": 4},
        ],
    ),
    ("a list grows in front", [2, 3], [1, 2, 3], [{"op": "add", "path": "/0", "value": 1}]),
    ("a list shrinks", [1, 2, 3, 4], [1, 4], [{"op": "remove", "path": "/2"}, {"op": "remove", "path": "/1"}]),
    (
        "an element changes inside",
        {"c": [{"n": "a"}, {"n": "b"}]},
        {"c": [{"n": "a"}, {"n": "b", "p": 1}]},
        [{"op": "add", "path": "/c/1/p", "value": 1}],
    ),
    ("keys are escaped", {}, {"a/b~c": 1}, [{"op": "add", "path": "/a~1b~0c", "value": 1}]),
    ("kinds differ", {"a": []}, {"a": {}}, [{"op": "replace", "path": "/a", "value": {}}]),
]


@pytest.mark.parametrize(("a", "b", "ops"), [c[1:] for c in DIFFS], ids=[c[0] for c in DIFFS])
def test_differences(a: Any, b: Any, ops: Any) -> None:
    found = diff(a, b)
    assert found == ops
    assert json_equal(apply(a, found), b)
