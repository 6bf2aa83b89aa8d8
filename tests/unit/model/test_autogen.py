"""Rules that autogen makes: for which policies, under which names, and how the text of a rule changes."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.autogen import controllers, eligible, expand
from compiler.schema.model import Policy, Rule
from tests.unit.model.support import policy

ALL = [
    "apps/v1/DaemonSet",
    "apps/v1/Deployment",
    "batch/v1/Job",
    "apps/v1/ReplicaSet",
    "v1/ReplicationController",
    "apps/v1/StatefulSet",
]


def _rule(body: str, kinds: str = "[Pod]", more: str = "", name: str = "r") -> str:
    lines = [f"- name: {name}", "  match:", "    any:", "    - resources:", f"        kinds: {kinds}"]
    lines += ["        " + line for line in more.strip("\n").split("\n") if line]
    return "\n".join(lines + ["  " + line for line in body.strip("\n").split("\n")])


PATTERN = 'validate:\n  pattern:\n    spec: {hostNetwork: "false"}'


def _by_name(p: Policy) -> dict[str, Rule]:
    return {r.name: r for r in expand(p)}


def test_a_rule_for_pods_becomes_three() -> None:
    p = policy(_rule(PATTERN))
    original, pods, cron = expand(p)
    assert (original.name, original.origin) == ("r", "policy")
    assert (pods.name, pods.origin, pods.index, pods.pointer) == ("autogen-r", "autogen", 0, "/spec/rules/0")
    assert (cron.name, cron.origin) == ("autogen-cronjob-r", "autogen-cronjob")
    assert list(pods.match.filters[0].kinds) == ALL
    assert cron.match.filters[0].kinds == ("batch/v1/CronJob",)
    inner = {"spec": {"hostNetwork": "false"}}
    assert pods.validate is not None
    assert pods.validate.pattern == {"spec": {"template": inner}}
    assert cron.validate is not None
    assert cron.validate.pattern == {"spec": {"jobTemplate": {"spec": {"template": inner}}}}
    assert original.validate is not None
    assert original.validate.pattern == inner


@pytest.mark.parametrize(
    ("more", "kinds", "fits"),
    [
        ("", "[Pod]", True),
        ("namespaces: [a]\noperations: [CREATE]\nnamespaceSelector: {matchLabels: {a: b}}", "[Pod]", True),
        ("", "[Deployment]", True),
        ("", "[Service]", False),
        ("", "[v1/Pod]", False),
        ("", "[Pod, Deployment]", False),
        ("", "[Deployment, StatefulSet]", True),
        ("names: [a]", "[Pod]", False),
        ("name: a", "[Pod]", False),
        ("selector: {matchLabels: {a: b}}", "[Pod]", False),
        ("annotations: {a: b}", "[Pod]", False),
        ("labels: {a: b}", "[Pod]", False),
        ("excludeResources: {namespaces: [a]}", "[Pod]", True),
        ("excludeResources: {names: [a]}", "[Pod]", False),
    ],
)
def test_which_policies_autogen_covers(more: str, kinds: str, fits: bool) -> None:
    assert eligible(policy(_rule(PATTERN, kinds, more))) is fits


def test_one_rule_that_does_not_fit_keeps_autogen_from_the_whole_policy() -> None:
    named = _rule(PATTERN, "[Service]", "names: [a]", name="other")
    patch = _rule('mutate:\n  patchesJson6902: "[{op: remove, path: /a}]"', "[ConfigMap]", name="patch")
    excluded = _rule(PATTERN + "\nexclude:\n  any:\n  - resources: {names: [a]}")
    for rules in (_rule(PATTERN) + "\n" + named, _rule(PATTERN) + "\n" + patch, excluded):
        p = policy(rules)
        assert expand(p) == p.rules


@pytest.mark.parametrize(
    ("annotation", "names"),
    [
        ("none", []),
        ("Deployment", ["Deployment"]),
        ("StatefulSet,Deployment", ["Deployment", "StatefulSet"]),
        ("CronJob", ["CronJob"]),
        ("Deployment, StatefulSet", ["Deployment"]),
        ("Deployment,Rollout", ["Deployment", "Rollout"]),
        ("all", sorted(["CronJob", *(s.split("/")[-1] for s in ALL)])),
    ],
)
def test_the_annotation_names_controllers(annotation: str, names: list[str]) -> None:
    metadata = f"annotations:\n  pod-policies.kyverno.io/autogen-controllers: {annotation}"
    p = policy(_rule(PATTERN), metadata=metadata)
    assert list(controllers(p)) == names
    made = [k for r in expand(p) if r.origin != "policy" for f in r.match.filters for k in f.kinds]
    assert sorted(k.split("/")[-1] for k in made) == names


def test_names_are_cut_to_what_a_rule_name_may_have() -> None:
    name = "n" * 63
    made = [r.name for r in expand(policy(_rule(PATTERN, name=name)))]
    assert made == [name, ("autogen-" + name)[:63], ("autogen-cronjob-" + name)[:63]]


def test_paths_change_in_every_text_of_the_rule() -> None:
    body = """
preconditions:
  all:
  - key: "{{ request.object.metadata.labels.app }}"
    operator: Equals
    value: "{{ request.oldObject.spec.x || request.oldObject.metadata.y }}"
validate:
  message: "see request.object.spec, literally"
  deny:
    conditions:
      any:
      - key: "{{ request.object.spec.hostNetwork }}"
        operator: Equals
        value: "{{ request.object.kind }} {{ request.namespace }}"
"""
    rules = _by_name(policy(_rule(body)))
    pods, cron = rules["autogen-r"], rules["autogen-cronjob-r"]
    condition: Any = pods.preconditions["all"][0]
    assert condition["key"] == "{{ request.object.spec.template.metadata.labels.app }}"
    assert condition["value"] == (
        "{{ request.oldObject.spec.template.spec.x || request.oldObject.spec.template.metadata.y }}"
    )
    assert pods.validate is not None
    assert pods.validate.message == "see request.object.spec.template.spec, literally"
    assert pods.validate.deny is not None
    denied = pods.validate.deny.conditions["any"][0]
    assert denied["key"] == "{{ request.object.spec.template.spec.hostNetwork }}"
    assert denied["value"] == "{{ request.object.kind }} {{ request.namespace }}"
    assert cron.validate is not None
    assert cron.validate.message == "see request.object.spec.jobTemplate.spec.template.spec, literally"
    assert rules["r"].validate is not None
    assert rules["r"].validate.message == "see request.object.spec, literally"


def test_any_pattern_and_references_in_the_message() -> None:
    body = """
validate:
  message: "want $(./../../anyPattern/1/spec/a), not \\\\$(x)"
  anyPattern:
  - spec: {a: 1}
  - spec: {a: 2}
"""
    rules = _by_name(policy(_rule(body)))
    pods, cron = rules["autogen-r"].validate, rules["autogen-cronjob-r"].validate
    assert pods is not None
    assert cron is not None
    assert pods.any_pattern == [{"spec": {"template": {"spec": {"a": n}}}} for n in (1, 2)]
    assert pods.message == "want $(./../../anyPattern/1/spec/template/spec/a), not \\$(x)"
    assert cron.message == ("want $(./../../anyPattern/1/spec/jobTemplate/spec/template/spec/a), not \\$(x)")


def test_a_strategic_merge_patch_moves_below_the_template() -> None:
    body = 'mutate:\n  patchStrategicMerge:\n    metadata: {labels: {+(a): "{{ request.object.metadata.name }}"}}'
    pods = _by_name(policy(_rule(body)))["autogen-r"]
    assert pods.mutate is not None
    assert pods.mutate.patch_strategic_merge == {
        "spec": {"template": {"metadata": {"labels": {"+(a)": "{{ request.object.spec.template.metadata.name }}"}}}}
    }


def test_exclude_follows_match_where_it_names_pods() -> None:
    exclude = "exclude:\n  any:\n  - resources: {kinds: [Pod], namespaces: [a]}\n  - resources: {namespaces: [b]}\n"
    rules = _by_name(policy(_rule(exclude + PATTERN)))
    pods, cron = rules["autogen-r"].exclude, rules["autogen-cronjob-r"].exclude
    assert pods is not None
    assert cron is not None
    assert [list(f.kinds) for f in pods.filters] == [ALL, []]
    assert [f.namespaces for f in pods.filters] == [("a",), ("b",)]
    assert [list(f.kinds) for f in cron.filters] == [["batch/v1/CronJob"]] * 2


def test_an_exclude_of_other_kinds_alone_makes_no_rules() -> None:
    p = policy(_rule("exclude:\n  any:\n  - resources: {kinds: [Deployment]}\n" + PATTERN))
    assert expand(p) == p.rules


def test_direct_kinds_and_exclude_without_kinds() -> None:
    rules = "- name: r\n  match:\n    resources: {kinds: [Pod], namespaces: [a]}\n"
    rules += "  exclude:\n    resources: {namespaces: [b]}\n"
    made = _by_name(policy(rules + "\n".join("  " + line for line in PATTERN.split("\n"))))
    pods = made["autogen-r"]
    assert list(pods.match.filters[0].kinds) == ALL
    assert pods.match.filters[0].namespaces == ("a",)
    assert pods.exclude is not None
    assert pods.exclude.filters[0].kinds == ()
    assert made["autogen-cronjob-r"].exclude == pods.exclude


def test_the_action_of_a_rule_is_copied() -> None:
    body = (
        "validate:\n  failureAction: Enforce\n  allowExistingViolations: false\n  message: m\n  pattern: {spec: {a: b}}"
    )
    pods = _by_name(policy(_rule(body)))["autogen-r"].validate
    assert pods is not None
    assert (pods.failure_action, pods.allow_existing, pods.message) == ("Enforce", False, "m")


def test_rules_called_autogen_give_way_when_autogen_makes_rules() -> None:
    own = _rule(PATTERN, "[Deployment]", name="autogen-own")
    assert [r.name for r in expand(policy(_rule(PATTERN) + "\n" + own))] == ["r", "autogen-r", "autogen-cronjob-r"]
    assert [r.name for r in expand(policy(own))] == ["autogen-own"]
