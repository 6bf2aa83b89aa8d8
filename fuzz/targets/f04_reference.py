"""The product answers as the independent reference does: whole policies, and the parts of which they are made.

Statuses, patched resources, and the messages (with their paths) of all but errors must be equal: texts of errors name
what went wrong inside, which the semantics document leaves open.
"""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import strategies as st

from compiler.dynamic import make_imports, search
from compiler.frontends.pattern import compile_scalar
from fuzz.explore import Counterexample, explore
from fuzz.gen import jmes, pattern, policy
from fuzz.gen import resource as res
from tests.cases.engines import Refused, run_product
from tests.reference import evaluate
from tests.reference import query as reference_query
from tests.reference.conditions import apply_operator
from tests.reference.mutation import MutationError, NothingToDo, strategic_merge
from tests.reference.query import equal
from tests.reference.scalars import match_scalar
from tests.reference.walk import match_pattern
from vm.functions import resolve
from vm.host import Meter
from vm.intrinsics.pattern_walk import walk
from vm.patch.strategic import strategic
from vm.scalar import compile_matcher
from vm.values import Err, json_equal

NAME: Final = "f04_reference"
PROPERTY: Final = "product(policy, resource) = reference(policy, resource): status, message, path, patched"

_IMPORTS: Final = make_imports()
_FUEL: Final = 10_000_000

OPERATORS: Final = {
    "Equals": "cond.equals",
    "NotEquals": "cond.not_equals",
    "AnyIn": "cond.any_in",
    "AllIn": "cond.all_in",
    "AnyNotIn": "cond.any_not_in",
    "AllNotIn": "cond.all_not_in",
    "In": "cond.in",
    "NotIn": "cond.not_in",
    "GreaterThan": "cond.greater",
    "GreaterThanOrEquals": "cond.greater_or_equals",
    "LessThan": "cond.less",
    "LessThanOrEquals": "cond.less_or_equals",
    "DurationGreaterThan": "cond.duration_greater",
    "DurationLessThan": "cond.duration_less",
}
_METERED: Final = ("_in", ".in")


def run(seconds: float, seed: int) -> int:
    values = st.one_of(res.scalars, pattern.scalar_texts(), st.lists(res.scalars, max_size=3), res.json_values)
    return explore(
        [
            (policy.cases(), policies_agree),
            (st.tuples(policy.odd_policies(), res.resources), odd_policies_are_refused_or_run),
            (st.tuples(res.scalars, pattern.scalar_texts()), scalars_agree),
            (_walks(), walks_agree),
            (st.tuples(res.json_values, pattern.patterns), walks_agree),
            (st.tuples(st.sampled_from(sorted(OPERATORS)), values, values), operators_agree),
            (_merges(), merges_agree),
            (_queries(), queries_agree),
            (st.tuples(jmes.queries, res.json_objects), queries_agree),
        ],
        seconds,
        seed,
    )


@st.composite
def _walks(draw: st.DrawFn) -> tuple[Any, Any]:
    made = draw(res.resources)
    wanted = draw(pattern.patterns_for(made))
    return (made if draw(st.integers(0, 2)) else draw(res.resources)), wanted


@st.composite
def _merges(draw: st.DrawFn) -> tuple[Any, Any]:
    made = draw(res.resources)
    return made, draw(pattern.merge_patches_for(made))


@st.composite
def _queries(draw: st.DrawFn) -> tuple[str, Any]:
    made = draw(res.resources)
    return draw(jmes.queries_for(made)), made


def policies_agree(document: dict[str, Any], resource: dict[str, Any]) -> None:
    try:
        got = run_product([document], resource)
        other = run_product([document], resource, tier="2")
    except Refused:
        return
    if got != other:
        raise Counterexample(
            f"policy: {json.dumps(document)}\nresource: {json.dumps(resource)}\ntier 1: {got}\ntier 2: {other}"
        )
    want = evaluate([document], resource)
    if _shown(got) != _shown(want) or not all(
        equal(g.patched, w.patched) for g, w in zip(got, want, strict=True) if g.status == "pass"
    ):
        raise Counterexample(
            f"policy: {json.dumps(document)}\nresource: {json.dumps(resource)}\nreference: {want}\nproduct: {got}",
            {
                "note": "Found by f04_reference; the expectation is the reference's.",
                "policies": [document],
                "cases": [
                    {
                        "name": "found",
                        "resource": resource,
                        "expect": {
                            r.rule: {
                                "status": r.status,
                                **({} if r.status == "error" else {"message": r.message}),
                                **({} if r.patched is None else {"patched": r.patched}),
                            }
                            for r in want
                        },
                    }
                ],
            },
        )


def odd_policies_are_refused_or_run(document: dict[str, Any], resource: dict[str, Any]) -> None:
    """Whatever stands in a policy, the compiler refuses it with a diagnostic or its rules come to an end."""
    try:
        run_product([document], resource)
    except Refused:
        return
    except Exception as error:
        raise Counterexample(f"policy: {json.dumps(document)}\nresource: {json.dumps(resource)}") from error


def _shown(results: list[Any]) -> list[tuple[str, str, str | None]]:
    return [(r.rule, r.status, None if r.status == "error" else r.message) for r in results]


def scalars_agree(value: Any, text: str) -> None:
    got = compile_matcher(compile_scalar(text))(value)
    want = match_scalar(value, text)
    if got != want:
        raise Counterexample(f"{value!r} ~ {text!r}: reference {want}, product {got}")


def walks_agree(resource: Any, wanted: Any) -> None:
    got = walk(_IMPORTS, Meter(_FUEL), resource, wanted)
    want = match_pattern(resource, wanted)
    shown_got = None if got is None else (got.code in ("conditional", "global"), got.text, got.path)
    shown_want = None if want is None else (want.skip, want.text, want.path)
    if shown_got != shown_want:
        raise Counterexample(
            f"resource: {json.dumps(resource)}\npattern: {json.dumps(wanted)}\n"
            f"reference (skip, text, path): {shown_want}\nproduct: {shown_got}"
        )


def operators_agree(operator: str, key: Any, value: Any) -> None:
    body = resolve(OPERATORS[operator])
    name = OPERATORS[operator]
    got = body(Meter(_FUEL), key, value) if name.endswith(_METERED) else body(key, value)
    want = apply_operator(operator, key, value)
    if got != want:
        raise Counterexample(f"{key!r} {operator} {value!r}: reference {want}, product {got}")


def merges_agree(resource: Any, patch: Any) -> None:
    group, _, version = resource["apiVersion"].rpartition("/")
    got = strategic(_IMPORTS, Meter(_FUEL), resource, patch, [group, version, resource["kind"], ""])
    try:
        want: Any = strategic_merge(resource, patch)
    except NothingToDo as nothing:
        want = nothing.kind
    except MutationError:
        want = "patch"
    shown = got.code if isinstance(got, Err) else got
    if not json_equal(shown, want):
        raise Counterexample(
            f"resource: {json.dumps(resource)}\npatch: {json.dumps(patch)}\nreference: {json.dumps(want)}\n"
            f"product: {json.dumps(shown)}"
        )


def queries_agree(text: str, document: Any) -> None:
    got = search(text, document, compliance=False)
    try:
        want = reference_query.search(text, document)
    except reference_query.NotFound:
        want = Err("not_found", "")
    except reference_query.QueryError:
        want = Err("other", "")
    if isinstance(got, Err) and isinstance(want, Err):
        same = (got.code == "not_found") == (want.code == "not_found")
    else:
        same = json_equal(got, want)
    if not same:
        raise Counterexample(f"query: {text}\ndocument: {json.dumps(document)}\nreference: {want!r}\nproduct: {got!r}")
