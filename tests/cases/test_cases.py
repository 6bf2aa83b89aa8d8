"""Every case through the reference evaluator, the VM at O0 and O2, and generated code."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases.engines import run_product
from tests.cases.loading import Case, Expected, cases
from tests.reference import Result, evaluate
from tests.reference.generation import removed, swept
from tests.reference.query import equal
from tests.reference.world import World

CASES = list(cases())
PRODUCT_ONLY = ("admission", "cel")
"""Topics that the reference evaluator does not read."""


def by_reference(case: Case) -> list[Result]:
    return [*_evaluated(case), *_removed(case)]


def _removed(case: Case) -> Iterator[Result]:
    """A pass of each policy that removes the resource, by the rule that does."""
    for policy in case.policies:
        name = policy["metadata"]["name"]
        if policy["kind"].endswith("CleanupPolicy"):
            if removed(policy, [case.resource], _world(case)):
                yield Result(name, name, "pass", "")
            continue
        namespace = policy["metadata"].get("namespace") if policy["kind"] == "Policy" else None
        for rule in policy["spec"].get("rules", ()):
            if "cleanup" in rule and swept(rule, [case.resource], namespace):
                yield Result(name, rule["name"], "pass", "")


def _evaluated(case: Case) -> list[Result]:
    if all(p["kind"].endswith("CleanupPolicy") for p in case.policies):
        return []
    return evaluate(
        case.policies,
        case.resource,
        operation=case.operation,
        old=case.old,
        user=case.user,
        namespace_labels=case.namespace_labels,
        context=case.values,
        world=_world(case),
    )


def _world(case: Case) -> World:
    given = case.world
    return World(
        tuple(given.get("objects", ())),
        tuple(given.get("calls", ())),
        given.get("globalEntries", {}),
        given.get("images", {}),
        foreach_values={("case", "r"): given["foreachValues"]} if "foreachValues" in given else {},
    )


def by_product(level: int, tier: Any, quirks: str = "") -> Callable[[Case], list[Result]]:
    def run(case: Case) -> list[Result]:
        return run_product(
            case.policies,
            case.resource,
            level=level,
            tier=tier,
            operation=case.operation,
            old=case.old,
            user=case.user,
            namespace_labels=case.namespace_labels,
            values=case.values,
            params=case.params,
            namespace_object=case.namespace_object,
            quirks=quirks,
            world=case.world,
        )

    return run


ENGINES: dict[str, Callable[[Case], list[Result]]] = {
    "reference": by_reference,
    "vm-O0": by_product(0, "1"),
    "vm-O2": by_product(2, "1"),
    "tier2": by_product(2, "2"),
}


def test_there_are_cases() -> None:
    assert len(CASES) >= 120
    assert len({case.id for case in CASES}) == len(CASES), "two cases share a name"


RUNS = [
    pytest.param(case, engine, id=f"{case.id}-{engine}")
    for case in CASES
    for engine in ENGINES
    if engine != "reference" or case.id.partition("/")[0] not in PRODUCT_ONLY
]


@pytest.mark.parametrize(("case", "engine"), RUNS)
def test_case(case: Case, engine: str) -> None:
    before = copy.deepcopy((case.resource, case.old))
    results = ENGINES[engine](case)
    assert equal(list(before), [case.resource, case.old]), "the evaluation changed its input"
    _as_expected(results, case.expect)


@pytest.mark.parametrize("tier", ["1", "2"])
@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES if c.kyverno is not None])
def test_with_the_quirks_of_kyverno(case: Case, tier: str) -> None:
    assert case.kyverno is not None
    assert case.kyverno != case.expect
    for level in (0, 2):
        _as_expected(by_product(level, tier, "kyverno")(case), case.kyverno)


def _as_expected(results: list[Result], expect: dict[str, Expected]) -> None:
    assert {r.rule: r.status for r in results} == {rule: e.status for rule, e in expect.items()}, results
    for result in results:
        want = expect[result.rule]
        if want.message is not None:
            assert result.message == want.message
        if want.patched is not None:
            assert equal(result.patched, want.patched), result.patched
        if want.generated is not None:
            assert equal(result.generated or [], want.generated), result.generated


def test_the_reference_shares_no_code_with_the_product() -> None:
    folder = Path(__file__).parent.parent / "reference"
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not [n for n in names if n.split(".")[0] in ("compiler", "vm", "runtime")], path.name
