"""Pattern paths against the kinds: what must be quiet, what it costs. The messages are in ``tests/golden/diag``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from compiler import Options, compile_policies
from compiler.diagnostics import Reporter
from compiler.schema import read_policies
from compiler.schema.kinds import Schemas, provider
from compiler.schema.kinds.pattern_paths import check_patterns
from compiler.schema.model import Policy
from compiler.source import load_documents
from tests.unit.model.support import policy
from tests.unit.model.test_kinds import CRD

ROOT = Path(os.environ.get("THESMOS_CONFORMANCE") or Path(__file__).parents[4] / "shared" / "conformance")


def findings(found: Policy, schemas: Schemas | None = None) -> list[str]:
    reporter = Reporter()
    check_patterns(found, schemas or provider(), reporter)
    return [f"{d.code} {d.message}" for d in reporter.diagnostics]


def validate(kinds: str, pattern: str, match: str = "any: [{resources: {kinds: %s}}]") -> Policy:
    return policy(f"""
- name: r
  match:
    {match.replace("%s", kinds)}
  validate:
    message: m
    pattern: {pattern}
""")


@pytest.mark.parametrize(
    "pattern",
    [
        '{spec: {"=(hostNetwork)": false, "<(nodeName)": a, "(restartPolicy)": Never, "X(volumes)": "null"}}',
        '{spec: {"^(containers)": [{name: a}]}}',
        '{metadata: {labels: {any/thing: "1"}, annotations: {"x*": "?*"}}}',
        '{spec: {"host*": false, "{{ request.object.metadata.name }}": 1}}',
        '{spec: {containers: [{resources: {limits: {example.com/gpu: "1", memory: "<1Gi"}}}]}}',
        '{spec: {containers: "*", securityContext: "?*", hostNetwork: null, volumes: [{emptyDir: {}}]}}',
        '{spec: {containers: "{{ request.object.spec.containers }}"}}',
        '{spec: {volumes: [{"X(hostPath)": {anything: [1]}}]}}',
        "{status: {conditions: [{type: Ready}]}}",
    ],
)
def test_patterns_that_are_right_are_quiet(pattern: str) -> None:
    assert findings(validate("[Pod]", pattern)) == []


@pytest.mark.parametrize(
    ("kinds", "quiet"),
    [
        ("[Pod]", False),
        ("[v1/Pod]", False),
        ("['*/*/Pod']", False),
        ("[Pod, Service]", False),
        ("[Pod, Gadget]", True),
        ("['P*']", True),
        ("[v2/Pod]", True),
    ],
)
def test_only_kinds_that_are_known_are_judged(kinds: str, quiet: bool) -> None:
    assert (findings(validate(kinds, "{gadgets: 1}")) == []) is quiet


def test_a_filter_without_kinds_leaves_the_kinds_open_unless_others_hold_too() -> None:
    rules = """
- name: r
  match:
    {mode}:
    - resources: {{kinds: [Pod]}}
    - {{subjects: [{{kind: User, name: a}}]}}
  validate: {{message: m, pattern: {{metadata: {{lables: 1}}}}}}
"""
    spec = "background: false"
    assert findings(policy(rules.format(mode="any"), spec)) == []
    assert findings(policy(rules.format(mode="all"), spec)) == ['T1230 there is no field "lables" in metadata of Pod']


def test_a_field_of_one_kind_is_enough() -> None:
    assert findings(validate("[Pod, ConfigMap]", "{data: {a: b}, spec: {hostPID: true}}")) == []
    assert findings(validate("[Deployment, Pod]", "{spec: {template: {spec: {hostPid: true}}}}")) == [
        'T1230 there is no field "hostPid" in spec.template.spec of Deployment'
    ]


@pytest.mark.parametrize(
    ("values", "quiet"),
    [
        (["a", "10.0.0.1", "true", "1", "registry/a:1"], False),
        (['"null"', '""', "0", "false", "null", '"?*"', '"*"', '"!a"', '"a | b"', '"{{ a }}"'], True),
    ],
)
def test_a_scalar_for_a_map_is_wrong_when_it_cannot_match(values: list[str], quiet: bool) -> None:
    for value in values:
        assert (findings(validate("[Pod]", f"{{spec: {{securityContext: {value}}}}}")) == []) is quiet, value


def test_a_field_in_the_wrong_place_is_found_below() -> None:
    reporter = Reporter()
    check_patterns(validate("[Pod]", "{spec: {allowPrivilegeEscalation: false}}"), provider(), reporter)
    (found,) = reporter.diagnostics
    assert found.help == 'did you mean "spec.containers.securityContext.allowPrivilegeEscalation"?'


def test_a_users_crd_is_a_kind() -> None:
    found = validate("[Gadget]", "{spec: {mod: a, template: {anything: 1}, raw: {x: {y: z}}, parts: [{nam: b}]}}")
    assert findings(found) == []
    # v2 has no schema, and what a rule for both versions finds there is not known.
    assert findings(found, provider([CRD])) == []
    one = validate("[example.com/v1/Gadget]", "{spec: {mod: a, template: {anything: 1}, parts: [{nam: b}]}}")
    assert findings(one, provider([CRD])) == [
        'T1230 there is no field "mod" in spec of Gadget',
        'T1230 there is no field "nam" in spec.parts of Gadget',
    ]


TEXT = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [example.com/v1/Gadget]}}]}
    validate: {message: m, pattern: {spec: {mod: a}}}
"""


def test_the_compiler_is_given_crds_by_its_options() -> None:
    docs = load_documents(TEXT, "p.yaml", Reporter())
    plain = compile_policies(docs)
    assert plain.diagnostics == ()
    known = compile_policies(docs, options=Options(crds=(CRD,)))
    assert [d.code for d in known.diagnostics] == ["T1230"]
    assert known.bundle is not None
    assert compile_policies(docs, options=Options(crds=(CRD,), strict=True)).bundle is None
    assert Options(crds=(CRD,)).fingerprint != Options().fingerprint


class _Closed(Schemas):
    def select(self, selector: str) -> Any:
        raise AssertionError(selector)


def test_a_policy_without_patterns_asks_for_no_kind() -> None:
    found = policy("""
- name: r
  match: {any: [{resources: {kinds: [Pod]}}]}
  validate: {message: m, deny: {}}
- name: s
  match: {any: [{resources: {kinds: [Pod]}}]}
  mutate: {patchesJson6902: "[{op: add, path: /a, value: 1}]"}
""")
    assert findings(found, _Closed()) == []


def test_many_findings_take_bounded_time() -> None:
    fields = ", ".join(f"hostNetwork{i}x: 1" for i in range(5000))
    found = validate("[Pod]", f"{{spec: {{{fields}}}}}")
    start = time.perf_counter()
    assert len(findings(found)) == 100
    assert time.perf_counter() - start < 5


@pytest.mark.skipif(not ROOT.is_dir(), reason="no conformance data (set THESMOS_CONFORMANCE)")
def test_the_public_policies_get_no_warning() -> None:
    provider().kind("", "v1", "Pod")
    seen, seconds = 0, 0.0
    for path in sorted((ROOT / "policies").rglob("*.yaml")):
        text = path.read_text("utf-8")
        if "kind: ClusterPolicy" not in text or "attern" not in text:
            continue
        reporter = Reporter()
        policies, _ = read_policies(load_documents(text, path.name, reporter), reporter)
        for found in policies:
            seen += 1
            start = time.process_time()
            assert findings(found) == [], path
            seconds += time.process_time() - start
    assert seen > 100
    assert seconds / seen < 0.001
