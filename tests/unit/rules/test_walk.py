"""The pattern walk: the worked results of the semantics (P1 to P7), anchors one by one, texts and paths."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.frontends.pattern import compile_scalar
from vm.host import Imports, Meter, OutOfFuel
from vm.intrinsics.pattern_walk import walk
from vm.values import Err

IMPORTS = Imports(lambda text, root, meter: text, compile_scalar, lambda text: None)


def end(resource: Any, pattern: Any) -> Err | None:
    result = walk(IMPORTS, Meter(), resource, pattern)
    assert result is None or type(result) is Err
    return result


def verdict(resource: Any, pattern: Any) -> str:
    found = end(resource, pattern)
    if found is None:
        return "pass"
    if found.code in ("conditional", "global"):
        return "skip"
    return "fail" if found.path else "error"


def pod(*containers: str) -> dict[str, Any]:
    made = []
    for i, text in enumerate(containers):
        image, _, policy = text.partition("/")
        made.append({"name": f"c{i}", "image": image, "imagePullPolicy": policy})
    return {"spec": {"containers": made}}


P1 = {"spec": {"containers": [{"name": "*", "(image)": "*:latest | !*:*", "imagePullPolicy": "!Always"}]}}
P2 = {"spec": {"containers": [{"name": "*", "<(image)": "*:latest", "imagePullPolicy": "!Always"}]}}
P3 = {
    "metadata": {"labels": {"allow-docker": "true"}},
    "(spec)": {"(volumes)": [{"(hostPath)": {"path": "/var/run/docker.sock"}}]},
}
P4 = {
    "spec": {
        "=(initContainers)": [{"(name)": "!istio-init", "=(securityContext)": {"=(runAsUser)": ">0"}}],
        "=(containers)": [{"=(securityContext)": {"=(runAsUser)": ">0"}}],
    }
}
P5 = {"spec": {"=(volumes)": [{"(name)": "!a&!b", "=(emptyDir)": {"sizeLimit": "?*"}}]}}
P6 = {"metadata": {"annotations": {"test/b??": "v*"}}}
P7 = {"metadata": {"labels": {"<(foo)": "bar"}}, "spec": {"containers": [{"name": "nginx", "image": "!*:latest"}]}}


def docker(labels: Any = None, volumes: Any = None) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "a"}]}
    if volumes is not None:
        spec["volumes"] = volumes
    return {"metadata": {"labels": labels or {}}, "spec": spec}


SOCK = [{"name": "v", "hostPath": {"path": "/var/run/docker.sock"}}]


def users(init: tuple[str, int] | None, container: int | None) -> dict[str, Any]:
    one: dict[str, Any] = {"name": "nginx"}
    if container is not None:
        one["securityContext"] = {"runAsUser": container}
    spec: dict[str, Any] = {"containers": [one]}
    if init is not None:
        spec["initContainers"] = [{"name": init[0], "securityContext": {"runAsUser": init[1]}}]
    return {"spec": spec}


def volume(**fields: Any) -> dict[str, Any]:
    return {"spec": {"volumes": [fields]}}


def labelled(image: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"foo": "bar"}}, "spec": {"containers": [{"name": "nginx", "image": image}]}}


@pytest.mark.parametrize(
    ("pattern", "resource", "expected"),
    [
        (P1, pod("nginx:1.2.3/Always"), "skip"),
        (P1, pod("nginx:latest/Always"), "fail"),
        (P1, pod("nginx/Always"), "fail"),
        (P1, pod("nginx/Never"), "pass"),
        (P1, pod("nginx:latest/Never"), "pass"),
        (P1, pod("nginx/Always", "busybox:1.28/Always"), "fail"),
        (P1, pod("busybox:1.28/Always", "nginx/Always"), "fail"),
        (P1, pod("nginx/Never", "busybox:1.28/Always"), "pass"),
        (P1, pod("busybox:1.28/Always", "nginx/Never"), "pass"),
        (P1, pod("nginx:1.2.3/Never", "busybox:1.28/Always"), "skip"),
        (P2, pod("nginx:v1/Always"), "skip"),
        (P2, pod("nginx:latest/Always"), "fail"),
        (P2, pod("nginx:latest/IfNotPresent"), "pass"),
        (P2, pod("nginx:latest/IfNotPresent", "nginx:v2/IfNotPresent"), "pass"),
        (P3, docker(), "skip"),
        (P3, docker(volumes=[{"name": "v", "hostPath": {"path": "/x"}}]), "skip"),
        (P3, docker(volumes=SOCK), "fail"),
        (P3, docker({"allow-docker": "false"}, SOCK), "fail"),
        (P3, docker({"allow-docker": "true"}, SOCK), "pass"),
        (P4, users(("nginx", 1000), None), "pass"),
        (P4, users(("nginx", 0), None), "fail"),
        (P4, users(("istio-init", 0), 1000), "pass"),
        (P4, users(("istio-init", 0), None), "pass"),
        (P4, users(("istio-init", 1000), 0), "fail"),
        (P4, users(None, 0), "fail"),
        (P5, volume(name="a", emptyDir={"sizeLimit": "1Gi"}), "skip"),
        (P5, volume(name="c", emptyDir={"sizeLimit": "1Gi"}), "pass"),
        (P5, volume(name="c"), "pass"),
        (P5, volume(name="c", emptyDir={}), "fail"),
        (P6, {"metadata": {"annotations": {"test/bar": "value1"}}}, "pass"),
        (P6, {"metadata": {"labels": {"test/bar": "value1"}}}, "fail"),
        (P7, labelled("nginx"), "pass"),
        (P7, labelled("nginx:latest"), "fail"),
    ],
)
def test_worked_results(pattern: Any, resource: Any, expected: str) -> None:
    assert verdict(resource, pattern) == expected


@pytest.mark.parametrize(
    ("resource", "pattern", "expected"),
    [
        (
            {"a": "x"},
            {"a": "y"},
            Err("mismatch", "resource value 'x' does not match 'y' at path /a/", "/a/"),
        ),
        (
            {},
            {"a": "y"},
            Err("mismatch", "resource value '<nil>' does not match 'y' at path /a/", "/a/"),
        ),
        ({}, {"a": "*"}, Err("mismatch", "//a not found", "/")),
        (
            {"a": 1},
            {"a": {"b": 1}},
            Err(
                "mismatch",
                "pattern and resource have different structures. Path: /a/. "
                "Expected map[string]interface {}, found int64",
                "/a/",
            ),
        ),
        (
            {"a": {}},
            {"a": ["x"]},
            Err(
                "mismatch",
                "validation rule failed at path /a/, resource does not satisfy the expected overlay pattern",
                "/a/",
            ),
        ),
        ({"a": [1]}, {"a": []}, Err("pattern", "pattern Array empty", "/a/")),
        (
            {"a": [[1]]},
            {"a": [[1], [2]]},
            Err(
                "pattern",
                "validate Array failed, array length mismatch, resource Array len is 1 and pattern Array len is 2",
            ),
        ),
        (
            {"a": {"b": 1}},
            {"a": {"X(b)": "null"}},
            Err("negation", "negation anchor matched in resource: /a/b/ is not allowed", "/a/b/"),
        ),
        (
            {"a": [{"n": 1}]},
            {"^(a)": [{"n": 2}]},
            Err("mismatch", "existence anchor validation failed at path /a/", "/a/"),
        ),
        (
            {"a": "x"},
            {"(a)": "y"},
            Err("conditional", "conditional anchor mismatch: resource value 'x' does not match 'y' at path /a/"),
        ),
        (
            {},
            {"(a)": {"(b)": "y"}},
            Err("conditional", "conditional anchor mismatch: conditional anchor key doesn't exist in the resource"),
        ),
        (
            {"a": {}},
            {"(a)": {"(b)": "y"}},
            Err(
                "conditional",
                "conditional anchor mismatch: conditional anchor mismatch: "
                "conditional anchor key doesn't exist in the resource",
            ),
        ),
        (
            {"a": "x"},
            {"<(a)": "y"},
            Err("global", "global anchor mismatch: resource value 'x' does not match 'y' at path /a/"),
        ),
    ],
)
def test_texts_and_paths(resource: Any, pattern: Any, expected: Err) -> None:
    assert end(resource, pattern) == expected


def test_a_mismatch_after_a_missing_anchored_key_is_an_error() -> None:
    pattern = {"a": [{"(kind)": "x", "v": 1}], "z": 1}
    assert verdict({"a": [{"v": 1}], "z": 2}, pattern) == "skip"
    either = {"b": {"^(list)": [{"n": 1}]}, "z": 1}
    assert verdict({"b": {}, "z": 2}, either) == "error"
    assert verdict({"b": {"list": [{"n": 1}]}, "z": 2}, either) == "fail"
    assert verdict({"b": {}, "z": 2}, {"b": {"=(list)": []}, "z": 1}) == "fail"
    assert verdict({"b": {}, "z": 2}, {"b": {"X(list)": "null"}, "z": 1}) == "fail"


def test_a_nested_condition_skips_before_a_plain_sibling_fails() -> None:
    pattern = {"a": 1, "b": {"c": {"(d)": "x"}}}
    assert verdict({"a": 2, "b": {"c": {"d": "y"}}}, pattern) == "skip"
    assert verdict({"a": 2, "b": {"c": {"d": "x"}}}, pattern) == "fail"


def test_an_existence_needs_one_element_for_each_pattern() -> None:
    pattern = {"^(containers)": [{"name": "a"}, {"name": "b"}]}
    assert verdict({"containers": [{"name": "b"}, {"name": "a"}]}, pattern) == "pass"
    assert verdict({"containers": [{"name": "b"}]}, pattern) == "fail"
    assert verdict({"containers": []}, pattern) == "fail"
    assert verdict({}, pattern) == "pass"
    assert verdict({"containers": {}}, pattern) == "fail"


@pytest.mark.parametrize(
    ("resource", "pattern", "expected"),
    [
        ({"a": []}, {"a": [{"name": "?*"}]}, "fail"),
        ({"a": []}, {"=(a)": [{"name": "?*"}]}, "pass"),
        ({"a": []}, {"a": [{"name": None}]}, "pass"),
        ({"a": []}, {"a": [{"X(name)": "null", "=(b)": 1}]}, "pass"),
        ({"a": []}, {"a": "x*"}, "fail"),
        ({"a": []}, {"a": ["x*"]}, "fail"),
        ({"a": []}, {"=(a)": ["x*"]}, "pass"),
        ({"a": []}, {"a": None}, "pass"),
        ({"a": []}, {"a": "?*"}, "fail"),
        ({"a": {}}, {"a": "?*"}, "pass"),
        ({"a": [{"x": 1, "y": 1}]}, {"a": [{"x": "?*"}, {"y": "?*"}]}, "pass"),
        ({"a": [{"x": 1}]}, {"a": [{"x": "?*"}, {"y": "?*"}]}, "fail"),
        ({"a": [{"x": 1, "y": 1}, {"x": 1}]}, {"a": [{"x": "?*"}, {"y": "?*"}]}, "fail"),
    ],
)
def test_where_the_reference_is_left(resource: Any, pattern: Any, expected: str) -> None:
    assert verdict(resource, pattern) == expected


@pytest.mark.parametrize(
    ("resource", "pattern", "expected"),
    [
        ({}, {}, "pass"),
        (None, {}, "fail"),
        ({}, {"a": {}}, "fail"),
        ({"a": None}, {"a": "*"}, "fail"),
        ({"a": ""}, {"a": "*"}, "pass"),
        ({"a": ["x", "xy"]}, {"a": "x*"}, "pass"),
        ({"a": ["x", "y"]}, {"a": "x*"}, "fail"),
        ({"+(a)": 1}, {"+(a)": 1}, "pass"),
        ({"a": 1}, {"+(a)": 1}, "fail"),
        ({"a": 5, "b": 1}, {"(a)": 5, "b": 1}, "pass"),
        ({"a": 5, "b": 2}, {"(a)": 5, "b": 1}, "fail"),
    ],
)
def test_simple_maps(resource: Any, pattern: Any, expected: str) -> None:
    assert verdict(resource, pattern) == expected


def test_wildcard_keys_take_the_first_key_in_sorted_order_and_keep_their_anchor() -> None:
    resource = {"metadata": {"annotations": {"s.example.com/main": "unconfined", "s.example.com/other": "ok"}}}
    assert verdict(resource, {"metadata": {"=(annotations)": {"=(s.example.com/*)": "ok"}}}) == "fail"
    assert verdict(resource, {"metadata": {"=(annotations)": {"=(t.example.com/*)": "ok"}}}) == "pass"
    assert verdict(resource, {"=(metadata)": {"annotations": {"s.*/m*": "unconf*"}}}) == "pass"
    pattern = {"metadata": {"annotations": {"s.*": "*", "gone": None}}}
    assert verdict(resource, pattern) == "pass"
    assert pattern == {"metadata": {"annotations": {"s.*": "*", "gone": None}}}


def test_a_value_that_speaks_of_anchors_does_not_turn_a_failure_into_a_skip() -> None:
    assert verdict({"a": "conditional anchor mismatch"}, {"a": "b"}) == "fail"


def test_errors_pass_through_and_fuel_is_charged() -> None:
    broken = Err("substitution", "x")
    assert walk(IMPORTS, Meter(), {}, broken) is broken
    with pytest.raises(OutOfFuel):
        walk(IMPORTS, Meter(100), {"a": [{"b": 1}] * 1000}, {"a": [{"b": 1}]})
    deep: Any = 1
    for _ in range(300):
        deep = {"a": deep}
    assert verdict(deep, deep) == "fail"
