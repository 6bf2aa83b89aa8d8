"""Report properties of results: put together by the rule's code, and what podSecurity says of itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.engine import Engine
from runtime.properties import message_of, of_result
from tests.unit.engine.support import create, pod, policy, policy_set

RULE = """
  - name: first
    match: {any: [{resources: {kinds: [Pod]}}]}
    context:
    - {name: shout, variable: {jmesPath: "to_upper(request.object.metadata.name)"}}
    reportProperties:
      who: "{{ shout }} in {{ request.namespace }}"
      n: "{{ `1` }}"
      failMessage: "{{ shout }} has no app"
    validate: {message: m, pattern: {metadata: {labels: {app: "?*"}}}}
  - name: second
    match: {any: [{resources: {kinds: [Pod]}}]}
    preconditions: {all: [{key: "{{ request.operation }}", operator: Equals, value: DELETE}]}
    reportProperties: {who: "{{ request.object.metadata.name }}"}
    validate: {message: m, pattern: {metadata: {labels: {app: "?*"}}}}
  - name: third
    match: {any: [{resources: {kinds: [Pod]}}]}
    reportProperties: {who: "{{ request.object.metadata.labels.unknown }}"}
    validate: {message: m, pattern: {metadata: {name: "?*"}}}
  - name: fourth
    match: {any: [{resources: {kinds: [Pod]}}]}
    reportProperties: {message: always this, team: a}
    validate: {message: m, pattern: {metadata: {name: "?*"}}}
"""


@pytest.mark.parametrize("tier", ["1", "2", "check"])
def test_properties_are_those_of_the_rule_and_the_request(tier: Any) -> None:
    loaded = policy_set(policy("p", rules=RULE), tier=tier)
    results = Engine(loaded).evaluate(create(pod()), "validate", full=True).results
    assert loaded.mismatches.count == 0
    assert [(r.rule, r.status, dict(r.properties)) for r in results] == [
        ("first", "fail", {"who": "WEB in default", "failMessage": "WEB has no app"}),
        ("second", "skip", {}),
        ("third", "pass", {}),
        ("fourth", "pass", {"message": "always this", "team": "a"}),
    ]
    assert [message_of(r, r.status) for r in results] == [
        "WEB has no app",
        "preconditions not met",
        "validation rule 'third' passed.",
        "always this",
    ]
    assert message_of(results[0], "warn").startswith("validation error: m.")
    assert of_result(results[3]) == {"message": "always this", "team": "a", "process": "background scan"}


def test_a_null_among_properties_is_an_empty_text() -> None:
    rules = """
  - name: r
    match: {any: [{resources: {kinds: [Pod]}}]}
    reportProperties: {mode: null, team: a}
    validate: {message: m, pattern: {metadata: {name: "?*"}}}
"""
    (result,) = Engine(policy_set(policy("p", rules=rules))).evaluate(create(pod()), "validate", full=True).results
    assert dict(result.properties) == {"mode": "", "team": "a"}


def test_a_broken_standard_is_told_control_by_control() -> None:
    rules = """
  - name: base
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      podSecurity: {level: baseline, version: v1.30, exclude: [{controlName: Host Namespaces}]}
"""
    broken = pod()
    broken["spec"] = {
        "hostPID": True,
        "containers": [
            {"name": "a", "image": "nginx", "ports": [{"hostPort": 80}]},
            {"name": "b", "image": "ghcr.io/x/y@sha256:00", "securityContext": {"capabilities": {"add": ["SYS_TIME"]}}},
        ],
    }
    (result,) = Engine(policy_set(policy("p", rules=rules))).evaluate(create(broken), "validate", full=True).results
    found = of_result(result)
    assert json.loads(found.pop("controlsJSON")) == [
        {"ID": "capabilities_baseline", "Name": "Capabilities", "Images": ["ghcr.io/x/y@sha256:00"]},
        {"ID": "hostPorts", "Name": "Host Ports", "Images": None},
    ]
    assert found == {
        "standard": "baseline",
        "version": "v1.30",
        "controls": "capabilities_baseline,hostPorts",
        "process": "background scan",
    }
