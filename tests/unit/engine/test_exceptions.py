"""Exceptions of the standard form in the engine: scans, existing violations, rules with podSecurity, namespaced
policies."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.engine import Engine
from runtime.exceptions import ExceptionScope
from runtime.request import Request
from tests.unit.engine.support import create, pod, policy, policy_set

RULE = """
  - name: base
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      failureAction: Enforce
      podSecurity: {level: baseline, version: latest}
"""


def exception(spec: str, name: str = "x") -> str:
    return f"""
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {{name: {name}, namespace: team-a}}
spec:
  exceptions: [{{policyName: p, ruleNames: [base]}}]
  match: {{any: [{{resources: {{kinds: [Pod]}}}}]}}
  {spec}
"""


def with_capability(*names: str, host_pid: bool = False) -> dict[str, Any]:
    found = pod()
    found["spec"]["hostPID"] = host_pid
    found["spec"]["containers"] = [
        {"name": "c", "image": "nginx", "securityContext": {"capabilities": {"add": [*names]}}}
    ]
    return found


CAPABILITIES = exception("podSecurity: [{controlName: Capabilities, images: ['*']}]")


def outcome(engine: Engine, request: Request) -> tuple[str, str]:
    (result,) = engine.evaluate(request, "validate", full=True).results
    return result.status, result.message


def test_what_exceptions_exclude_is_excluded_from_the_old_object_too() -> None:
    engine = Engine(policy_set(policy("p", rules=RULE), CAPABILITIES))
    old = with_capability("SYS_ADMIN")
    status, message = outcome(engine, create(with_capability("SYS_ADMIN", host_pid=True), operation="UPDATE", old=old))
    assert status == "fail", "the old object broke nothing but what is excepted"
    assert "spec.hostPID" in message
    assert "capabilities" not in message
    status, message = outcome(
        engine, create(with_capability(host_pid=True), operation="UPDATE", old=with_capability(host_pid=True))
    )
    assert (status, message) == ("skip", "skipping the rule evaluation as pre-existing violations are allowed")


def test_a_result_names_the_exceptions() -> None:
    engine = Engine(policy_set(policy("p", rules=RULE), CAPABILITIES))
    (result,) = engine.evaluate(create(with_capability("SYS_ADMIN")), "validate").results
    assert (result.status, result.exceptions) == ("skip", ("team-a/x",))


@pytest.mark.parametrize(("background", "status"), [(False, "skip"), (True, "fail")])
def test_an_exception_may_keep_out_of_scans(background: bool, status: str) -> None:
    scope = ExceptionScope(background=background)
    engine = Engine(policy_set(policy("p", rules=RULE), exception("background: false")), exceptions=scope)
    assert outcome(engine, create(with_capability("SYS_ADMIN")))[0] == status


def test_a_namespaced_policy_is_named_with_its_namespace() -> None:
    namespaced = policy("p", rules=RULE, kind="Policy", namespace="default")
    by_key = exception("background: true").replace("policyName: p,", "policyName: default/p,")
    request = create(with_capability("SYS_ADMIN"))
    assert outcome(Engine(policy_set(namespaced, exception("background: true"))), request)[0] == "fail"
    assert outcome(Engine(policy_set(namespaced, by_key)), request)[0] == "skip"


def test_images_have_the_default_registry_of_the_engine() -> None:
    rules = """
  - name: r
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      message: "{{ images.containers.c.reference }}"
      deny: {}
"""
    extracted = rules.replace("    validate:", "    imageExtractors: {Task: [{path: /spec/image}]}\n    validate:")
    for given in (rules, extracted):
        for registry, reference in (
            (None, "docker.io/nginx:latest"),
            ("ghcr.io", "ghcr.io/nginx:latest"),
            ("", "nginx:latest"),
        ):
            engine = Engine(policy_set(policy("p", rules=given)), registry=registry)
            assert outcome(engine, create(with_capability())) == ("fail", reference)


def test_exceptions_that_name_no_rule_are_told() -> None:
    other = exception("background: true", name="other").replace("ruleNames: [base]", "ruleNames: [other]")
    assert policy_set(policy("p", rules=RULE), exception("background: true"), other).idle_exemptions() == [
        "team-a/other"
    ]
