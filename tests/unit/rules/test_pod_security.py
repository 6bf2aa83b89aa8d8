"""Pod Security rules: every kind of field error and its text, Pods that cannot be read, exclusions that overlap."""

from __future__ import annotations

from typing import Any

import pytest

from vm.host import Meter, OutOfFuel
from vm.intrinsics.pod_security import evaluate, minor_of, violations
from vm.intrinsics.pod_security_checks import CHECKS, LATEST
from vm.values import Err


def pod(spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": annotations}, "spec": spec}


def container(**body: Any) -> dict[str, Any]:
    return {"name": "c", "image": "nginx:1", **body}


def run(resource: Any, level: str = "baseline", version: str = "latest", excluded: Any = None) -> Any:
    return evaluate(Meter(1_000_000), resource, level, version, excluded, None)


@pytest.mark.parametrize(
    ("check", "spec", "text"),
    [
        (
            "appArmorProfile",
            {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
            "forbidden AppArmor profile, field error list: [spec.securityContext.appArmorProfile.type is forbidden, "
            "forbidden values found: Unconfined]",
        ),
        (
            "hostPathVolumes",
            {"volumes": [{"name": "v", "hostPath": {}}]},
            "hostPath volumes, field error list: [spec.volumes[0].hostPath: Forbidden]",
        ),
        (
            "hostProbesAndHostLifecycle",
            {"containers": [container(lifecycle={"preStop": {"httpGet": {"host": "h"}}})]},
            "probe or lifecycle host, field error list: [spec.containers[0].lifecycle.preStop.httpGet.host is "
            "forbidden, forbidden values found: h]",
        ),
        (
            "privileged",
            {"ephemeralContainers": [container(securityContext={"privileged": True})]},
            "privileged, field error list: [spec.ephemeralContainers[0].securityContext.privileged is forbidden, "
            "forbidden values found: true]",
        ),
        (
            "seLinuxOptions",
            {"securityContext": {"seLinuxOptions": {"type": "t", "user": "u", "role": "r"}}},
            "seLinuxOptions, field error list: [spec.securityContext.seLinuxOptions.type is forbidden, forbidden "
            "values found: t, spec.securityContext.seLinuxOptions.user is forbidden, forbidden values found: u, "
            "spec.securityContext.seLinuxOptions.role is forbidden, forbidden values found: r]",
        ),
        (
            "seccompProfile_baseline",
            {"containers": [container(securityContext={"seccompProfile": {}})]},
            "seccompProfile, field error list: [spec.containers[0].securityContext.seccompProfile.type: Forbidden]",
        ),
        (
            "sysctls",
            {"securityContext": {"sysctls": [{"name": "a"}]}},
            "forbidden sysctls, field error list: [spec.securityContext.sysctls[0].name is forbidden, forbidden "
            "values found: a]",
        ),
        (
            "windowsHostProcess",
            {"securityContext": {"windowsOptions": {"hostProcess": True}}},
            "hostProcess, field error list: [spec.securityContext.windowsOptions.hostProcess is forbidden, forbidden "
            "values found: true]",
        ),
    ],
)
def test_the_text_of_each_check(check: str, spec: dict[str, Any], text: str) -> None:
    found = violations(pod(spec), "baseline", "latest", [])
    assert [v.check.id for v in found] == [check]
    answer = run(pod(spec))
    assert answer == Err("mismatch", f"(Forbidden reason: {text})")


def test_restricted_checks_tell_what_is_missing_and_what_is_wrong() -> None:
    spec = {
        "securityContext": {"runAsNonRoot": False, "runAsUser": 0},
        "containers": [
            container(securityContext={"allowPrivilegeEscalation": True, "capabilities": {"drop": ["B", "A"]}}),
            container(securityContext={"runAsUser": 0.0}),
        ],
        "volumes": [{"name": "n", "nfs": {}}, {"name": "x"}, {"name": "e", "emptyDir": {}}],
    }
    told = {
        v.check.id: [(e.field, e.kind, e.bad) for e in v.errors] for v in violations(pod(spec), "restricted", "", [])
    }
    at = "spec.containers[{}].securityContext.{}".format
    assert told == {
        "allowPrivilegeEscalation": [
            (at(0, "allowPrivilegeEscalation"), "forbidden", True),
            (at(1, "allowPrivilegeEscalation"), "required", ""),
        ],
        "capabilities_restricted": [
            (at(0, "capabilities.drop"), "forbidden", ("A", "B")),
            (at(1, "capabilities.drop"), "required", ""),
        ],
        "restrictedVolumes": [
            ("spec.volumes[0].nfs", "forbidden", ""),
            ("spec.volumes[1].unknown", "forbidden", ""),
        ],
        "runAsNonRoot": [
            ("spec.securityContext.runAsNonRoot", "forbidden", False),
            (at(0, "runAsNonRoot"), "required", ""),
            (at(1, "runAsNonRoot"), "required", ""),
        ],
        "runAsUser": [
            ("spec.securityContext.runAsUser", "forbidden", 0),
            (at(1, "runAsUser"), "forbidden", 0),
        ],
        "seccompProfile_restricted": [
            (at(0, "seccompProfile.type"), "required", ""),
            (at(1, "seccompProfile.type"), "required", ""),
        ],
    }


def test_several_profiles_have_a_word_of_their_own() -> None:
    prefix = "container.apparmor.security.beta.kubernetes.io/"
    found = violations(pod({}, **{prefix + "a": "unconfined", prefix + "b": "unconfined"}), "baseline", "latest", [])
    assert [v.reason for v in found] == ["forbidden AppArmor profiles"]


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        ({"kind": "Service"}, "could not find correct resource type"),
        (None, "could not find correct resource type"),
        (pod({"containers": "x"}), "spec.containers must be a list"),
        (pod({"containers": ["x"]}), "spec.containers[0] must be a map"),
        (pod({"hostPID": "yes"}), "spec.hostPID must be true or false"),
        (pod({"securityContext": []}), "spec.securityContext must be a map"),
        (pod({"containers": [container(image=1)]}), "spec.containers[0].image must be a text"),
        (
            pod({"containers": [container(ports=[{"hostPort": 1.5}])]}),
            "spec.containers[0].ports[0].hostPort must be a whole number",
        ),
        (
            pod({"containers": [container(securityContext={"capabilities": {"add": [1]}})]}),
            "spec.containers[0].securityContext.capabilities.add must be a list of texts",
        ),
    ],
)
def test_an_object_that_is_no_pod_is_an_error(resource: Any, text: str) -> None:
    assert run(resource) == Err("value", f"Error while getting new resource: {text}")


def test_null_is_nothing() -> None:
    assert run(pod({"containers": [None], "securityContext": None, "hostPID": None, "volumes": None})) is None


def test_excluding_one_value_twice_frees_from_that_value_only() -> None:
    ports = [{"hostPort": 443}, {"hostPort": 80}]
    one = {
        "controlName": "Host Ports",
        "images": ["*"],
        "restrictedField": "spec.containers[*].ports[*].hostPort",
        "values": ["80"],
    }
    answer = run(pod({"containers": [container(ports=ports)]}), excluded=[one, one])
    assert "forbidden values found: 443]" in answer.text
    assert run(pod({"containers": [container(ports=ports)]}), excluded=[one, {**one, "values": ["44?"]}]) is None


def test_the_last_error_moves_into_the_place_of_one_that_is_excluded() -> None:
    spec = {"hostNetwork": True, "hostPID": True, "hostIPC": True}
    one = {"controlName": "Host Namespaces", "restrictedField": "spec.hostNetwork", "values": ["true"]}
    answer = run(pod(spec), excluded=[one])
    assert answer.text.index("spec.hostIPC") < answer.text.index("spec.hostPID")


def test_versions() -> None:
    assert minor_of("v1.19") == 19
    assert {minor_of(v) for v in ("latest", "", "v2.0", "1.30")} == {LATEST}
    assert len({check.id for check in CHECKS}) == len(CHECKS) == 19


def test_the_work_is_paid_for() -> None:
    many = pod({"containers": [container(securityContext={"privileged": True}) for _ in range(20_000)]})
    with pytest.raises(OutOfFuel):
        evaluate(Meter(100_000), many, "baseline", "latest", None, None)
