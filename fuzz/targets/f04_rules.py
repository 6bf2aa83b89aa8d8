"""The product answers as the reference does for rules with contexts, loops, Pod security, exceptions and mutations, at
every level and on both tiers.

What :mod:`fuzz.long` runs in great numbers, a few seconds of it; a counterexample is reduced to what it needs.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

from compiler.dynamic import search
from fuzz.explore import Counterexample, numbers
from fuzz.gen.maker import Maker
from fuzz.gen.rules import case
from fuzz.pairs import Difference, differences, ready, reduced, told
from tests.reference import query
from vm.values import Err, json_equal

NAME: Final = "f04_rules"
PROPERTY: Final = (
    "O0 = O1 = O2 = tier 2 = reference, for rules with contexts, loops, podSecurity, exceptions, mutations"
)

_RESOURCES: Final = 4


def run(seconds: float, seed: int) -> int:
    count = 0
    for number in numbers(seconds, seed):
        made = case(number, resources=_RESOURCES)
        compiled = ready(made)
        if compiled is None:
            continue
        count += len(made.resources)
        _queries_agree(Maker(Random(number)), made.resources[0])
        found = next(differences(made, compiled), None)
        if found is not None:
            found = reduced(found)
            raise Counterexample(f"case {number}\n{told(found)}", _as_case(found))
    return count


def _queries_agree(maker: Maker, resource: dict[str, Any]) -> None:
    """Queries with the functions of policies find the same, or fail alike."""
    document = {"request": {"object": resource, "operation": "CREATE"}}
    for _ in range(4):
        text = maker.query(document)
        got = search(text, document, compliance=False)
        want: Any
        try:
            want = query.search(text, document)
        except query.NotFound:
            want = Err("not_found", "")
        except query.QueryError:
            want = Err("other", "")
        if isinstance(got, Err) and isinstance(want, Err):
            same = (got.code == "not_found") == (want.code == "not_found")
        else:
            same = not isinstance(got, Err) and not isinstance(want, Err) and json_equal(got, want)
        if not same:
            raise Counterexample(f"query: {text}\nreference: {want!r}\nproduct: {got!r}\n{json.dumps(document)}")


def _as_case(found: Difference) -> dict[str, Any]:
    """A case file; what the rules ask of the outside it cannot hold."""
    shown: dict[str, Any] = {"name": "found", "operation": found.case.operation, "resource": found.case.resources[0]}
    if found.case.olds:
        shown["old"] = found.case.olds[0]
    shown["expect"] = {
        r.rule: {
            "status": r.status,
            **({} if r.status == "error" else {"message": r.message}),
            **({} if r.patched is None else {"patched": r.patched}),
        }
        for r in found.want
    }
    return {
        "note": "Found by f04_rules; the expectation is the reference's.",
        "policies": found.case.documents,
        "cases": [shown],
    }
