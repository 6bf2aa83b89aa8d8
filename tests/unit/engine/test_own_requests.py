"""Requests of Thesmos itself and rules that work in the background."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.engine import Engine, RuleResult
from runtime.policyset import RulePlan
from runtime.request import Request, UserInfo
from tests.unit.engine.support import pod, policy, policy_set
from vm.host import PASSED

OWN = "system:serviceaccount:kyverno:kyverno"


def background(meta: dict[str, Any]) -> RulePlan:
    info = policy_set(policy()).policies[0]
    return RulePlan(info, "r", "generate", 0, lambda entry, root, meter: PASSED, None, (), True, (), meta)


@pytest.mark.parametrize(
    ("user", "meta", "count"),
    [
        ("alice", {}, 1),
        (OWN, {}, 0),
        (OWN, {"skipBackgroundRequests": False}, 1),
        ("", {}, 1),
    ],
)
def test_own_requests_set_off_only_rules_that_want_them(user: str, meta: dict[str, Any], count: int) -> None:
    plan = background(meta)
    request = Request.from_resource(pod(), user=UserInfo(user))
    results: list[RuleResult] = []
    engine = Engine(policy_set(), own_user=OWN)
    engine._background(request, [(plan.policy, (plan,))], results, engine.meter())
    assert len(results) == count


def test_nobody_is_known_where_nobody_asks() -> None:
    assert Request.from_resource(pod()).username == ""
    assert Request.from_resource(pod(), user=UserInfo("alice")).username == "alice"
