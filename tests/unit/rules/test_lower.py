"""Rules as a whole, from policy text to result: messages, statuses, match, preconditions, mutation."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.unit.rules.support import POD, UserInfo, result_of, rule_policy, run


def pod(**changes: Any) -> dict[str, Any]:
    """The standing Pod with parts of it replaced; a dotted name with ``__`` for ``.`` reaches into it."""
    made = copy.deepcopy(POD)
    for name, value in changes.items():
        *steps, last = name.split("__")
        node = made
        for step in steps:
            node = node[step]
        node[last] = value
    return made


PATTERN = "validate: {message: M, pattern: {metadata: {labels: {app: web}}}}"


def test_pattern_results_and_messages() -> None:
    policy = rule_policy(PATTERN)
    assert run(policy) == ("pass", "validation rule 'r' passed.")
    fail = "validation error: M. rule r failed at path /metadata/labels/app/"
    assert run(policy, pod(metadata__labels={})) == ("fail", fail)
    assert run(policy, operation="DELETE") == ("none", "")


def test_messages_with_and_without_a_full_stop_or_text() -> None:
    bad = pod(metadata__labels={})
    at = "failed at path /metadata/labels/app/"
    pattern = "pattern: {metadata: {labels: {app: web}}}"
    assert run(rule_policy(f"validate: {{message: M., {pattern}}}"), bad)[1] == f"validation error: M. rule r {at}"
    assert run(rule_policy(f"validate: {{{pattern}}}"), bad)[1] == f"validation error: rule r {at}"
    spoken = rule_policy(f"validate: {{message: 'no {{{{request.object.metadata.name}}}}', {pattern}}}")
    assert run(spoken, bad)[1] == f"validation error: no web. rule r {at}"
    broken = rule_policy(f"validate: {{message: 'no {{{{request.object.spec.gone}}}}', {pattern}}}")
    assert run(broken, bad) == (
        "fail",
        "validation error: variables substitution error in rule r execution error: "
        "resource value '<nil>' does not match 'web' at path /metadata/labels/app/",
    )


def test_a_mismatch_without_path_is_an_error() -> None:
    policy = rule_policy(
        "validate: {message: M, pattern: {spec: {'^(volumes)': [{name: a}], containers: [{image: x}]}}}"
    )
    text = "validation error: M. rule r execution error: resource value 'nginx:1.2' does not match 'x' at path "
    assert run(policy) == ("error", text + "/spec/containers/0/image/")


def test_a_skipping_anchor_skips_with_its_text() -> None:
    policy = rule_policy("validate: {message: M, pattern: {metadata: {labels: {(app): db}}, spec: {x: 1}}}")
    text = "conditional anchor mismatch: resource value 'web' does not match 'db' at path /metadata/labels/app/"
    assert run(policy) == ("skip", text)


def test_any_pattern() -> None:
    policy = rule_policy(
        """
        validate:
          message: M {{ request.object.metadata.name }}
          anyPattern:
          - spec: {hostNetwork: true}
          - metadata: {labels: {app: "{{ request.object.metadata.name }}"}}
          - spec: {containers: [{(image): "gone*", x: 1}]}
        """
    )
    assert run(policy) == ("pass", "validation rule 'r' anyPattern[1] passed.")
    assert run(policy, pod(metadata__labels={"app": "db"})) == (
        "fail",
        "validation error: M {{ request.object.metadata.name }}. rule r[0] failed at path /spec/hostNetwork/ "
        "rule r[1] failed at path /metadata/labels/app/",
    )
    skipping = rule_policy("validate: {anyPattern: [{spec: {(a): 1}}, {spec: {(b): 1}}]}")
    missing = "skipped: conditional anchor mismatch: conditional anchor key doesn't exist in the resource"
    assert run(skipping) == ("skip", f"rule r[0] {missing} rule r[1] {missing}")


def test_a_pattern_variable_that_fails_is_an_error() -> None:
    policy = rule_policy("validate: {message: M, pattern: {spec: {x: '{{ request.object.spec.gone }}'}}}")
    assert run(policy) == (
        "error",
        "variable substitution failed: failed to resolve request.object.spec.gone at path /spec/x: "
        'JMESPath query failed: Unknown key "gone" in path',
    )


DENY = """
validate:
  message: "{0}"
  deny:
    conditions:
      {1}
"""


def deny(message: str, conditions: str) -> str:
    return rule_policy(DENY.format(message, conditions))


def test_deny() -> None:
    image = "{{ request.object.spec.containers[0].image }}"
    policy = deny("no " + image, f"all: [{{key: '{image}', operator: Equals, value: 'nginx*'}}]")
    assert run(policy) == ("fail", "no nginx:1.2")
    assert run(policy, pod(spec__containers=[{"image": "a"}])) == ("pass", "validation rule 'r' passed.")
    assert run(policy, operation="DELETE") == ("fail", "no nginx:1.2")
    assert run(policy, pod(spec={}))[0] == "error"  # a key that is not there
    assert run(policy, pod(spec={"containers": []}))[0] == "pass"  # an index beyond the list is null
    assert run(policy, pod(spec={"containers": {}})) == ("pass", "validation rule 'r' passed.")


def test_deny_texts() -> None:
    true = "{key: a, operator: Equals, value: a, message: because}"
    false = "{key: a, operator: Equals, value: b, message: never}"
    assert run(deny("", f"any: [{false}, {true}]")) == ("fail", "because")
    assert run(deny("M", f"any: [{false}, {true}]")) == ("fail", "M; because")
    assert run(deny("", "all: [{key: a, operator: Equals, value: a}]")) == ("fail", "validation error: rule r failed")
    named = "{key: a, operator: Equals, value: a, message: 'of {{ request.object.metadata.name }}'}"
    assert run(deny("M", f"all: [{named}]")) == ("fail", "M; of web")
    gone = "{key: a, operator: Equals, value: a, message: of it}"
    assert run(deny("M {{ request.object.gone }}", f"all: [{gone}]")) == ("fail", "of it")
    typed = deny("{{ request.object.metadata }}", "all: [{key: a, operator: Equals, value: a}]")
    assert run(typed) == ("fail", "the produced message didn't resolve to a string, check your policy definition.")


def test_deny_conditions_that_fail() -> None:
    policy = deny("M", "any: [{key: '{{ request.object.gone }}', operator: Equals, value: a}]")
    unknown = 'failed to resolve request.object.gone at path : JMESPath query failed: Unknown key "gone" in path'
    assert run(policy) == (
        "error",
        f"failed to check deny conditions: failed to substitute variables in condition key: {unknown}",
    )
    decided = (
        "any: [{key: a, operator: Equals, value: a}, {key: '{{ request.object.gone }}', operator: Equals, value: a}]"
    )
    assert run(deny("M", decided)) == ("fail", "M")


def test_deny_without_conditions_always_denies() -> None:
    assert run(rule_policy("validate: {message: M, deny: {}}")) == ("fail", "M")
    assert run(rule_policy("validate: {message: M, deny: {conditions: {any: []}}}"))[0] == "pass"


def test_the_old_list_of_conditions_must_hold_altogether() -> None:
    both = "[{key: a, operator: Equals, value: a}, {key: b, operator: Equals, value: '?'}]"
    assert run(rule_policy(f"validate: {{message: M, deny: {{conditions: {both}}}}}")) == ("fail", "M")
    one = "[{key: a, operator: Equals, value: a}, {key: b, operator: Equals, value: c}]"
    assert run(rule_policy(f"validate: {{message: M, deny: {{conditions: {one}}}}}"))[0] == "pass"


@pytest.mark.parametrize(
    ("preconditions", "expected"),
    [
        ("{}", ("pass", "validation rule 'r' passed.")),
        ("{any: []}", ("skip", "preconditions not met")),
        ("{all: [{key: a, operator: Equals, value: b}]}", ("skip", "preconditions not met")),
        ("{all: [{key: a, operator: Equals, value: b, message: it is a}]}", ("skip", "preconditions not met; it is a")),
        (
            "{any: [{key: a, operator: Equals, value: b, message: p}, {key: a, operator: In, value: [c], message: q}]}",
            ("skip", "preconditions not met; p; q"),
        ),
        ("{any: [{key: a, operator: Equals, value: b}, {key: a, operator: Equals, value: a}]}", ("pass", "")),
        ("[{key: a, operator: equals, value: a}]", ("pass", "")),
        ("[{key: 5, operator: GreaterThan, value: 3}]", ("pass", "")),
        (
            "{all: [{key: '{{ request.object.gone }}', operator: Equals, value: a}]}",
            (
                "error",
                "failed to evaluate preconditions: failed to substitute variables in condition key: failed to resolve "
                'request.object.gone at path : JMESPath query failed: Unknown key "gone" in path',
            ),
        ),
        ("{all: [{key: \"{{ request.object.gone || '' }}\", operator: Equals, value: ''}]}", ("pass", "")),
    ],
)
def test_preconditions(preconditions: str, expected: tuple[str, str]) -> None:
    status, message = run(rule_policy(f"preconditions: {preconditions}\n{PATTERN}"))
    assert status == expected[0]
    assert not expected[1] or message == expected[1]


@pytest.mark.parametrize(
    ("match", "request_", "expected"),
    [
        ("any: [{resources: {kinds: [Pod], operations: [UPDATE]}}]", {}, False),
        ("any: [{resources: {kinds: [Pod], operations: [CREATE]}}]", {}, True),
        ("any: [{resources: {kinds: [Deployment]}}, {resources: {kinds: ['v1/Pod']}}]", {}, True),
        ("all: [{resources: {kinds: [Pod]}}, {resources: {kinds: [Pod], names: ['db*']}}]", {}, False),
        ("all: [{resources: {kinds: [Pod]}}, {resources: {kinds: [Pod], names: ['w*']}}]", {}, True),
        ("resources: {kinds: [Pod], namespaces: ['team-?']}", {}, True),
        ("any: [{resources: {kinds: [Pod], selector: {matchLabels: {app: w*}}}}]", {}, True),
        ("any: [{resources: {kinds: [Pod], selector: {matchLabels: {app: db}}}}]", {}, False),
        (
            "any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {zone: a}}}}]",
            {"namespace_labels": {"zone": "a"}},
            True,
        ),
        (
            "any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {zone: a}}}}]",
            {"namespace_labels": {}},
            False,
        ),
        (
            "any: [{resources: {kinds: [Pod]}, clusterRoles: [admin]}]",
            {"user": UserInfo(cluster_roles=("admin",))},
            True,
        ),
        ("any: [{resources: {kinds: [Pod]}, clusterRoles: [admin]}]", {"user": UserInfo()}, False),
        ("any: [{resources: {kinds: [Pod]}, clusterRoles: [admin]}]", {}, True),
    ],
)
def test_match(match: str, request_: dict[str, Any], expected: bool) -> None:
    assert (run(rule_policy(f"match: {{{match}}}\n{PATTERN}"), **request_)[0] == "pass") is expected


def test_unknown_labels_of_the_namespace_are_an_error_and_no_mismatch() -> None:
    wanted = "[{resources: {kinds: [Pod], %snamespaceSelector: {matchLabels: {zone: a}}}}]"
    unknown = ("error", "failed to match the rule: the labels of the namespace are not known")
    assert run(rule_policy(f"match: {{any: {wanted % ''}}}\n{PATTERN}")) == unknown
    assert run(rule_policy(f"exclude: {{any: {wanted % ''}}}\n{PATTERN}")) == unknown
    assert run(rule_policy(f"match: {{any: {wanted % 'names: [db], '}}}\n{PATTERN}"))[0] == "none"
    assert run(rule_policy(f"match: {{any: {wanted % ''}}}\n{PATTERN}"), namespace_labels={"zone": "a"})[0] == "pass"


@pytest.mark.parametrize(
    ("exclude", "request_", "expected"),
    [
        ("any: [{resources: {names: ['web']}}]", {}, "none"),
        ("any: [{resources: {names: ['web'], namespaces: [other]}}]", {}, "pass"),
        ("any: [{resources: {namespaces: [other]}}, {resources: {names: ['web']}}]", {}, "none"),
        ("all: [{resources: {namespaces: [other]}}, {resources: {names: ['web']}}]", {}, "pass"),
        ("all: [{resources: {namespaces: [team-a]}}, {resources: {names: ['web']}}]", {}, "none"),
        ("any: [{clusterRoles: [admin]}]", {"user": UserInfo(cluster_roles=("admin",))}, "none"),
        ("any: [{clusterRoles: [admin]}]", {}, "pass"),
        ("any: [{resources: {operations: [DELETE]}}]", {}, "pass"),
    ],
)
def test_exclude(exclude: str, request_: dict[str, Any], expected: str) -> None:
    assert run(rule_policy(f"exclude: {{{exclude}}}\n{PATTERN}"), **request_)[0] == expected


def test_a_namespaced_policy_is_for_its_namespace() -> None:
    policy = rule_policy(PATTERN, kind="Policy")
    assert run(policy)[0] == "pass"
    assert run(policy, pod(metadata__namespace="team-b"))[0] == "none"


def test_strategic_merge() -> None:
    policy = rule_policy(
        "mutate: {patchStrategicMerge: {metadata: {labels: {'+(app)': x, owner: '{{request.object.metadata.name}}'}}}}"
    )
    found = result_of(policy)
    assert found is not None
    assert (found.status, found.message) == ("pass", "mutated Pod/web in namespace team-a")
    assert found.patched["metadata"]["labels"] == {"app": "web", "owner": "web"}
    assert run(policy, found.patched) == ("skip", "no patches applied")
    assert run(policy, operation="DELETE") == ("none", "")


def test_a_condition_of_a_patch_that_does_not_hold_skips() -> None:
    policy = rule_policy("mutate: {patchStrategicMerge: {metadata: {labels: {(app): db, a: b}}}}")
    assert run(policy) == ("skip", "no patches applied")


def test_json_patch() -> None:
    patch = '- {op: add, path: /metadata/labels/owner, value: "{{ request.object.metadata.name }}"}'
    found = result_of(rule_policy(f"mutate: {{patchesJson6902: '{patch}'}}"))
    assert found is not None
    assert found.patched["metadata"]["labels"] == {"app": "web", "owner": "web"}
    constant = "- {op: replace, path: /metadata/labels/app, value: db}"
    found = result_of(rule_policy(f"mutate: {{patchesJson6902: '{constant}'}}"))
    assert found is not None
    assert found.patched["metadata"]["labels"] == {"app": "db"}
    wrong = "- {op: test, path: /metadata/labels/app, value: db}"
    status, message = run(rule_policy(f"mutate: {{patchesJson6902: '{wrong}'}}"))
    assert (status, message.partition(":")[0]) == ("error", "failed to patch resource")


def test_a_variable_that_fails_anywhere_in_a_mutate_rule_is_an_error() -> None:
    policy = rule_policy("mutate: {patchStrategicMerge: {metadata: {labels: {a: '{{ request.object.gone }}'}}}}")
    assert run(policy) == (
        "error",
        "variable substitution failed: failed to resolve request.object.gone at path "
        '/mutate/patchStrategicMerge/metadata/labels/a: JMESPath query failed: Unknown key "gone" in path',
    )


def test_the_place_sign_reads_the_object_at_the_same_place() -> None:
    policy = rule_policy("mutate: {patchStrategicMerge: {metadata: {labels: {app: '{{ @ }}-x'}}}}")
    found = result_of(policy)
    assert found is not None
    assert found.patched["metadata"]["labels"] == {"app": "web-x"}


def test_a_violation_that_was_there_before_stands_when_the_rule_is_for_updates_alone() -> None:
    enforced = PATTERN.replace("message: M", "message: M, failureAction: Enforce")
    bad = pod(metadata__labels={})
    fail = "validation error: M. rule r failed at path /metadata/labels/app/"
    allowed = "skipping the rule evaluation as pre-existing violations are allowed"
    assert run(rule_policy(enforced), bad, operation="UPDATE", old=bad) == ("skip", allowed)
    assert run(rule_policy(enforced), bad, operation="UPDATE", old=POD) == ("fail", fail)
    updates = "match: {any: [{resources: {kinds: [Pod], operations: [UPDATE]}}]}"
    assert run(rule_policy(f"{updates}\n{enforced}"), bad, operation="UPDATE", old=bad) == ("fail", fail)


EXCEPTION = """
apiVersion: kyverno.io/v1alpha1
kind: PolicyException
metadata: {name: free, namespace: team-a}
spec:
  rules: [{name: r}]
  match: {resources: {namespaces: [team-a], selector: {matchLabels: {legacy: "true"}}}}
"""


def test_an_exception_frees_what_it_matches_and_nothing_else() -> None:
    policies = f"{rule_policy(PATTERN)}---{EXCEPTION}"
    legacy = pod(metadata__labels={"legacy": "true"})
    assert run(policies, legacy) == ("skip", "rule is skipped due to policy exceptionsteam-a/free")
    assert run(policies, pod(metadata__labels={}))[0] == "fail"
    elsewhere = {**legacy, "metadata": {**legacy["metadata"], "namespace": "team-b"}}
    assert run(policies, elsewhere)[0] == "fail"


def test_an_exception_covers_the_rules_that_autogen_makes() -> None:
    policy = rule_policy(PATTERN).replace("pod-policies.kyverno.io/autogen-controllers: none", "a: b")
    template = {"metadata": {"labels": {}}, "spec": copy.deepcopy(POD["spec"])}
    deployment: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team-a", "labels": {"legacy": "true"}},
        "spec": {"template": template},
    }
    fail = "validation error: M. rule autogen-r failed at path /spec/template/metadata/labels/app/"
    assert run(policy, deployment, "autogen-r") == ("fail", fail)
    assert run(f"{policy}---{EXCEPTION}", deployment, "autogen-r")[0] == "skip"
