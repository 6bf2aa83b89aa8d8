"""The tables of all libraries agree with each other and with the rules of costs, and no body raises."""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from compiler.frontends.cel.declarations import PLAIN_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.program import CelProgram, compile_program
from tests.unit.cel.calling import called
from vm.cel.costs import RULES, UNBOUNDED
from vm.cel.k8s_authz import Authorizer, Decision, User
from vm.cel.k8s_quantity import Quantity
from vm.cel.libraries import LIBRARIES
from vm.cel.values import CelMap, Duration, Optional, TypeValue, UInt
from vm.values import Err

_ROWS = [(library.name, f) for library in LIBRARIES.values() for f in library.functions]
_MINE = ("kubernetes.", "network", "jsonpatch", "thesmos.")


def test_every_row_names_a_rule_of_costs_and_rows_that_share_a_body_agree() -> None:
    seen: dict[tuple[str, str], tuple[object, ...]] = {}
    for _, f in _ROWS:
        assert f.cost in RULES
        what = (f.cost, f.fuel, f.sized, f.metered, f.pure, f.wraps, f.changes)
        assert seen.setdefault((f.intrinsic, f.body), what) == what, f.intrinsic


_HOSTILE: tuple[Any, ...] = (
    None,
    True,
    -1,
    UInt(1),
    1.5,
    float("nan"),
    "",
    "1Gi",
    "\ud800",
    "1" * 3000,
    b"x",
    [],
    [None],
    [1, "a", []],
    {},
    {"a": 1},
    CelMap({}),
    Optional(),
    TypeValue("int"),
    Duration(5),
    Quantity(3),
    Authorizer(User("u")),
    Err("argument", "first"),
)


def test_bodies_and_costs_are_total() -> None:
    for library, f in _ROWS:
        if not library.startswith(_MINE):
            continue
        name = f.intrinsic.removeprefix("cel.")
        few = _HOSTILE if f.operands < 3 else _HOSTILE[::3]
        for operands in product(few, repeat=f.operands):
            result = called(name, *operands)
            if any(type(x) is Err for x in operands):
                assert type(result) is Err, (name, operands, result)
            assert RULES[f.cost].actual(operands, result) >= 0


@pytest.mark.parametrize("name", sorted(RULES))
def test_estimates_are_ranges_that_hold_what_calls_cost(name: str) -> None:
    operands: tuple[Any, ...] = ("0123456789ab", "0123456789abcdef")
    low, high = RULES[name].estimate(((12, 12), (16, 16)))
    assert 0 <= low <= high <= UNBOUNDED
    if name in ("pairs", "pairs_twice", "flatten", "list_made", "distinct", "traversal"):
        operands = (list(range(12)), list(range(16)))
    if name == "flatten":
        operands = operands[:1]
    if name not in ("format", "contains_cidr", "contains_ip"):
        assert low <= RULES[name].actual(operands, operands[0]) <= high
    widest = RULES[name].estimate(((0, UNBOUNDED), (0, UNBOUNDED)))
    assert 0 <= widest[0] <= low <= high <= widest[1] <= UNBOUNDED


def test_quantities_of_a_schema() -> None:
    def q(name: str, *operands: Any) -> Any:
        return called(f"thesmos.quantity.{name}.{len(operands)}", *operands)

    assert q("le", "1Gi", "1024Mi") is True
    assert q("lt", "500m", 1) is True
    assert q("gt", 0.3, "299m") is True
    assert q("eq", "0.1", 0.1) is True
    assert q("ne", "1", "1000m") is False
    assert q("ge", q("mul", 2, "512Mi"), called("quantity.1", "1Gi")) is True
    assert str(q("add", "1Gi", "1Gi")) == "2Gi"
    assert str(q("sub", "1", "250m")) == "750m"
    assert str(q("mul", "250m", 3)) == "750m"
    assert str(q("mul", 1.5, "2Gi")) == "3Gi"
    assert str(q("neg", "5m")) == "-5m"
    assert str(q("sum", ["1Gi", "512Mi", "512Mi"])) == "2Gi"
    assert str(q("sum", [])) == "0"
    assert str(q("max", ["900m", "1"])) == "1"
    assert str(q("min", ["900m", 1])) == "900m"
    assert q("min", []).text == "min called on empty list"
    assert q("mul", "1", "2").text == "a quantity can be multiplied by a number only, not by another quantity"
    assert q("lt", "much", 1).text.startswith('"much" is not a quantity: ')
    assert q("lt", [], 1).text == "a value of type list is not a quantity"
    assert q("lt", float("inf"), 1).text == "a number that is not finite is not a quantity"


def test_a_chain_of_products_is_bounded() -> None:
    x: Any = 10**18
    for _ in range(200):
        x = called("thesmos.quantity.mul.2", x, 10**18)
        if type(x) is Err:
            break
    assert x.text == "the quantity is too large"


def test_what_check_asks_and_what_it_makes_of_the_reply() -> None:
    info = {"username": "ann", "uid": "7", "groups": ["dev"], "extra": {"scopes": ["a", "b"]}}
    authorizer = called("authz.authorizer.1", info)
    pods = called("authz.resource.2", called("authz.group.2", authorizer, ""), "pods")
    pods = called("authz.namespace.2", called("authz.labelSelector.2", pods, "app=x"), "prod")
    assert called("authz.payload.2", pods, "list") == {
        "user": "ann",
        "uid": "7",
        "groups": ["dev"],
        "extra": {"scopes": ["a", "b"]},
        "resourceAttributes": {
            "verb": "list",
            "group": "",
            "version": "*",
            "resource": "pods",
            "namespace": "prod",
            "labelSelector": {"rawSelector": "app=x"},
        },
    }
    account = called("authz.serviceAccount.3", authorizer, "prod", "builder")
    assert called("authz.payload.2", called("authz.path.2", account, "/healthz"), "get") == {
        "user": "system:serviceaccount:prod:builder",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:prod"],
        "nonResourceAttributes": {"path": "/healthz", "verb": "get"},
    }
    request = {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}, "name": "web"}
    asked = called("authz.payload.2", called("authz.requestResource.2", authorizer, request), "update")
    assert asked["resourceAttributes"]["resource"] == "deployments"
    assert asked["resourceAttributes"]["name"] == "web"
    allowed = called("authz.decision.1", {"allowed": True, "reason": "RBAC"})
    assert allowed == Decision(True, "RBAC")
    assert called("authz.errored.1", allowed) is False
    assert called("authz.decision.1", Err("host", "no answer")) == Err("host", "no answer")
    failed = called("authz.decision.1", {"allowed": False, "evaluationError": "no answer"})
    assert (called("authz.allowed.1", failed), called("authz.errored.1", failed)) == (False, True)
    assert called("authz.error.1", failed) == "no answer"
    assert called("authz.path.2", authorizer, " ").text == "path must not be empty"
    assert called("authz.serviceAccount.3", authorizer, "Prod", "x").text == "Invalid service account namespace"
    assert called("authz.serviceAccount.3", authorizer, "prod", "X").text == "Invalid service account name"


_DATA = Path(os.environ.get("THESMOS_CONFORMANCE", Path(__file__).parents[4] / "shared" / "conformance"))


def test_the_network_extension_by_the_tests_of_the_specification() -> None:
    path = _DATA / "cel-spec" / "network_ext.json"
    if not path.exists():
        pytest.skip("the tests of the CEL specification are not here (THESMOS_CONFORMANCE)")
    count = 0
    for section in json.loads(path.read_text(encoding="utf-8"))["section"]:
        for test in section["test"]:
            made = compile_program(test["expr"], Env(libraries=PLAIN_LIBRARIES))
            got = made.run({}) if isinstance(made, CelProgram) else Err("overload", made[0].message)
            count += 1
            if "eval_error" in test:
                assert type(got) is Err, test
            else:
                (want,) = test["value"].values()
                assert got == (int(want) if "int64_value" in test["value"] else want), (test, got)
    assert count == 69
