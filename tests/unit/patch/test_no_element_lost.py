"""Properties of strategic merges: anchored elements change elements where they stand, lose none and move none, and an
addition never replaces what is there (semantics §16.2)."""

from __future__ import annotations

import copy
from fnmatch import fnmatchcase
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.bundles import make_imports
from vm.host import Meter
from vm.patch.diff import diff
from vm.patch.json6902 import apply
from vm.patch.strategic import strategic
from vm.values import MISSING, json_equal

KIND = ["", "v1", "Pod", ""]
IMPORTS = make_imports()

names = st.sampled_from(["web", "side", "job", "db", "log"])
values = st.one_of(st.integers(0, 3), st.sampled_from(["x", "y"]), st.booleans())
fields = st.dictionaries(st.sampled_from(["image", "cpu", "memory"]), values, max_size=3)
containers = st.dictionaries(names, st.tuples(fields, fields), max_size=5).map(
    lambda chosen: tuple({"name": name, **own, "resources": inner} for name, (own, inner) in chosen.items())
)
additions = st.dictionaries(st.sampled_from(["+(cpu)", "+(memory)"]), values, min_size=1, max_size=2)
parts = st.builds(
    lambda name, sets, adds: {"(name)": name, **sets, "resources": adds},
    st.one_of(names, st.sampled_from(["*", "?*", "s*", "w*"])),
    st.dictionaries(st.just("pull"), st.sampled_from(["Always", "Never"]), max_size=1),
    additions,
)


def patched(resource: Any, patch: Any) -> Any:
    return strategic(IMPORTS, Meter(10**9), resource, patch, KIND)


@settings(max_examples=150, deadline=None)
@given(containers, st.lists(parts, min_size=1, max_size=4))
def test_anchored_elements_lose_and_move_none(before: tuple[dict[str, Any], ...], patch: list[dict[str, Any]]) -> None:
    resource = {"spec": {"containers": list(before)}}
    copied = copy.deepcopy(resource)
    after = patched(resource, {"spec": {"containers": patch}})
    assert json_equal(resource, copied), "the merge changed its input"
    assert [c["name"] for c in after["spec"]["containers"]] == [c["name"] for c in before]
    for old, new in zip(before, after["spec"]["containers"], strict=True):
        wanted = copy.deepcopy(old)
        for part in patch:
            if not fnmatchcase(old["name"], part["(name)"]):
                continue
            wanted |= {k: v for k, v in part.items() if k == "pull"}
            for key, value in part["resources"].items():
                if key[2:-1] not in old["resources"]:  # each part looks at the object as it was: the last one sets it
                    wanted["resources"][key[2:-1]] = value
        assert json_equal(new, wanted)


@settings(max_examples=150, deadline=None)
@given(containers, st.lists(st.builds(lambda n, f: {"name": n, **f}, names, fields), max_size=3))
def test_named_elements_merge_and_the_rest_stays(
    before: tuple[dict[str, Any], ...], patch: list[dict[str, Any]]
) -> None:
    after = patched({"spec": {"containers": list(before)}}, {"spec": {"containers": patch}} if patch else {})
    made = after["spec"]["containers"]
    by_name = {c["name"]: c for c in made}
    assert len(by_name) == len(made), "an element is there twice"
    assert set(by_name) == {c["name"] for c in (*before, *patch)}
    kept = [c["name"] for c in before if c["name"] not in {p["name"] for p in patch}]
    assert [c["name"] for c in made if c["name"] in kept] == kept
    for old in before:
        asked = {k: v for p in patch if p["name"] == old["name"] for k, v in p.items()}
        assert json_equal(by_name[old["name"]], {**old, **asked})


@settings(max_examples=150, deadline=None)
@given(containers, st.lists(parts, min_size=1, max_size=3))
def test_the_difference_leads_from_one_to_the_other(
    before: tuple[dict[str, Any], ...], patch: list[dict[str, Any]]
) -> None:
    resource = {"spec": {"containers": list(before)}}
    after = patched(resource, {"spec": {"containers": patch}})
    assert after is not MISSING
    assert json_equal(apply(resource, diff(resource, after)), after)
