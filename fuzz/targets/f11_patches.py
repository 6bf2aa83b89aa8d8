"""A difference applied gives the other document, and no mutation touches what it is given."""

from __future__ import annotations

import copy
import json
from typing import Any, Final

from hypothesis import strategies as st

from compiler.dynamic import make_imports
from fuzz.explore import Counterexample, explore
from fuzz.gen import pattern, policy
from fuzz.gen import resource as res
from vm.host import Meter
from vm.patch.diff import diff
from vm.patch.json6902 import apply
from vm.patch.strategic import strategic
from vm.values import Err, json_equal

NAME: Final = "f11_patches"
PROPERTY: Final = "apply(a, diff(a, b)) = b; diff(a, a) = []; a mutation leaves resource and patch as they were"

_IMPORTS: Final = make_imports()


def run(seconds: float, seed: int) -> int:
    return explore(
        [
            (st.tuples(res.json_values, res.json_values), differences_apply),
            (_neighbours(), differences_apply),
            (_merges(), merge_keeps_its_input),
            (st.tuples(res.json_objects, pattern.patterns), merge_keeps_its_input),
            (_json_patches(), json_patch_keeps_its_input),
        ],
        seconds,
        seed,
    )


@st.composite
def _neighbours(draw: st.DrawFn) -> tuple[Any, Any]:
    """A resource and the same with a few places changed, taken out or repeated."""
    a = draw(res.resources)
    b: Any = copy.deepcopy(a)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([p for p in res.paths_of(b) if p]))
        holder: Any = b
        for step in path[:-1]:
            holder = holder[step]
        if isinstance(holder, list) and draw(st.booleans()):
            holder.insert(draw(st.integers(0, len(holder))), copy.deepcopy(holder[path[-1]]))
        elif draw(st.booleans()):
            del holder[path[-1]]
        else:
            holder[path[-1]] = draw(res.json_values)
        if not isinstance(b, dict) or not b:
            break
    return a, b


@st.composite
def _merges(draw: st.DrawFn) -> tuple[Any, Any]:
    made = draw(res.resources)
    return made, draw(pattern.merge_patches_for(made))


@st.composite
def _json_patches(draw: st.DrawFn) -> tuple[Any, Any]:
    made = draw(res.resources)
    about = made if draw(st.booleans()) else draw(res.resources)
    return made, json.loads(draw(policy.json_patches_for(about)))


def differences_apply(a: Any, b: Any) -> None:
    before = copy.deepcopy((a, b))
    operations = diff(a, b)
    got = apply(a, operations)
    _unchanged(before, (a, b))
    if not json_equal(got, b):
        raise Counterexample(f"a: {json.dumps(a)}\nb: {json.dumps(b)}\npatch: {json.dumps(operations)}\ngave: {got!r}")
    if json_equal(a, b) and operations:
        raise Counterexample(f"equal documents differ by {json.dumps(operations)}: {json.dumps(a)}")


def merge_keeps_its_input(resource: Any, patch: Any) -> None:
    before = copy.deepcopy((resource, patch))
    got = strategic(_IMPORTS, Meter(10_000_000), resource, patch, ["", "v1", "Pod", ""])
    _unchanged(before, (resource, patch))
    if not isinstance(got, Err):
        _no_place_shared_wrongly(resource, got)


def json_patch_keeps_its_input(resource: Any, operations: Any) -> None:
    before = copy.deepcopy((resource, operations))
    got = apply(resource, operations)
    _unchanged(before, (resource, operations))
    if not isinstance(got, Err):
        _no_place_shared_wrongly(resource, got)


def _no_place_shared_wrongly(resource: Any, got: Any) -> None:
    """The difference of what came out leads back to it."""
    if not json_equal(apply(resource, diff(resource, got)), got):
        raise Counterexample(f"resource: {json.dumps(resource)}\nresult: {json.dumps(got)}")


def _unchanged(before: tuple[Any, Any], after: tuple[Any, Any]) -> None:
    if not all(json_equal(b, a) for b, a in zip(before, after, strict=True)):
        raise Counterexample(f"an input changed\nbefore: {json.dumps(before)}\nafter: {json.dumps(after)}")
